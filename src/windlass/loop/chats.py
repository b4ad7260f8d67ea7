"""What a course shows as chat dicts, kept up to date message by message.

A window gets the caller's own objects where nothing was changed, and copies of what was made
here, because whoever has one may put marks into it. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_not
from typing import Any, Final, cast

from windlass.loop.window import Chat
from windlass.window.course import Course
from windlass.window.entries import Entry
from windlass.wire.openai import to_openai

_FLAT: Final = frozenset({"role", "content", "tool_call_id", "name"})
"""Keys of a chat dict that hold text, `content` at least mostly."""


class Chats:
    """The chat dicts of a course.

    Args:
        course: What is shown.
        said: What was appended, the caller's own objects; it grows.
    """

    def __init__(self, course: Course, said: list[Chat]) -> None:
        self._course = course
        self._said = said
        self.own: dict[str, int] = {}
        """Where the object of an occurrence stands that is said as it came, by its id."""
        self._shown: list[dict[str, Any] | None] = []
        self._flat: dict[int, dict[str, Any]] = {}
        self._deep: dict[int, dict[str, Any]] = {}
        """What is shown and not the caller's own: with nothing but text in it, and else."""
        self._told = 0

    def said_now(self, messages: Sequence[Chat]) -> bool:
        """Show these objects, equal to those appended. Whether any is another than before."""
        if not any(map(is_not, self._said, messages)):
            return False
        self._said[:] = messages[: len(self._said)]
        self._shown, self._told = [], 0
        self._flat.clear()
        self._deep.clear()
        return True

    def messages(self, behind: Iterable[Entry]) -> list[dict[str, Any]]:
        """What is shown, and `behind` it; only what is new since the last window is made."""
        course, shown = self._course, self._shown
        for at in course.changes[self._told :]:
            if at < len(shown):
                shown[at] = self._chat(at, course.entries[at])
        self._told = len(course.changes)
        for at in range(len(shown), len(course.entries)):
            shown.append(self._chat(at, course.entries[at]))
        now = shown.copy()
        pending = course.pending_entries
        for at, chat in zip(self._flat, map(dict.copy, self._flat.values()), strict=True):
            now[at] = chat
        for at, chat in self._deep.items():
            now[at] = copied(chat)
        for at, entry in pending.items():
            now[at] = self._made(entry)[0]
        if course.standing.gone or None in pending.values():
            now = [*filter(None, now)]
        now += [to_openai(entry.message) for entry in behind]
        return cast("list[dict[str, Any]]", now)

    def _chat(self, at: int, entry: Entry | None) -> dict[str, Any] | None:
        """The entry as a chat dict, for good."""
        chat, is_own = self._made(entry)
        self._flat.pop(at, None)
        self._deep.pop(at, None)
        if chat is not None and not is_own:
            flat = chat.keys() <= _FLAT and type(chat["content"]) is str
            (self._flat if flat else self._deep)[at] = chat
        return chat

    def _made(self, entry: Entry | None) -> tuple[dict[str, Any] | None, bool]:
        """The entry as a chat dict, and whether that is the caller's own object."""
        if entry is None:
            return None, False
        if entry.message is entry.item.message and entry.item.id in self.own:
            return cast("dict[str, Any]", self._said[self.own[entry.item.id]]), True
        return to_openai(entry.message), False


def copied(value: Any) -> Any:
    """A copy of JSON data."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list | tuple) else value
