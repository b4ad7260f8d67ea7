"""Where the cache marks of a growing conversation stand, and for how long the head is kept.

Knows the conversation that decides what is shown, and the times of the messages; no wire format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from windlass.caching.breakpoints import (
    Breakpoints,
    MarkRules,
    Place,
    ShownMessages,
    Tools,
    mark_rules,
    marks,
)
from windlass.caching.pauses import Lifetime, Pauses
from windlass.caching.prices import Prices
from windlass.loop.blocks import TrailingBlocks
from windlass.messages import Message, ToolSpec
from windlass.window.conversation import Conversation
from windlass.window.entry_log import merged
from windlass.window.planner import Planner

_AHEAD: Final = 3
"""For how many calls ahead cache marks are set; a request has four of them."""


def marking(model: str | None, prices: Prices) -> MarkRules | None:
    """The rules for cache marks; None where nothing is cached, or a cache takes none.

    Where prices are told without a model they are those of Anthropic, the strictest.
    """
    if not prices.caches:
        return None
    provider, _, name = (model or "anthropic/claude").partition("/")
    return mark_rules(provider, name)


class Marking:
    """The marks of the calls made, and of the next.

    Args:
        model: `provider/model` (None: the rules are Anthropic's).
        conversation: What is shown.
        tools: The caller's, which stand in front of everything.
        prices: What the cache charges, for how long the head is kept.
        blocks: What stands at the end of messages.
    """

    def __init__(
        self,
        model: str | None,
        conversation: Conversation,
        tools: Sequence[ToolSpec],
        prices: Prices,
        blocks: TrailingBlocks,
    ) -> None:
        self._rules = marking(model, prices)
        self._conversation = conversation
        self._blocks = blocks
        self._weight = Tools.of(tools) if self._rules else None
        self._prices = prices
        self._calls = (conversation.planner or Planner(prices)).calls
        self._made = Breakpoints()
        self._lifetime = Lifetime()
        self._found = 0, Breakpoints()
        self.pauses = Pauses()

    def call_made(self, *, asked: bool) -> None:
        """The next call was made; `asked`: the window that was asked for last was its."""
        count, found = self._found
        held = asked and count == len(self._conversation.items)
        self._made, self._lifetime = found if held else self._next(), self._next_lifetime()

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """The marks of the next call by what stands in its list, and those to be kept for long."""
        conversation, made = self._conversation, self._next()
        self._found = len(conversation.items), made
        if not made.places:
            return (), ()
        now = [at for at, entry in conversation.pending_entries.items() if entry is None]
        gone = merged(conversation.entry_log.gone, now)

        def shown(places: tuple[Place, ...]) -> tuple[Place, ...]:
            return tuple([(at - bisect_left(gone, at), part) for at, part in places])

        return shown(made.places), shown(made.long)

    def _next(self) -> Breakpoints:
        """The marks of the next call; those of the calls before are in `_made`."""
        conversation, before = self._conversation, self._made
        if self._rules is None or not conversation.items:
            return before
        pending = conversation.pending_entries
        behind = conversation.pending_inserts
        entries = conversation.entries
        count = len(entries)

        def bare(at: int) -> Message | None:
            if at >= count:
                return behind[at - count].item.message
            entry = pending[at] if at in pending else entries[at]
            return None if entry is None else entry.message

        def shown(at: int) -> Message | None:
            message = bare(at)
            return None if message is None else self._blocks.on(at, message)

        first = before.count if self._blocks.changed is None else self._blocks.changed

        return marks(
            ShownMessages(bare if self._blocks.none else shown, count + len(behind)),
            self._rules,
            before,
            shared=min((before.count, first, *pending)),
            tools=self._weight,
            soon=conversation.edited_soon(_AHEAD),
            long=self._next_lifetime().long,
            tail=self._blocks.tail,
        )

    def _next_lifetime(self) -> Lifetime:
        """How long the head of the next call is to be kept."""
        rules, made = self._rules, self._conversation.calls
        if rules is None:
            return self._lifetime
        return self._lifetime.at_call(
            self.pauses.gap,
            made=made,
            calls=self._calls(made + 1),
            prices=self._prices,
            ttl_s=rules.ttl_s,
            ttl_long_s=rules.ttl_long_s,
        )
