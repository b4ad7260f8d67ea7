"""What a loop tells at the end of its calls: the block of each, and what stays of older ones.

A block is the last part of the call's last message, stays there byte for byte as history, and
goes where that costs nothing. Knows the conversation, which it tells what stands where; decides no
edit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.messages import Message
from windlass.window.block_tokens import NOTHING, BlockTokens
from windlass.window.blocks import Attached, added, let_go, with_blocks
from windlass.window.conversation import Conversation
from windlass.window.entries import Entry


class TrailingBlocks:
    """The blocks of a conversation: those of the calls made, and the next one's.

    Args:
        conversation: What is shown.
        count: Tokens of a message, as the conversation counts them.
    """

    def __init__(self, conversation: Conversation, count: Callable[[Message], int]) -> None:
        self._conversation = conversation
        self._count = count
        self._attached: dict[str, Attached] = {}
        self._next: dict[str, Attached] = {}
        """What stands in the calls made, and in the next, by the id of the occurrence."""
        self._places: dict[str, int] = {}
        """Where in the conversation an occurrence stands that has, or had, a block."""
        self._at: dict[int, Attached] = {}
        self._indexes: dict[int, str] = {}
        self.text = ""
        """What the next call is told."""
        self.tail = False
        """Whether the next call ends with a block of its own."""
        self.changed: int | None = None
        """The lowest position of the conversation that has no block any more with the next call."""

    @property
    def none(self) -> bool:
        """Whether no call has any."""
        return not (self.text or self._attached)

    def shown(self, entries: tuple[Entry, ...], start: int) -> tuple[Entry, ...]:
        """The entries of the next call with the blocks that it has.

        From the position `start` of the conversation on all is written anew in any case, so that
        older blocks go there.
        """
        old = {at: ident for ident, at in self._places.items() if ident in self._attached}
        self._next = let_go(self._attached, old, start)
        gone = (at for at, ident in old.items() if ident not in self._next)
        self.changed = min(gone, default=None)
        shown, self._indexes = with_blocks(entries, self._next)
        last = shown[-1]
        self.tail = bool(self.text) and last.message.role in ("user", "tool")
        if self.tail:
            bare, ident = last.message, last.item.id
            block = Attached(bare.key, self.text)
            shown = (*shown[:-1], added(last, block))
            tokens = self._count(shown[-1].message) - self._count(bare)
            self._next[ident] = Attached(bare.key, self.text, tokens=tokens)
            self._indexes[len(shown) - 1] = ident
            self._places[ident] = (
                len(self._conversation.items) + len(self._conversation.pending_inserts) - 1
            )
        self._at = {self._places[ident]: one for ident, one in self._next.items()}
        return shown

    def in_chats(self, chats: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The chat dicts of the entries, `shown` with blocks or having none."""
        for at, ident in () if self.none else self._indexes.items():
            chats[at] = _with_part(chats[at], self._next[ident].block)
        return chats

    def on(self, at: int, message: Message) -> Message:
        """The message at a position of the conversation as the next call sees it."""
        one = self._at.get(at)
        return one.to(message) if one is not None and one.on == message.key else message

    def call_made(self, *, asked: bool) -> None:
        """The next call was made; `asked`: the window that was asked for last was its."""
        if asked:
            self._attached = self._next
        self._at, self.text, self.tail, self.changed = {}, "", False, None

    def attach(self) -> None:
        """Tell the conversation what the last request had at the end of its messages."""
        conversation, tokens = self._conversation, dict[int, int]()
        for ident, one in tuple(self._attached.items()):
            at = self._places[ident]
            entry = conversation.entries[at] if at < conversation.sent else None
            if entry is not None and entry.message.key == one.on:
                tokens[at] = one.tokens
            else:
                del self._attached[ident]  # its message is shown otherwise by now
        conversation.block_tokens = BlockTokens.of(tokens, conversation.sent) if tokens else NOTHING


def _with_part(chat: dict[str, Any], block: str) -> dict[str, Any]:
    content = chat.get("content")
    before: Sequence[Any] = content if isinstance(content, list) else ()
    if isinstance(content, str) and content:
        before = [{"type": "text", "text": content}]
    return {**chat, "content": [*before, {"type": "text", "text": block}]}
