"""Spans of OpenTelemetry's GenAI conventions in OTLP, by their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importing.making import write_lines
from tests.support.importing_otel import SECOND, export, pairs, part, span, spans
from windlass.errors import UsageError
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings
from windlass.wire.base import Usage


def read(path: Path) -> list[Recording]:
    return list(recordings(path))


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("lines", [True, False])
def test_spans_with_their_content(tmp_path: Path, *, as_text: bool, lines: bool) -> None:
    agent = span(9, "invoke_agent")
    listed = [agent, *spans(as_text=as_text)[::-1], span(8, "execute_tool")]
    path = tmp_path / "x.json"
    if lines:
        write_lines(path, [export(*listed)])
    else:
        path.write_text(json.dumps(export(*listed), indent=1))
    (one,) = read(path)
    assert (one.format, one.grade, one.name) == ("otel", "C", "c-1")
    assert one.model == "anthropic/claude-sonnet-4-5"
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert [call.at for call in one.calls] == [2, 4]
    assert one.calls[0].usage == Usage(100, 7, 60)  # the cached ones are among all
    assert one.skipped["spans of the operation 'invoke_agent'"] == 1


def _flat(prefix: str, listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{prefix}.{n}.{key}": one[key] for n, one in enumerate(listed) for key in one}


ASKED_FLAT = {"role": "assistant", "tool_calls.0.id": "t1", "tool_calls.0.name": "ls"} | {
    "tool_calls.0.arguments": '{"path": "."}'
}
CHATS = [
    {"role": "system", "content": "Be."},
    {"role": "user", "content": '[{"type": "text", "text": "Go."}]'},
    ASKED_FLAT,
    {"role": "tool", "content": "a.py", "tool_call_id": "t1"},
]


def test_an_attribute_for_each_field_of_a_message(tmp_path: Path) -> None:
    function = {"name": "ls", "description": "List.", "parameters": '{"type": "object"}'}
    thought = {"role": "thinking", "content": "Hm."}
    told = [
        {
            **_flat("gen_ai.prompt", asked),
            **_flat("gen_ai.completion", [thought, answer]),
            **_flat("llm.request.functions", [function]),
        }
        for asked, answer in ((CHATS[:2], ASKED_FLAT), (CHATS, {"content": "done"}))
    ]
    listed = [span(number, **one) for number, one in enumerate(told)]
    (one,) = read(write_lines(tmp_path / "x.json", [export(*listed)]))
    assert _said(one) == [
        *(("system", "Be."), ("user", "Go."), ("assistant", "")),
        *(("tool", "a.py"), ("assistant", "done")),
    ]
    assert one.messages[2].tool_calls[0].arguments == '{"path": "."}'
    assert one.messages[3].tool_call_id == "t1"
    assert [tool.name for tool in one.tools or ()] == ["ls"]
    assert [call.at for call in one.calls] == [2, 4]


def test_an_event_for_each_message_and_one_for_all(tmp_path: Path) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("gen_ai.user.message", {"content": "Go."}),
        ("gen_ai.assistant.message", {"tool_calls": json.dumps([call])}),
        ("gen_ai.tool.message", {"content": "a.py", "id": "t1"}),
        ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "done"}}),
    ]
    one_each = span(1)
    one_each["events"] = [{"name": name, "attributes": pairs(held)} for name, held in events]
    (first,) = read(write_lines(tmp_path / "x.json", [export(one_each)]))
    messages = {
        "gen_ai.input.messages": json.dumps(SECOND),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part("done")]}]),
    }
    whole = span(1)
    whole["events"] = [
        {"name": "gen_ai.client.inference.operation.details", "attributes": pairs(messages)}
    ]
    (second,) = read(write_lines(tmp_path / "y.json", [export(whole)]))
    expected = [("user", "Go."), ("assistant", ""), ("tool", "a.py"), ("assistant", "done")]
    assert _said(first) == _said(second) == expected
    assert first.messages[1].tool_calls[0].name == "ls"
    assert first.messages[2].tool_call_id == second.messages[2].tool_call_id == "t1"


def _said(recording: Recording) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in recording.messages]


def test_calls_without_content_count_with_their_usage(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.json", [export(span(1), span(2)), export(span(3))])
    (one,) = read(path)
    assert one.usage == Usage(300, 21, 180)
    assert one.skipped["messages of calls whose content was not recorded"] == 3


def test_old_names(tmp_path: Path) -> None:
    old = {
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.prompt_tokens": 50,
        "gen_ai.usage.completion_tokens": 5,
    }
    one_span = {"traceId": "t", "startTimeUnixNano": "1", "attributes": pairs(old)}
    (one,) = read(write_lines(tmp_path / "x.json", [export(one_span)]))
    assert (one.model, one.usage) == ("openai/gpt-4o", Usage(50, 5))


def test_protobuf(tmp_path: Path) -> None:
    formats = pytest.importorskip("google.protobuf.json_format")
    traces = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    message = formats.ParseDict(export(*spans(as_text=False)), traces.TracesData())
    path = tmp_path / "x.pb"
    path.write_bytes(message.SerializeToString())
    (one,) = read(path)
    assert [call.at for call in one.calls] == [2, 4]


def test_binary_that_looks_like_protobuf_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\x0a\xff\x00\x01" * 50)
    with pytest.raises(UsageError, match="is binary") as told:
        read(path)
    assert "\n" not in str(told.value)
