"""A text in segments: its lines, each with its end, long ones parted between their words.

Forms of lines: what is left of a line when its words and numbers are taken for any others.

A form that many lines share is frequent. Lines of rare forms are written more coarsely, so that
prose and code, where each line has a form of its own, have few.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from windlass.window.digests import ERROR_SIGNS

LINE: Final = 400
"""Characters of a line above which it is parted."""
_SEGMENT: Final = 200
"""Characters of the segments of a longer line."""
_BREAKS: Final = ("},", "\\n", ". ", ", ", ",", ";", "|", " ")
"""A long line is parted after the last of these."""
_BACK: Final = 80
"""Characters before the end of a segment that are searched for such a place."""
_MOST_CHARS: Final = 200_000
_MOST_LINES: Final = 8_000
"""Longer texts are not looked at line by line in their middle."""
_END_CHARS: Final = 60_000
_END_LINES: Final = 2_000
"""What is looked at of such a text at each of its ends."""
_MIDDLE: Final = (60_000, 1_000)
"""Characters and lines that are looked at between the ends."""
_MOST_SCANNED: Final = 100_000
"""Lines between the ends of which the beginnings are compared, the last ones."""
_BEGINNING: Final = 24
_RARE: Final = 2
"""Characters of a line's beginning, and lines that share a rare one."""
_NO_DIGITS: Final = str.maketrans("123456789", "0" * 9)
_RUN: Final = 4
"""Equal lines in a row from which on those behind the first are one segment."""


class Segments:
    """The segments of a text, in order; joined they are the text and a line's end.

    `firsts` and `lasts` are the numbers, from 0, of the lines that a segment begins and ends in.
    `equal` are the segments that only say the line before them again, `skipped` those that nobody
    looks at: runs of lines in the middle of a very long text.
    """

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.equal: set[int] = set()
        self.skipped: set[int] = set()
        lines = text.split("\n")
        number = 0
        for looked_at, end in _stretches(lines):
            part = lines[number:end]
            if looked_at:
                self._take(part, number)
            else:
                self.skipped.add(len(self.texts))
                self._put("\n".join([*part, ""]), number, end - 1)
            number = end

    def _take(self, lines: Sequence[str], number: int) -> None:
        for line, group in groupby(lines):
            count = len([*group])
            for _ in range(1 if count >= _RUN else count):
                self._add(line, number)
                number += 1
                count -= 1
            if count:
                self.equal.add(len(self.texts))
                self._put(f"{line}\n" * count, number, number + count - 1)
                number += count

    def _add(self, line: str, number: int) -> None:
        at = 0
        while len(line) - at > LINE:
            end = _part_end(line, at + _SEGMENT)
            self._put(line[at:end], number, number)
            at = end
        self._put(f"{line[at:]}\n", number, number)

    def _put(self, text: str, first: int, last: int) -> None:
        self.texts.append(text)
        self.firsts.append(first)
        self.lasts.append(last)

    def ends(self, at: int) -> bool:
        """Return whether a line ends with the segment; so it does before the first."""
        return at < 0 or self.texts[at].endswith("\n")


def _stretches(lines: Sequence[str]) -> Iterator[tuple[bool, int]]:
    """Yield which lines are looked at: stretches, each with the line behind it.

    Of a very long text they are both ends, and between them the lines whose beginnings are rare or
    that have a failure word in them, as far as there is room.
    """
    total = sum(map(len, lines)) + len(lines)
    if total <= _MOST_CHARS and len(lines) <= _MOST_LINES:
        yield True, len(lines)
        return
    first = _end_of(lines, range(len(lines)))
    last = len(lines) - _end_of(lines, range(len(lines) - 1, first - 1, -1))
    middle = range(max(first, last - _MOST_SCANNED), last)
    begins = [lines[at].lstrip()[:_BEGINNING].translate(_NO_DIGITS) for at in middle]
    counts = Counter(begins)
    room, most = _MIDDLE
    looked_at = {*range(first), *range(last, len(lines))}
    for at, begin in zip(middle, begins, strict=True):
        line = lines[at]
        if counts[begin] <= _RARE or any(map(line.__contains__, ERROR_SIGNS)):
            room -= len(line) + 1
            most -= 1
            if room < 0 or most < 0:
                break
            looked_at.add(at)
    at = 0
    for is_so, group in groupby(range(len(lines)), key=looked_at.__contains__):
        at += len([*group])
        yield is_so, at


def _end_of(lines: Sequence[str], places: Sequence[int]) -> int:
    """Return how many of the places are looked at because they stand at an end."""
    room = _END_CHARS
    for number, at in enumerate(places):
        room -= len(lines[at]) + 1
        if room < 0 or number >= _END_LINES:
            return max(1, number)  # a giant line is at an end, too
    return len(places)


def _part_end(line: str, middle: int) -> int:
    end = max([line.rfind(sign, middle - _BACK, middle) + len(sign) for sign in _BREAKS])
    return end if end > middle - _BACK else middle


_TOKEN: Final = re.compile(r"[\w./@~+%\\-]+|[^\w\s]")
_NUMBER: Final = re.compile(r"([+-]?)\d+(?:[.,]\d+)*([^\W\d_]{1,3}|%)?")
FREQUENT: Final = 8
"""Lines that share a frequent form, at least."""


def split(text: str, most: int | None = None) -> list[str]:
    """Return words, numbers, paths and punctuation of a text, or of its first `most` characters."""
    return _TOKEN.findall(text, 0, len(text) if most is None else most)


@lru_cache(maxsize=1 << 15)
def class_of(token: str) -> str:
    """What a token is: `0` a number (with minus and unit), `w` a word, `x` a mixture, or itself.

    >>> [class_of(token) for token in ("-1.5", "30ms", "größer", "a/b.c", "::")]
    ['-0', '0ms', 'w', 'x', '::']
    """
    if token.isalpha():
        return "w"
    number = _NUMBER.fullmatch(token)
    if number:
        return f"{'-' * (number[1] == '-')}0{number[2] or ''}"
    return "x" if any(map(str.isalnum, token)) else token


class Templates:
    """The form of each segment of a text.

    `keys` are the forms (an empty one: it is blank), `rows` the places of each frequent one.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.tokens: list[list[str]] = [split(text, LINE) for text in texts]
        self.classes: list[list[str]] = [[*map(class_of, tokens)] for tokens in self.tokens]
        self.keys: list[str] = [*map(" ".join, self.classes)]
        counts = Counter(self.keys)
        del counts[""]
        places: defaultdict[str, list[int]] = defaultdict(list)
        coarse: dict[str, str] = {"": ""}
        for at, key in enumerate(self.keys):
            if counts[key] >= FREQUENT:
                places[key].append(at)
                continue
            if key not in coarse:
                coarse[key] = _collapsed(self.classes[at])
            self.keys[at] = coarse[key]
        self.rows: Mapping[str, list[int]] = places
        """By frequent form the places that have it."""


def _collapsed(classes: Sequence[str]) -> str:
    """Return a form with any words in a row as one; it begins as none that is frequent."""
    parts = ["~"]
    for one in classes:
        part = "w" if one == "x" else one
        if part != "w" or parts[-1] != "w":
            parts.append(part)
    return " ".join(parts)
