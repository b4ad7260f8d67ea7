"""A text in pieces: its lines, each with its end, long ones parted between their words."""

from __future__ import annotations

from itertools import groupby
from typing import Final

LINE: Final = 400
"""Characters of a line above which it is parted."""
_PIECE: Final = 200
"""Characters of the pieces of a longer line."""
_BREAKS: Final = ("},", "\\n", ". ", ", ", ",", ";", "|", " ")
"""A long line is parted after the last of these."""
_BACK: Final = 80
"""Characters before the end of a piece that are searched for such a place."""
_RUN: Final = 4
"""Equal lines in a row from which on those behind the first are one piece."""


class Pieces:
    """The pieces of a text, in order; joined they are the text and a line's end.

    `firsts` and `lasts` are the numbers, from 0, of the lines that a piece begins and ends in.
    `runs` are the pieces that only say the line before them again.
    """

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.runs: set[int] = set()
        number = 0
        for line, group in groupby(text.split("\n")):
            count = sum(1 for _ in group)
            for _ in range(1 if count >= _RUN else count):
                self._add(line, number)
                number += 1
                count -= 1
            if count:
                self.runs.add(len(self.texts))
                self._put(f"{line}\n" * count, number, number + count - 1)
                number += count

    def _add(self, line: str, number: int) -> None:
        at = 0
        while len(line) - at > LINE:
            end = _part_end(line, at + _PIECE)
            self._put(line[at:end], number, number)
            at = end
        self._put(f"{line[at:]}\n", number, number)

    def _put(self, text: str, first: int, last: int) -> None:
        self.texts.append(text)
        self.firsts.append(first)
        self.lasts.append(last)

    def ends(self, at: int) -> bool:
        """Whether a line ends with the piece; so it does before the first."""
        return at < 0 or self.texts[at].endswith("\n")


def _part_end(line: str, middle: int) -> int:
    end = max([line.rfind(sign, middle - _BACK, middle) + len(sign) for sign in _BREAKS])
    return end if end > middle - _BACK else middle
