"""From scored candidates to a choice: pure arithmetic over the messages of a session.

Messages are scored, passages are chosen. A message counts for what it says itself (its *own*
score) and for what is said around it (its *passage*: the squares of scores, spread to
the neighbours and fading with the distance, where more of the task's words are said around);
the newest count more where they speak of the task at all. The budget is filled by score, and
what is chosen goes back in session order.
`design/decisions.md` has the measurements. Knows no words, vectors or cards: who scored a
message, and by what, is the affair of strategies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float32]
"""One number a message of the session, in its order."""

REACH: Final = 64
"""How many messages a score spreads at most, however short they are: a power of two."""


@dataclass(frozen=True, slots=True)
class SpreadShape:
    """How far scores spread, and how much a message's own score weighs beside its passage.

    `forward` and `backward` are distances, in tokens, over which a score fades to 1/e; `back`
    is the weight of spreading backward: an answer stands behind its question.
    `recent` is what recency counts beside the rest.
    """

    own: float
    forward: float
    backward: float
    back: float
    recent: float


NARROW: Final = SpreadShape(own=1.8, forward=130.0, backward=85.0, back=0.5, recent=1.0)
"""For a task that goes on with the talk: sharp hits first, and little around them."""
WIDE: Final = SpreadShape(own=0.0, forward=450.0, backward=250.0, back=0.8, recent=0.05)
"""For a task that asks about the talk: whole passages, a hit only as the middle of one."""
PLAIN: Final = SpreadShape(own=0.3, forward=200.0, backward=110.0, back=0.5, recent=0.05)
"""For a question on a matter of the talk: the message that answers it, and a little around it."""

_SQUARED: Final = 2.5
"""The power of scores before they spread, so that many weak hits do not drown a strong one."""
_ASKED: Final = 0.75
"""What a question gains of its answer's score, besides being next to it."""
_LIKELY: Final = 0.33
"""The power of likelihood ratios beside the scores that are spread."""
_FEW_WORDS: Final = 6
"""Of tasks with more words the power is less: their ratios multiply up."""
_NEAR: Final = 2.0
"""How much nearness in meaning counts for a passage, where a task has few words."""
_TELLING: Final = 3
"""With more words than these it counts less."""
_PRIOR: Final = 300.0
"""Words of the whole session that count as said around each message, besides what is."""
_SAID_AT_MOST: Final = 3.0
"""How often a word counts within one message for what is said around it."""
_SHORT: Final = 60.0
"""Tokens of a message up to which all count as distance; of a longer one the rest counts less."""
_FAR_TOKENS: Final = 2_000.0
"""Tokens of that rest over which a score fades to 1/e, in any shape: a hit in a long document
says little of what stands behind."""
_SPREAD_HITS: Final = 0.25
"""How much own scores lose where many messages have high ones."""
_NEWEST: Final = 40
"""Messages that count as newest for whether the task goes on with them."""
_FADING: Final = 12.0
"""Messages over which one half of recency fades to 1/e."""
_REMEMBERED: Final = 100.0
"""Messages over which its other half falls to 0."""
_ALWAYS_RECENT: Final = 0.05
_GOING_ON: Final = 1.5


def recency(count: int) -> Scores:
    """Return how new each of `count` messages is: 1 for the last one, fading by position.

    Fast at first, for what was just said, and then slowly, for what is still being talked of.
    """
    age = np.arange(count - 1, -1, -1, dtype=np.float32)
    fading = np.exp(-age / np.float32(_FADING))
    lasting = np.maximum(np.float32(0), 1 - age / np.float32(_REMEMBERED))
    halves: Scores = (fading + lasting) / np.float32(2)
    return halves


def normalised(scores: Scores) -> Scores:
    """Return the scores with 1 for the highest; what is below 0 becomes 0."""
    top = float(scores.max(initial=0.0))
    if top <= 0:
        return np.zeros_like(scores)
    return np.divide(np.maximum(scores, 0), top, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Relevance:
    """What each message has of the task: by itself, by what is around it, by being new.

    `own` and `passage` together are at most a little above 1; `recent` is at most 1.
    """

    own: Scores
    passage: Scores
    recent: Scores


@dataclass(frozen=True, slots=True)
class Mentions:
    """Where the words of a task are said: for each messages, how often there, what it counts.

    `lengths` are the words of every message.
    """

    words: Sequence[tuple[NDArray[np.int64], Scores, float]]
    lengths: Scores

    @property
    def count(self) -> float:
        """How many words they are, by what they count."""
        return sum(weight for _, _, weight in self.words)


def relevance(
    hits: Scores,
    tokens: Scores,
    shape: SpreadShape,
    answers: NDArray[np.bool_] | None = None,
    *,
    mentions: Mentions | None = None,
    near: Scores | None = None,
) -> Relevance:
    """Return what each message has of a task, from how much its own text has (`hits`, 0 to 1).

    `tokens` are those of each message; `answers` says which of them answers the one before it;
    by `mentions` passages count more that say more of the task's words, by `near` (0 to 1, how
    near each message is in meaning) those that are nearer. Where nothing hits, only recency
    counts.
    """
    count = len(hits)
    recent = recency(count)
    if not count or not hits.any():
        return Relevance(np.zeros_like(recent), np.zeros_like(recent), recent)
    # Fourth powers: how many messages share the top, 1 where one stands out.
    crowd = max(float(np.square(np.square(hits)).sum()) / 4, 0.25) ** _SPREAD_HITS
    own = np.float32(shape.own / crowd) * hits
    heat = hits**_SQUARED
    spreading = Spreading(tokens, shape)
    passage = spreading.of(heat)
    scale = np.float32(max(1.0, float(passage.max())))
    if mentions is not None and mentions.words:
        passage *= likelihood(mentions, spreading)
    if near is not None and near.any():
        words = mentions.count if mentions is not None else 0.0
        passage *= closeness(near, tokens, spreading, words)
    if answers is not None:
        passage[:-1] += np.float32(_ASKED) * np.where(answers[1:], heat[1:], np.float32(0))
    going_on = float(hits[-_NEWEST:].max()) ** _GOING_ON
    share = np.float32(shape.recent * (_ALWAYS_RECENT + going_on))
    return Relevance(own / scale, passage / scale, recent * share)


def likelihood(mentions: Mentions, spreading: Spreading) -> Scores:
    """Return how much better than the whole session what is said around each message fits the task.

    The likelihood of the task's words in the words around a message, with those of the session
    as a prior, to a power; 1 at the best place. Positional language models: Lv and Zhai, SIGIR
    2009, with Dirichlet smoothing (Zhai and Lafferty 2004, eq. 6).
    """
    lengths = mentions.lengths
    whole = float(lengths.sum()) or 1.0
    ratio = np.zeros_like(lengths)
    mentioned = np.empty_like(lengths)
    for places, counts, weight in mentions.words:
        mentioned[:] = 0
        mentioned[places] = np.minimum(counts, np.float32(_SAID_AT_MOST))
        expected = _PRIOR * float(mentioned.sum()) / whole
        ratio += np.float32(weight) * np.log(1 + spreading.of(mentioned) / np.float32(expected))
    around = np.log(1 + spreading.of(lengths) / np.float32(_PRIOR))
    ratio -= np.float32(mentions.count) * around
    power = _LIKELY * min(1.0, _FEW_WORDS / mentions.count)
    fits: Scores = np.exp(np.float32(power) * (ratio - ratio.max()))
    return fits


def closeness(near: Scores, tokens: Scores, spreading: Spreading, words: float) -> Scores:
    """Return how near in meaning to the task what is said around each message is; 1 at the nearest.

    `words` is how many of the task's words are said at all: many say better what is meant.
    """
    around = normalised(spreading.of(near * tokens) / spreading.of(tokens))
    power = _NEAR * min(1.0, (_TELLING / max(words, 1.0)) ** 2)
    fits: Scores = np.exp(np.float32(power) * (around - 1))
    return fits


class Spreading:
    """How scores spread over the messages of one session, in one shape.

    The distance of two messages is counted in tokens, from the middle of one to that of the other.
    """

    def __init__(self, tokens: Scores, shape: SpreadShape) -> None:
        short = np.minimum(tokens, np.float32(_SHORT))
        steps = _between(short)
        far = _between(tokens - short) / np.float32(_FAR_TOKENS)
        ahead = np.exp(-far - steps / np.float32(shape.forward))
        behind = np.exp(-far - steps / np.float32(shape.backward))
        ahead[:1] = 0
        behind[:1] = 0
        self._ahead = _fadings(ahead)
        self._behind = _fadings(np.concatenate((behind[:1], behind[:0:-1])))
        self._back = np.float32(shape.back)

    def of(self, scores: Scores) -> Scores:
        """Return the scores, and those of neighbours, each fading with its distance."""
        behind = _carried(scores[::-1], self._behind)[::-1]
        return scores + _carried(scores, self._ahead) + self._back * behind


def _between(tokens: Scores) -> Scores:
    """Return tokens from the middle of the message before each to its own; 0 for the first."""
    steps = np.zeros_like(tokens)
    steps[1:] = (tokens[1:] + tokens[:-1]) / np.float32(2)
    return steps


def _fadings(fading: Scores) -> list[Scores]:
    """Return what is left of a score on 1, 2, 4, ... steps to each place, from that on one step.

    `fading[i]` is what is left on the step from i - 1 to i.
    """
    kept = [fading]
    step = 1
    while step < min(REACH, len(fading)):
        longer = kept[-1].copy()
        longer[step:] *= kept[-1][:-step]
        longer[:step] = 0
        kept.append(longer)
        step *= 2
    return kept


def _carried(scores: Scores, fadings: Sequence[Scores]) -> Scores:
    """At each place the sum of the `REACH` scores before it, each times the fading between.

    A linear recurrence, solved by doubling its reach instead of step by step.
    """
    carried = np.zeros_like(scores)
    carried[1:] = scores[:-1] * fadings[0][1:]
    step = 1
    for kept in fadings[:-1]:
        carried[step:] += kept[step:] * carried[:-step]
        step *= 2
    return carried


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that are chosen together or not at all: a call and its results, or one message.

    `first` and `last` are positions; `tokens` those of all of them.
    """

    first: int
    last: int
    tokens: int

    @property
    def places(self) -> range:
        """The positions of its messages."""
        return range(self.first, self.last + 1)

    @property
    def size(self) -> int:
        """How many messages it has."""
        return self.last + 1 - self.first


class Units:
    """The units of a session, in its order, as they grow."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.tokens: list[int] = []
        self.said: list[str] = []
        """What each says, or nothing where that is short: equal ones are chosen once."""
        self.messages = 0
        """How many messages the units hold."""

    def append(self, tokens: int, *, joins: bool, said: str = "") -> None:
        """The next message; `joins`: it belongs to the unit before it, as a result to its call."""
        if joins and self.starts:
            self.tokens[-1] += tokens
            self.said[-1] += said
        else:
            self.starts.append(self.messages)
            self.tokens.append(tokens)
            self.said.append(said)
        self.messages += 1

    def __len__(self) -> int:
        return len(self.starts)

    def holding(self, place: int) -> int:
        """Return the number of the unit that a message belongs to."""
        return bisect_right(self.starts, place) - 1

    def __getitem__(self, at: int) -> Unit:
        end = self.starts[at + 1] if at + 1 < len(self.starts) else self.messages
        return Unit(self.starts[at], end - 1, self.tokens[at])


@dataclass(frozen=True, slots=True)
class ChosenUnits:
    """Which units were chosen, by place, in session order; and which did not fit, best first."""

    chosen: tuple[int, ...]
    left_out: tuple[int, ...]
    tokens: int


MOST_LEFT_OUT: Final = 20


def fill_budget(
    order: Iterator[int],
    units: Units,
    budget: int,
    most: int | None = None,
    *,
    first: Sequence[int] = (),
) -> ChosenUnits:
    """Take units in the given order while they fit the budget of tokens and `most` messages.

    A unit that does not fit is passed over for smaller ones. `first` are taken before the
    others where they fit. Of units that say the same only the best is taken.
    """
    left = budget
    count = 0
    chosen: dict[int, None] = {}
    left_out: list[int] = []
    taken: set[str] = set()
    tokens, starts = units.tokens, units.starts
    least = min(tokens, default=0)
    for at in chain(first, order):
        if left < least or (most is not None and count >= most):
            break
        if at in chosen or units.said[at] in taken:
            continue
        end = starts[at + 1] if at + 1 < len(starts) else units.messages
        size = end - starts[at]
        if tokens[at] > left or (most is not None and count + size > most):
            if len(left_out) < MOST_LEFT_OUT:
                left_out.append(at)
            continue
        chosen[at] = None
        taken |= {units.said[at]} - {""}
        left -= tokens[at]
        count += size
    return ChosenUnits(tuple(sorted(chosen)), tuple(left_out), budget - left)


def best_first(scores: Scores, least: float = 0.0) -> Iterator[int]:
    """Order the places of scores above `least`, highest first; of equal ones the later first."""
    flipped = scores[::-1]
    for place in np.argsort(-flipped, kind="stable").tolist():
        if flipped[place] <= least:
            return
        yield len(scores) - 1 - place
