"""What tests of importing otel build their cases of; others use it, too."""

from __future__ import annotations

import json
from typing import Any


def value(given: Any) -> dict[str, Any]:
    match given:
        case int():
            return {"intValue": str(given)}
        case list():
            return {"arrayValue": {"values": [value(one) for one in given]}}
        case dict():
            return {"kvlistValue": {"values": pairs(given)}}
    return {"stringValue": given}


def pairs(given: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in given.items()]


def span(number: int, operation: str = "chat", **told: Any) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.response.id": f"{operation}-{number}",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 60,
        **told,
    }
    start = str(1_760_000_000_000_000_000 + number)
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"b7ad6b716920333{number}",
        "name": f"{operation} claude-sonnet-4-5",
        "startTimeUnixNano": start,
        "attributes": pairs(attributes),
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": [*spans]}]}]}


def part(words: str) -> dict[str, Any]:
    return {"type": "text", "content": words}


ASKED = {"type": "tool_call", "id": "t1", "name": "ls", "arguments": {"path": "."}}


GOT = {"type": "tool_call_response", "id": "t1", "response": "a.py"}


FIRST = [{"role": "user", "parts": [part("Go.")]}]


SECOND = [
    *FIRST,
    {"role": "assistant", "parts": [ASKED]},
    {"role": "tool", "parts": [GOT]},
]


def spans(*, as_text: bool) -> list[dict[str, Any]]:
    def told(messages: Any) -> Any:
        return json.dumps(messages) if as_text else messages

    system = told([part("Be.")])
    answers = [[{"role": "assistant", "parts": [one]}] for one in (ASKED, part("done"))]
    return [
        span(
            number,
            **{
                "gen_ai.system_instructions": system,
                "gen_ai.input.messages": told(messages),
                "gen_ai.output.messages": told(answer),
            },
        )
        for number, (messages, answer) in enumerate(zip([FIRST, SECOND], answers, strict=True))
    ]
