"""Each family of injectors by itself: what it brings, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ToolError, UsageError
from windlass.injectors import Rendered, Situation
from windlass.injectors.base import FailedCall
from windlass.injectors.markdown import read_page
from windlass.injectors.matched import Knowledge, Playbooks
from windlass.injectors.reminders import (
    PlanStatus,
    PlanStep,
    TaskPlan,
    TodoRewriter,
    plan_in,
)
from windlass.injectors.skills import Skills, ask_for_skill


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

    def test_bad_front_matter_is_the_users_mistake(self, tmp_path: Path) -> None:
        page = tmp_path / "SKILL.md"
        page.write_text("---\nname: [a\n---\nbody")
        with pytest.raises(UsageError, match=r"SKILL.md.*is not YAML"):
            read_page(page, tmp_path)
        page.write_text("---\nname: a\nbody")
        with pytest.raises(UsageError, match="has no end"):
            read_page(page, tmp_path)


@pytest.mark.req("CE-6")
class TestKnowledge:
    def test_a_file_that_changed_is_read_again(self, tmp_path: Path) -> None:
        folder = tmp_path / "knowledge"
        folder.mkdir()
        knowledge, task = Knowledge(), at(tmp_path, "the tariff")
        (folder / "a.md").write_text("The tariff is 10.\n")
        assert names(knowledge.render(task)) == ["knowledge/a.md:1"]
        (folder / "a.md").write_text("Nothing of it stands here any more.\n")
        assert names(knowledge.render(task)) == []


@pytest.mark.req("CE-7")
class TestPlaybooks:
    def play(
        self, root: Path, name: str, when: str, body: str = "First this.\n\nThen that."
    ) -> None:
        folder = root / "playbooks"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\nwhen: {when}\n---\n{body}\n")

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
    def test_without_a_plan_it_is_silent(self, tmp_path: Path) -> None:
        assert PlanStatus().render(at(tmp_path, "x", state={"plan": "a word"})) is None
        assert plan_in({"plan": {"goal": "g", "steps": [{"step": 1}]}}) is None

    def test_a_step_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ToolError, match="no step 6; the plan has steps 1 to 5"):
            PLAN.with_step(6, "done")
        with pytest.raises(ToolError, match="'finished' is none of pending, in_progress, done"):
            PLAN.with_step(1, "finished")


@pytest.mark.req("CE-10", "CE-11")
class TestTodo:
    def test_it_stands_last(self) -> None:
        from windlass.injectors.orchestrate import BUILTIN

        dynamic = [kind for kind in BUILTIN.values() if kind.tier == "DYNAMIC"]
        assert max(dynamic, key=lambda kind: kind.priority) is TodoRewriter


def failed(number: int, tool: str = "read") -> FailedCall:
    return FailedCall(tool, f'{{"n":{number}}}', f"no {number}")


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
