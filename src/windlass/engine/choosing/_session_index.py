"""What a session knows of itself: its messages in an index, which grows as they are said.

The one place that asks a store for cards. A store that keeps none, or has not made one yet,
is no hindrance: the index makes a card by rule where one is wanted.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from windlass.engine.cards.indexer import embedder_of
from windlass.engine.cascade_run import CascadeRun
from windlass.history.card_rows import cards_of
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.selection.card import Card
from windlass.selection.index import Index
from windlass.selection.vectors import Embedder, RemoteEmbedder, Vectors, is_remote
from windlass.window.assemble import says_nothing
from windlass.window.entries import Item

REPEATING: Final = frozenset({"callout", "recall", "remember", "search_context", "search_memory"})
"""Tools whose results repeat what stands elsewhere: nobody chooses them."""


_AT_ONCE: Final = 20_000
"""Characters that are taken in at once, which takes less than a tenth of a second."""


class SessionIndex:
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
        by_id = cards()
        for item in new:
            self.places[item.id] = len(self.index)
            self.index.append(item, self._count(item.message), by_id.get(item.id))

    def unit(self, place: int) -> range:
        """The places of what is chosen together with the message at `place`."""
        units = self.index.units
        unit = units[bisect_right(units.starts, place) - 1]
        return range(unit.first, unit.last + 1)

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


@dataclass(slots=True)
class ChoosingMemory:
    """What choosing keeps of a session, from phase to phase."""

    indexes: dict[str, SessionIndex] = field(default_factory=dict[str, SessionIndex])
    """The session's index, by the model that counts its tokens."""
    embedder: Embedder | None = None
    """What makes its vectors (None: not asked for yet, or none)."""


def _memory(run: CascadeRun) -> ChoosingMemory:
    memory = run.session.choosing
    if not isinstance(memory, ChoosingMemory):
        run.session.choosing = memory = ChoosingMemory()
    return memory


async def session_beside(run: CascadeRun, info: ModelInfo) -> SessionIndex:
    """The same as `session_of`; long messages are taken in beside the event loop."""
    session = _memory(run).indexes.setdefault(info.name, SessionIndex(info.counter.message))
    record = run.record
    born = list(record.born)
    if sum(item.message.chars for item in born[len(session.index) :]) > _AT_ONCE:
        cards = cards_of(record.store, record.session_id)
        await asyncio.to_thread(session.grow, born, lambda: cards)
    return session_of(run, info)


def session_of(run: CascadeRun, info: ModelInfo) -> SessionIndex:
    """The run's session as far as it was said, with tokens as the model counts them."""
    session = _memory(run).indexes.setdefault(info.name, SessionIndex(info.counter.message))
    record = run.record
    session.grow(record.born, lambda: cards_of(record.store, record.session_id))
    return session


def embedder_for(run: CascadeRun) -> Embedder | None:
    """The embedding model that the user's cards have their vectors of; None: they have none.

    Raises UsageError for one that is not there.
    """
    memory = _memory(run)
    if memory.embedder is None:
        make = embedder_of(run.settings)
        embedder = None if make is None else make()
        if embedder is not None and is_remote(embedder):
            embedder = Remembering(embedder)
        memory.embedder = embedder
    return memory.embedder


class Remembering:
    """An embedding model on a server that is asked once for each text."""

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self.asked = embedder
        self.name = embedder.name
        self._vectors: dict[str, Vectors] = {}

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""
        return self.asked.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 for each text; waits for the server. Raises ProviderError."""
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._vectors.update(zip(new, self.asked.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def take_tokens(self) -> int:
        """The tokens that were reported since this was last asked."""
        take: Callable[[], int] | None = getattr(self.asked, "take_tokens", None)
        return take() if take is not None else 0
