"""What the input tokens of a run's calls cost at a price vector, fresh input tokens = 1.

Two bills. By *prefix*: what a call shares with one of the 8 before it is read, the rest is written.
*Strict*, by Anthropic's rules: only what ends at a mark is kept, and found only near a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from bench.windows.shown import Shown

LOOK_BACK: Final = 8
"""A call may find its prefix cached by one of so many calls before it."""

MARKS: Final = 4
"""Messages that a request may mark, by the strict bill."""
BLOCKS: Final = 20
"""From a mark so many content blocks back a kept prefix is found."""
BEHIND_MARKS: Final = 1.0
"""What a token behind the last mark costs."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Prices of an input token that is read from the cache, or written to it.

    A prefix under `minimum` tokens is not kept; a longer one is found in whole `step`s.
    """

    name: str
    read: float
    write: float
    minimum: int
    step: int


VECTORS: Final = (
    Vector("anthropic", 0.10, 1.25, 1_024, 1),
    Vector("automatic", 0.10, 1.00, 1_024, 128),
    Vector("none", 1.0, 1.0, 0, 1),
)
"""Anthropic-like, an automatic cache, no cache."""


class Sent(NamedTuple):
    """Neutral tokens of one call, and how many of them an earlier call's prefix holds."""

    tokens: float
    shared: float


def sent(windows: Iterable[Sequence[int]], shown: Shown) -> list[Sent]:
    """Each window's tokens, and the longest prefix it shares with one of the 8 before it."""
    before: list[Sequence[int]] = []
    calls: list[Sent] = []
    for window in windows:
        sums = [0.0, *accumulate(shown.tokens[number] for number in window)]
        shared = 0.0
        for earlier in reversed(before):
            same = _same(window, earlier)
            if same < min(len(window), len(earlier)):
                shared = max(shared, sums[same] + shown.head(window[same], earlier[same]))
            else:
                shared = max(shared, sums[same])
        calls.append(Sent(sums[-1], shared))
        before = [*before[1 - LOOK_BACK :], window]
    return calls


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    """How many messages two windows share at their heads."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def cost(call: Sent, vector: Vector) -> float:
    """The price of one call: what is shared is read, the rest written.

    A call under the minimum writes nothing; its tokens are fresh ones.
    """
    cached = call.shared - call.shared % vector.step if call.shared >= vector.minimum else 0.0
    fresh = vector.write if call.tokens >= vector.minimum else 1.0
    return cached * vector.read + (call.tokens - cached) * fresh


class Marked(NamedTuple):
    """Neutral tokens of one call: all, those that are read, and those written behind them."""

    tokens: float
    read: float
    written: float


def marked(
    windows: Iterable[Sequence[int]],
    marks: Iterable[Sequence[int]],
    shown: Shown,
    minimum: int,
) -> list[Marked]:
    """What each call finds and leaves in a cache that keeps only what ends at a mark.

    `marks` are the positions of each window's marked messages; of more than four the last four
    count.
    """
    kept: set[int] = set()
    calls: list[Marked] = []
    for window, places in zip(windows, marks, strict=True):
        heads = _heads(window)
        sums = [0.0, *accumulate(shown.tokens[number] for number in window)]
        blocks = [0, *accumulate(shown.blocks[number] for number in window)]
        ends = sorted({at + 1 for at in places if 0 <= at < len(window)})[-MARKS:]
        ends = [end for end in ends if sums[end] >= minimum]
        read = 0
        for mark in ends:
            for end in range(mark, read, -1):
                if blocks[mark] - blocks[end] > BLOCKS:
                    break
                if heads[end] in kept:
                    read = end
                    break
        last = max(ends, default=0)
        calls.append(Marked(sums[-1], sums[read], sums[max(last, read)] - sums[read]))
        kept.update(heads[end] for end in ends)
    return calls


def _heads(window: Sequence[int]) -> list[int]:
    """A number for each head of a window; equal heads have equal numbers."""
    heads = [0]
    for number in window:
        heads.append(hash((heads[-1], number)))
    return heads


def marked_cost(call: Marked, vector: Vector) -> float:
    """The price of one call by the strict bill."""
    behind = call.tokens - call.read - call.written
    return call.read * vector.read + call.written * vector.write + behind * BEHIND_MARKS


def end_marks(window: Sequence[int]) -> tuple[int, int]:
    """The marks of who sets none: the last message and the one three before it."""
    return len(window) - 4, len(window) - 1
