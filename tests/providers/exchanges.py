"""Answers of the three APIs in the form their documents give them, and what each of them says.

`TEXT`, `CALL` and the usage are the same in all three, so that one test reads them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.providers.server import Answer, streamed, whole

TEXT = "Prices rose 3 % in März."
PIECES = ("Prices rose", " 3 %", " in März.")
CALL = ("read_file", {"path": "notes.txt"})
SENT, CACHED, WRITTEN, SAID = 2_000, 1_500, 300, 12

WIRES = ("openai", "anthropic", "gemini")
MODELS = {
    "openai": "gpt-4o",
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-2.5-flash",
}


def event(value: Any, name: str = "") -> bytes:
    told = f"event: {name}\n" if name else ""
    return f"{told}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


@dataclass(frozen=True)
class Exchange:
    """The answers of one API.

    `lie` reports more cached tokens than were sent (Anthropic's form has no words for
    that); `written` are the tokens it reports as written to its cache.
    """

    plain: Answer
    streamed: Answer
    call: Answer
    call_streamed: Answer
    too_long: Answer
    overloaded_inside: Answer
    lie: Answer | None = None
    written: int = 0


def _error(status: int, value: Any, **headers: str) -> Answer:
    return whole(value, status, **headers)


# ---- OpenAI: platform.openai.com/docs/api-reference/chat ------------------------------


def openai_usage(cached: int = CACHED) -> dict[str, Any]:
    return {
        "prompt_tokens": SENT,
        "completion_tokens": SAID,
        "total_tokens": SENT + SAID,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def openai_whole(message: Mapping[str, Any], reason: str, cached: int = CACHED) -> Answer:
    return whole(
        {
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion",
            "created": 1_741_569_952,
            "model": "gpt-4o-2024-08-06",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "refusal": None, "annotations": [], **message},
                    "logprobs": None,
                    "finish_reason": reason,
                }
            ],
            "usage": openai_usage(cached),
            "service_tier": "default",
        }
    )


def openai_chunk(choices: list[Any], usage: Any = None) -> bytes:
    return event(
        {
            "id": "chatcmpl-123",
            "object": "chat.completion.chunk",
            "created": 1_694_268_190,
            "model": "gpt-4o-2024-08-06",
            "system_fingerprint": "fp_44709d6fcb",
            "choices": choices,
            "usage": usage,
        }
    )


def openai_delta(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    return openai_chunk(
        [{"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": reason}]
    )


def openai_stream(deltas: Iterable[Mapping[str, Any]], reason: str) -> list[bytes]:
    return [
        openai_delta({"role": "assistant", "content": "", "refusal": None}),
        *map(openai_delta, deltas),
        openai_delta({}, reason),
        openai_chunk([], openai_usage()),
        b"data: [DONE]\n\n",
    ]


def _openai() -> Exchange:
    name, arguments = CALL
    text = json.dumps(arguments)
    call = {
        "id": "call_abc123",
        "type": "function",
        "function": {"name": name, "arguments": text},
    }
    begun = {**call, "index": 0, "function": {"name": name, "arguments": ""}}
    parts = [
        {"tool_calls": [begun]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
          for part in (text[:7], text[7:])),
    ]  # fmt: skip
    error = {
        "error": {
            "message": "This model's maximum context length is 128000 tokens. However, your"
            " messages resulted in 130001 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
    broken = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}
    return Exchange(
        plain=openai_whole({"content": TEXT}, "stop"),
        streamed=streamed(openai_stream([{"content": piece} for piece in PIECES], "stop")),
        call=openai_whole({"content": None, "tool_calls": [call]}, "tool_calls"),
        call_streamed=streamed(openai_stream(parts, "tool_calls")),
        too_long=_error(400, error),
        overloaded_inside=streamed([event(broken)]),
        lie=openai_whole({"content": TEXT}, "stop", cached=SENT + 1),
    )


# ---- Anthropic: platform.claude.com/docs/en/api/messages, .../streaming ----------------


def anthropic_usage(cached: int = CACHED) -> dict[str, Any]:
    return {
        "input_tokens": SENT - CACHED - WRITTEN,
        "cache_creation_input_tokens": WRITTEN,
        "cache_read_input_tokens": cached,
        "output_tokens": SAID,
        "service_tier": "standard",
    }


def anthropic_message(content: list[Any], reason: str | None, usage: Any = None) -> dict[str, Any]:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage or anthropic_usage(),
    }


def anthropic_event(kind: str, **more: Any) -> bytes:
    return event({"type": kind, **more}, kind)


def anthropic_stream(block: Any, deltas: Iterable[Any], reason: str) -> list[bytes]:
    begun = anthropic_message([], None, {**anthropic_usage(), "output_tokens": 1})
    return [
        anthropic_event("message_start", message=begun),
        anthropic_event("content_block_start", index=0, content_block=block),
        anthropic_event("ping"),
        *(anthropic_event("content_block_delta", index=0, delta=delta) for delta in deltas),
        anthropic_event("content_block_stop", index=0),
        anthropic_event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage={"output_tokens": SAID},
        ),
        anthropic_event("message_stop"),
    ]


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }


def _anthropic() -> Exchange:
    name, arguments = CALL
    text = json.dumps(arguments)
    use = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": name}
    overloaded = anthropic_error("overloaded_error", "Overloaded")
    return Exchange(
        plain=whole(anthropic_message([{"type": "text", "text": TEXT}], "end_turn")),
        streamed=streamed(
            anthropic_stream(
                {"type": "text", "text": ""},
                [{"type": "text_delta", "text": piece} for piece in PIECES],
                "end_turn",
            )
        ),
        call=whole(anthropic_message([{**use, "input": arguments}], "tool_use")),
        call_streamed=streamed(
            anthropic_stream(
                {**use, "input": {}},
                [
                    {"type": "input_json_delta", "partial_json": part}
                    for part in ("", text[:7], text[7:])
                ],
                "tool_use",
            )
        ),
        too_long=_error(
            400,
            anthropic_error(
                "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
            ),
        ),
        overloaded_inside=streamed([event(overloaded, "error")]),
        written=WRITTEN,
    )


# ---- Gemini: ai.google.dev/api/generate-content ----------------------------------------


def gemini_answer(parts: list[Any], reason: str | None, cached: int = CACHED) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": SENT,
            "candidatesTokenCount": SAID,
            "totalTokenCount": SENT + SAID,
            "cachedContentTokenCount": cached,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": SENT}],
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "n0NCaIvqLPLN1MkPmMWL-Ag",
    }


def _gemini() -> Exchange:
    name, arguments = CALL
    call = gemini_answer([{"functionCall": {"name": name, "args": arguments}}], "STOP")
    last = len(PIECES) - 1
    too_long = {
        "error": {
            "code": 400,
            "message": "The input token count (1200000) exceeds the maximum number of tokens"
            " allowed (1048576).",
            "status": "INVALID_ARGUMENT",
        }
    }
    overloaded = {
        "error": {
            "code": 503,
            "message": "The model is overloaded. Please try again later.",
            "status": "UNAVAILABLE",
        }
    }
    return Exchange(
        plain=whole(gemini_answer([{"text": TEXT}], "STOP")),
        streamed=streamed(
            [
                event(gemini_answer([{"text": piece}], "STOP" if at == last else None))
                for at, piece in enumerate(PIECES)
            ]
        ),
        call=whole(call),
        call_streamed=streamed([event(call)]),
        too_long=_error(400, too_long),
        overloaded_inside=streamed([event(overloaded)]),
        lie=whole(gemini_answer([{"text": TEXT}], "STOP", cached=SENT + 1)),
    )


EXCHANGES = {"openai": _openai(), "anthropic": _anthropic(), "gemini": _gemini()}

RATE_LIMITED = {
    "openai": {
        "error": {
            "message": "Rate limit reached for gpt-4o in organization org-x on requests per min",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    },
    "anthropic": anthropic_error("rate_limit_error", "This request would exceed your rate limit"),
    "gemini": {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota",
            "status": "RESOURCE_EXHAUSTED",
        }
    },
}
