"""Where lines are shown: looked up instead of searched for.

An index holds what calls have seen, grows by what is new, and forgets nothing; whether what
it finds is still shown is asked when it is used. It knows nothing of when a repeat is worth
a reference. Numbers that tools write before the lines of a file are told apart from the lines: a
file that was changed is shown again with other numbers before the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, compress, count
from typing import Final, TypeAlias

from windlass.messages import Message
from windlass.window.pending import PendingEdits
from windlass.window.references import REFERENCE

_NUMBER: Final = re.compile(r"( *+)(\d{1,18}+)(?=[→\t:|])")
_ENDS: Final = re.compile(r"\n(?: *+\d++[→\t:|])?+")
"""The end of a line, with the number before the next one."""
_NUMBERED: Final = re.compile(r"\n *+\d++[→\t:|]")
_HEAD: Final = 1_000
"""Characters in which a text that numbers its lines begins to: to look for numbers at the end of
every line takes six times as long as to split it."""
RUN: Final = 4
"""Lines that a run has at least."""
_WIDE: Final = 3
"""Lines that a run is found by."""
_STRIDE: Final = RUN - _WIDE + 1
"""One in so many places of a text is taken in: every run begins before or at one of them."""
_PLACES: Final = 4
"""Results remembered that show the same lines, the newest; they are tried one after the other."""
_KEPT_CHARS: Final = 50_000
"""Of texts of at most so many characters the lines are remembered: of one in view they are asked
for call after call."""
_LINES: Final = 1 << 32
"""More lines than a text has: one number then says a position and a line."""


@dataclass(frozen=True, slots=True)
class LineRun:
    """Lines of a new text that the message at `at` shows, all of them.

    `start` counts the new text's lines from 0; `first` is the number, from 1, of the line
    among those that the message at `at` stands for. `numbered`: the numbers that the new
    text has before the first line and the last, where the message has others before them.
    """

    start: int
    count: int
    at: int
    first: int
    numbered: tuple[int, int] | None = None


class LineIndex:
    """The lines that tool results show."""

    def __init__(self) -> None:
        self._upto = 0
        self._shown: dict[int, Message] = {}
        """The messages as they were when they were taken in."""
        self._runs: dict[int, int] = {}
        """Where some lines were shown last: the position times `_LINES`, and the first line."""
        self._before: dict[int, list[int]] = {}
        """Where they were shown before that, if they were: the oldest place first."""
        self._texts: dict[str, list[int]] = {}

    def grow(self, pending: PendingEdits) -> None:
        """Take in what was sent since."""
        for at in range(self._upto, pending.fresh.start):
            self.add(pending, at)
        self._upto = pending.fresh.start

    def add(self, pending: PendingEdits, at: int) -> None:
        """Take in the message at this position as it is shown, if it is a tool result."""
        entry = pending.entry(at)
        if entry is None or entry.item.message.role != "tool" or not entry.message.parts:
            return
        text = entry.message.text
        self._shown[at] = entry.message
        self._texts.setdefault(text, []).append(at)
        keys = keys_of(text)[::_STRIDE]
        for key in self._runs.keys() & keys:
            places = self._before.setdefault(key, [])
            if len(places) == _PLACES - 1:
                del places[0]
            places.append(self._runs[key])
        # Backwards: where a text repeats itself, the first place has the longest run.
        places_now = range(at * _LINES + (len(keys) - 1) * _STRIDE, at * _LINES - 1, -_STRIDE)
        self._runs.update(zip(reversed(keys), places_now, strict=True))

    def whole(self, pending: PendingEdits, text: str) -> int | None:
        """The position of the newest message that shows exactly this text."""
        for at in reversed(self._texts.get(text, ())):
            if self.shows(pending, at):
                return at
        return None

    def runs(self, pending: PendingEdits, text: str) -> Iterator[LineRun]:
        """The longest runs of its lines that one message shows, in order, none overlapping."""
        places = self._runs
        if not places:
            return
        keys = keys_of(text)
        lines_at: dict[int, _Lines | None] = {}
        lines: list[str] = []
        done = 0
        for start in compress(count(), map(places.__contains__, keys)):
            if start < done:
                continue
            sources = self._sources(pending, keys[start], lines_at)
            if not sources:
                continue
            lines = lines or text.split("\n")
            best = _longest(sources, lines, range(done, len(lines)), start)
            if best is not None:
                yield best
                done = best.start + best.count

    def shows(self, pending: PendingEdits, at: int) -> bool:
        """Whether the message at this position is shown as it was when it was taken in."""
        entry = pending.entry(at)
        return entry is not None and entry.message is self._shown[at]

    def _sources(
        self, pending: PendingEdits, key: int, lines_at: dict[int, _Lines | None]
    ) -> list[tuple[int, int, _Lines]]:
        """Where lines with this key are shown now: position, line, and all lines there.

        The newest comes first. `lines_at`: what is known of positions that were asked for before.
        """
        sources: list[tuple[int, int, _Lines]] = []
        for place in (self._runs[key], *reversed(self._before.get(key, ()))):
            at = place // _LINES
            if at not in lines_at:
                lines_at[at] = self._lines(pending, at)
            lines = lines_at[at]
            if lines is not None:
                sources.append((at, place % _LINES, lines))
        return sources

    def _lines(self, pending: PendingEdits, at: int) -> _Lines | None:
        """The lines of the message at this position; None: it is not shown now."""
        entry = pending.entry(at)
        if entry is None or entry.message is not self._shown[at]:
            return None
        text = entry.message.text
        find = _lines if len(text) <= _KEPT_CHARS else _lines.__wrapped__
        return find(text, refers=entry.because == "repeat")


_Lines: TypeAlias = tuple[Sequence[str], Sequence[int]]
"""The lines of a message, and the number of each among those that it stands for."""


@lru_cache(maxsize=8)
def _lines(text: str, *, refers: bool) -> _Lines:
    """The lines of a text and their numbers; where it refers, some stand for several."""
    lines = text.split("\n")
    return lines, _numbers(lines) if refers else range(1, len(lines) + 1)


@lru_cache(maxsize=8)
def keys_of(text: str) -> Sequence[int]:
    """What some lines of a text, from each start on, are found by.

    Asked when the text is new, and again when it was sent.
    """
    lines = bare_lines(text)
    if len(lines) < RUN:
        return ()
    return tuple(map(hash, zip(*[lines[start:] for start in range(_WIDE)], strict=False)))


def _longest(
    sources: Iterable[tuple[int, int, _Lines]], lines: Sequence[str], free: range, start: int
) -> LineRun | None:
    """The longest run among the free lines around `start` that one of the sources shows."""
    best: LineRun | None = None
    for at, place, (shown, numbers) in sources:
        shift = shift_between(shown[place], lines[start])
        if shift is None:
            continue
        first, last = start, start + 1
        ahead = place - start
        while first > free.start and first + ahead > 0:
            before = first - 1 + ahead
            if not _is(shown[before], shift, lines[first - 1]):
                break
            if numbers[before] + 1 != numbers[before + 1]:
                break
            first -= 1
        while last < free.stop and last + ahead < len(shown):
            # A line that stands for others is no line of theirs: numbers go on by one.
            now = last + ahead
            if not _is(shown[now], shift, lines[last]) or numbers[now - 1] + 1 != numbers[now]:
                break
            last += 1
        numbered = None
        if shift and last - first >= RUN:
            first, last, numbered = _numbered(lines, range(first, last))
        if last - first >= RUN and (best is None or last - first > best.count):
            best = LineRun(first, last - first, at, numbers[first + ahead], numbered)
    return best


def _is(shown: str, shift: int, line: str) -> bool:
    """Whether a line is what another is with the number before it raised."""
    return shown == line if not shift else moved(shown, shift) == line


def _numbered(lines: Sequence[str], among: range) -> tuple[int, int, tuple[int, int]]:
    """The first of these lines with a number and the one behind the last, and both numbers."""
    first, low = _next_number(lines, among)
    last, high = _next_number(lines, reversed(among))
    return first, last + 1, (low, high)


def _next_number(lines: Sequence[str], among: Iterable[int]) -> tuple[int, int]:
    """The first of these lines with a number, and the number; one of them has a number."""
    return next((at, number) for at in among if (number := number_of(lines[at])) is not None)


def _numbers(lines: Sequence[str]) -> list[int]:
    """The number of each line where some stand for several."""
    stands_for = [1] * len(lines)
    for at, line in enumerate(lines):
        match = REFERENCE.fullmatch(line) if line.startswith("[") else None
        if match:
            stands_for[at] = int(match[1])
    return list(accumulate(stands_for[:-1], initial=1))


def bare_lines(text: str) -> list[str]:
    """The lines of a text without the numbers before them, where it begins with such lines."""
    if not _NUMBERED.search(f"\n{text[:_HEAD]}"):
        return text.split("\n")
    return _ENDS.split(f"\n{text}")[1:]


def number_of(line: str) -> int | None:
    """The number before a line; None: there is none."""
    match = _NUMBER.match(line)
    return int(match[2]) if match else None


def moved(line: str, by: int) -> str:
    """The line with the number before it raised; the line itself where there is none.

    A number that is padded to a width keeps it.
    """
    match = _NUMBER.match(line)
    if match is None:
        return line
    number = str(int(match[2]) + by)
    return (number.rjust(match.end()) if match[1] else number) + line[match.end() :]


def shift_between(shown: str, line: str) -> int | None:
    """By how much the number before `shown` is raised to make it `line`; None: nothing does."""
    if shown == line:
        return 0
    before, now = number_of(shown), number_of(line)
    if before is None or now is None or before == now or moved(shown, now - before) != line:
        return None
    return now - before


def numbers_of(text: str) -> Sequence[int]:
    """The number of each line of a text in its original, where some lines stand for several."""
    return _numbers(text.split("\n"))
