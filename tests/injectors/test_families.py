"""Each family of injectors by itself: what it brings, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ToolError, UsageError
from windlass.injectors import Rendered, Situation
from windlass.injectors.base import FailedCall, ReadableBanks
from windlass.injectors.markdown import read_page
from windlass.injectors.matched import Knowledge, Playbooks, UserMemory
from windlass.injectors.reminders import (
    ErrorRetention,
    PlanStatus,
    PlanStep,
    TaskPlan,
    TodoRewriter,
    failure_line,
    plan_in,
    update_failures,
)
from windlass.injectors.skills import Skills, ask_for_skill
from windlass.memory.banks import Memory


def at(root: Path, task: str, **more: Any) -> Situation:
    return Situation("s", "a", task, root=root, **more)


def names(said: Rendered | None) -> list[str]:
    return [] if said is None else [item.name for item in said.items]


def skill(root: Path, name: str, description: str, body: str = "Do it well.") -> None:
    folder = root / "skills" / name
    folder.mkdir(parents=True)
    front = f"---\nname: {name}\ndescription: {description}\n---\n"
    (folder / "SKILL.md").write_text(front + body)


@pytest.mark.req("CE-4")
class TestSkills:
    @pytest.fixture(autouse=True)
    def _there(self, tmp_path: Path) -> None:
        skill(tmp_path, "pdf", "Fill in and read PDF forms", "Use pdftotext.")
        skill(tmp_path, "mail", "Write letters and mail to customers")
        skill(tmp_path, "sql", "Ask databases in SQL")

    def test_one_is_active_when_its_description_matches_the_task(self, tmp_path: Path) -> None:
        said = Skills().render(at(tmp_path, "Read the PDF forms and list the names"))
        assert names(said) == ["pdf"]
        assert said.items[0].text == "## pdf: Fill in and read PDF forms\nUse pdftotext."

    def test_none_below_the_threshold(self, tmp_path: Path) -> None:
        task = at(tmp_path, "Draw a chart of the sales by month and say what you see in it")
        assert names(Skills().render(task)) == []
        asked = at(tmp_path, "Read forms of customers in the chart of sales by month and year")
        assert names(Skills(threshold=0.9).render(asked)) == []

    def test_those_the_phase_names_are_active_whatever_the_task(self, tmp_path: Path) -> None:
        said = Skills(active=("sql",)).render(at(tmp_path, "Read the PDF forms"))
        assert names(said) == ["sql", "pdf"]

    def test_those_the_model_asked_for_are_active(self, tmp_path: Path) -> None:
        assert names(Skills().render(at(tmp_path, "Draw.", skills=("mail",)))) == ["mail"]

    def test_the_tool_gives_instructions_and_the_others_are_listed(self, tmp_path: Path) -> None:
        skills = Skills()
        said = skills.render(at(tmp_path, "Read the PDF forms", tools=("use_skill",)))
        assert names(said) == ["pdf", "others"]
        assert "- mail: Write letters" in said.items[1].text
        assert ask_for_skill(skills.skills(tmp_path), "mail").startswith("## mail")
        with pytest.raises(ToolError, match="there is no skill 'mails'; did you mean 'mail'"):
            ask_for_skill(skills.skills(tmp_path), "mails")

    def test_a_matched_one_that_does_not_fit_is_left_out_and_named(self, tmp_path: Path) -> None:
        skill(tmp_path, "forms", "Read PDF forms", "word " * 2_000)
        said = Skills().render(at(tmp_path, "Read the PDF forms"))
        assert names(said) == ["pdf"]
        assert said.left_out == ("forms",)

    def test_an_unknown_name_is_the_users_mistake(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no skill 'pfd'; did you mean 'pdf'"):
            Skills(active=("pfd",)).render(at(tmp_path, "x"))

    def test_bad_front_matter_is_the_users_mistake(self, tmp_path: Path) -> None:
        page = tmp_path / "SKILL.md"
        page.write_text("---\nname: [a\n---\nbody")
        with pytest.raises(UsageError, match=r"SKILL.md.*is not YAML"):
            read_page(page, tmp_path)
        page.write_text("---\nname: a\nbody")
        with pytest.raises(UsageError, match="has no end"):
            read_page(page, tmp_path)


def remembered(key: str, text: str, when: float, version: int = 1) -> Memory:
    return Memory("likes", key, version, text, when)


@pytest.mark.req("CE-5")
class TestUserMemory:
    HELD = (
        remembered("language", "Answers in German, please.", 1),
        remembered("charts", "Charts of sales are drawn as bars.", 2),
        remembered("mail", "Mail is signed with Ann.", 3),
        remembered("food", "Likes soup.", 4),
    )

    def seen(self, tmp_path: Path, task: str) -> Situation:
        def memories(banks: Sequence[str]) -> Sequence[Memory]:
            assert banks == ("likes",)
            return self.HELD

        return at(tmp_path, task, banks=ReadableBanks(("likes",), memories))

    def test_the_best_match_first_then_the_newest_three_in_all(self, tmp_path: Path) -> None:
        said = UserMemory().render(self.seen(tmp_path, "Draw charts of sales"))
        assert names(said) == ["likes/charts@1", "likes/food@1", "likes/mail@1"]
        assert said.items[0].text == "- charts (version 1): Charts of sales are drawn as bars."

    def test_without_a_bank_it_is_silent(self, tmp_path: Path) -> None:
        assert not UserMemory().guard(at(tmp_path, "x"))
        assert UserMemory(banks=("likes",)).guard(at(tmp_path, "x"))


@pytest.mark.req("CE-6")
class TestKnowledge:
    def test_three_passages_with_their_paths(self, tmp_path: Path) -> None:
        folder = tmp_path / "knowledge"
        folder.mkdir()
        for number in range(6):
            text = f"# Tariff {number}\n\nThe tariff of {number} is {number}0 Euro.\n"
            (folder / f"t{number}.md").write_text(text)
        (folder / "fish.md").write_text("Fish swim.\n")
        said = Knowledge().render(at(tmp_path, "What is the tariff?"))
        assert said is not None
        assert len(said.items) == 3
        first = said.items[0]
        assert first.key == "knowledge/t0.md:1"
        assert first.text.startswith("knowledge/t0.md:1\n# Tariff 0")
        assert not any("fish" in one.text for one in said.items)

    def test_a_file_that_changed_is_read_again(self, tmp_path: Path) -> None:
        folder = tmp_path / "knowledge"
        folder.mkdir()
        knowledge, task = Knowledge(), at(tmp_path, "the tariff")
        (folder / "a.md").write_text("The tariff is 10.\n")
        assert names(knowledge.render(task)) == ["knowledge/a.md:1"]
        (folder / "a.md").write_text("Nothing of it stands here any more.\n")
        assert names(knowledge.render(task)) == []

    def test_without_the_folder_it_is_silent(self, tmp_path: Path) -> None:
        assert not Knowledge().guard(at(tmp_path, "x"))


@pytest.mark.req("CE-7")
class TestPlaybooks:
    def play(
        self, root: Path, name: str, when: str, body: str = "First this.\n\nThen that."
    ) -> None:
        folder = root / "playbooks"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\nwhen: {when}\n---\n{body}\n")

    def test_the_best_match_and_no_other(self, tmp_path: Path) -> None:
        self.play(tmp_path, "refund", "a customer wants a refund for an order")
        self.play(tmp_path, "cancel", "a customer wants to cancel an order")
        said = Playbooks().render(at(tmp_path, "The customer asks for a refund of the order"))
        assert said is not None
        assert said.head == "[Playbook] playbooks/refund.md"
        assert [one.text for one in said.items] == ["First this.", "Then that."]

    def test_none_below_the_threshold(self, tmp_path: Path) -> None:
        self.play(tmp_path, "refund", "a customer wants a refund")
        assert Playbooks().render(at(tmp_path, "Draw a chart of the sales by month")) is None

    def test_one_without_when_is_the_users_mistake(self, tmp_path: Path) -> None:
        self.play(tmp_path, "refund", "")
        with pytest.raises(UsageError, match=r"playbooks/refund.md: a playbook says .* when"):
            Playbooks().render(at(tmp_path, "x"))


PLAN = TaskPlan(
    "Ship the report",
    (
        PlanStep("collect", "done", "3 files"),
        PlanStep("clean", "done"),
        PlanStep("draw", "done"),
        PlanStep("write", "in_progress"),
        PlanStep("send"),
    ),
)


@pytest.mark.req("CE-8")
class TestPlan:
    def test_goal_progress_and_steps_open_ones_first(self, tmp_path: Path) -> None:
        said = PlanStatus().render(at(tmp_path, "x", state={"plan": PLAN.as_state()}))
        assert said is not None
        assert said.head == "[Plan] Ship the report\nProgress: 3/5 steps completed"
        assert [one.text for one in said.items][:3] == [
            "- [>] write",
            "- [ ] send",
            "- [x] collect -> 3 files",
        ]

    def test_without_a_plan_it_is_silent(self, tmp_path: Path) -> None:
        assert PlanStatus().render(at(tmp_path, "x", state={"plan": "a word"})) is None
        assert plan_in({"plan": {"goal": "g", "steps": [{"step": 1}]}}) is None

    def test_a_plan_goes_through_the_state_and_back(self) -> None:
        assert plan_in({"plan": PLAN.as_state()}) == PLAN

    def test_a_step_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ToolError, match="no step 6; the plan has steps 1 to 5"):
            PLAN.with_step(6, "done")
        with pytest.raises(ToolError, match="'finished' is none of pending, in_progress, done"):
            PLAN.with_step(1, "finished")


@pytest.mark.req("CE-10", "CE-11")
class TestTodo:
    def test_the_documents_three_lines(self, tmp_path: Path) -> None:
        seen = at(tmp_path, "x", state={"plan": PLAN.as_state()})
        assert TodoRewriter().render(seen) == (
            "Current Goal: Ship the report\nProgress: 3/5 steps completed\nNext: write"
        )

    def test_it_stands_last(self) -> None:
        from windlass.injectors.orchestrate import BUILTIN

        dynamic = [kind for kind in BUILTIN.values() if kind.tier == "DYNAMIC"]
        assert max(dynamic, key=lambda kind: kind.priority) is TodoRewriter

    def test_without_a_plan_the_goal_is_repeated_from_the_second_turn_on(
        self, tmp_path: Path
    ) -> None:
        assert not TodoRewriter().guard(at(tmp_path, "Sum it up."))
        later = at(tmp_path, "Sum  it\nup.\n\nIn detail: x", turn=2)
        assert TodoRewriter().guard(later)
        assert TodoRewriter().render(later) == "Current Goal: Sum it up."


def failed(number: int, tool: str = "read") -> FailedCall:
    return FailedCall(tool, f'{{"n":{number}}}', f"no {number}")


@pytest.mark.req("CE-9")
class TestErrors:
    def test_the_last_five_newest_first_one_line_each(self, tmp_path: Path) -> None:
        held: tuple[FailedCall, ...] = ()
        for number in range(7):
            held = update_failures(held, failed(number), failed=True)
        said = ErrorRetention().render(at(tmp_path, "x", failures=held))
        assert [one.text for one in said.items] == [
            f'- read({{"n":{number}}}): no {number}' for number in (6, 5, 4, 3, 2)
        ]

    def test_each_once(self) -> None:
        held = update_failures((failed(1), failed(2)), failed(2), failed=True)
        assert held == (failed(2), failed(1))

    def test_one_whose_call_succeeded_later_is_dropped(self) -> None:
        held = (failed(2), failed(1))
        now = FailedCall("read", '{"n":1}', "all is well")
        assert update_failures(held, now, failed=False) == (failed(2),)

    def test_one_that_another_call_mended_is_dropped(self) -> None:
        now = FailedCall("read", '{"n":1,"from":3}', "all is well")
        assert update_failures((failed(1),), now, failed=False, mended=[failed(1)]) == ()

    def test_a_line_is_one_line_and_short(self) -> None:
        line = failure_line(FailedCall("read", "{\n" + "x" * 900 + "}", "a\nb " + "y" * 900))
        assert "\n" not in line
        assert len(line) < 400


def test_front_matter_with_aliases_is_refused(tmp_path: Path) -> None:
    """A few lines of them can stand for more than any memory holds."""
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    page = tmp_path / "SKILL.md"
    page.write_text("\n".join(["---", *bomb, "name: *a11", "---", "text"]))
    with pytest.raises(UsageError, match=r"SKILL.md'.*aliases"):
        read_page(page, tmp_path)
    page.write_text("---\na: " + "[" * 50_000 + "\n---\ntext")
    with pytest.raises(UsageError, match=r"SKILL.md'.*not YAML"):
        read_page(page, tmp_path)
