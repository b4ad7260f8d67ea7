"""What tests of engine soundings build their cases of; others use it, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.engine.harness import Ran, phase
from windlass.messages import Text
from windlass.wire.base import Request

PICK = {"evaluator_instructions": "The best."}


def sounded(name: str = "a", factor: int = 3, **keys: Any) -> dict[str, Any]:
    """A phase of so many soundings, each with a text of its own behind its instructions."""
    mutate = [f"variation {number}" for number in range(1, factor)]
    soundings = {"factor": factor, "mutate": mutate, **keys.pop("soundings", PICK)}
    return phase(name, soundings=soundings, **keys)


def index_of(request: Request) -> int:
    """The sounding that asks, by the text behind its instructions."""
    parts = [part for message in request.messages for part in message.parts]
    texts = [part.text for part in parts if isinstance(part, Text)]
    return next((int(text[-1]) for text in texts if text.startswith("variation ")), 0)


def judges(request: Request) -> bool:
    """Whether it is the evaluator that is asked."""
    return "You judge" in request.messages[0].text


def picking(winner: Any, replies: Mapping[int, Any] | None = None) -> Callable[[Request], Any]:
    """A script: soundings say their index, or what `replies` has; the evaluator picks one."""

    def script(request: Request) -> Any:
        if judges(request):
            return winner if isinstance(winner, str) else json.dumps({"winner": winner})
        at = index_of(request)
        reply = (replies or {}).get(at, f"answer {at}")
        if isinstance(reply, Exception):
            raise reply
        return reply(request) if callable(reply) else reply

    return script


def judged(ran: Ran) -> list[Request]:
    return [request for request in ran.model.requests if judges(request)]
