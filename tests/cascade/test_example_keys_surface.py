"""The small examples of keys, run with a scripted model: each shows what its key does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from windlass.cascade.model import Cascade
from windlass.cli.app import app
from windlass.engine.result import Result
from windlass.errors import CascadeError, UsageError
from windlass.history.callout_rows import find_callouts
from windlass.memory.banks import Banks
from windlass.providers.scripted import Scripted

KEYS = Path(__file__).parents[2] / "examples" / "keys"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


async def test_inputs_schema_refuses_what_is_missing_and_fills_in_defaults(house: House) -> None:
    file = KEYS / "inputs_schema.yaml"
    with pytest.raises(CascadeError, match=r"'city' \(The city that the note is about\.\)"):
        await house.run(file, lambda _: "-")
    ran = await house.run(file, lambda _: "Sunny.", {"city": "Bern"})
    assert "Bern for 3 days" in ran.model.requests[0].messages[-1].text
    assert ran.store.start(ran.session).input == {"city": "Bern", "days": 3}
    ran = await house.run(file, lambda _: "Sunny.", {"city": "Bern", "days": "5"})
    assert "Bern for 5 days" in ran.model.requests[0].messages[-1].text
    with pytest.raises(UsageError, match="'days' must be of the type integer"):
        await house.run(file, lambda _: "-", {"city": "Bern", "days": "many"})


def test_check_tells_the_inputs(tmp_path: Path) -> None:
    file = KEYS / "inputs_schema.yaml"
    told = CliRunner().invoke(app, ["check", str(file)])
    assert told.exit_code == 0
    assert "needs: -i city=..." in told.output
    assert "input days (integer, default 3): How many days it covers." in told.output
    told = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert json.loads(told.output)["inputs"]["days"]["default"] == 3
    unknown = tmp_path / "c.yaml"
    unknown.write_text(file.read_text().replace("input.days", "input.day"))
    told = CliRunner().invoke(app, ["check", str(unknown)])
    assert "'inputs_schema' has no input 'day'; did you mean 'days'?" in told.output


def names_of_callouts(ran: Ran) -> list[tuple[str, str, str]]:
    return [
        (each.name, each.by, each.stored.row.message.text)
        for each in find_callouts(ran.store.rows(ran.session))
        if each.stored.row.message is not None
    ]


async def test_callouts_name_the_output_and_what_a_pattern_finds(house: House) -> None:
    file = KEYS / "callouts.yaml"
    replies = iter(["DECISION: roll back.", "Dear client"])
    ran = await house.run(file, lambda _: next(replies), {"client": "Ada"})
    assert names_of_callouts(ran) == [("Facts of Ada", "phase", "DECISION: roll back.")]
    marks = [each["name"] for each in ran.decisions("callout")]
    assert marks == ["decision", "Facts of Ada"]


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("Note", {"output": {"as": "Note"}}),
        ({"output": "Note"}, {"output": {"as": "Note"}}),
        (
            {"messages": "Reply {{ turn }}", "messages_filter": "last_turn"},
            {"messages": {"as": "Reply {{ turn }}", "filter": "last_turn"}},
        ),
        ({"decision": "^D:"}, {"decision": {"pattern": "^D:"}}),
        ({"output": "^D:"}, {"output": {"pattern": "^D:"}}),
    ],
)
def test_spellings_of_callouts_are_one(written: object, held: object) -> None:
    ours = Cascade.model_validate(cascade(phase("a", callouts=written)))
    assert ours == Cascade.model_validate(cascade(phase("a", callouts=held)))


@pytest.mark.parametrize(
    ("filtered", "named"),
    [
        ({}, ["1 a", "2 a"]),
        ({"messages_filter": "all"}, ["1 a", "1 a", "2 a"]),
        ({"messages_filter": "last_turn"}, ["2 a"]),
    ],
)
async def test_callouts_name_each_message(
    house: House, filtered: dict[str, str], named: list[str]
) -> None:
    callouts = {"messages": "{{ turn }} {{ phase }}", **filtered}
    made = cascade(phase("a", callouts=callouts, tackle=["set_state"]), phase("b"))
    replies = {"a": [calls(call("set_state", '{"key": "k", "value": "v"}')), "done"]}
    ran = await house.run(made, replies)
    assert [name for name, _, _ in names_of_callouts(ran)] == named


async def test_a_resumed_run_keeps_the_names(house: House) -> None:
    made = cascade(phase("a", callouts="Note {{ state.x | default('!') }}"), phase("b"))
    ran = await house.run(made, {"b": [RuntimeError("gone")]}, session_id="s")
    assert ran.result.status == "failed"
    again = await resumed(house)
    assert again.status == "completed"
    found = find_callouts(house.open_store().rows("s"))
    assert [each.name for each in found] == ["Note !"]


async def resumed(house: House, session: str = "s") -> Result:
    model = Scripted(lambda _: "ok")
    return await windlass.resume(
        session, store=house.store, root=house.folder, providers={"scripted": model}
    )


async def test_memory_keeps_every_message_and_finds_it_by_the_banks_name(house: House) -> None:
    file = KEYS / "memory.yaml"
    first = await house.run(file, lambda _: "Restart the pump.", {"question": "the pump is dead"})
    asks = calls(call("past_cases", '{"query": "pump", "limit": 1}'))
    replies = iter([asks, "As before: restart it."])
    again = await house.run(file, lambda _: next(replies), {"question": "no pump again"})
    (result,) = [m for m in again.model.requests[-1].messages if m.role == "tool"]
    assert "1 found" in result.text
    assert "pump" in result.text
    assert [tool.name for tool in again.model.requests[0].tools] == ["past_cases"]
    kept = Banks(first.store, time.time, lambda: "-").memories("past_cases")
    assert "Restart the pump." in [memory.text for memory in kept]
    assert [each["messages"] for each in again.decisions("memory kept")] == [3]


async def test_nothing_of_soundings_is_kept_and_nothing_twice(house: House) -> None:
    soundings = {"factor": 2, "evaluator_instructions": "The best."}
    made = cascade(phase("a"), phase("b", soundings=soundings), phase("c"), memory="notes")
    gone = {"c": [RuntimeError("gone")]}
    ran = await house.run(made, gone, session_id="s")
    assert ran.result.status == "failed"
    assert (await resumed(house)).status == "completed"
    kept = Banks(house.open_store(), time.time, lambda: "-").memories("notes")
    assert [memory.text for memory in kept] == ["Do a.", "ok a", "Do c.", "ok"]
    assert {memory.version for memory in kept} == {1}


@pytest.mark.parametrize(
    ("more", "held"),
    [
        ({}, {"bank": "b", "keep": "all"}),
        ({"tackle": ["remember"]}, {"read": ["b"], "write": ["b"]}),
        ({"injectors": True}, {"read": ["b"], "write": ["b"]}),
    ],
)
def test_a_bare_bank_is_meant_as_its_cascade_uses_it(more: dict[str, Any], held: Any) -> None:
    bare = Cascade.model_validate(cascade(phase("a", memory="b", **more)))
    assert bare == Cascade.model_validate(cascade(phase("a", memory=held, **more)))


async def test_instructions_are_the_text_of_a_file(house: House, tmp_path: Path) -> None:
    ran = await house.run(KEYS / "instructions.yaml", lambda _: "-", {"plan": "the move"})
    assert ran.model.requests[0].messages[-1].text.startswith("Name three risks of the move")
    assert "{{ input.plan }}" in str(ran.store.start(ran.session).cascade["phases"])
    file = tmp_path / "c.yaml"
    file.write_text((KEYS / "instructions.yaml").read_text())
    told = CliRunner().invoke(app, ["check", str(file)])
    assert "'@prompts/risks.md' names a file beside the cascade that is not there" in str(
        told.exception
    )
    (tmp_path / "prompts").mkdir()
    prompt = tmp_path / "prompts" / "risks.md"
    prompt.write_text("Name three.\n\nOf {{ plan }}.")
    told = CliRunner().invoke(app, ["check", str(file)])
    assert f"{prompt}:3: phase 'risks', instructions: a template cannot use" in str(told.exception)
    file.write_text(file.read_text().replace("prompts/risks.md", "../risks.md"))
    told = CliRunner().invoke(app, ["check", str(file)])
    assert "lies outside the folder of the cascade" in str(told.exception)
