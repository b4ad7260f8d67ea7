"""From candidates to scores to a choice: one session, one task, one budget.

A strategy says which messages hit, by words, by vectors, or by both; from there on all go the
same way: `rank.py` scores and fills, and `reasons` says why. Where a model is to have a word,
`menu.py` asks it to choose from what was scored. Nothing here asks anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from windlass.errors import UsageError
from windlass.selection import rank
from windlass.selection.index import Index, Query
from windlass.selection.options import Selection
from windlass.selection.rank import ChosenUnits, Relevance, Scores, Unit, normalised
from windlass.selection.vectors import MISSING, Embedder, unrelated_cosine
from windlass.selection.words import Kind

_SHAPES: Final = {
    Kind.SURVEY: rank.WIDE,
    Kind.QUESTION: rank.PLAIN,
    Kind.REMARK: rank.NARROW,
}
_SHARPENED: Final = np.float32(1.5)
"""The power of a similarity: vectors are near to each other all over a session."""
_VECTORS: Final = 0.05
"""What the nearest message gains beside one whose words match best."""


@dataclass(frozen=True)
class SelectionRequest:
    """What is asked of a strategy: to choose from the messages of `index` for `task`.

    `among` says of each message whether it may be chosen (None: all may). `embedder` is None
    where no embedding model is at hand.
    """

    index: Index
    task: Query
    options: Selection
    embedder: Embedder | None = None
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
    made of, before weighing; `signals` are the strategy's own, by name, for the record.
    `strategy` is what scored, `note` why that is not what was asked for (empty: it is).
    """

    request: SelectionRequest
    hits: Scores
    parts: Relevance
    total: Scores
    signals: Mapping[str, Scores]
    strategy: str
    note: str = ""

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
        """Return the rank of a message by each signal, from 1; equal ones share the better rank."""
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
        """Return the units, best first."""
        return rank.best_first(self.by_unit)

    def fill(self, budget: int, most: int | None = None, first: Sequence[int] = ()) -> ChosenUnits:
        """Return what fits the budget, best first; `first` before all others."""
        units = self.request.index.units
        return rank.fill_budget(self.order(), units, budget, most, first=first)

    def pick(self) -> Picked:
        """Return what fits the budget, best first."""
        options = self.request.options
        choice = self.fill(options.max_tokens, options.max_messages)
        return Picked(self, choice, self.strategy, self.note)


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


def score(request: SelectionRequest) -> Scored:
    """The session scored by the strategy that the options name; `llm` is scored as `hybrid` is.

    Raises UsageError for `semantic` where no embedding model is at hand.
    """
    index, options, weights = request.index, request.options, request.options.weights
    embedder = request.embedder if options.strategy != "heuristic" else None
    by_words = options.strategy != "semantic"
    if not by_words and embedder is None:
        raise UsageError(f"strategy 'semantic' compares vectors, and {MISSING}")
    lacking = options.strategy != "heuristic" and embedder is None
    signals: dict[str, Scores] = {}
    hits, near = np.zeros(len(index), dtype=np.float32), None
    if by_words:
        signals["keyword"] = index.by_keywords(request.task)
        hits = normalised(signals["keyword"])
    if embedder is not None:
        signals["embedding"] = index.by_vectors(request.task, embedder)
        near = _near(request, signals["embedding"], embedder)
        hits = normalised(hits + np.float32(_VECTORS) * near) if by_words else near**_SHARPENED
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
    name = "heuristic" if near is None else "hybrid" if by_words else "semantic"
    note = f"by keywords alone: {MISSING}" if lacking else ""
    return Scored(request, hits, parts, total, signals, name, note)


def _near(request: SelectionRequest, cosines: Scores, embedder: Embedder) -> Scores:
    """From 0 (under the threshold, or unrelated) to 1 (the nearest message), for each message."""
    floor = unrelated_cosine(embedder)
    least = request.options.threshold.cosine(floor)
    top = float(cosines.max(initial=0.0))
    if top < least or top <= floor:
        return np.zeros_like(cosines)
    share = np.maximum(cosines - np.float32(floor), 0) / np.float32(top - floor)
    return np.where(cosines >= least, share, np.float32(0))


# ---- why a message was chosen, in a few words a person reads ----------------------------

_SAYS_IT: Final = 0.3
"""How well a message matches, as a share of the best, that is a reason by itself."""
_PART: Final = 0.3
"""The share of a score that makes its part a reason."""
_AROUND: Final = 24
"""Messages on either side among which the one is looked for that a passage is about."""
_FADING: Final = 9.0
"""Messages over which a hit counts 1/e as the one that it is about."""


def reasons(picked: Picked) -> list[str]:
    """Return why each message is among what was picked, in their order."""
    units = picked.scored.request.index.units
    return [
        _reason(picked, at, units[at], place)
        for at in picked.choice.chosen
        for place in units[at].places
    ]


def _reason(picked: Picked, at: int, unit: Unit, place: int) -> str:
    found = picked.scored
    request = found.request
    index = request.index
    scores = found.total[unit.first : unit.last + 1]
    best = unit.first + int(np.argmax(scores))
    if place != best and found.hits[place] < _SAYS_IT:
        other = index.items[best].id
        return f"belongs to {other}: a call and its results are chosen together"
    if at in picked.asked:
        return "picked by the model that was asked"
    weights = request.options.weights
    told: list[str] = []
    if place in request.marked and weights.callout:
        told.append("marked as important")
    enough = _PART * float(found.total[place])
    said = weights.keyword * float(found.parts.own[place] + found.parts.passage[place])
    if found.hits[place] >= _SAYS_IT and said:
        told.append(_of_words(picked, place))
    elif said >= enough and said:
        told.append(_of_passage(picked, place))
    if weights.recency * float(found.parts.recent[place]) >= enough:
        told.append("among the newest")
    return "; ".join(told) or "fits what was left of the budget"


def _of_words(picked: Picked, place: int) -> str:
    request = picked.scored.request
    words = request.index.matched(request.task, place)
    return f"says {', '.join(words)}" if words else "is near to the task in meaning"


def _of_passage(picked: Picked, place: int) -> str:
    found = picked.scored
    first = max(0, place - _AROUND)
    hits = found.hits[first : place + _AROUND + 1]
    away = np.abs(np.arange(first, first + len(hits)) - place)
    near = first + int(np.argmax(np.square(hits) * np.exp(-away / _FADING)))
    if near == place or not found.hits[near]:
        return "fits what was left of the budget"
    return f"near {found.request.index.items[near].id}, which {_of_words(picked, near)}"
