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
from windlass.cascade.load import load
from windlass.cascade.model import Cascade
from windlass.cascade.token_budget import MaxInputTokens
from windlass.cli.app import app
from windlass.engine.result import Result
from windlass.errors import CascadeError, UsageError
from windlass.history.marks import find_callouts
from windlass.memory.banks import Banks
from windlass.providers.scripted import Scripted
from windlass.tools.registry import tool

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
    replies: Iterator[Any] = iter([asks, "As before: restart it."])
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


async def test_a_body_under_on_error_may_be_a_file(house: House, tmp_path: Path) -> None:
    (tmp_path / "sorry.md").write_text("Say sorry.")
    file = tmp_path / "c.json"
    body = {"instructions": "@sorry.md"}
    load_it = {"name": "load", "tool": "read_file", "inputs": {"path": "gone"}, "on_error": body}
    file.write_text(json.dumps({"cascade_id": "c", "phases": [load_it]}))
    ran = await house.run(file, lambda _: "-")
    assert ran.model.requests[0].messages[-1].text == "Say sorry."
    (tmp_path / "sorry.md").unlink()
    told = CliRunner().invoke(app, ["check", str(file)])
    assert "phase 'load', on_error.instructions: '@sorry.md' names a file" in str(told.exception)


async def test_a_token_budget_limits_each_phase(house: House) -> None:
    file = KEYS / "token_budget.yaml"
    talk, _, digest = load(file).cascade.phases
    limits = MaxInputTokens(limit=10_000, on_exceed="summarise", summary_tokens=300)
    assert talk.max_input_tokens == limits
    assert digest.max_input_tokens == limits.model_copy(update={"limit": 4_000})
    ran = await house.run(file, lambda _: "word " * 2_500, {"topic": "trade"})
    assert {request.max_output_tokens for request in ran.model.requests} == {300, 2_000}
    (summary,) = [each for each in ran.model.requests if each.max_output_tokens == 300]
    assert "word word" in summary.messages[-1].text
    assert ran.decisions("summary")


def test_a_token_budget_and_its_long_form_are_one() -> None:
    budget = {"max_total": 9_000, "reserve_for_output": 1_000, "strategy": "fail"}
    long = {"limit": 8_000, "on_exceed": "fail", "warn": 0.8}
    ours = cascade(phase("a", max_input_tokens=long), max_output_tokens=1_000)
    assert Cascade.model_validate(cascade(phase("a"), token_budget=budget)) == (
        Cascade.model_validate(ours)
    )
    own = cascade(phase("a", max_input_tokens=5), token_budget=budget, max_output_tokens=7)
    held = Cascade.model_validate(own)
    assert held.phases[0].max_input_tokens == MaxInputTokens(limit=5)
    assert held.max_output_tokens == 7


@pytest.mark.parametrize(
    ("top", "of_phase", "told"),
    [
        ({"token_budget": {"summarizer": {"model": "local/x"}}}, {}, "the model of the phase"),
        ({"token_budget": {"phase_overrides": {"b": 9_000}}}, {}, "there is no phase 'b'"),
        ({"use_native_tools": False}, {}, "the provider's own"),
        ({}, {"use_native_tools": False}, "the provider's own"),
        ({}, {"manifest_context": "full"}, "only with tackle 'manifest'"),
        ({}, {"tackle": ["set_state", "set_state"]}, "listed twice"),
        ({}, {"context": {"from": [], "include": ["state"]}}, "there are none"),
        ({"tool_caching": {"enabled": True, "storage": "redis"}}, {}, "out of its record"),
        ({"tool_caching": {"enabled": True, "tools": {"write_file": 60}}}, {}, "may write"),
        ({"tool_caching": {"tools": {"read_file": True}}}, {}, "'enabled': true"),
    ],
)
def test_what_changes_nothing_is_told(
    tmp_path: Path, top: dict[str, Any], of_phase: dict[str, Any], told: str
) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(cascade(phase("a", **of_phase), **top), indent=1))
    said = CliRunner().invoke(app, ["check", str(file), "--json"])
    (warning,) = json.loads(said.output)["warnings"]
    assert told in warning["message"]
    assert warning["line"] is not None


async def test_include_says_what_plain_names_take(house: House) -> None:
    file = KEYS / "include.yaml"
    ran = await house.run(file, lambda _: "class: bill, and much more")
    (request,) = [each for each in ran.model.requests if each.messages[-1].text == "Answer it."]
    said = "\n".join(message.text for message in request.messages)
    assert '"class": "bill"' in said
    assert "much more" not in said


def test_a_phase_may_be_called_prev() -> None:
    phases = [phase("prev"), phase("b"), phase("c", context={"from": ["prev"]})]
    (source,) = Cascade.model_validate(cascade(*phases)).phases[2].sources.values()
    assert source.phase == "prev"


async def test_manifest_context_shows_the_choice_what_was_said(house: House) -> None:
    file = KEYS / "manifest_context.yaml"
    ran = await house.run(file, lambda _: "She wants figures.", {"customer": "Ada"})
    (choice,) = [each for each in ran.model.requests if each.output_schema is not None]
    assert "assistant: She wants figures." in choice.messages[-1].text
    short = file.read_text().replace("manifest_context: full", "manifest_context: current")
    other = house.folder / "c.yaml"
    other.write_text(short)
    ran = await house.run(other, lambda _: "She wants figures.", {"customer": "Ada"})
    (choice,) = [each for each in ran.model.requests if each.output_schema is not None]
    assert "She wants figures." not in choice.messages[-1].text


async def test_calls_are_native_whatever_is_said(house: House) -> None:
    ran = await house.run(KEYS / "use_native_tools.yaml", lambda _: "none")
    assert [tool.name for tool in ran.model.requests[0].tools] == ["list_files"]
    assert [event for event in ran.events if "the provider's own" in getattr(event, "text", "")]


async def test_tools_are_known_by_the_names_that_others_have_for_them(house: House) -> None:
    (house.folder / "sales.csv").write_text("city,sold\nBern,3\nBasel,4\n")
    asked = calls(
        call("list_directory", '{"path": "."}'),
        call("search_files", '{"query": "BASEL", "file_pattern": "*.csv"}'),
        call("sql_query", '{"sql": "SELECT sum(sold) AS n FROM sales", "connection": "shop"}'),
    )
    replies: Iterator[Any] = iter([asked, "done"])
    ran = await house.run(KEYS / "tackle.yaml", lambda _: next(replies))
    listed, found, sold = [m.text for m in ran.model.requests[-1].messages if m.role == "tool"]
    assert "sales.csv" in listed
    assert found == "sales.csv:3: Basel,4"
    assert "n\n7" in sold
    assert "no connections such as 'shop'" in sold


async def test_an_own_tool_of_an_old_name_goes_before(house: House) -> None:
    def sql_query(sql: str) -> str:
        """Ask the shop.

        Args:
            sql: A question.
        """
        return f"own {sql}"

    made = cascade(phase("a", tackle=["sql_query"]))
    replies = {"a": [calls(call("sql_query", '{"sql": "x"}')), "done"]}
    ran = await house.run(made, replies, tools=[sql_query])
    assert ("tool", "own x") in ran.seen("a", 2)


def test_names_under_default_need_not_be_known(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    for template, holds in (
        (
            "{{ tone | default('calm') }}{% if mood is defined %}{{ mood | d('-') }}{% endif %}",
            True,
        ),
        ("{{ tone }}{{ tone | default('calm') }}", False),
    ):
        file.write_text(json.dumps(cascade({"name": "a", "instructions": template})))
        told = CliRunner().invoke(app, ["check", str(file)])
        assert (told.exit_code == 0) == holds


async def test_results_of_reading_tools_are_used_again(house: House) -> None:
    (house.folder / "a.txt").write_text("one")
    read = '{"path": "a.txt", "start_line": 1}'
    script: list[Any] = [
        calls(call("read_file", '{"path": "a.txt"}')),
        "first",
        calls(call("read_file", read), call("read_file", '{"path": "a.txt", "start_line": 1}')),
        "second",
    ]
    replies = iter(script)
    ran = await house.run(KEYS / "tool_caching.yaml", lambda _: next(replies))
    results = [m.text for m in ran.model.requests[-1].messages if m.role == "tool"]
    assert results == ["one", *["Read before in this run.\none"] * 2]
    reused = [(each["tool"], each["turn"]) for each in ran.decisions("reused")]
    assert [tool for tool, _ in reused] == ["read_file"] * 2
    assert all("read" in turn for _, turn in reused)
    told = CliRunner().invoke(app, ["explain", ran.session, "4", "--store", str(house.store)])
    assert "read_file did not run: the result of phase read" in " ".join(told.output.split())


COUNTED: list[str] = []


@tool(effects="none")
def count(query: str, note: str = "") -> str:
    """Count.

    Args:
        query: What.
        note: Why.
    """
    COUNTED.append(query)
    return f"{query} {len(COUNTED)}"


async def counted(house: House, *asked: Any, rule: Any = True, **caching: Any) -> list[str]:
    """The results of these calls, each in a turn of its own."""
    COUNTED.clear()
    made = cascade(
        phase("a", tackle=["count", "write_file", "list_files"]),
        tool_caching={"enabled": True, "tools": {"count": rule}, **caching},
    )
    ran = await house.run(made, {"a": [*map(calls, asked), "done"]}, tools=[count])
    return [m.text for m in ran.model.requests[-1].messages if m.role == "tool"]


def counts(query: str, note: str = "") -> Any:
    return call("count", json.dumps({"query": query, "note": note}))


WRITES = call("write_file", '{"path": "x.txt", "text": "x"}')
LISTS = call("list_files")


@pytest.mark.parametrize(
    ("rule", "asked", "results"),
    [
        (True, [counts("a"), counts("a")], ["a 1", "a 1"]),
        (False, [counts("a"), counts("a")], ["a 1", "a 2"]),
        ({"enabled": False}, [counts("a"), counts("a")], ["a 1", "a 2"]),
        ({}, [counts("a"), counts("a", "why")], ["a 1", "a 2"]),
        ({"key": "query"}, [counts("a"), counts("a", "why")], ["a 1", "a 1"]),
        ({"key": "note"}, [counts("a", "x"), counts("b", "x")], ["a 1", "a 1"]),
        ({"key": "sql_hash"}, [counts("a", "x"), counts("a", "x")], ["a 1", "a 1"]),
        ({"hit_message": "Known."}, [counts("a"), counts("a")], ["a 1", "Known.\na 1"]),
        ({"ttl": 1e-9}, [counts("a"), counts("a")], ["a 1", "a 2"]),
    ],
)
async def test_the_rules_of_a_cached_tool(
    house: House, rule: Any, asked: list[Any], results: list[str]
) -> None:
    assert await counted(house, *asked, rule=rule) == results


async def test_what_a_cache_forgets(house: House) -> None:
    first, _, again = await counted(house, counts("a"), WRITES, counts("a"))
    assert (first, again) == ("a 1", "a 2")
    rule = {"invalidate_on": ["list_files"]}
    first, _, again = await counted(house, counts("a"), LISTS, counts("a"), rule=rule)
    assert (first, again) == ("a 1", "a 2")
    first, _, again = await counted(house, counts("a"), LISTS, counts("a"))
    assert (first, again) == ("a 1", "a 1")
    asked = [counts("a"), counts("b"), counts("a")]
    assert await counted(house, *asked, max_cache_size=1) == ["a 1", "b 2", "a 3"]
    assert await counted(house, *asked, global_ttl=1e-9) == ["a 1", "b 2", "a 3"]
    assert await counted(house, *asked, enabled=False) == ["a 1", "b 2", "a 3"]


async def test_a_resumed_run_uses_what_its_record_keeps(house: House) -> None:
    COUNTED.clear()
    made = cascade(
        phase("a", tackle=["count"]),
        phase("b", tackle=["count"]),
        tool_caching={"enabled": True, "tools": {"count": True}},
    )
    asks: dict[str, Any] = {"a": [calls(counts("x")), "done"], "b": [RuntimeError("gone")]}
    ran = await house.run(made, asks, tools=[count], session_id="s")
    assert ran.result.status == "failed"
    replies: Iterator[Any] = iter([calls(counts("x")), "done"])
    model = Scripted(lambda _: next(replies))
    result = await windlass.resume(
        "s",
        made,
        store=house.store,
        root=house.folder,
        tools=[count],
        providers={"scripted": model},
    )
    assert result.status == "completed"
    assert COUNTED == ["x"]
    (shown,) = [m.text for m in model.requests[-1].messages if m.role == "tool"][-1:]
    assert shown == "x 1"
