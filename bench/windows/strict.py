"""The strict bill, by Anthropic's rules: what ends at a mark is kept, and found near a mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from windlass.replays.numbered import NumberedMessages
from windlass.replays.pricing import Vector

MARKS: Final = 4
"""Messages that a request may mark, by the strict bill."""
BLOCKS: Final = 20
"""From a mark so many content blocks back a kept prefix is found."""
BEHIND_MARKS: Final = 1.0
"""What a token behind the last mark costs."""


def blocks(chat: Mapping[str, Any]) -> int:
    """Content blocks of a message: its parts and its calls; a tool's message is one."""
    content = chat.get("content")
    parts = len(content) if isinstance(content, list) else int(bool(content))
    return 1 if chat["role"] == "tool" else parts + len(chat.get("tool_calls") or ())


class _Blocks(dict[int, int]):
    """The content blocks of messages, by their numbers."""

    def __init__(self, shown: NumberedMessages) -> None:
        super().__init__()
        self._shown = shown

    def __missing__(self, number: int) -> int:
        self[number] = count = blocks(self._shown.chats[number])
        return count


class Marked(NamedTuple):
    """Neutral tokens of one call: all, those that are read, and those written behind them."""

    tokens: float
    read: float
    written: float


def marked(
    windows: Iterable[Sequence[int]],
    marks: Iterable[Sequence[int]],
    shown: NumberedMessages,
    minimum: int,
) -> list[Marked]:
    """What each call finds and leaves in a cache that keeps only what ends at a mark.

    `marks` are the positions of each window's marked messages; of more than four the last four
    count.
    """
    counts = _Blocks(shown)
    kept: set[int] = set()
    calls: list[Marked] = []
    for window, places in zip(windows, marks, strict=True):
        heads = _heads(window)
        sums = [0.0, *accumulate(shown.tokens[number] for number in window)]
        blocks = [0, *accumulate(counts[number] for number in window)]
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
