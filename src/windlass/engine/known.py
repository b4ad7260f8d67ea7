"""What a session knows of itself: its messages in an index, which grows as they are said.

The one place that asks a keeper for cards. A keeper that keeps none, or has not made one yet,
is no hindrance: the index makes a card by rule where one is wanted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from windlass.cards.card import Card
from windlass.cards.embeddings import Embedder
from windlass.cards.index import Index
from windlass.cards.wordllama import WordLlamaEmbedder, installed
from windlass.engine.state import Run
from windlass.history.base import Keeper
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.window.assemble import says_nothing
from windlass.window.entries import Item

REPEATING: Final = frozenset({"callout", "recall", "remember", "search_context", "search_memory"})
"""Tools whose results repeat what stands elsewhere: nobody chooses them."""


class Known:
    """The messages of a session, to be searched. `count` gives the tokens of a message."""

    def __init__(self, count: Callable[[Message], int]) -> None:
        self.index = Index()
        self.places: dict[str, int] = {}
        """The place of each message by its id."""
        self._count = count

    def grow(self, born: Sequence[Item], cards: Callable[[], Mapping[str, Card]]) -> None:
        """Take in what was said since; `born` is all that was said in the session."""
        new = born[len(self.index) :]
        if not new:
            return
        made = cards()
        for item in new:
            self.places[item.id] = len(self.index)
            self.index.append(item, self._count(item.message), made.get(item.id))

    def unit(self, place: int) -> range:
        """The places of what is chosen together with the message at `place`."""
        units = self.index.units
        one = units[bisect_right(units.starts, place) - 1]
        return range(one.first, one.last + 1)

    def repeats(self, place: int) -> bool:
        """Whether a message says nothing, or is of a call that only repeats what stands elsewhere.

        So are answers that wait for their results.
        """
        items = [self.index.items[at] for at in self.unit(place)]
        first = items[0].message
        if first.role == "tool" or says_nothing(first):
            return True
        answered = {item.message.tool_call_id for item in items[1:]}
        if any(call.id not in answered for call in first.tool_calls):
            return True
        names = {call.name for call in first.tool_calls}
        return bool(names) and names <= REPEATING


def known_of(run: Run, info: ModelInfo) -> Known:
    """The run's session as far as it was said, with tokens as the model counts them."""
    known = run.known.get(info.name)
    if known is None:
        known = run.known[info.name] = Known(info.counter.message)
    record = run.record
    known.grow(record.born, lambda: cards_of(record.keeper, record.session_id))
    return known


def cards_of(keeper: Keeper, session_id: str) -> dict[str, Card]:
    """The cards that are kept of a session, by the id of their message."""
    kept = getattr(keeper, "cards", None)
    if kept is None:
        return {}
    return {card.id: card for card in kept(session_id)}


def embedder_at_hand() -> Embedder | None:
    """The embedding model that needs no network, where it is installed."""
    return WordLlamaEmbedder() if installed() else None
