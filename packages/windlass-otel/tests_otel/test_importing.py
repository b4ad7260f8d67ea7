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


# ---- other conventions ------------------------------------------------------------------------


def other(number: int, told: dict[str, Any], parent: int | None = None) -> dict[str, Any]:
    """A span with these attributes alone; its parent is another one's number."""
    attributes = pairs(told)
    above = {} if parent is None else {"parentSpanId": f"a{parent}"}
    start = str(1_760_000_000_000_000_000 + number)
    ids = {"traceId": "t-1", "spanId": f"a{number}", "startTimeUnixNano": start}
    return {**ids, **above, "attributes": attributes}


LLM = {"openinference.span.kind": "LLM", "llm.model_name": "claude-sonnet-4-5"}


def test_openinference(tmp_path: Path) -> None:
    tool = {"name": "ls", "description": "List.", "input_schema": {"type": "object"}}
    asked = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Go.",
        "llm.tools.0.tool.json_schema": json.dumps(tool),
        "session.id": "s-1",
    }
    call = "message.tool_calls.0.tool_call"
    answer = {f"{call}.id": "t1", f"{call}.function.name": "ls"} | {
        f"{call}.function.arguments": '{"path": "."}'
    }
    counts = {"prompt": 10_000, "completion": 100, "prompt_details.cache_read": 8_000}
    counts |= {"prompt_details.cache_write": 1_000}
    usage = {f"llm.token_count.{key}": one for key, one in counts.items()}
    said = "llm.output_messages.0.message"
    first = {f"{said}.role": "assistant"} | {
        f"llm.output_messages.0.{key}": one for key, one in answer.items()
    }
    second: dict[str, Any] = {
        **{f"llm.input_messages.2.{key}": one for key, one in answer.items()},
        "llm.input_messages.2.message.role": "assistant",
        "llm.input_messages.3.message.role": "tool",
        "llm.input_messages.3.message.tool_call_id": "t1",
        "llm.input_messages.3.message.content": "a.py",
        f"{said}.role": "assistant",
        f"{said}.content": "done",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 1,
    }
    listed = [
        other(1, {"openinference.span.kind": "CHAIN", "llm.token_count.prompt": 10_010}),
        other(2, {**LLM, **asked, **usage, **first}, 1),
        other(3, {**LLM, **asked, **second}),
    ]
    path = write_lines(tmp_path / "x.json", [export(*listed)])
    (one,) = read(path)
    assert (one.name, one.model) == ("s-1", "anthropic/claude-sonnet-4-5")
    assert _said(one) == [
        *(("system", "Be."), ("user", "Go."), ("assistant", "")),
        *(("tool", "a.py"), ("assistant", "done")),
    ]
    assert one.messages[2].tool_calls[0].arguments == '{"path": "."}'
    assert one.messages[3].tool_call_id == "t1"
    assert [tool.parameters for tool in one.tools or ()] == [{"type": "object"}]
    assert [call.usage for call in one.calls] == [*(Usage(10_000, 100, 8_000, 1_000), Usage(10, 1))]
    # 3, 0.3, 3.75 and 15 dollars a million
    dollars = (1_000 * 3 + 8_000 * 0.3 + 1_000 * 3.75 + 100 * 15) / 1e6 + (10 * 3 + 15) / 1e6
    assert one.dollars == pytest.approx(dollars)


def test_what_was_cached_may_be_told_besides(tmp_path: Path) -> None:
    told = {"llm.token_count.prompt": 10, "llm.token_count.prompt_details.cache_read": 8_000}
    one_span = other(1, {**LLM, **told})
    out = {"key": "llm.token_count.completion", "value": {"doubleValue": 7.0}}
    one_span["attributes"].append(out)
    (one,) = read(write_lines(tmp_path / "x.json", [export(one_span)]))
    assert one.usage == Usage(8_010, 7, 8_000)


AI = {"ai.model.id": "gpt-5", "ai.model.provider": "openai.responses"}


def ai_call(number: int, parent: int, prompt: list[Any], **told: Any) -> dict[str, Any]:
    """A step of the AI SDK; it has names of OpenTelemetry's conventions, too."""
    tool = {"type": "function", "name": "ls", "inputSchema": {"type": "object"}}
    attributes = {
        **AI,
        "ai.operationId": "ai.streamText.doStream",
        "ai.prompt.tools": [json.dumps(tool)],
        "ai.prompt.messages": json.dumps(prompt),
        "gen_ai.system": "openai.responses",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.usage.input_tokens": 1_000,
        "gen_ai.usage.output_tokens": 50,
        "ai.usage.inputTokens": 1_000,
        "ai.usage.outputTokens": 50,
        "ai.usage.cachedInputTokens": 600,
    }
    return other(number, {**attributes, **told}, parent)


def test_the_ai_sdk(tmp_path: Path) -> None:
    go: list[Any] = [
        {"role": "system", "content": "Be."},
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
    ]
    call = {"toolCallId": "t1", "toolName": "ls", "input": {"path": "."}}
    output = {"type": "error-text", "value": "no such folder"}
    after = [
        *go,
        {"role": "assistant", "content": [{"type": "tool-call", **call}]},
        {"role": "tool", "content": [{"type": "tool-result", **call, "output": output}]},
    ]
    sums = {"ai.usage.inputTokens": 2_000, "ai.usage.outputTokens": 100}
    listed = [
        other(1, {**AI, **sums, "ai.operationId": "ai.streamText", "ai.response.text": "done"}),
        ai_call(2, 1, go, **{"ai.response.toolCalls": json.dumps([call])}),
        other(3, {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ls"}, 2),
        ai_call(4, 1, after, **{"ai.response.text": "done"}),
        # a tool that asks a model, and a provider's own span of the same call
        ai_call(5, 3, [{"role": "user", "content": "In the tool."}]),
        span(6) | {"spanId": "a6", "parentSpanId": "a5"},
    ]
    path = write_lines(tmp_path / "x.json", [export(*listed[::-1])])
    first, *others = read(path)
    assert _said(first) == [
        *(("system", "Be."), ("user", "Go."), ("assistant", "")),
        *(("tool", "no such folder"), ("assistant", "done")),
    ]
    assert first.messages[2].tool_calls[0].name == "ls"
    assert first.messages[3].failed
    assert [tool.name for tool in first.tools or ()] == ["ls"]
    assert (first.model, first.usage) == ("openai/gpt-5", Usage(2_000, 100, 1_200))
    assert [one.usage.tokens_in for one in others] == [100]
    assert first.skipped["spans around a call that they tell again"] == 1


def test_the_ai_sdk_keeps_a_providers_own_usage(tmp_path: Path) -> None:
    own: dict[str, Any] = {"input_tokens": 10, "cache_read_input_tokens": 8_000, "output_tokens": 7}
    own |= {"cache_creation_input_tokens": 100, "service_tier": "batch"}
    told = {"ai.response.providerMetadata": json.dumps({"anthropic": {"usage": own}})}
    (one,) = read(write_lines(tmp_path / "x.json", [export(ai_call(1, 0, [], **told))]))
    assert one.usage == Usage(8_110, 7, 8_000, 100, tier="batch")


def test_spans_as_the_sdk_for_python_writes_them(tmp_path: Path) -> None:
    told = {"llm.token_count.prompt": 10, "llm.token_count.completion": 1}
    asked = {"llm.input_messages.0.message.content": "Go."}
    listed: list[dict[str, Any]] = [
        {
            "name": "ChatCompletion",
            "context": {"trace_id": "0xt", "span_id": f"0x{number}", "trace_state": "[]"},
            "parent_id": "0x2" if number == 1 else None,
            "start_time": f"2026-10-02T09:00:0{number}.000000Z",
            "attributes": {**LLM, **told, **asked},
            "events": [],
        }
        for number in (1, 2, 3)
    ]
    first, second = read(write_lines(tmp_path / "spans.jsonl", listed))
    assert (first.started, second.started) == (1_790_931_601, 1_790_931_603)
    assert [one.usage for one in (first, second)] == [Usage(10, 1)] * 2
    assert _said(first) == [("user", "Go.")]
