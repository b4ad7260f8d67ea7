"""What tests of engine bound thinking build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.providers.thinking_server import (
    Say,
    ThinkingServer,
)

MODEL = "anthropic/claude-opus-5-5"


def look(number: int = 1) -> str:
    """Look at something."""
    return "\n".join(
        f"record {number}-{at}: value {at * number} of item_{at:03}" for at in range(400)
    )


def log(number: int = 1) -> str:
    """Read a log."""
    lines = [f"12:00:{at % 60:02} INFO worker {number} did {at}" for at in range(300)]
    return "\n".join([*lines, "ERROR disk full at /var/data", *lines])


def replies() -> Iterator[Say]:
    """Two calls a phase, then its answer, for ever."""
    number = 0
    while True:
        number += 1
        yield Say("", [("look", {"number": number})], ["a", "b"])
        yield Say(f"Now the log {number}.", [("log", {"number": number}), ("look", {"number": 1})])
        yield Say(f"Answer {number}.", redacted=number % 2 == 0)


def thinking_of(body: dict[str, Any]) -> list[str]:
    return [
        block.get("signature") or block["data"]
        for message in body["messages"]
        for block in message["content"]
        if block["type"] in ("thinking", "redacted_thinking")
    ]


def signatures(server: ThinkingServer) -> list[str]:
    """The thinking that was sent back, or could have been."""
    came = [block for _, content in server.answered[:-1] for block in content]
    signed = [one.get("signature") or one.get("data") for one in came]
    return [each for each in signed if each]
