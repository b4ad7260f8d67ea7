"""Which signed thinking a request may hold, where models bind it to all that stood before it.

Thinking is identified by the request that produced it: model, tools and messages, as one key. A
later request may show it only if the same messages precede it. Otherwise it is left out together
with all later thinking, whose context has then changed, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from windlass.caching.model_cache import same_until
from windlass.messages import Message, ToolSpec
from windlass.window.entries import Entry
from windlass.wire.inner_calls import waits
from windlass.wire.thinking import thinks, without_thinking

Thinking: TypeAlias = Literal["keep", "drop_block"]
"""What becomes of edits that make thinking invalid: left, but for those that settings force; made
where they pay, and the provider drops the thinking."""


@dataclass
class Thoughts:
    """The context in which each reply of a session was made, by occurrence.

    Phases and attempts share it: occurrences have ids of their own.
    """

    born: dict[str, int] = field(default_factory=dict[str, int])
    refused: bool = False
    """Whether the provider refused thinking of the session."""

    def __post_init__(self) -> None:
        self._heads: list[tuple[str, tuple[ToolSpec, ...]]] = []
        # The request that was looked at last, kept for speed alone: its head, its messages, and
        # the key of what stands before each of them and behind the last.
        self._head = -1
        self._messages: tuple[Message, ...] = ()
        self._keys: list[int] = []

    def stale(
        self, entries: Sequence[Entry], model: str, tools: Sequence[ToolSpec], *, but: int
    ) -> Mapping[int, Message]:
        """Return the messages without thinking to be shown in the place of entries, by position.

        Thinking from the position `but` on stays, whatever changed before it.
        """
        messages = [entry.message for entry in entries]
        same = self._same(tuple(messages), model, tools)
        gone: dict[int, Message] = {}
        for at in range(same, len(messages)):
            message = messages[at]
            born = self.born.get(entries[at].item.id)
            if at < but and thinks(message) and born != self._keys[at]:
                gone[at] = messages[at] = message = without_thinking(message)
            self._keys.append(hash((self._keys[at], message)))
        self._messages = tuple(messages)
        return gone

    def forget(self) -> None:
        """Treat all thinking so far as invalid, because the provider refused some of it."""
        self.refused = True
        self.born.clear()
        self._head = -1

    def came(
        self, ident: str, messages: tuple[Message, ...], model: str, tools: Sequence[ToolSpec]
    ) -> None:
        """Note that the reply `ident` answered a request with these messages."""
        for at in range(self._same(messages, model, tools), len(messages)):
            self._keys.append(hash((self._keys[at], messages[at])))
        self._messages = messages
        # A request that ends with a reply is sent with words that ask to go on, or goes on itself.
        asked = bool(messages) and messages[-1].role == "assistant" and not waits(messages[-1])
        self.born[ident] = hash((self._keys[-1], "go on")) if asked else self._keys[-1]

    def _same(self, messages: tuple[Message, ...], model: str, tools: Sequence[ToolSpec]) -> int:
        """Say how many messages begin the request before, too; what is behind them is forgotten."""
        head = model, tuple(tools)
        if head not in self._heads:
            self._heads.append(head)
        number = self._heads.index(head)
        same = same_until(messages, self._messages) if number == self._head else 0
        self._keys = self._keys[: same + 1] if same else [hash(("head", number))]
        self._head = number
        return same
