"""The text of a file with a number before each line, as Claude Code shows what Read gives.

Rules see the file's own text: a file that was read and the same text from a command are one. What
they leave of it gets the numbers of its own lines back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

NUMBERED: Final = "Read"
"""The tool whose results have numbers."""
_NUMBERED = re.compile(r"( *\d+(?:\t|→))(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NumberedLines:
    """A text, line by line."""

    numbers: tuple[str, ...]
    """What stands before each line."""
    lines: tuple[str, ...]
    rest: tuple[str, ...]
    """What follows without numbers."""

    @classmethod
    def read(cls, text: str) -> NumberedLines | None:
        """Return the lines of a text (None: the first has no number)."""
        lines = text.split("\n")
        found: list[tuple[str, str]] = []
        for line in lines:
            match = _NUMBERED.fullmatch(line)
            if match is None:
                break
            found.append((match[1], match[2]))
        if not found:
            return None
        numbers, bare = zip(*found, strict=True)
        return cls(numbers, bare, tuple(lines[len(found) :]))

    @property
    def text(self) -> str:
        """Return the lines without their numbers."""
        return "\n".join(self.lines)

    def with_numbers(self, text: str) -> str:
        """Return a text with the numbers of its lines whose place is sure, and the rest."""
        lines = text.split("\n")
        places = self._places(lines)
        numbered = (
            line if at is None else f"{self.numbers[at]}{line}"
            for line, at in zip(lines, places, strict=True)
        )
        return "\n".join([*numbered, *self.rest])

    def fits(self, text: str, original: str) -> bool:
        """Return whether the place of each line that is kept is sure."""
        del original
        lines, known = text.split("\n"), set(self.lines)
        return all(
            at is not None or line not in known
            for line, at in zip(lines, self._places(lines), strict=True)
        )

    def _places(self, lines: Sequence[str]) -> list[int | None]:
        """Return where each line stands: where it does, whether the first or the last is taken."""
        if len(lines) == len(self.lines):
            return list(range(len(lines)))
        first = list(_found(lines, self.lines))
        backward = list(_found(lines[::-1], self.lines[::-1]))[::-1]
        end = len(self.lines) - 1
        last = [None if at is None else end - at for at in backward]
        return [one if one == other else None for one, other in zip(first, last, strict=True)]


def _found(lines: Iterable[str], among: Sequence[str]) -> Iterator[int | None]:
    """Yield the place of each line behind that of the one before (None: there is none)."""
    places: dict[str, list[int]] = {}
    for at in range(len(among) - 1, -1, -1):
        places.setdefault(among[at], []).append(at)
    begin = 0
    for line in lines:
        listed = places.get(line, [])
        while listed and listed[-1] < begin:
            listed.pop()
        yield listed[-1] if listed else None
        if listed:
            begin = listed.pop() + 1
