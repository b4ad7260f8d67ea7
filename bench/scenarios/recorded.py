"""Sessions out of recordings: stretches of recorded runs, cut into ten phases of so many calls.

The cascade's input is the recorded task; the instructions of a phase are what the user says
there, or what the agent says it sets out to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.scenarios.sessions import Session
from bench.windows.recordings import Chat, Recording

from windlass.messages import Message, ToolCall, assistant
from windlass.text.tokens import FamilyCounter

PHASES: Final = 10
LEAST_TOKENS: Final = 30_000
"""Tokens of results: what is shorter fits the documented `max_tokens` as a whole."""
COUNTS_AS: Final = "gpt-4o"
MODEL: Final = "scripted/function"
GO_ON: Final = "Go on with the task."


@dataclass(frozen=True)
class Recorded(Session):
    """A session out of a recording: `results` are those of its calls, by name and arguments."""

    results: dict[tuple[str, str], list[str]]
    task: str


def sessions_in(
    recording: Recording, calls: int, phases: int = PHASES, least: int = LEAST_TOKENS
) -> list[Recorded]:
    """The stretches of a recording with the most to read, each a cascade of ten phases.

    No two share a call. None: it has no `phases` times `calls` calls, or their results have less
    than `least` tokens.
    """
    turns = list(_turns(recording.messages))
    count = phases * calls
    count_of = FamilyCounter(COUNTS_AS).text
    sizes = [sum(map(count_of, turn.results)) for turn in turns]
    # What the last call brought is in no request.
    brought = {at: sum(sizes[at : at + count - 1]) for at in range(len(turns) - count + 1)}
    starts: list[int] = []
    for start in sorted(brought, key=lambda at: (-brought[at], at)):
        apart = all(abs(start - other) >= count for other in starts)
        if apart and brought[start] >= least:
            starts.append(start)
    several = len(starts) > 1
    return [
        _session(recording, turns[start : start + count], calls, f"@{start}" if several else "")
        for start in sorted(starts)
    ]


def _session(recording: Recording, turns: Sequence[_Turn], calls: int, where: str) -> Recorded:
    """Turns of a recording as a cascade; so many calls a phase."""
    system, task = _told(recording.messages)
    made: list[dict[str, Any]] = []
    for number in range(len(turns) // calls):
        own = turns[number * calls : (number + 1) * calls]
        users = [text for turn in own for text in turn.said]
        asked = "\n\n".join(users) or own[0].message.text or GO_ON
        made.append(
            {
                "name": f"p{number + 1}",
                "instructions": "{{ input.task }}" if not number else _raw(asked),
                "tackle": ["manifest"],
                "rules": {"max_turns": calls},
            }
        )
    names = sorted({call.name for turn in turns for call in turn.message.tool_calls})
    for phase in made:
        phase["tackle"] = names
    results: dict[tuple[str, str], list[str]] = {}
    for turn in turns:
        for call, text in zip(turn.message.tool_calls, turn.results, strict=True):
            results.setdefault((call.name, call.arguments), []).append(text)
    cascade: dict[str, Any] = {"cascade_id": "recorded", "model": MODEL, "phases": made}
    if system:
        cascade["system"] = _raw(system)
    replies = [turn.message for turn in turns]
    name = recording.id + where
    return Recorded(name, name, cascade, (), replies, (), results, task)


@dataclass(frozen=True)
class _Turn:
    """One call: what users said before it, the reply, and the results of its calls in order."""

    said: tuple[str, ...]
    message: Message
    results: tuple[str, ...]


def _turns(messages: Sequence[Chat]) -> Iterator[_Turn]:
    """The calls of a recording that used tools; what was only said goes with the next of them."""
    said: list[str] = []
    spoken: list[str] = []
    first = True
    for at, chat in enumerate(messages):
        text = _text(chat)
        if chat["role"] == "user" and not first:
            said.append(text)
        if chat["role"] != "assistant":
            continue
        first = False
        asked = chat.get("tool_calls") or ()
        if not asked:
            spoken.append(text)
            continue
        calls = [
            ToolCall(
                f"c{at}_{number}",
                "".join(c if c.isalnum() or c == "_" else "_" for c in one["function"]["name"]),
                json.dumps(json.loads(one["function"]["arguments"] or "{}"), sort_keys=True),
            )
            for number, one in enumerate(asked)
        ]
        results = {
            one["tool_call_id"]: _text(one)
            for one in messages[at + 1 : at + 1 + len(asked)]
            if one["role"] == "tool"
        }
        words = "\n\n".join(one for one in (*spoken, text) if one)
        yield _Turn(
            tuple(said),
            assistant(words, calls=calls),
            tuple(results.get(one["id"], "") for one in asked),
        )
        said, spoken = [], []


def _told(messages: Sequence[Chat]) -> tuple[str, str]:
    """The system prompt and the task: what was said before the first reply."""
    head: list[Chat] = []
    for chat in messages:
        if chat["role"] == "assistant":
            break
        head.append(chat)
    system = [_text(chat) for chat in head if chat["role"] in ("system", "developer")]
    return "\n\n".join(system), "\n\n".join(_text(c) for c in head if c["role"] == "user") or GO_ON


def _text(chat: Chat) -> str:
    content = chat.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _raw(text: str) -> str:
    return "{% raw %}" + text + "{% endraw %}"
