"""What a session knows of itself: its messages in an index, which grows as they are said.

The one place that asks a store for cards. A store that keeps none, or has not made one yet, is no
hindrance: the index makes a card by rule where one is wanted. A phase may search its own session,
which gives references with summaries; other sessions are never searched: what is to last is for
memory banks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cards.maker import embedder_of
from windlass.engine.cascade_run import CascadeRun
from windlass.history.card_rows import cards_of
from windlass.providers.base import ModelInfo
from windlass.selection.index import Index, Query
from windlass.selection.options import Selection
from windlass.selection.scoring import SelectionRequest, score
from windlass.selection.vectors import Embedder, RemoteEmbedder, Vectors, is_remote
from windlass.window.blocks import says_nothing
from windlass.window.entries import Item
from windlass.window.originals import reference

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
    known = len(_memory(run).indexes.get(info.name, ()))
    if sum(item.message.chars for item in run.record.born[known:]) > _AT_ONCE:
        return await asyncio.to_thread(index_of, run, info)
    return index_of(run, info)


def index_of(run: CascadeRun, info: ModelInfo) -> Index:
    """Return the run's session as far as it was said, with tokens as the model counts them."""
    index, record = _memory(run).indexes.setdefault(info.name, Index()), run.record
    if new := record.born[len(index) :]:
        cards = cards_of(record.store, record.session_id)
        for item in new:
            index.append(item, info.counter.message(item.message), cards.get(item.id))
    return index


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


def output_alone(items: Sequence[Item], phase: str) -> list[Item]:
    """Return a phase's output where it can be shown alone: a message without calls."""
    replies = [item for item in items if item.phase == phase and item.message.role == "assistant"]
    spoken = [item for item in replies if item.message.text.strip()]
    return [item for item in spoken[-1:] if not item.message.tool_calls]


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


# ---- the search of a phase in its own session --------------------------------------------------

SUMMARY_CHARS: Final = 200
_ANY_SIZE: Final = 10**9
"""Only references are given back, so that a message may be of any size."""


def search_session(run: CascadeRun, phase_run: PhaseRun, query: str, most: int) -> str:
    """Return the messages of the session that say most of a query: reference, place, summary.

    Calls and their results are named together. Phases whose rule excludes others, and what a
    phase's retention hides, hold here, too.
    """
    index = index_of(run, phase_run.info)
    rule = phase_run.rule.choosing
    excluded = rule.exclude if rule is not None else frozenset[str]()
    record = run.record
    hidden = {each.phase for each in record.store.outcomes(record.session_id) if each.hidden}
    outputs = {item.id for name in hidden for item in output_alone(index.items, name or "")}
    among = [
        item.phase not in excluded
        and (item.phase not in hidden or item.id in outputs)
        and not only_repeats(index, place)
        for place, item in enumerate(index.items)
    ]
    if not any(among):
        return "nothing was said in this session that can be searched"
    options = Selection(max_tokens=_ANY_SIZE, max_messages=None, recency_weight=0.0)
    embedder = embedder_for(run)
    if isinstance(embedder, CachedEmbedder):
        embedder = None  # by words alone: a search is no reason to ask a server
    request = SelectionRequest(index, Query.of(query), options, embedder, among=among)
    scored = score(request)
    lines: list[str] = []
    for at in scored.order():
        hits = [place for place in index.units[at].places if scored.hits[place] > 0]
        lines += [_line(index, place) for place in hits[: most - len(lines)]]
    if not lines:
        return f"nothing said in this session matches {query!r}"
    return "\n".join([f"{len(lines)} found; recall(ref) brings an original back:", *lines])


def _line(index: Index, place: int) -> str:
    item, tokens = index.items[place], index.tokens_at(place)
    who = item.message.name or item.message.role
    summary = " ".join(index.card(place).summary.split())[:SUMMARY_CHARS]
    return f"[{reference(item.message)}] {who} ({item.phase}, ~{tokens} tok): {summary}"
