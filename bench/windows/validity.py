"""Whether a window keeps the sequence rules of OpenAI, Anthropic and Gemini.

The chat form is checked here, directly; for each provider the window is written in
its form by `windlass.wire` and judged by validators that share nothing with it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules

from windlass.errors import WindlassError
from windlass.messages import Message, Picture, ToolSpec
from windlass.replays.numbered import NumberedMessages
from windlass.text.pictures import picture
from windlass.wire import anthropic, gemini, openai_chat
from windlass.wire.base import Request
from windlass.wire.openai import from_openai

_DOT: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
_MODELS: Final = {
    "openai": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}


def chat_problems(chats: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where a list of chat messages breaks OpenAI's rule for calls and their results.

    Every call is answered by one tool message directly behind the assistant message
    that made it; a tool message answers such a call; nothing stands between.
    """
    found: list[str] = []
    waiting: list[str] = []
    for at, chat in enumerate(chats):
        if chat["role"] == "tool":
            if chat.get("tool_call_id") in waiting:
                waiting.remove(chat["tool_call_id"])
            else:
                found.append(f"message {at}: a result without its call")
            continue
        if waiting:
            found.append(f"message {at}: calls {waiting} have no result")
        waiting = [call["id"] for call in chat.get("tool_calls") or ()]
    if waiting:
        found.append(f"at the end: calls {waiting} have no result")
    return found if chats else ["no messages"]


class Validity:
    """The rules over the windows of one recording; what was read once is kept."""

    def __init__(self, shown: NumberedMessages) -> None:
        self._shown = shown
        self._read: dict[int, Message] = {}
        self._shapes: dict[int, Hashable] = {}

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two windows differ, if at all, in words only: no rule can tell them apart."""
        return len(one) == len(other) and all(
            mine == theirs or self._shape(mine) == self._shape(theirs)
            for mine, theirs in zip(one, other, strict=True)
        )

    def _shape(self, number: int) -> Hashable:
        if number not in self._shapes:
            self._shapes[number] = _shape(self._shown.chats[number])
        return self._shapes[number]

    def problems(self, window: Sequence[int]) -> list[str]:
        """What is wrong with a window, each sentence led by the provider's name."""
        chats = [self._shown.chats[number] for number in window]
        found = [f"chat: {wrong}" for wrong in chat_problems(chats)]
        try:
            messages = tuple(self._message(number) for number in window)
            request = Request(
                _MODELS["openai"], messages, max_output_tokens=1_024, tools=_called(messages)
            )
            found += [f"openai: {it}" for it in openai_rules.problems(openai_chat.body(request))]
            request = replace(request, model=_MODELS["anthropic"])
            found += [
                f"anthropic: {it}" for it in anthropic_rules.problems(anthropic.body(request))
            ]
            request = replace(request, model=_MODELS["gemini"])
            made = gemini.body(request)
            found += [f"gemini: {it}" for it in gemini_rules.problems(made, model=request.model)]
        except (WindlassError, ValueError) as error:
            found.append(f"windlass: {error}")
        return found

    def _message(self, number: int) -> Message:
        if number not in self._read:
            self._read[number] = _with_dots(from_openai(self._shown.chats[number]))
        return self._read[number]


def _with_dots(message: Message) -> Message:
    """The message with small pictures: their size is no rule of sequence, and costs time."""
    dot = picture(_DOT)
    return message.with_parts(
        *(dot if isinstance(part, Picture) and part.data else part for part in message.parts)
    )


def _shape(chat: Mapping[str, Any]) -> Hashable:
    """All of a message that a rule of sequence looks at."""
    content = chat.get("content")
    if isinstance(content, list):
        content = json.dumps(content)  # parts have rules of their own
    return (
        chat["role"],
        None if content is None else bool(content.strip()),
        chat.get("tool_call_id"),
        tuple(
            (call["id"], call["function"]["name"], _is_object(call["function"]["arguments"]))
            for call in chat.get("tool_calls") or ()
        ),
        tuple(sorted(chat)),
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _called(messages: Sequence[Message]) -> tuple[ToolSpec, ...]:
    names = {call.name for message in messages for call in message.tool_calls}
    return tuple(_spec(name) for name in sorted(names))


@cache
def _spec(name: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": {}})
