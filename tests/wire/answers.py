"""Answers as the official SDKs' response models write them, and their streams in pieces."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

import anthropic.types as claude
from google.genai import types as gemini
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from tests.strategies import json_values, names, texts

Events = list[dict[str, Any]]

OPENAI_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
}
CLAUDE_USAGE = {
    "input_tokens": 10,
    "output_tokens": 7,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
}
GEMINI_USAGE = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "cachedContentTokenCount": 60,
    "totalTokenCount": 107,
}


@cache
def _objects() -> st.SearchStrategy[dict[str, Any]]:
    finite = json_values().filter(lambda value: "Infinity" not in json.dumps(value))
    return st.dictionaries(names(), finite, max_size=3)


@st.composite
def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    """`text` cut at any places, perhaps into nothing at all in between."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


# ---- OpenAI -------------------------------------------------------------------------


@st.composite
def openai_answers(draw: st.DrawFn) -> tuple[dict[str, Any], Events]:
    chat: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | texts(1))}
    if draw(st.booleans()):
        chat["reasoning_content"] = draw(texts(1))
    calls: Events = [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": draw(names()), "arguments": draw(texts())},
        }
        for index in range(draw(st.integers(0, 3)))
    ]
    if calls:
        chat["tool_calls"] = calls
    elif chat["content"] is None:
        chat["content"] = "."
    reason = draw(st.sampled_from(["length", "tool_calls" if calls else "stop"]))
    head = {"id": "x", "created": 1, "model": "gpt-5.6-1"}
    choice = {"index": 0, "finish_reason": reason, "message": chat}
    answer = ChatCompletion.model_validate(
        head | {"object": "chat.completion", "choices": [choice], "usage": OPENAI_USAGE}
    ).model_dump(mode="json")
    if not calls:
        answer["choices"][0]["message"]["tool_calls"] = None

    deltas: Events = [{"role": "assistant", "content": ""}]
    for key in ("content", "reasoning_content"):
        deltas += [{key: piece} for piece in draw(_pieces(chat.get(key) or ""))]
    for index, call in enumerate(calls):
        named = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [{"index": index, **named}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in draw(_pieces(call["function"]["arguments"]))
        ]
    choices: list[Events] = [[{"index": 0, "delta": delta}] for delta in deltas]
    choices += [[{"index": 0, "delta": {}, "finish_reason": reason}], []]
    chunks = [head | {"object": "chat.completion.chunk", "choices": one} for one in choices]
    chunks[-1]["usage"] = OPENAI_USAGE
    return answer, [
        ChatCompletionChunk.model_validate(one).model_dump(mode="json") for one in chunks
    ]


# ---- Anthropic ----------------------------------------------------------------------


@st.composite
def _block(draw: st.DrawFn, number: int) -> tuple[dict[str, Any], Events]:
    """A block, and its events without their index."""
    kind = draw(st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use"]))
    match kind:
        case "text":
            text = draw(texts())
            start = {"type": kind, "text": ""}
            pieces: Events = [
                {"type": "text_delta", "text": piece} for piece in draw(_pieces(text))
            ]
            return {"type": kind, "text": text}, [start, *pieces]
        case "thinking":
            block = {"type": kind, "thinking": draw(texts()), "signature": draw(names())}
            pieces = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in draw(_pieces(block["thinking"]))
            ]
            pieces.append({"type": "signature_delta", "signature": block["signature"]})
            return block, [{"type": kind, "thinking": "", "signature": ""}, *pieces]
        case "redacted_thinking":
            block = {"type": kind, "data": draw(names())}
            return block, [block]
        case _:
            given = draw(_objects())
            block = {"type": kind, "id": f"toolu_{number}", "name": draw(names())}
            written = (
                draw(st.sampled_from(["", json.dumps({})])) if not given else json.dumps(given)
            )
            pieces = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in draw(_pieces(written))
            ]
            return {**block, "input": given}, [{**block, "input": {}}, *pieces]


@st.composite
def anthropic_answers(draw: st.DrawFn) -> tuple[dict[str, Any], Events]:
    drawn = [draw(_block(number)) for number in range(draw(st.integers(1, 4)))]
    calls = any(block["type"] == "tool_use" for block, _ in drawn)
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8-x",
        "stop_sequence": None,
    }
    reason = draw(st.sampled_from(["max_tokens", "tool_use" if calls else "end_turn"]))
    answer = claude.Message.model_validate(
        {
            **head,
            "content": [block for block, _ in drawn],
            "stop_reason": reason,
            "usage": CLAUDE_USAGE,
        }
    ).model_dump(mode="json", exclude_none=True)
    started: dict[str, Any] = {
        **head,
        "content": [],
        "stop_reason": None,
        "usage": CLAUDE_USAGE | {"output_tokens": 1},
    }
    events: Events = [{"type": "message_start", "message": started}]
    for index, (_, (start, *deltas)) in enumerate(drawn):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    known: TypeAdapter[Any] = TypeAdapter(claude.RawMessageStreamEvent)
    told = [known.validate_python(one).model_dump(mode="json") for one in events]
    told.insert(1, {"type": "ping"})
    return answer, told


# ---- Gemini -------------------------------------------------------------------------


@st.composite
def gemini_answers(draw: st.DrawFn) -> tuple[dict[str, Any], Events]:
    parts: Events = []
    stream: Events = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["text", "thought", "call", "signature"]))
        part: dict[str, Any]
        signed = {"thoughtSignature": base64.urlsafe_b64encode(draw(names()).encode()).decode()}
        match kind:
            case "text" | "thought":
                text = draw(texts(1))
                keys: dict[str, Any] = {"thought": True} if kind == "thought" else {}
                cut = [piece for piece in draw(_pieces(text)) if piece]
                stream += [{"text": piece, **keys} for piece in cut]
                last = parts[-1] if parts else {}
                if last.keys() == {"text", *keys}:
                    parts[-1] = {**last, "text": last["text"] + text}
                else:
                    parts.append({"text": text, **keys})
                continue
            case "call":
                call: dict[str, Any] = {"name": draw(names()), "args": draw(_objects())}
                if draw(st.booleans()):
                    call["id"] = f"fc-{len(parts)}"
                part = {"functionCall": call, **(signed if draw(st.booleans()) else {})}
            case _:
                part = {"text": draw(texts()), **signed}
        parts.append(part)
        stream.append(part)
    reason = draw(st.sampled_from(["STOP", "MAX_TOKENS"]))

    def answered(held: Events, **more: Any) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": held}, "index": 0, **more}
        given = gemini.GenerateContentResponse.model_validate(
            {
                "candidates": [candidate],
                "usageMetadata": GEMINI_USAGE,
                "modelVersion": "gemini-3-pro-1",
            }
        )
        return given.model_dump(mode="json", by_alias=True, exclude_none=True)

    chunks = [answered([part]) for part in stream]
    return answered(parts, finishReason=reason), [*chunks, answered([], finishReason=reason)]
