"""What all strategies share: one session, one task, one budget; scores, and what they choose.

A strategy says which messages hit (by words, by vectors, by both); from there on all go the
same way: `selection/rank.py` scores and fills, and each chosen message has a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from windlass.selection import rank
from windlass.selection._words import Kind
from windlass.selection.index import Index, Query
from windlass.selection.options import Selection
from windlass.selection.rank import ChosenUnits, Relevance, Scores
from windlass.selection.vectors import Embedder

_SHAPES: Final = {
    Kind.SURVEY: rank.WIDE,
    Kind.QUESTION: rank.PLAIN,
    Kind.REMARK: rank.NARROW,
}


@dataclass(frozen=True)
class SelectionRequest:
    """What is asked of a strategy: to choose from the messages of `index` for `task`.

    `among` says of each message whether it may be chosen (None: all may). `embedder` is None
    where no embedding model is at hand; `helper` says whether a model can be asked.
    """

    index: Index
    task: Query
    options: Selection
    embedder: Embedder | None = None
    helper: bool = False
    among: Sequence[bool] | None = None
    callouts: Collection[int] = ()
    """Places of messages that are marked as important, besides those whose cards say so."""

    @property
    def shape(self) -> rank.SpreadShape:
        """How far scores spread for this task."""
        return _SHAPES[self.task.kind]

    @cached_property
    def marked(self) -> frozenset[int]:
        """Places of the messages that are marked as important."""
        return frozenset(self.index.callouts).union(self.callouts)

    @cached_property
    def may(self) -> Sequence[bool] | None:
        """Of each unit, whether it may be chosen: where all of its messages may."""
        if self.among is None:
            return None
        units = self.index.units
        return [all(self.among[units[at].first : units[at].last + 1]) for at in range(len(units))]


@dataclass(frozen=True)
class Scored:
    """The scores of a session's messages for a task.

    `hits` say how well each message by itself matches (0 to 1); `parts` is what the total is
    made of, before weighing; `signals` are the strategies' own, by name, for the record.
    """

    request: SelectionRequest
    hits: Scores
    parts: Relevance
    total: Scores
    signals: Mapping[str, Scores]

    @cached_property
    def by_unit(self) -> Scores:
        """The score of each unit: that of its best message; 0 where it may not be chosen."""
        units = self.request.index.units
        if not len(units):
            return np.zeros(0, dtype=np.float32)
        best: Scores = np.maximum.reduceat(self.total, np.array(units.starts))
        if self.request.may is not None:
            best = np.where(self.request.may, best, np.float32(0))
        return best

    def ranks(self, place: int) -> dict[str, int]:
        """The rank of a message by each signal, from 1; equal ones share the better rank."""
        return {
            name: 1 + len(ordered) - int(np.searchsorted(ordered, scores[place], "right"))
            for (name, scores), ordered in zip(self._by_name.items(), self._ordered, strict=True)
        }

    @cached_property
    def _by_name(self) -> dict[str, Scores]:
        return {**self.signals, "recency": self.parts.recent, "all": self.total}

    @cached_property
    def _ordered(self) -> list[Scores]:
        return [np.sort(scores) for scores in self._by_name.values()]

    def order(self) -> Iterator[int]:
        """The units, best first."""
        return rank.best_first(self.by_unit)

    def fill(self, budget: int, most: int | None = None, first: Sequence[int] = ()) -> ChosenUnits:
        """What fits the budget, best first; `first` before all others."""
        index = self.request.index
        said = [text or None for text in index.said]
        return rank.fill(self.order(), index.units, budget, most, first=first, alike=said)


@dataclass(frozen=True)
class Picked:
    """What a strategy chose.

    `strategy` is what chose in the end, `note` why that is not what was asked for (empty: it
    is). `asked` are the units that a model picked, `reasoning` what it said of them.
    """

    scored: Scored
    choice: ChosenUnits
    strategy: str
    note: str = ""
    asked: frozenset[int] = frozenset()
    reasoning: str = ""
    refused: tuple[str, ...] = field(default=())
    """What the model named that was not on its menu."""


Selecting: TypeAlias = Generator[str, str | None, Picked]
"""A strategy at work: yields the question for a model, is sent its answer, returns its choice."""


def scored(
    request: SelectionRequest,
    hits: Scores,
    signals: Mapping[str, Scores],
    *,
    by_words: bool = True,
    near: Scores | None = None,
) -> Scored:
    """The messages' scores, from how well each by itself matches the task (`hits`, 0 to 1).

    `by_words`: passages count more that say more of the task's words. `near`: how near each
    message is in meaning, 0 to 1; passages that are nearer count more.
    """
    index, weights = request.index, request.options.weights
    parts = rank.relevance(
        hits,
        index.tokens,
        request.shape,
        index.answers,
        mentions=index.mentions(request.task) if by_words else None,
        near=near,
    )
    total = np.float32(weights.keyword) * (parts.own + parts.passage)
    total += np.float32(weights.recency) * parts.recent
    total[list(request.marked)] += np.float32(weights.callout)
    return Scored(request, hits, parts, total, signals)


def cut(request: SelectionRequest, found: Scored, strategy: str, note: str = "") -> Picked:
    """What fits the budget, best first."""
    options = request.options
    return Picked(found, found.fill(options.max_tokens, options.max_messages), strategy, note)
