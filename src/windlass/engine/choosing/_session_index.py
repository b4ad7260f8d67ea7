"""What a session knows of itself: its messages in an index, which grows as they are said.

The one place that asks a store for cards. A store that keeps none, or has not made one yet,
is no hindrance: the index makes a card by rule where one is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from windlass.engine.cards.card_models import embedder_of
from windlass.engine.cascade_run import CascadeRun
from windlass.history.card_rows import cards_of
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.selection.card import Card
from windlass.selection.index import Index
from windlass.selection.vectors import Embedder, RemoteEmbedder, Vectors, is_remote
from windlass.window.blocks import says_nothing
from windlass.window.entries import Item

REPEATING: Final = frozenset({"callout", "recall", "remember", "search_context", "search_memory"})
"""Tools whose results repeat what stands elsewhere: nobody chooses them."""


_AT_ONCE: Final = 20_000
"""Characters that are taken in at once, which takes less than a tenth of a second."""


@dataclass(slots=True)
class ChoosingMemory:
    """What choosing keeps of a session, from phase to phase."""

    indexes: dict[str, Index] = field(default_factory=dict[str, Index])
    """The session's index, by the model that counts its tokens."""
    embedder: Embedder | None = None
    """What makes its vectors (None: not asked for yet, or none)."""


def _memory(run: CascadeRun) -> ChoosingMemory:
    memory = run.session.choosing
    if not isinstance(memory, ChoosingMemory):
        run.session.choosing = memory = ChoosingMemory()
    return memory


async def index_in_thread(run: CascadeRun, info: ModelInfo) -> Index:
    """The same as `index_of`; long messages are taken in without holding up the event loop."""
    index = _memory(run).indexes.setdefault(info.name, Index())
    record = run.record
    new = list(record.born)[len(index) :]
    if sum(item.message.chars for item in new) > _AT_ONCE:
        cards = cards_of(record.store, record.session_id)
        await asyncio.to_thread(_take_in, index, new, info.counter.message, cards)
    return index_of(run, info)


def index_of(run: CascadeRun, info: ModelInfo) -> Index:
    """Return the run's session as far as it was said, with tokens as the model counts them."""
    index = _memory(run).indexes.setdefault(info.name, Index())
    record = run.record
    if new := record.born[len(index) :]:
        cards = cards_of(record.store, record.session_id)
        _take_in(index, new, info.counter.message, cards)
    return index


def _take_in(
    index: Index,
    new: Sequence[Item],
    count: Callable[[Message], int],
    cards: Mapping[str, Card],
) -> None:
    """Add what was said to the index; `count` gives the tokens of a message."""
    for item in new:
        index.append(item, count(item.message), cards.get(item.id))


def only_repeats(index: Index, place: int) -> bool:
    """Whether a message says nothing, or is of a call that only repeats what stands elsewhere.

    So are answers that wait for their results.
    """
    items = [index.items[at] for at in index.together(place)]
    first = items[0].message
    if first.role == "tool" or says_nothing(first):
        return True
    answered = {item.message.tool_call_id for item in items[1:]}
    if any(call.id not in answered for call in first.tool_calls):
        return True
    names = {call.name for call in first.tool_calls}
    return bool(names) and names <= REPEATING


def embedder_for(run: CascadeRun) -> Embedder | None:
    """Return the embedding model that the user's cards have their vectors of; None: they have none.

    Raises UsageError for one that is not there.
    """
    memory = _memory(run)
    if memory.embedder is None:
        make = embedder_of(run.settings)
        embedder = None if make is None else make()
        if embedder is not None and is_remote(embedder):
            embedder = CachedEmbedder(embedder)
        memory.embedder = embedder
    return memory.embedder


class CachedEmbedder:
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
        """Return one row of length 1 for each text; waits for the server. Raises ProviderError."""
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._vectors.update(zip(new, self.asked.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def take_tokens(self) -> int:
        """Return the tokens that were reported since this was last asked."""
        take: Callable[[], int] | None = getattr(self.asked, "take_tokens", None)
        return take() if take is not None else 0
