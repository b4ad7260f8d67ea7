"""Answers: what the SDKs' response models write is read, whole and in pieces."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_values
from tests.support.wire_formats import FORMATS, LOOK, MODELS, ask, every_format, problems, spec
from tests.wire.answers import Events, anthropic_answers, gemini_answers, openai_answers
from windlass.messages import Message, ToolCall, assistant, from_dict, to_dict, tool, user
from windlass.wire.base import Refused, Reply, Request, Usage

ANSWERS = {
    "openai": openai_answers(),
    "anthropic": anthropic_answers(),
    "gemini": gemini_answers(),
}


def asked(wire: str) -> Request:
    return ask(user("Go"), model=MODELS[wire][0], tools=(LOOK,))


def streamed(wire: str, events: Events) -> tuple[Reply, str]:
    reader = FORMATS[wire].reader(asked(wire))
    told = "".join(reader.feed(event) for event in events)
    return reader.reply(), told


@every_format
@given(st.data())
def test_a_stream_comes_together_to_the_whole_answer(wire: str, data: st.DataObject) -> None:
    answer, events = data.draw(ANSWERS[wire])
    before = copy.deepcopy((answer, events))
    whole = FORMATS[wire].read(answer, asked(wire))
    reply, told = streamed(wire, events)
    assert reply == whole
    assert told == whole.message.text
    assert (answer, events) == before
    written = 0 if wire == "gemini" else 30
    long = 20 if wire == "anthropic" else 0
    assert whole.usage == Usage(
        100, 7, tokens_cached=60, tokens_written=written, tokens_written_long=long
    )
    assert whole.finish in ("length", "tool_calls" if whole.message.tool_calls else "stop")
    assert whole.model.startswith(("gpt-5.6-1", "claude-opus-4-8-x", "gemini-3-pro-1"))


def test_a_router_tells_what_was_written_in_anthropics_word() -> None:
    used = {"prompt_tokens": 90, "completion_tokens": 7, "cache_creation_input_tokens": 64}
    answer = {"choices": [{"message": {"content": "x"}}], "usage": used}
    usage = FORMATS["openai"].read(answer, asked("openai")).usage
    assert usage == Usage(90, 7, tokens_written=64)


@pytest.mark.parametrize(
    ("told", "written", "long"),
    [
        ({"cache_creation_input_tokens": 30}, 30, 0),
        ({"cache_creation_input_tokens": 30, "cache_creation": None}, 30, 0),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 4}}, 4, 0),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}},
            9,
            5,
        ),
    ],
)
def test_anthropic_tells_long_writes_from_short_ones(
    told: dict[str, Any], written: int, long: int
) -> None:
    answer = {
        "content": [{"type": "text", "text": "x"}],
        "usage": {"input_tokens": 1, "output_tokens": 2, **told},
    }
    usage = FORMATS["anthropic"].read(answer, asked("anthropic")).usage
    assert usage == Usage(1 + written, 2, 0, written, long)


def sent_back(wire: str, reply: Message, model: str) -> dict[str, Any]:
    results = [tool(call, "Done.") for call in reply.tool_calls]
    called = tuple(spec(name) for name in dict.fromkeys(call.name for call in reply.tool_calls))
    request = ask(user("Go"), reply, *results, user("On"), model=model, tools=called)
    body = FORMATS[wire].body(request)
    assert problems(wire, body, model) == []
    return body


@given(anthropic_answers())
def test_anthropic_blocks_go_back_as_they_came(drawn: tuple[dict[str, Any], Events]) -> None:
    answer, _ = drawn
    reply = FORMATS["anthropic"].read(answer, asked("anthropic")).message
    body = sent_back("anthropic", reply, MODELS["anthropic"][0])
    kept = [
        {key: value for key, value in block.items() if key != "caller"}
        for block in answer["content"]
        if block["type"] != "text" or block["text"].strip()
    ]
    back = [block for turn in body["messages"] for block in turn["content"]]
    assert [one for one in back if one not in kept and one["type"] == "thinking"] == []
    if kept:
        assert body["messages"][1]["content"] == kept


@given(gemini_answers())
def test_gemini_parts_go_back_with_their_signatures(
    drawn: tuple[dict[str, Any], Events],
) -> None:
    answer, _ = drawn
    reply = FORMATS["gemini"].read(answer, asked("gemini")).message
    body = sent_back("gemini", reply, MODELS["gemini"][0])
    parts = answer["candidates"][0]["content"]["parts"]
    back = body["contents"][1]["parts"]
    unsigned = "skip_thought_signature_validator"
    for part in back:
        if part.get("thoughtSignature") == unsigned:
            del part["thoughtSignature"]
        if "functionCall" in part:
            call = part["functionCall"]
            part["functionCall"] = {"args": call["args"], "name": call["name"]}
    for part in parts:
        if "functionCall" in part:
            call = part["functionCall"]
            part["functionCall"] = {"args": call.get("args", {}), "name": call["name"]}
    assert back == [part for part in parts if part != {"text": ""}]


@given(openai_answers())
def test_openai_keys_of_vendors_go_back(drawn: tuple[dict[str, Any], Events]) -> None:
    answer, _ = drawn
    reply = FORMATS["openai"].read(answer, asked("openai")).message
    body = sent_back("openai", reply, MODELS["openai"][0])
    chat = answer["choices"][0]["message"]
    back = body["messages"][1]
    assert back.get("reasoning_content") == chat.get("reasoning_content")
    assert (back["content"] or "") == (chat["content"] or "")
    for call, given_call in zip(reply.tool_calls, chat["tool_calls"] or [], strict=True):
        assert call.arguments == given_call["function"]["arguments"]


@every_format
def test_signed_parts_survive_the_store(wire: str) -> None:
    said: dict[str, Any] = {
        "openai": {"choices": [{"message": {"content": "x", "reasoning_content": 'é"\ud800'}}]},
        "anthropic": {"content": [{"type": "thinking", "thinking": "é", "signature": "s/+="}]},
        "gemini": {
            "candidates": [{"content": {"parts": [{"text": "é", "thoughtSignature": "s/+="}]}}]
        },
    }
    used: dict[str, Any] = {
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "input_tokens": 1,
            "output_tokens": 1,
        },
        "usageMetadata": {"promptTokenCount": 1},
    }
    reply = FORMATS[wire].read({**said[wire], **used}, asked(wire)).message
    stored = from_dict(json.loads(json.dumps(to_dict(reply))))
    assert stored == reply
    told = json.dumps(sent_back(wire, stored, MODELS[wire][0]))
    assert json.dumps('é"\ud800' if wire == "openai" else "s/+=") in told


@every_format
@given(st.data())
def test_a_cut_stream_says_what_is_missing(wire: str, data: st.DataObject) -> None:
    _, events = data.draw(ANSWERS[wire])
    # The usage of Gemini comes with every chunk, its end with the last.
    kept = events[: data.draw(st.integers(0, len(events) - 1))]
    reader = FORMATS[wire].reader(asked(wire))
    for event in kept:
        reader.feed(event)
    with pytest.raises(ValueError, match="the stream ended before"):
        reader.reply()


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    held = value.items() if isinstance(value, dict) else enumerate(value)
    found = [way] if way else []
    for key, one in held:
        here = (*way, key)
        found += _places(one, here) if isinstance(one, dict | list) else [here]
    return found


@st.composite
def broken(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one place in it replaced or taken away."""
    copied = copy.deepcopy(value)
    way = draw(st.sampled_from(_places(copied)))
    at = copied
    for key in way[:-1]:
        at = at[key]
    if draw(st.booleans()):
        del at[way[-1]]
    else:
        at[way[-1]] = draw(json_values() | st.none())
    return copied


@every_format
@given(st.data())
def test_a_malformed_answer_is_a_value_error(wire: str, data: st.DataObject) -> None:
    answer, events = data.draw(ANSWERS[wire])
    # Any other error than a ValueError fails the test; a break may also do no harm.
    with suppress(ValueError):
        FORMATS[wire].read(data.draw(broken(answer)), asked(wire))
    with suppress(ValueError):
        streamed(wire, data.draw(broken(events)))


@every_format
@pytest.mark.parametrize("key", ["content", "usage"])
def test_what_is_missing_is_named(wire: str, key: str) -> None:
    whole: dict[str, dict[str, Any]] = {
        "openai": {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 1}},
        "anthropic": {"content": [], "usage": {"input_tokens": 1}},
        "gemini": {"candidates": [{}], "usageMetadata": {}},
    }
    answer = whole[wire]
    told = {
        ("openai", "content"): "choices",
        ("openai", "usage"): "usage.completion_tokens",
        ("anthropic", "content"): "content",
        ("anthropic", "usage"): "usage.output_tokens",
        ("gemini", "content"): "candidates",
        ("gemini", "usage"): "usageMetadata.promptTokenCount",
    }[wire, key]
    if key == "content":
        del answer[told]
    with pytest.raises(ValueError, match=f"the answer has no {told}"):
        FORMATS[wire].read(answer, asked(wire))


def test_errors_are_told_in_the_servers_words() -> None:
    said: dict[str, dict[str, Any]] = {
        "openai": {"error": {"message": "Slow.", "type": "server_error"}},
        "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Slow."}},
        "gemini": {"error": {"code": 503, "message": "Slow.", "status": "UNAVAILABLE"}},
    }
    kinds = {"openai": "server_error", "anthropic": "overloaded_error", "gemini": "UNAVAILABLE"}
    for wire, event in said.items():
        with pytest.raises(Refused, match=r"Slow\.") as whole:
            FORMATS[wire].read(event, asked(wire))
        with pytest.raises(Refused) as part:
            FORMATS[wire].reader(asked(wire)).feed(event)
        assert whole.value.kind == part.value.kind == kinds[wire]


def test_a_prompt_that_is_blocked_is_held_back() -> None:
    """Whole and streamed, also where no usage is told."""
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    reader = FORMATS["gemini"].reader(asked("gemini"))
    reader.feed(blocked)
    for reply in (FORMATS["gemini"].read(blocked, asked("gemini")), reader.reply()):
        assert (reply.message.parts, reply.finish, reply.usage.tokens_in) == ((), "filter", 0)


OPENAI_USED = {"prompt_tokens": 5, "completion_tokens": 1}
GEMINI_USED = {"promptTokenCount": 5}
ANTHROPIC_USED = {"input_tokens": 5, "output_tokens": 1}
SAID_NO = {"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"}
HELD_BACK = {"message": {"content": "Half"}, "finish_reason": "content_filter"}


@pytest.mark.parametrize(
    ("wire", "answer", "finish"),
    [
        ("openai", {"choices": [SAID_NO], "usage": OPENAI_USED}, "refusal"),
        ("openai", {"choices": [HELD_BACK], "usage": OPENAI_USED}, "filter"),
        (
            "anthropic",
            {"content": [], "stop_reason": "refusal", "usage": ANTHROPIC_USED},
            "refusal",
        ),
        (
            "gemini",
            {"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": GEMINI_USED},
            "filter",
        ),
    ],
)
def test_refusals_and_filters_are_told_apart(
    wire: str, answer: dict[str, Any], finish: str
) -> None:
    assert FORMATS[wire].read(answer, asked(wire)).finish == finish


@every_format
def test_names_are_read_back(wire: str) -> None:
    outside = spec("server.tool")
    request = ask(user("Go"), model=MODELS[wire][0], tools=(outside,))
    answers: dict[str, dict[str, Any]] = {
        "openai": {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "a", "function": {"name": "server_tool", "arguments": "{}"}}
                        ]
                    }
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        },
        "anthropic": {
            "content": [{"type": "tool_use", "id": "a", "name": "server_tool", "input": {}}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "gemini": {
            "candidates": [
                {"content": {"parts": [{"functionCall": {"id": "a", "name": "server_tool"}}]}}
            ],
            "usageMetadata": {"promptTokenCount": 1},
        },
    }
    reply = FORMATS[wire].read(answers[wire], request)
    assert reply.message == assistant(calls=[ToolCall("a", "server.tool", "{}")])
    assert reply.finish == "tool_calls"


def test_gemini_calls_get_ids_not_used_before() -> None:
    answer = {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "look"}}] * 2}}],
        "usageMetadata": {"promptTokenCount": 1},
    }
    seen: list[str] = []
    messages: list[Message] = [user("Go")]
    for _ in range(3):
        request = ask(*messages, model="gemini-2.5-flash", tools=(LOOK,))
        reply = FORMATS["gemini"].read(answer, request).message
        seen += [call.id for call in reply.tool_calls]
        # A window that leaves old calls out must not lead to an id used before.
        messages = [user("Go"), reply, *(tool(call, "x") for call in reply.tool_calls)]
    assert seen == [f"call_{number}" for number in range(6)]


def test_reasoning_details_in_pieces_are_joined() -> None:
    reader = FORMATS["openai"].reader(asked("openai"))
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "a"},
        {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "c"},
    ]
    for piece in pieces:
        reader.feed({"choices": [{"index": 0, "delta": {"reasoning_details": [piece]}}]})
    reader.feed({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})
    reader.feed({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    body = sent_back("openai", reader.reply().message, MODELS["openai"][0])
    assert body["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "c"},
    ]


def test_a_full_window_is_no_output_limit() -> None:
    for reason, finish in (("max_tokens", "length"), ("model_context_window_exceeded", "window")):
        usage = {"input_tokens": 1, "output_tokens": 1}
        answer = {"content": [{"type": "text", "text": "Half"}], "stop_reason": reason}
        reply = FORMATS["anthropic"].read(
            {**answer, "model": "m", "usage": usage}, asked("anthropic")
        )
        assert reply.finish == finish
