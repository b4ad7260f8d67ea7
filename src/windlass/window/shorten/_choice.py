"""Which segments of a text stay in sight. The room is never filled up with what is plain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.window.shorten._scores import Scores

_TOP: Final = 0.08
_END: Final = 0.12
"""Shares of the room for the first and for the last segments."""
_LEAST: Final = 1.2
"""What a segment is worth that is chosen for itself."""
_LONG: Final = 0.004
"""What each character of a segment takes from its worth, where the best are chosen first."""
_MARK: Final = 34
"""Characters of the mark that a segment alone costs."""
_PLAIN_OUTPUT: Final = 0.1
_PLAIN: Final = 0.2
"""Shares of the room for what is plain, in output of programs and elsewhere."""
_AROUND: Final = 3
_GAP_SEGMENTS: Final = 2
_GAP_CHARS: Final = 70
"""A gap of so little is shown."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How segments of a kind of text are chosen.

    `output`: a program wrote it. `heads`: without which segment another says nothing.
    """

    output: bool = False
    heads: Mapping[int, int] | None = None


def choose(lengths: Sequence[int], room: int, scores: Scores, manner: Manner) -> set[int]:
    """The segments that stay, within `room` characters."""
    choice = _Choice(lengths, room, scores.plain, manner)
    number = len(lengths)
    for places, share in ((range(number), _TOP), (range(number - 1, -1, -1), _END)):
        choice.run(places, share)
    ranked = [at for at, score in enumerate(scores.all) if score >= _LEAST]
    ranked.sort(key=lambda at: (_LONG * lengths[at] - scores.all[at], at))
    choice.fill(ranked)
    centres = [at for at in ranked if at in choice.chosen]
    for distance in range(1, _AROUND + 1):
        choice.fill(at + way for at in centres for way in (-distance, distance))
    choice.fill(range(number))
    choice.close()
    return choice.chosen


class _Choice:
    def __init__(
        self, lengths: Sequence[int], room: int, plain: frozenset[int], manner: Manner
    ) -> None:
        self.chosen: set[int] = set()
        self._lengths = lengths
        self._room = self._left = room
        self._plain = plain
        self._plain_left = room * (_PLAIN_OUTPUT if manner.output else _PLAIN)
        self._heads = manner.heads or {}

    def run(self, places: Iterable[int], share: float) -> None:
        """Take the places in their order, until one does not fit into this share of the room."""
        floor = self._left - int(self._room * share)
        for at in places:
            if at not in self.chosen and not self._take(at, floor, mark=0):
                break

    def fill(self, places: Iterable[int]) -> None:
        """Take those of the places that fit, in their order."""
        for at in places:
            if self._left <= 0:
                break
            if 0 <= at < len(self._lengths) and at not in self.chosen:
                beside = at - 1 in self.chosen or at + 1 in self.chosen
                self._take(at, 0, mark=0 if beside else _MARK)

    def _take(self, at: int, floor: int, mark: int) -> bool:
        head = self._heads.get(at, at)
        length = self._lengths[at] + (head not in self.chosen and head != at) * self._lengths[head]
        if self._left - length - mark < floor:
            return False
        if at in self._plain:
            if self._plain_left < length:
                return False
            self._plain_left -= length
        self.chosen |= {at, head}
        self._left -= length + mark
        return True

    def close(self) -> None:
        """Show what is shorter than the mark that would stand in its place."""
        last = -1
        for at in [*sorted(self.chosen), len(self._lengths)]:
            gap = range(last + 1, at)
            if (
                0 < len(gap) <= _GAP_SEGMENTS
                and sum([self._lengths[place] for place in gap]) <= _GAP_CHARS
            ):
                self.chosen.update(gap)
            last = at
