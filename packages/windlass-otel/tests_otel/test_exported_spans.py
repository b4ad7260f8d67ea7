"""`windlass export --as otel`: the spans of a session out of its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.engine.harness import House, by_phase, call, calls, cascade, phase
from tests.importing.making import Session, result, text, used, write_lines
from tests.importing.making import call as called
from tests.support.engine_soundings import picking, sounded
from tests.support.engine_sub_cascades import write
from tests.support.telemetry import Collected

from windlass.importing.streams import recordings
from windlass.wire.genai_names import ATTRIBUTES
from windlass_otel.genai_messages import Contents
from windlass_otel.otlp_json import session_lines

SECRET = "the secret word"


def spans_of(export: str) -> list[dict[str, Any]]:
    """The spans of an export, with plain attributes."""
    requests = [json.loads(line) for line in export.splitlines()]
    scopes = [one for each in requests for one in each["resourceSpans"][0]["scopeSpans"]]
    spans = [span for scope in scopes for span in scope["spans"]]
    for span in spans:
        pairs = {one["key"]: one["value"] for one in span["attributes"]}
        span["attributes"] = {
            key: [next(iter(each.values())) for each in value["arrayValue"]["values"]]
            if "arrayValue" in value
            else next(iter(value.values()))
            for key, value in pairs.items()
        }
    return spans


def tree(spans: list[dict[str, Any]]) -> list[str]:
    """The names of spans, each with that of its parent."""
    names = {span["spanId"]: span["name"] for span in spans}
    return sorted(f"{names.get(one.get('parentSpanId'))} > {one['name']}" for one in spans)


@pytest.fixture
def line(windlass: CommandLine) -> CommandLine:
    """The command line in a folder where the session `s1` ran."""
    failing = calls(call("read_file", '{"path": "nowhere.txt"}'))
    kept = calls(call("set_state", '{"key": "k", "value": "v"}'))
    tools = ["set_state", "read_file"]
    windlass.write("one.json", cascade(phase("a", tackle=tools), system="Be."))
    windlass.script = by_phase({"a": [kept, failing, SECRET]})  # type: ignore[assignment]
    assert windlass("run", "one.json", "--session", "s1").code == 0
    return windlass


def test_a_session_is_imported_again_with_its_messages_and_usage(
    line: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "spans.json"
    assert line("export", "s1", "--as", "otel-content", "--out", str(path)).code == 0
    (after,) = recordings(path)
    log = tmp_path / "log.jsonl"
    assert line("export", "s1", "--as", "jsonl", "--out", str(log)).code == 0
    (before,) = recordings(log)
    for then, now in zip(before.messages, after.messages, strict=True):
        assert (now.role, now.text, now.failed) == (then.role, then.text, then.failed)
        assert [(each.id, each.name, each.parsed()) for each in now.tool_calls] == [
            (each.id, each.name, each.parsed()) for each in then.tool_calls
        ]
    assert [message.failed for message in after.messages].count(True) == 1
    assert [one.usage for one in after.calls] == [one.usage for one in before.calls]
    assert [one.at for one in after.calls] == [one.at for one in before.calls]
    assert after.tools == before.tools
    assert after.name == "s1"
    assert line("import", str(path), "--store", "other").code == 0
    assert SECRET in line("export", "latest", "--store", "other").out


def test_without_content_it_tells_of_calls_and_tools_alone(line: CommandLine) -> None:
    export = line("export", "s1", "--as", "otel").out
    assert SECRET not in export
    spans = spans_of(export)
    assert tree(spans) == [
        "None > invoke_agent test",
        *["invoke_agent a > chat function"] * 3,
        "invoke_agent a > execute_tool read_file",
        "invoke_agent a > execute_tool set_state",
        "invoke_agent test > invoke_agent a",
    ]
    assert export == line("export", "s1", "--as", "otel").out
    (failed,) = [span for span in spans if span["name"] == "execute_tool read_file"]
    assert (failed["attributes"]["error.type"], failed["status"]) == ("tool_error", {"code": 2})
    known = {names[0] for names in ATTRIBUTES.values()}
    assert {key for span in spans for key in span["attributes"]} <= known
    assert all(int(one["startTimeUnixNano"]) <= int(one["endTimeUnixNano"]) for one in spans)


async def test_what_is_exported_is_what_the_run_had_sent(
    house: House, collected: Collected
) -> None:
    write(house, "logs.json", phase("read"))
    keys: Any = {"sub_cascades": [{"ref": "logs.json"}], "context": {"from": ["a"]}}
    made = write(house, "top.json", sounded(), phase("bug", **keys))
    ran = await house.run(made, picking(1), otel="content")
    lines = list(session_lines(ran.store, ran.session, Contents(told=True)))
    exported = {
        (one["name"], one["startTimeUnixNano"]): one["attributes"]
        for one in spans_of("".join(lines))
    }
    sent = {
        (one.name, str(one.start_time)): {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in one.attributes.items()
        }
        for one in collected.spans
    }
    assert exported.keys() == sent.keys()
    as_text = {name: {key: str(one) for key, one in held.items()} for name, held in sent.items()}
    assert {
        name: {key: str(one) for key, one in held.items()} for name, held in exported.items()
    } == as_text
    assert tree(spans_of("".join(lines))) == sorted(
        f"{above} > {name}" for above, name in collected.with_parents()
    )


def test_a_session_of_another_program(windlass: CommandLine, tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer(
        "m1", text("Looking."), called("t1", "ls"), usage=used(100, 7, read=50, written=10)
    )
    session.user([result("t1", "no such file", is_error=True)])
    session.answer("m2", text("done"), usage=used(200))
    path = write_lines(tmp_path / "s.jsonl", session.records)
    assert windlass("import", str(path)).code == 0
    spans = spans_of(windlass("export", "latest", "--as", "otel").out)
    first, second = [span["attributes"] for span in spans if span["name"].startswith("chat ")]
    assert first["gen_ai.provider.name"] == "anthropic"
    assert first["gen_ai.usage.cache_write.input_tokens"] == "10"
    assert first["gen_ai.usage.input_tokens"] == "160"  # those of the cache are among them
    assert second["gen_ai.usage.output_tokens"] is not None
    (tool,) = [span["attributes"] for span in spans if span["name"] == "execute_tool ls"]
    assert (tool["error.type"], tool["gen_ai.tool.call.id"]) == ("tool_error", "t1")
