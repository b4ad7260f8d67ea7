"""What a conversation shows as chat dicts, kept up to date message by message.

Nothing is copied that did not change: a window gets the caller's own objects where a message
stands as it was said, and elsewhere the dict that the window before had, as long as its message
stands as it stood there. What the conversation decides by are messages, which no dict leads to.
Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, cast

from windlass.context.window import Chat
from windlass.window.blocks import WithBlocks
from windlass.window.conversation import Conversation
from windlass.window.entries import Entry
from windlass.wire.openai import to_openai


@dataclass(frozen=True, slots=True)
class _Made:
    """A chat dict that is not the caller's own, its entry, and a copy that nobody else has."""

    entry: Entry
    chat: dict[str, Any]
    copy: dict[str, Any]


class Chats:
    """The chat dicts of a conversation.

    Args:
        conversation: What is shown.
        appended: What was appended, the caller's own objects; it grows.
    """

    def __init__(self, conversation: Conversation, appended: list[Chat]) -> None:
        self._conversation = conversation
        self._appended = appended
        self.own: dict[str, int] = {}
        """Where the object of an occurrence stands that is said as it came, by its id."""
        self._shown: list[dict[str, Any] | None] = []
        self._told = 0
        self._of_caller: dict[int, int] = {}
        """The positions that show an object of the caller's, and its place among all said."""
        self._ahead: dict[int, _Made] = {}
        """What the latest window was first to show, not yet for good: it will be most often."""
        self._made: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, dict[str, Any]] = {}
        """What is shown for good and not the caller's own, and copies of it."""

    def said_now(self, messages: Sequence[Chat]) -> bool:
        """Show these objects, equal to those appended, and all else as it was made.

        Whether anything is another object than before: the caller's, or one that was changed
        since a window handed it out.
        """
        same = all(one.chat == one.copy for one in self._ahead.values())
        if not same:
            self._ahead = {}
        if self._made != self._copies:
            same = False
            for at in [at for at, chat in self._made.items() if chat != self._copies[at]]:
                self._shown[at] = self._for_good(at, self._conversation.entries[at])
        if all(map(is_, self._appended, messages)):
            return not same
        self._appended[:] = messages[: len(self._appended)]
        for at, place in self._of_caller.items():
            self._shown[at] = cast("dict[str, Any]", self._appended[place])
        return True

    def messages(self, behind: Iterable[Entry]) -> list[dict[str, Any]]:
        """What is shown, and `behind` it; only what is new since the last window is made."""
        conversation, shown = self._conversation, self._shown
        changes = conversation.standing.changes
        for at in changes[self._told :]:
            if at < len(shown):
                shown[at] = self._for_good(at, conversation.entries[at])
        self._told = len(changes)
        for at in range(len(shown), len(conversation.entries)):
            shown.append(self._for_good(at, conversation.entries[at]))
        now = shown.copy()
        pending = conversation.pending.entries
        ahead: dict[int, _Made] = {}
        for at, entry in pending.items():
            if entry is None or self._is_own(entry):
                now[at] = None if entry is None else self._own(entry)
            else:
                ahead[at] = one = self._make(at, entry)
                now[at] = one.chat
        self._ahead = ahead
        if conversation.standing.gone or None in pending.values():
            now = [*filter(None, now)]
        now += [to_openai(entry.message) for entry in behind]
        return cast("list[dict[str, Any]]", now)

    def _for_good(self, at: int, entry: Entry | None) -> dict[str, Any] | None:
        """The entry as a chat dict, until it changes."""
        for chats_by_position in (self._of_caller, self._made, self._copies):
            chats_by_position.pop(at, None)
        if entry is None:
            return None
        if self._is_own(entry):
            self._of_caller[at] = self.own[entry.item.id]
            return self._own(entry)
        one = self._make(at, entry)
        self._made[at], self._copies[at] = one.chat, one.copy
        return one.chat

    def _make(self, at: int, entry: Entry) -> _Made:
        """What is shown of an entry that is not the caller's own, made once."""
        before = self._ahead.get(at)
        if before and (before.entry is entry or before.entry.message == entry.message):
            return before
        chat = to_openai(entry.message)
        return _Made(entry, chat, copied(chat))

    def _own(self, entry: Entry) -> dict[str, Any]:
        return cast("dict[str, Any]", self._appended[self.own[entry.item.id]])

    def _is_own(self, entry: Entry) -> bool:
        return entry.message is entry.item.message and entry.item.id in self.own


def with_block_parts(chats: list[dict[str, Any]], with_blocks: WithBlocks) -> list[dict[str, Any]]:
    """The chat dicts of a call's entries with their blocks as parts of their own."""
    places = [*with_blocks.older, *([len(chats) - 1] if with_blocks.own else [])]
    for at in places:
        texts = with_blocks.attached[with_blocks.entries[at].item.id].texts
        chats[at] = _with_parts(chats[at], texts)
    return chats


def _with_parts(chat: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    content = chat.get("content")
    before: Sequence[Any] = content if isinstance(content, list) else ()
    if isinstance(content, str) and content:
        before = [{"type": "text", "text": content}]
    return {**chat, "content": [*before, *({"type": "text", "text": text} for text in texts)]}


def copied(value: Any) -> Any:
    """A copy of JSON data."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, dict | Mapping):  # most are a dict, which is the sooner known
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list | tuple) else value
