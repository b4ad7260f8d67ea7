"""Injectors in a run: where blocks stand, what stays, what the record holds of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import logs, lookup, reading
from tests.strategies import png
from tests.support.engine_injectors import DONE, PLAN, TACKLE
from tests.support.engine_planning import set_prices
from windlass.engine.events import Noted, PlanChanged
from windlass.errors import CascadeError, UsageError
from windlass.history.base import NodeType, request_hash
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks
from windlass.messages import Message, Text
from windlass.report.explanation import explain_call

FAILS = calls(call("read_file", '{"path":"nope"}'))
TODO = "Current Goal: Ship it\nProgress: {}/2 steps completed\nNext: {}"


def parts(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text)]


@pytest.fixture(autouse=True)
def _cached(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """At prices where what was sent before is cheap, so that blocks stay."""
    set_prices(house)
    monkeypatch.chdir(house.folder)


@pytest.fixture
def folders(house: House) -> Path:
    for path, text in {
        "skills/pdf/SKILL.md": "---\ndescription: Read PDF forms\n---\nUse pdftotext.",
        "knowledge/forms.md": "PDF forms are read page by page.",
        "playbooks/forms.md": "---\nwhen: PDF forms are to be read\n---\nCount the pages.",
    }.items():
        (house.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (house.folder / path).write_text(text)
    return house.folder


async def planned(house: House, *, injectors: Any = True, **keys: Any) -> Ran:
    first = phase("a", tackle=TACKLE, instructions="Do a. Read the PDF forms.")
    made = cascade(first, system="You are good.", injectors=injectors, **keys)
    return await house.run(made, {"a": [PLAN, FAILS, DONE, "done"]})


@pytest.mark.req("CE-1", "CE-14", "CE-42", "CI-29")
async def test_the_request_is_system_context_history_and_the_current_message(
    house: House, folders: Path
) -> None:
    ran = await planned(house)
    second = ran.request("a", 2).messages
    assert [message.role for message in second] == ["system", "user", "user", "assistant", "tool"]
    assert parts(second[0]) == ["You are good.", "[Skills]\n## pdf: Read PDF forms\nUse pdftotext."]
    assert parts(second[1]) == [
        "[Knowledge]\nknowledge/forms.md:1\nPDF forms are read page by page.",
        "[Playbook] playbooks/forms.md\nCount the pages.",
    ]
    assert parts(second[2]) == ["Do a. Read the PDF forms."]
    assert parts(second[4])[-1].endswith(TODO.format(0, "one"))


@pytest.mark.req("CE-6", "CE-7")
async def test_three_passages_with_their_paths_and_the_best_playbook(
    house: House, folders: Path
) -> None:
    for number in range(6):
        text = f"# Forms {number}\n\nPDF forms of kind {number} are read in {number} steps."
        (folders / "knowledge" / f"f{number}.md").write_text(text)
    (folders / "knowledge" / "fish.md").write_text("Fish swim.")
    (folders / "playbooks" / "fish.md").write_text("---\nwhen: fish are caught\n---\nWait.")
    near = "---\nwhen: forms are written by hand\n---\nUse a pen."
    (folders / "playbooks" / "hand.md").write_text(near)
    ran = await house.run(
        cascade(phase("a", instructions="Do a. Read the PDF forms."), injectors=True), {"a": ["ok"]}
    )
    said = "\n".join(text for message in ran.request("a").messages for text in parts(message))
    paths = re.findall(r"^knowledge/(\w+)\.md:1$", said, re.MULTILINE)
    assert len(paths) == 3
    assert set(paths) <= {"forms", *(f"f{number}" for number in range(6))}
    assert re.findall(r"\[Playbook\] (.+)\n(.+)", said) == [
        ("playbooks/forms.md", "Count the pages.")
    ]
    other = cascade(phase("a", instructions="Do a. Draw a cat."), injectors=True)
    ran = await house.run(other, {"a": ["ok"]})
    assert not [text for text in ran.seen("a") if "[Playbook]" in text[1] or "PDF" in text[1]]


@pytest.mark.req("CE-13", "CE-12")
@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        ({"knowledge": 20, "playbooks": 10}, ["[Playbook]", "[Knowledge]"]),
        ({"knowledge": 10, "playbooks": 20}, ["[Knowledge]", "[Playbook]"]),
        ({"knowledge": 10, "playbooks": 10}, ["[Knowledge]", "[Playbook]"]),  # by their names
    ],
)
async def test_lower_priorities_stand_first_within_a_tier(
    house: House, folders: Path, priorities: Mapping[str, int], order: Sequence[str]
) -> None:
    said = {name: {"priority": number} for name, number in priorities.items()}
    ran = await planned(house, injectors={**said, "skills": {"priority": 99}})
    system, context, *_ = ran.request("a").messages
    assert [text.partition("]")[0] + "]" for text in parts(context)] == order
    assert "[Skills]" in system.text  # its tier goes before any priority


@pytest.mark.req("CE-2", "CE-16")
async def test_the_system_role_is_whole_and_over_its_cap_it_is_told(house: House) -> None:
    long = "Rule. " * 1_100
    made = cascade(phase("a"), system=long, injectors=True)
    ran = await house.run(made, {"a": ["ok"]})
    assert ran.request("a").messages[0].text == long
    told = [event.text for event in ran.events if isinstance(event, Noted)]
    assert any(
        "the system role has 2,201 tokens, more than its cap of 2,000" in one for one in told
    )
    assert any("2,201" in one["text"] for one in ran.decisions("injector"))


@pytest.mark.req("CE-3", "CE-17", "CA-15")
async def test_tools_are_always_sent_and_over_their_cap_told_by_size(house: House) -> None:
    made = cascade(phase("a", tackle=TACKLE), injectors={"tools": {"cap": 50}})
    ran = await house.run(made, {"a": ["ok"]})
    assert [spec.name for spec in ran.request("a").tools] == TACKLE
    (told,) = (one["text"] for one in ran.decisions("injector") if "definitions" in one["text"])
    assert "more than their cap of 50 (read_file " in told
    assert "'tackle': 'manifest'" in told


@pytest.mark.req("CE-15", "CE-10")
async def test_the_dynamic_block_is_the_last_part_and_stays_as_history(house: House) -> None:
    ran = await planned(house)
    sent = [request.messages for request in ran.requests("a")]
    for number, messages in enumerate(sent[1:], start=1):
        assert messages[: len(sent[number - 1])] == sent[number - 1]  # byte for byte
        assert parts(messages[-1])[-1].splitlines()[-1].startswith("Next: ")
    assert parts(sent[3][3])[-1].endswith(TODO.format(0, "one"))
    assert parts(sent[3][7])[-1].endswith(TODO.format(1, "two"))
    old = [one.details.as_json()["injectors"]["old"] for one in ran.calls()]
    assert [one["blocks"] for one in old] == [0, 0, 1, 2]
    assert [one["gone"] for one in old] == [0, 0, 0, 0]
    kept = [one.details.as_json()["prefix"]["shared_tokens"] for one in ran.calls()][1:]
    assert kept == [one.sent_tokens for one in ran.calls()][:-1]


@pytest.mark.req("CE-15")
async def test_where_nothing_is_cached_only_the_last_block_is_sent(house: House) -> None:
    (house.folder / "windlass.toml").unlink()
    ran = await planned(house)
    last = ran.request("a", -1).messages
    assert [len(parts(message)) for message in last if message.role == "tool"] == [1, 1, 2]
    old = ran.calls()[-1].details.as_json()["injectors"]["old"]
    assert old == {"blocks": 0, "gone": 1, "because": "nothing is cached"}


@pytest.mark.req("CE-15")
async def test_both_ways_are_billed(house: House) -> None:
    ran = await planned(house)
    bills = [one.details.as_json()["blocks_bill"] for one in ran.calls()]
    assert bills[0]["kept"] == bills[0]["dropped"]
    # The prices have no step and no minimum: what is behind the block is written anew.
    assert bills[-1]["kept"] != bills[-1]["dropped"]
    assert all(one["kept"] > 0 and one["dropped"] > 0 for one in bills)


@pytest.mark.req("CE-15")
async def test_blocks_stay_in_the_next_phases_snowball(house: House) -> None:
    one = phase("a", tackle=TACKLE)
    made = cascade(one, phase("b", tackle=TACKLE), system="You are good.", injectors=True)
    ran = await house.run(made, {"a": [PLAN, DONE, "done"], "b": ["done"]})
    before, after = ran.request("a", -1).messages, ran.request("b").messages
    assert after[: len(before)] == before


async def test_a_block_goes_with_the_message_that_is_edited(house: House) -> None:
    first = lookup(context_ttl={"tool_results": 2})
    ran = await house.run(cascade(first, injectors=True), reading("1", "2", "3"), tools=[logs()])
    results = [message for message in ran.request("a", -1).messages if message.role == "tool"]
    # What stands behind the edit is written anew in any case: older blocks there are left out.
    assert [len(parts(message)) for message in results] == [1, 1, 2]
    old = ran.calls()[-1].details.as_json()["injectors"]["old"]
    assert old == {"blocks": 0, "gone": 1, "because": "message 2 is another one"}


@pytest.mark.req("CE-56", "CE-12")
async def test_each_block_is_a_message_of_the_record(house: House, folders: Path) -> None:
    ran = await planned(house)
    store = ran.store
    view = ran.views("a")[-1]
    told = view.details.as_json()["injectors"]["blocks"]
    names = [one["injector"] for one in told]
    assert names == [
        "system_role",
        "skills",
        "tools",
        "knowledge",
        "playbooks",
        "plan",
        "errors",
        "todo",
    ]
    rows = {stored.id: stored.row for stored in ran.rows(NodeType.CONTEXT_INJECTION)}
    for one in map(dict[str, Any], told):
        row = rows[one["id"]]
        assert row.message is not None
        about = {key: json_of(row)[key] for key in ("injector", "version", "cap", "tier")}
        assert about == {key: one[key] for key in about}
        # A block at the head of each request is no message of anybody's, and gets no card.
        assert row.message.is_system == (one["tier"] == "STABLE")
        if one["injector"] != "tools":
            place = view.seen[one["message"]].message.parts[one["part"]]
            assert isinstance(place, Text)
            assert row.message.text in place.text
    # What was sent is made again from the record, to the byte.
    record = ran.calls()[-1]
    keys = [one.message.key for one in view.seen]
    assert request_hash(keys, record.tools) == record.request_hash
    assert [one.message for one in view.seen] == list(ran.request("a", -1).messages)
    assert explain_call(store, ran.session, view.number).decisions[-1].action == "with a block"
    assert ran.has_no_damage()


@pytest.mark.req("CE-9")
async def test_a_failure_is_told_until_the_same_call_succeeds(house: House) -> None:
    first = phase("a", tackle=["read_file", "write_file"])
    write = calls(call("write_file", '{"path":"nope","text":"x"}'))
    replies = {"a": [FAILS, write, calls(call("read_file", '{"path":"nope"}')), "done"]}
    ran = await house.run(cascade(first, injectors=True), replies)
    ends = [parts(request.messages[-1])[-1] for request in ran.requests("a")]
    assert '- read_file({"path":"nope"}): there is no file' in ends[1]
    assert "- read_file" in ends[2]
    assert "- read_file" not in ends[3]


@pytest.mark.req("CE-8")
async def test_the_plan_is_shown_while_it_runs_and_recorded(house: House) -> None:
    ran = await planned(house)
    shown = [event for event in ran.events if isinstance(event, PlanChanged)]
    assert [(one.goal, one.done, one.total, one.next) for one in shown] == [
        ("Ship it", 0, 2, "one"),
        ("Ship it", 1, 2, "two"),
    ]
    assert [one["plan"]["steps"][0]["status"] for one in ran.decisions("plan")] == [
        "pending",
        "done",
    ]
    assert ran.result.state["plan"]["steps"][0]["conclusion"] == "found 7"


@pytest.mark.req("CE-8")
async def test_open_steps_stand_before_finished_ones(house: House) -> None:
    ran = await house.run(
        cascade(phase("a", tackle=TACKLE), injectors=True), {"a": [PLAN, DONE, "done"]}
    )
    (told,) = [one for one in parts(ran.request("a", 3).messages[-1]) if "[Plan] Ship it" in one]
    assert told.index("[ ] two") < told.index("[x] one -> found 7")


async def test_a_failed_attempt_takes_its_plan_with_it(house: House) -> None:
    def never(output: str) -> Mapping[str, Any]:
        """Refuses."""
        return {"valid": output == "good", "reason": "no"}

    first = phase("a", tackle=TACKLE, rules={"loop_until": "never"})
    replies = {"a": [PLAN, "bad", "good"]}
    ran = await house.run(cascade(first, injectors=True), replies, tools=[never])
    assert "plan" not in ran.result.state
    assert "Current Goal: Ship it" not in parts(ran.request("a", -1).messages[-1])[-1]


@pytest.mark.req("CE-4")
async def test_the_model_asks_for_a_skill(house: House, folders: Path) -> None:
    ask = calls(call("use_skill", '{"name":"pdf"}'))
    one = phase("a", tackle=["use_skill"])
    two = phase("b", context={"from": []})
    ran = await house.run(cascade(one, two, injectors=True), {"a": [ask, "done"]})
    assert "Others, to be had with use_skill:\n- pdf" in ran.request("a").messages[0].text
    assert (
        ran.request("a", 2).messages[-1].text.startswith("## pdf: Read PDF forms\nUse pdftotext.")
    )
    assert "Use pdftotext." in ran.request("b").messages[0].text  # it does not see the answer


BANK = {"memory": ["likes"], "injectors": True}


def remember(key: str, text: str) -> Message:
    return calls(call("remember", f'{{"text":"{text}","bank":"likes","key":"{key}"}}'))


@pytest.mark.req("CE-52", "CE-5")
class TestUserMemory:
    TACKLE: Sequence[str] = ("remember", "plan")

    async def run(self, house: House) -> Ran:
        replies = [remember("tone", "Be brief."), remember("tone", "Be long."), "done"]
        one = phase("a", tackle=list(self.TACKLE))
        two = phase("b", tackle=list(self.TACKLE))
        made = cascade(phase("z", tackle=list(self.TACKLE)), one, two, system="S.", **BANK)
        return await house.run(made, {"z": [remember("x", "Likes soup."), "ok"], "a": replies})

    async def test_a_change_is_told_at_the_next_call_and_nothing_before_it_changes(
        self, house: House
    ) -> None:
        ran = await self.run(house)
        sent = [request.messages for request in ran.requests("a")]
        assert "tone (version 1): Be brief." in parts(sent[1][-1])[1]
        assert "tone (version 2): Be long." in parts(sent[2][-1])[1]
        assert "[No longer in user_memory] likes/tone@1" in parts(sent[2][-1])[1]
        assert sent[2][: len(sent[1])] == sent[1]
        # The next phase goes on in the same conversation, so the change stays where it was told.
        assert ran.request("b").messages[: len(sent[2])] == sent[2]

    @pytest.mark.parametrize("cached", [True, False])
    async def test_what_another_program_changes_is_told_when_a_phase_begins(
        self, house: House, cached: bool
    ) -> None:
        def change() -> None:
            store = house.open_store()
            Banks(store, lambda: 2_000.0, lambda: "other").remember("likes", "Be kind.", key="tone")

        if not cached:
            (house.folder / "windlass.toml").unlink()
        tackle = list(self.TACKLE)
        made = cascade(phase("a", tackle=tackle), phase("b", tackle=tackle), system="S.", **BANK)
        replies = {"a": [remember("tone", "Be brief."), "done"]}
        ran = await house.run(made, replies, before={"b": change})
        first = ran.request("b").messages
        told = first[-1] if cached else first[1]
        assert "tone (version 2): Be kind." in told.text
        assert [message.text.count("Be kind.") for message in first].count(1) == 1
        assert cached or "Be brief." not in first[1].text

    async def test_three_are_shown_those_that_match_before_the_newest(self, house: House) -> None:
        with SqliteStore(house.store) as store:
            banks = Banks(store, map(float, range(1_000, 2_000)).__next__, lambda: uuid4().hex)
            for key in ("soup", "a", "b", "c", "d"):
                banks.remember("likes", f"What is liked of {key}.", key=key)
        one = phase("a", instructions="Do a. Cook the soup.", tackle=["remember"])
        ran = await house.run(cascade(one, system="S.", **BANK))
        shown = re.findall(
            r"^- (\w+) \(version 1\)", ran.request("a").messages[1].text, re.MULTILINE
        )
        assert shown == ["soup", "d", "c"]

    async def test_its_price_is_recorded_beside_that_of_writing_anew(self, house: House) -> None:
        ran = await self.run(house)
        told = [one for one in ran.decisions("user_context") if "Be brief." in one["changes"]]
        assert told[0]["tokens"] < told[0]["rewrite"]

    async def test_where_nothing_is_cached_it_is_written_in_its_place(self, house: House) -> None:
        (house.folder / "windlass.toml").unlink()
        await self.run(house)
        ran = await house.run(
            cascade(phase("a", tackle=list(self.TACKLE)), system="S.", **BANK),
            {"a": [remember("tone", "Be kind."), "done"]},
        )
        context = ran.request("a", 2).messages[1]
        assert "tone (version 3): Be kind." in context.text
        assert "Be long." not in context.text
        assert "Be kind." not in parts(ran.request("a", 2).messages[-1])[-1]


@pytest.mark.req("CE-55")
class TestOwn:
    async def test_one_class_in_one_file(self, house: House) -> None:
        own = {"use": "tests.engine.own_injectors:Deadline", "options": {"turns": 9}}
        ran = await planned(house, injectors={"own": [own]})
        ends = [parts(request.messages[-1])[-1] for request in ran.requests("a")]
        assert "[Deadline] 8 turns are left." in ends[0]
        assert "[Deadline] 7 turns are left." in ends[1]
        block = [
            one
            for one in ran.calls()[0].details.as_json()["injectors"]["blocks"]
            if one["injector"] == "deadline"
        ]
        assert (block[0]["cap"], block[0]["tier"]) == (30, "DYNAMIC")

    async def test_as_an_entry_point(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        from importlib.metadata import EntryPoint, EntryPoints

        value = "tests.engine.own_injectors:Deadline"
        entry = EntryPoint("deadline", value, "windlass.injectors")
        monkeypatch.setattr(
            "importlib.metadata.entry_points",
            lambda group: EntryPoints([entry] if group == "windlass.injectors" else []),
        )
        ran = await planned(house, injectors={"own": ["deadline"]})
        assert "[Deadline] 4 turns" in parts(ran.request("a").messages[-1])[-1]

    @pytest.mark.parametrize(
        ("use", "told"),
        [
            ("nowhere:Deadline", "cannot import 'nowhere'"),
            ("tests.engine.own_injectors:Deadlin", "did you mean 'Deadline'"),
            ("tests.engine.own_injectors:Situation", "is not an injector"),
            ("deadlin", "there is no injector 'deadlin'"),
        ],
    )
    async def test_a_wrong_name_is_the_users_mistake(
        self, house: House, use: str, told: str
    ) -> None:
        with pytest.raises(UsageError, match=told):
            await house.run(cascade(phase("a"), injectors={"own": [use]}))


@pytest.mark.req("CE-43", "CE-44", "CE-45", "CE-46")
async def test_variation_is_dynamic_only_and_the_same_in_a_replay(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def said(ran: Ran) -> list[tuple[str, ...]]:
        return [tuple(parts(request.messages[-1])) for request in ran.requests("a")]

    async def varied(name: str, folder: str, **options: Any) -> Ran:
        (tmp_path / folder).mkdir()
        made = cascade(phase("a", tackle=TACKLE), system="S.", injectors=options)
        replies = {"a": [PLAN, DONE, DONE, DONE, "done"]}
        house = House(tmp_path / folder)
        request.addfinalizer(house.close)
        return await house.run(made, replies, session_id=name)

    first, again = await varied("s", "x", vary=True), await varied("s", "y", vary=True)
    assert said(first) == said(again)
    other, plain = await varied("t", "z", vary=True), await varied("s", "p")
    assert said(other) != said(first) != said(plain)
    heads = {tuple(parts(ran.request("a").messages[0])) for ran in (first, other, plain)}
    assert len(heads) == 1


@pytest.mark.req("CE-45")
async def test_a_plan_is_listed_in_each_of_three_forms_where_it_varies(house: House) -> None:
    replies = {"a": [PLAN, *[DONE] * 20, "done"]}
    vary = phase("a", tackle=TACKLE, rules={"max_turns": 30})
    ran = await house.run(cascade(vary, injectors={"vary": True}), replies, session_id="s")
    said = "\n".join(text for sent in ran.requests("a") for text in parts(sent.messages[-1]))
    one, two = "[x] one -> found 7", "[ ] two"
    for form in (f"\n- {two}\n- {one}", f"\n2. {two}\n1. {one}", f"\n    {two}\n    {one}"):
        assert form in said


async def test_off_is_off(house: House) -> None:
    made = cascade(phase("a", injectors=False), phase("b"), system="S.", injectors=True)
    ran = await house.run(made)
    assert [parts(message) for message in ran.request("a").messages] == [["S."], ["Do a."]]
    assert "injectors" not in ran.calls()[0].details.as_json()
    assert ran.calls()[1].details.as_json()["injectors"]["blocks"]


async def test_a_system_prompt_is_sent_whatever_is_switched_off(house: House) -> None:
    off = {"system_role": False, "values": False, "todo": False}
    ran = await house.run(cascade(phase("a"), system="S {{ call }}.", injectors=off))
    assert [parts(message) for message in ran.request("a").messages] == [["S 1."], ["Do a."]]


async def test_a_cascade_without_injectors_is_sent_as_before(house: House) -> None:
    ran = await house.run(cascade(phase("a"), phase("b"), system="S."))
    assert ran.seen("b") == [
        ("system", "S."),
        ("user", "Do a."),
        ("assistant", "ok a"),
        ("user", "Do b."),
    ]
    assert not ran.rows(NodeType.CONTEXT_INJECTION)


async def test_mistakes_in_the_cascade_are_told_with_what_is_known(house: House) -> None:
    with pytest.raises(CascadeError, match="unknown key 'skils'; did you mean 'skills'"):
        await house.run(cascade(phase("a"), injectors={"skils": True}))
    with pytest.raises(CascadeError, match="expected an object with keys of cap, priority, top"):
        await house.run(cascade(phase("a"), injectors={"scratchpad": 3}))


@pytest.mark.req("CE-50")
async def test_a_finished_step_folds_to_its_conclusion(house: House) -> None:
    first = phase(
        "a",
        tackle=["plan", "todo", "build_log"],
        intra_context={"fold_subtasks": True, "commit": "at_once", "mask_observations_after": 9},
    )
    read = [calls(call("build_log", f'{{"build":"{build}"}}')) for build in (1, 2)]
    replies = {"a": [PLAN, *read, DONE, "one more", calls(call("build_log")), "done"]}
    replies["a"][4:5] = [calls(call("build_log", '{"build":"3"}'))]
    ran = await house.run(cascade(first, injectors=True), replies, tools=[logs()])
    last = ran.request("a", -1).messages
    folded = [message for message in last if "[Turn 2] build_log" in message.text]
    assert len(folded) == 1
    assert "[Turn 3] build_log" in folded[0].text
    after = last[last.index(folded[0]) + 1]
    assert after.tool_calls[0].name == "todo"
    assert "found 7" in after.tool_calls[0].arguments


@pytest.mark.req("CE-41")
class TestVolatile:
    SYSTEM = "It is {{ now }}, call {{ call }}. Count {{ state.count }}."

    async def run(self, house: House, **injectors: Any) -> Ran:
        count = calls(call("set_state", '{"key":"count","value":2}'))
        one = phase("a", tackle=["set_state"])
        made = cascade(one, system=self.SYSTEM, injectors=injectors)
        first = phase("z", tackle=["set_state"], injectors=False, system="Z.")
        start = calls(call("set_state", '{"key":"count","value":1}'))
        made["phases"].insert(0, first)
        return await house.run(made, {"z": [start, "ok"], "a": [count, "done"]})

    async def test_names_stand_in_the_head_and_values_at_the_end(self, house: House) -> None:
        ran = await self.run(house)
        first, second = ran.requests("a")
        assert first.messages[0] == second.messages[0]
        assert first.messages[0].text == "It is [now], call [call]. Count [state.count]."
        told = parts(second.messages[-1])[-1].splitlines()
        assert told[0] == "[Values now]"
        assert told[1].startswith("now: 20")
        assert told[2:4] == ["call: 4", "state.count: 2"]
        named = [one["text"] for one in ran.decisions("injector") if "names" in one]
        told_of = "cascade 'test', system: now, call, state.count moved behind the stable part"
        assert [one.partition(", to the end")[0] for one in named] == [told_of]

    async def test_in_place_they_break_every_prefix(self, house: House) -> None:
        ran = await self.run(house, volatile="in_place")
        first, second = ran.requests("a")
        assert ", call 3. Count 1." in first.messages[0].text
        assert ", call 4. Count 2." in second.messages[0].text
        shared = ran.calls()[-1].details.as_json()["prefix"]
        assert shared["broken_by"] == "message 0"

    @pytest.mark.parametrize(
        "written",
        [
            "2026-11-22T08:00:00Z",
            "7f1c2a9e-3b5d-4c6f-8a90-1b2c3d4e5f60",
            "1795334400",
            "d41d8cd98f00b204e9800998ecf8427e",
        ],
    )
    async def test_what_the_user_wrote_stays_and_is_priced(
        self, house: House, written: str
    ) -> None:
        made = cascade(phase("a"), system=f"Built {written}.", injectors=True)
        ran = await house.run(made)
        assert ran.request("a").messages[0].text == f"Built {written}."
        (told,) = (one for one in ran.decisions("injector") if one.get("found"))
        assert (told["at"], told["found"]) == (6, written)
        assert "tokens written anew" in told["text"]

    async def test_two_uses_of_one_value_have_names_of_their_own(self, house: House) -> None:
        made = cascade(phase("a"), system="Year {{ now[:4] }}, {{ now }}.", injectors=True)
        ran = await house.run(made)
        assert ran.request("a").messages[0].text == "Year [now], [now 2]."
        year, moment = parts(ran.request("a").messages[-1])[-1].splitlines()[1:3]
        assert re.fullmatch(r"now: 20\d\d", year)
        assert re.fullmatch(r"now 2: 20\d\d-.*Z", moment)

    async def test_where_nobody_would_tell_them_they_stay_as_they_are_when_it_begins(
        self, house: House
    ) -> None:
        ran = await self.run(house, values=False)
        first, second = ran.requests("a")
        assert first.messages[0] == second.messages[0]
        assert first.messages[0].text.endswith(", call 3. Count 1.")

    async def test_in_a_prompt_of_one_phase_the_state_stays_as_it_begins(
        self, house: House
    ) -> None:
        keys = {"tackle": ["set_state"], "system": "Call {{ call }}, {{ state.count }}."}
        made = cascade(phase("z", tackle=["set_state"]), phase("a", **keys), injectors=True)
        set_to = [calls(call("set_state", f'{{"key":"count","value":{n}}}')) for n in (1, 2)]
        ran = await house.run(made, {"z": [set_to[0], "ok"], "a": [set_to[1], "done"]})
        for number in (1, 2):
            assert ran.request("a", number).messages[0].text == "Call [call], 1."

    async def test_in_instructions_they_are_rendered_once(self, house: House) -> None:
        one = phase("a", instructions="Do a. {{ session_id }} {{ call }}", tackle=["set_state"])
        ran = await house.run(cascade(one))
        assert ran.request("a").messages[0].text == f"Do a. {ran.session} 1"


@pytest.mark.req("CE-53")
class TestScratchpad:
    async def run(self, house: House, *replies: Any) -> Ran:
        def draw() -> bytes:
            """Draw a chart."""
            return png(640, 480)

        one = phase(
            "a",
            tackle=["draw", "look_again", "describe_picture", "write_file"],
            context_ttl={"images": 1},
        )
        script = {"a": [calls(call("draw")), *replies, "done"]}
        return await house.run(cascade(one, injectors=True), script, tools=[draw])

    def reference(self, ran: Ran) -> str:
        (shown,) = {one.sha256 for item in ran.request("a", 2).messages for one in item.pictures}
        return f"picture_{shown[:12]}"

    async def test_a_picture_out_of_sight_keeps_its_description(self, house: House) -> None:
        told = '{"ref":"picture_","text":"Sales rise from 3 to 9."}'
        ran = await self.run(
            house, calls(call("describe_picture", told)), calls(call("describe_picture", told))
        )
        ref = self.reference(ran)
        ends = [parts(request.messages[-1])[-1] for request in ran.requests("a")]
        assert ref not in ends[1]  # it is in sight
        assert not ran.request("a", -1).messages[2].pictures
        assert f"- {ref} (" in ends[-1]
        assert "640x480): Sales rise from 3 to 9." in ends[-1]
        assert ran.decisions("described")[0]["reference"] == ref

    async def test_it_is_seen_again_when_asked_for(self, house: House) -> None:
        write = calls(call("write_file", '{"path":"notes.txt","text":"seven"}'))
        again = calls(call("look_again", '{"ref":"picture_"}'))
        file = calls(call("look_again", '{"ref":"notes.txt"}'))
        ran = await self.run(house, write, again, file)
        ends = [parts(request.messages[-1])[-1] for request in ran.requests("a")]
        assert "notes.txt (file)" in ends[2]
        looked = ran.request("a", 4).messages[-1]
        assert [one.sha256 for one in looked.pictures] == [
            one.sha256 for one in ran.request("a", 2).messages[-1].pictures
        ]
        assert self.reference(ran) not in parts(looked)[-1]  # in sight again
        assert ran.request("a", 5).messages[-1].text.startswith("notes.txt:\nseven")

    async def test_what_is_not_there_is_refused(self, house: House) -> None:
        ran = await self.run(house, calls(call("look_again", '{"ref":"chart 9"}')))
        answer = ran.request("a", -1).messages[-1].text
        assert "there is no picture or file 'chart 9' here" in answer
