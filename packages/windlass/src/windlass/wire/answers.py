"""Answers as their callers hear them, whole or event by event, as the message that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque
from windlass.wire import (
    anthropic,
    anthropic_lists,
    chat_lists,
    gemini,
    gemini_lists,
    openai_chat,
    openai_responses,
)
from windlass.wire.base import Format, Refused, Request, StreamReader
from windlass.wire.forms import FormName, ListForm, as_json

_STREAMS: Final[Mapping[str, Format]] = {
    "anthropic": anthropic,
    "openai": openai_chat,
    "gemini": gemini,
}
"""The formats whose streamed answers are put together; Responses' end in the whole one."""
_LISTS: Final[Mapping[str, ListForm]] = {
    "anthropic": anthropic_lists,
    "openai": chat_lists,
    "responses": openai_responses,
    "gemini": gemini_lists,
}

_UNREADABLE: Final = (
    *(AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError),
    *(Refused, SequenceError),
)
"""What reading an answer raises that is malformed, cut, or an error."""


class HeardAnswer:
    """An answer in a form, heard piece by piece; what cannot be read has no message."""

    def __init__(self, form: FormName) -> None:
        self._form = form
        self._whole: Message | None = None
        self._events: StreamReader | None = None
        self._broken = False

    def hear(self, answer: object) -> None:
        """Take an answer, or an event of one: an object of a client, or its JSON."""
        if self._broken:
            return
        try:
            given = as_json(answer)
            if isinstance(given, Mapping):
                self._take(given)
        except _UNREADABLE:
            self._broken = True

    @property
    def message(self) -> Message | None:
        """Return what the model said (None: nothing, or it cannot be read, or broke off)."""
        if self._broken or self._events is None:
            return None if self._broken else self._whole
        try:
            message = self._events.reply().message
        except _UNREADABLE:
            return None
        # A list that the answer is appended to does not say which model it is of.
        parts = [replace(p, model="") if isinstance(p, Opaque) else p for p in message.parts]
        return message.with_parts(*parts)

    def _take(self, given: Mapping[str, Any]) -> None:
        items = self._items(given)
        if items is not None:
            self._whole = _said(self._form, items)
        elif self._form in _STREAMS:
            if self._events is None:
                self._events = _STREAMS[self._form].reader(Request("heard", (), 1))
            self._events.feed(given)

    def _items(self, given: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return what a whole answer says, as objects of a list; None: it is an event."""
        match self._form:
            case "anthropic" if given.get("type") == "message":
                return [{"role": "assistant", "content": given["content"]}]
            case "openai" if choices := given.get("choices"):
                return [choices[0]["message"]] if "message" in choices[0] else None
            case "responses":
                whole = given.get("response", given)
                return whole.get("output") or None
        return None


def _said(form: FormName, items: Sequence[Any]) -> Message | None:
    messages: list[Message] = []
    reader = _LISTS[form].list_reader()
    for at, item in enumerate(items):
        fields = {key: one for key, one in item.items() if one is not None or key == "content"}
        messages += reader.read(fields, f"item {at}").messages
    return openai_responses.joined(*messages) if messages else None
