"""Phases that run a tool in place of asking a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.engine.harness import House, call, calls, cascade, phase
from tests.support import steps
from tests.support.engine_resume import Gone, Model, resumed
from windlass.cli.app import app
from windlass.errors import CascadeError, UsageError
from windlass.report.explanation import explain_call
from windlass.wire.base import Request

READ = "tests.support.steps:read_orders"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    steps.ran.clear()
    steps.failures.clear()
    house = House(tmp_path)
    yield house
    house.close()


def ok(_: Request) -> str:
    """A script that says the same always."""
    return "ok"


def step(name: str, tool: str = READ, **keys: Any) -> dict[str, Any]:
    """A phase that runs a tool."""
    return {"name": name, "tool": tool, **keys}


async def test_a_tools_result_is_the_phases_output(house: House) -> None:
    ran = await house.run(
        cascade(
            step("load", inputs={"path": "{{ input.path }}", "limit": "3"}),
            phase("report", context={"from": ["load"]}),
            {"name": "end", "instructions": "Do end. {{ outputs.load.json.orders[2] }}"},
        ),
        {},
        {"path": "a.csv"},
    )
    assert ran.result.status == "completed"
    assert ran.result.outputs["load"] == '{"status": "read", "orders": ["a.csv", "a.csv", "a.csv"]}'
    assert ran.result.state == {"read": "a.csv"}
    assert '[Output from load]:\n{"status": "read"' in ran.seen("report")[1][1]
    assert ran.seen("end")[:2] == [
        ("user", '[Phase load ran the tool read_orders(limit="3", path="a.csv"). Its result:]'),
        ("user", ran.result.outputs["load"]),
    ]
    assert ran.seen("end")[-1] == ("user", "Do end. a.csv")
    assert not ran.request("end").tools


ROUTED = (
    step(
        "load", inputs={"path": "{{ input.path }}"}, routing={"empty": "ask", "default": "report"}
    ),
    phase("report"),
    phase("ask", handoffs=["end"]),
)


async def test_routing_goes_by_the_result(house: House) -> None:
    full = await house.run(cascade(*ROUTED), {}, {"path": "a"})
    assert list(full.result.outputs) == ["load", "report"]
    none = await house.run(cascade(*ROUTED), {}, {"path": "none"})
    assert list(none.result.outputs) == ["load", "ask"]
    (first, *_) = none.decisions("route")
    assert (first["target"], first["by"]) == ("ask", "result")
    assert "its result says 'empty'" in first["text"]


async def test_a_result_that_routing_does_not_name_takes_the_handoff_or_ends(house: House) -> None:
    load = step("load", inputs={"path": "a"}, routing={"empty": "ask"})
    ended = await house.run(cascade(load, phase("ask")))
    assert list(ended.result.outputs) == ["load"]
    went_on = await house.run(
        cascade({**load, "handoffs": ["report"]}, phase("ask"), phase("report"))
    )
    assert list(went_on.result.outputs) == ["load", "report"]


async def test_a_failed_tool_goes_on_with_its_on_error(house: House) -> None:
    steps.failures.append("no such file")
    ran = await house.run(
        cascade(
            step("load", inputs={"path": "a"}, on_error="repair", handoffs=["report"]),
            phase("report"),
            {
                "name": "repair",
                "instructions": "Do repair. {{ state.last_deterministic_error.error }}"
                " {{ state.last_deterministic_error.inputs.path }}",
            },
        )
    )
    assert ran.result.status == "completed"
    assert list(ran.result.outputs) == ["load", "repair"]
    assert ran.seen("repair")[-1][1] == "Do repair. OSError: no such file a"
    assert ran.seen("repair")[0][1].endswith('ran the tool read_orders(path="a"). It failed:]')
    assert ran.result.state["last_deterministic_error"]["tool"] == READ
    assert "read" not in ran.result.state


async def test_a_body_under_on_error_stands_for_the_phase(house: House) -> None:
    steps.failures.append("no such file")
    ran = await house.run(
        cascade(
            step(
                "load",
                inputs={"path": "a"},
                on_error={"instructions": "Do guess."},
                handoffs=["report"],
            ),
            {
                "name": "report",
                "instructions": "Do report. {{ outputs.load }}",
                "context": {"from": ["load"], "include_input": False},
            },
        ),
        {"guess": ["two orders"]},
    )
    assert list(ran.result.outputs) == ["load", "load_fallback", "report"]
    assert ran.result.outputs["load"] == "two orders"
    assert ran.seen("report") == [
        ("user", "[Output from load]:\ntwo orders"),
        ("user", "Do report. two orders"),
    ]


async def test_a_tool_is_tried_again_and_the_run_fails_with_the_last(house: House) -> None:
    retry = {"max_attempts": 3, "backoff": "none"}
    steps.failures += ["third", "second", "first"]
    failed = await house.run(cascade(step("load", inputs={"path": "a"}, retry=retry)))
    assert failed.result.status == "failed"
    assert str(failed.result.error) == (
        "phase 'load': the tool 'read_orders' failed (attempt 3 of 3): OSError: third"
    )
    assert [each["error"] for each in failed.decisions("tool failed")] == [
        "OSError: first",
        "OSError: second",
        "OSError: third",
    ]
    steps.failures += ["second", "first"]
    mended = await house.run(cascade(step("load", inputs={"path": "a"}, retry=retry), phase("b")))
    assert mended.result.status == "completed"
    assert len(mended.seen("b")) == 3


async def test_waits_between_attempts_grow(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("windlass.engine.phase.tool_phase.sleep", sleep)
    for backoff in ("linear", "exponential"):
        steps.failures += ["4", "3", "2", "1"]
        retry = {"max_attempts": 5, "backoff": backoff, "backoff_base_seconds": "2s"}
        await house.run(cascade(step("load", inputs={"path": "a"}, retry=retry)))
    assert waited == [2, 4, 6, 8, 2, 4, 8, 16]


async def test_a_tool_that_takes_too_long_fails(house: House) -> None:
    slow = step("wait", "tests.support.steps:slow", timeout=0.05, on_error="late")
    ran = await house.run(cascade(slow, phase("late")))
    assert list(ran.result.outputs) == ["wait", "late"]
    assert "within its time limit of 0.05 s" in ran.result.outputs["wait"]


async def test_windows_shorten_a_long_result_like_any_other(house: House) -> None:
    text = steps.long_text(8_000)
    assert len(text) > 200_000
    long = step("list", "tests.support.steps:long_text", inputs={"lines": "8000"})
    look = phase("look", tackle=["list_files"])
    ran = await house.run(cascade(long, look, auto_context=True))
    assert ran.result.outputs["list"] == text
    shown = ran.seen("look")[-2][1]
    assert len(shown) < 40_000
    assert "result_" in shown


async def test_a_recorded_result_is_not_made_again(house: House) -> None:
    steps.failures.append("first")
    made = cascade(
        step(
            "load", inputs={"path": "a"}, retry={"backoff": "none"}, routing={"default": "report"}
        ),
        {
            "name": "report",
            "instructions": "Do report. {{ state.read }} {{ outputs.load.json.status }}",
        },
    )

    def gone(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await house.run(made, gone, session_id="s")
    assert steps.ran == ["a", "a"]
    result = (await resumed(house, ok, (), trust=True))[0]
    assert result.status == "completed"
    assert steps.ran == ["a", "a"]
    assert result.state == {"read": "a"}
    assert (
        len([row for row in house.open_store().rows("s") if row.row.node_type == "tool_result"])
        == 1
    )


async def test_a_tool_that_may_have_run_waits_for_a_person(house: House) -> None:
    made = cascade(step("load", "tests.support.steps:dies", inputs={}))
    with pytest.raises(steps.GoneError):
        await house.run(made, session_id="s")
    result = (await resumed(house, ok, (), trust=True))[0]
    assert result.status == "waiting"
    assert steps.ran == ["dies"]
    result = (await resumed(house, ok, (), trust=True, again=["dies"]))[0]
    assert result.status == "completed"
    assert steps.ran == ["dies", "dies"]


async def test_a_person_may_refuse_the_tool(house: House) -> None:
    load = step("load", inputs={"path": "a"}, rules={"approve": ["read_orders"]}, on_error="no")
    waiting = await house.run(cascade(load, phase("no")))
    assert waiting.result.status == "waiting"
    refused = await house.run(cascade(load, phase("no")), approve={"read_orders": False})
    assert list(refused.result.outputs) == ["load", "no"]
    assert steps.ran == []
    allowed = await house.run(cascade(load, phase("no")), approve={"read_orders": True})
    assert list(allowed.result.outputs) == ["load"]


async def test_a_query_beside_the_cascade_is_run(house: House, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("region,amount\nnorth,3\nsouth,4\nnorth,5\n")
    (tmp_path / "totals.sql").write_text(
        "SELECT region, sum(amount)::INT AS total FROM sales"
        " WHERE region = '{{ region }}' GROUP BY 1"
    )
    file = tmp_path / "c.yaml"
    file.write_text(
        "cascade_id: c\nphases:\n"
        "  - {name: totals, tool: 'sql:totals.sql', inputs: {region: '{{ input.region }}'}}\n"
    )
    ran = await house.run(file, {}, {"region": "north"})
    assert ran.result.output == (
        '{"columns": ["region", "total"], "rows": [{"region": "north", "total": 8}],'
        ' "row_count": 1}'
    )


ASKS = """cascade_id: s
phases:
  - {name: ask, tool: "sql:q/one.sql", inputs: INPUTS, routing: {success: tell}, handoffs: [tell]}
  - {name: tell, instructions: "Do tell. {{ state.output_ask.data }} {{ outputs.ask.json.data }}"}
"""


def asks(folder: Path, query: str, inputs: str = "{n: '{{ input.n }}'}") -> Path:
    """A cascade that runs a query beside it and tells its rows."""
    (folder / "q").mkdir(exist_ok=True)
    (folder / "q" / "one.sql").write_text(query)
    (file := folder / "s.yaml").write_text(ASKS.replace("INPUTS", inputs))
    return file


VALUES = ["7", "it's", "1; DROP TABLE t", "' OR '1'='1", "\\'", "$$", "--", "*/ 8 /*", "a\nb", '"x']


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT '{{ inputs.n }}' AS n", '[{"n": VALUE}]'),
        ("SELECT {{ inputs.n }}::VARCHAR AS n", '[{"n": VALUE}]'),
        ("SELECT '<{{ n }}' || '{{ input.n }}>' AS n", '[{"n": <VALUEVALUE>}]'),
        ('SELECT 1 AS "{{ inputs.n }}"', "[{VALUE: 1}]"),
        ("SELECT 1 AS n -- of {{ inputs.n }}\n", '[{"n": 1}]'),
        ("SELECT 1 AS n /* of {{ inputs.n }} */", '[{"n": 1}]'),
        ("SELECT 'a' -- {{ inputs.n }}\n 'b' AS n", '[{"n": "ab"}]'),
    ],
)
async def test_a_value_of_a_query_is_a_value_whatever_it_holds(
    house: House, tmp_path: Path, value: str, query: str, rows: str
) -> None:
    ran = await house.run(asks(tmp_path, query), {}, {"n": value})
    assert ran.result.error is None
    text = json.dumps(value, ensure_ascii=False)
    told = rows.replace("<VALUEVALUE>", json.dumps(f"<{value}{value}>", ensure_ascii=False))
    told = told.replace("VALUE", text)
    assert ran.seen("tell")[-1][1] == f"Do tell. {told} {told}"


async def test_numbers_and_lists_are_literals(house: House, tmp_path: Path) -> None:
    query = (
        "SELECT {{ inputs.n }} AS n, 5-{{ inputs.minus }} AS m, {{ zip }} AS z"
        " WHERE 2 IN ({{ inputs.some }})"
    )
    file = asks(tmp_path, query, "{n: '7', minus: -3, zip: '007', some: [1, 2]}")
    ran = await house.run(file)
    assert '[{"n": 7, "m": 8, "z": "007"}]' in ran.seen("tell")[-1][1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x{{ inputs.n }}",
        "SELECT $${{ inputs.n }}$$",
        "SELECT E'{{ inputs.n }}'",
        "SELECT 'a'{{ inputs.n }}",
        "SELECT {{ inputs.n }}{{ inputs.n }}",
        "'{{ n }}",
    ],
)
async def test_a_value_inside_a_word_is_refused(house: House, tmp_path: Path, query: str) -> None:
    ran = await house.run(asks(tmp_path, query), {}, {"n": "7"})
    assert ran.result.status == "failed"
    assert "q/one.sql: the query prints a value that is part of a word" in str(ran.result.error)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT\n {{ inputs.m }}", "q/one.sql:2: phase 'ask' has no 'm' under 'inputs'; known: n"),
        ("SELECT {{ m }}", "q/one.sql:1: the query cannot use 'm'"),
        ("SELECT {{ inputs.n }", "q/one.sql:1: bad template"),
    ],
)
async def test_a_wrong_query_is_found_before_a_run(
    house: House, tmp_path: Path, query: str, told: str
) -> None:
    with pytest.raises(CascadeError, match=re.escape(told)):
        await house.run(asks(tmp_path, query), {}, {"n": "7"})


async def test_a_resumed_run_has_the_rows_of_the_first(house: House, tmp_path: Path) -> None:
    file = asks(tmp_path, "SELECT {{ inputs.n }} AS n")
    with pytest.raises(Gone):
        await house.run(file, Model(1, ok), {"n": "7"}, session_id="s")
    result, sent = await resumed(house, ok, ())
    assert (result.status, len(sent)) == ("completed", 1)
    assert '[{"n": 7}]' in sent[0].messages[-1].text


@pytest.mark.parametrize("key", ["query", "sql"])
async def test_a_phase_runs_the_old_name_of_a_tool(house: House, tmp_path: Path, key: str) -> None:
    (tmp_path / "sales.csv").write_text("region,amount\nnorth,3\n")
    inputs = {key: "SELECT sum(amount)::INT AS total FROM sales"}
    asking = {"name": "ask", "tool": "smart_sql_run", "inputs": inputs}
    tell = {"name": "tell", "instructions": "Do tell. {{ state.output_ask }}"}
    ran = await house.run(cascade(asking, tell))
    assert ran.seen("tell")[-1][1] == "Do tell. total\n3\n(1 row)"
    twice = {**asking, "inputs": {"query": "SELECT 1", "sql": "SELECT 2"}}
    assert "give one statement" in str((await house.run(cascade(twice))).result.error)
    wrong = {**asking, "inputs": {**inputs, "db_path": "x.db", "table": "t"}}
    with pytest.raises(CascadeError, match="'smart_sql_run' takes no argument 'table'"):
        await house.run(cascade(wrong))


async def test_a_cascade_without_a_model_needs_none(house: House) -> None:
    ran = await house.run(cascade(step("load", inputs={"path": "a"}), model="nobody/knows"))
    assert ran.result.status == "completed"
    assert ran.result.cost == 0


async def test_inputs_know_what_ran_before(house: House) -> None:
    ran = await house.run(
        cascade(
            phase("a"),
            step("load", inputs={"path": "{{ lineage[0].phase }}, {{ history[-1].content }}"}),
        )
    )
    assert steps.ran == ["a, ok a"]
    assert ran.result.status == "completed"


async def test_the_state_has_a_result_as_a_value(house: House) -> None:
    ran = await house.run(
        cascade(
            step("load", inputs={"path": "a"}),
            {
                "name": "report",
                "instructions": "Do report. {{ state.output_load.orders | length }}"
                "{% if state.last_deterministic_error %} failed{% endif %}"
                "{{ state.last_deterministic_error.error }}",
            },
        )
    )
    assert ran.seen("report")[-1][1] == "Do report. 2"
    assert "output_load" not in ran.result.state


async def test_explain_tells_what_ran_before_a_call(house: House) -> None:
    steps.failures.append("first")
    load = step("load", inputs={"path": "a"}, retry={"backoff": "none"}, routing={"default": "b"})
    ran = await house.run(cascade(load, phase("b")))
    notes = explain_call(ran.store, ran.session, 1).notes
    assert 'phase \'load\' runs read_orders with {"path":"a"}' in notes
    assert any("failed (attempt 1 of 3): OSError: first" in each for each in notes)
    assert any("its result says 'read'" in each for each in notes)


async def test_a_tool_phase_in_a_loop_runs_anew_each_time(house: House) -> None:
    made = cascade(
        step("load", inputs={"path": "{{ state.next | default('a') }}"}, handoffs=["judge"]),
        phase("judge", handoffs=["load", "end"]),
    )
    again = calls(call("route_to", '{"target": "load"}'))
    stop = calls(call("route_to", '{"target": "end"}'), text="enough")
    ran = await house.run(made, {"judge": [again, stop]})
    assert steps.ran == ["a", "a"]
    assert ran.result.status == "completed"


async def test_each_run_of_a_sounded_cascade_runs_its_tools(house: House) -> None:
    made = cascade(
        step("load", inputs={"path": "a"}),
        phase("report"),
        soundings={"factor": 2, "evaluator_instructions": "The better."},
    )
    ran = await house.run(made, lambda _: '{"winner": 1}')
    assert steps.ran == ["a", "a"]
    assert ran.result.state == {"read": "a"}


async def test_a_sub_cascade_may_run_a_tool(house: House, tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(
        "cascade_id: child\nphases:\n"
        f"  - {{name: load, tool: '{READ}', inputs: {{path: '{{{{ input.path }}}}'}}}}\n"
    )
    file = tmp_path / "c.yaml"
    file.write_text(
        "cascade_id: c\nphases:\n  - name: report\n    sub_cascades: [{ref: child.yaml}]\n"
        "    instructions: Do report. {{ outputs.child.json.status }}"
        " {{ outputs.load.json.status }}\n"
    )
    ran = await house.run(file, {}, {"path": "a"})
    assert ran.seen("report")[-1][1] == "Do report. read read"


async def test_a_phase_that_chooses_may_choose_a_result(house: House) -> None:
    made = cascade(
        step("load", inputs={"path": "a"}),
        phase("talk"),
        phase("report", context={"mode": "auto", "anchors": {"from_phases": ["load"]}}),
    )
    ran = await house.run(made)
    assert ran.result.status == "completed"
    assert any('"status": "read"' in text for _, text in ran.seen("report"))


async def test_only_the_output_of_a_tool_phase_may_stay(house: House) -> None:
    made = cascade(
        step("load", inputs={"path": "a"}, context_retention="output_only"), phase("report")
    )
    ran = await house.run(made)
    assert len([text for _, text in ran.seen("report") if '"status": "read"' in text]) == 1


async def test_a_value_is_extracted_from_a_result(house: House) -> None:
    found = {"pattern": '"status": "(\\w+)"', "store_as": "status"}
    ran = await house.run(cascade(step("load", inputs={"path": "a"}, output_extraction=found)))
    assert ran.result.state["status"] == "read"


def test_a_dry_run_says_that_it_runs_no_tool(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "cascade_id: c\nphases:\n  - {name: load, tool: list_files}\n"
        "  - {name: report, instructions: Do report.}\n"
    )
    told = CliRunner().invoke(app, ["run", str(file), "--dry-run"])
    assert isinstance(told.exception, UsageError)
    assert "before it the phase 'load' runs the tool 'list_files'" in str(told.exception)


async def test_a_recorded_failure_is_not_made_again(house: House) -> None:
    steps.failures += ["second", "first"]
    retry = {"max_attempts": 2, "backoff": "none"}
    made = cascade(
        step("load", inputs={"path": "a"}, retry=retry, on_error="repair"), phase("repair")
    )

    def gone(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await house.run(made, gone, session_id="s")
    result, (request,) = await resumed(house, ok, (), trust=True)
    assert result.status == "completed"
    assert steps.ran == ["a", "a"]
    assert result.state["last_deterministic_error"]["error"] == "OSError: second"
    assert request.messages[-2].text == "OSError: second"


async def test_the_attempt_that_ended_a_run_is_made_again(house: House) -> None:
    steps.failures.append("no such file")
    made = cascade(step("load", inputs={"path": "a"}), phase("report"))
    failed = await house.run(made, {}, session_id="s")
    assert failed.result.status == "failed"
    result, _ = await resumed(house, ok, (), trust=True)
    assert result.status == "completed"
    assert steps.ran == ["a", "a"]
    assert not list(house.open_store().verify())


async def test_a_refusal_is_not_asked_for_again(house: House) -> None:
    retry = {"max_attempts": 3, "backoff": "none"}
    rules = {"approve": ["read_orders"]}
    load = step("load", inputs={"path": "a"}, rules=rules, retry=retry, on_error="no")

    def gone(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await house.run(
            cascade(load, phase("no")), gone, session_id="s", approve={"read_orders": False}
        )
    result, _ = await resumed(house, ok, (), trust=True)
    assert list(result.outputs) == ["load", "no"]
    assert steps.ran == []


async def test_a_cascade_that_is_a_tool_may_be_run(house: House, tmp_path: Path) -> None:
    (tmp_path / "shorten.yaml").write_text(
        "cascade_id: shorten\ninputs_schema: {text: What to shorten.}\nphases:\n"
        "  - {name: cut, instructions: 'Do cut. {{ input.text }}'}\n"
    )
    file = tmp_path / "c.yaml"
    file.write_text(
        "cascade_id: c\ntools: [shorten.yaml]\nphases:\n"
        "  - {name: short, tool: shorten, inputs: {text: '{{ input.text }}'}}\n"
        "  - {name: report, instructions: 'Do report. {{ outputs.short }}'}\n"
    )
    ran = await house.run(file, {"cut": ["brief"]}, {"text": "long"})
    assert ran.seen("cut")[-1][1] == "Do cut. long"
    assert ran.seen("report")[-1][1] == "Do report. brief"


async def test_a_tool_that_takes_a_number_gets_one(house: House) -> None:
    twice = step("twice", "tests.support.steps:twice", inputs={"number": "{{ input.count }}"})
    ran = await house.run(cascade(twice), {}, {"count": 21})
    assert ran.result.output == "42"


async def test_instructions_may_tell_what_ran_and_what_was_said(house: House) -> None:
    asks = "Do b. {{ lineage[0].phase }} said {{ lineage[0].output }}; {{ history[0].content }}"
    ran = await house.run(cascade(phase("a"), {"name": "b", "instructions": asks}), ok)
    assert ran.seen("b")[-1] == ("user", "Do b. a said ok; Do a.")
