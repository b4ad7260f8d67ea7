"""Where lines are shown, and which lines of files: looked up instead of searched for.

An index holds what calls have seen, grows by what is new, and forgets nothing; whether what
it finds is still shown is asked when it is used. It knows nothing of when a repeat is worth
a reference, or a read is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Final

from windlass.messages import Message
from windlass.window.draft import Draft
from windlass.window.kinds import Lines, touched
from windlass.window.references import REFERENCE

RUN: Final = 6
"""Lines that a run has at least."""
_PLACES: Final = 4
"""Results remembered that show the same run, the newest; they are tried one after the other."""
_LINES: Final = 1 << 32
"""More lines than a text has: one number then says a position and a line."""


@dataclass(frozen=True, slots=True)
class Run:
    """Lines of a new text that the message at `at` shows, all of them.

    `start` counts the new text's lines from 0; `first` is the number, from 1, of the line
    among those that the message at `at` stands for.
    """

    start: int
    count: int
    at: int
    first: int


@dataclass(frozen=True, slots=True)
class _Shown:
    """A message as it was when it was indexed: its lines, and the number of each."""

    message: Message
    lines: Sequence[str]
    numbers: Sequence[int]


class LineIndex:
    """The lines that tool results show."""

    def __init__(self) -> None:
        self._upto = 0
        self._shown: dict[int, _Shown] = {}
        self._runs: dict[int, int] = {}
        """Where each run was shown last: the position times `_LINES`, and the line."""
        self._before: dict[int, list[int]] = {}
        """Where it was shown before that, if it was: the oldest place first."""
        self._texts: dict[str, list[int]] = {}

    def grow(self, draft: Draft) -> None:
        """Take in what was sent since."""
        for at in range(self._upto, draft.fresh.start):
            self.add(draft, at)
        self._upto = draft.fresh.start

    def add(self, draft: Draft, at: int) -> None:
        """Take in the message at this position as it is shown, if it is a tool result."""
        entry = draft.entry(at)
        if entry is None or entry.item.message.role != "tool" or not entry.message.parts:
            return
        text = entry.message.text
        self._texts.setdefault(text, []).append(at)
        lines = text.split("\n")
        if len(lines) < RUN:
            self._shown[at] = _Shown(entry.message, (), ())
            return
        numbers = _numbers(lines) if entry.because == "repeat" else range(1, len(lines) + 1)
        self._shown[at] = _Shown(entry.message, lines, numbers)
        keys = _keys(text)
        for key in self._runs.keys() & keys:
            places = self._before.setdefault(key, [])
            if len(places) == _PLACES - 1:
                del places[0]
            places.append(self._runs[key])
        # Backwards: where a text repeats itself, the first place has the longest run.
        places_now = range(at * _LINES + len(keys) - 1, at * _LINES - 1, -1)
        self._runs.update(zip(reversed(keys), places_now, strict=True))

    def whole(self, draft: Draft, text: str) -> int | None:
        """The position of the newest message that shows exactly this text."""
        for at in reversed(self._texts.get(text, ())):
            if self.shows(draft, at):
                return at
        return None

    def runs(self, draft: Draft, text: str, lines: Sequence[str]) -> Iterator[Run]:
        """The longest runs of the text's lines that one message shows, in order, none overlapping.

        `lines` are those of the text.
        """
        start = 0
        keys: Sequence[int] = _keys(text) if self._runs else ()
        if self._runs.keys().isdisjoint(keys):
            return
        shows = cache(partial(self.shows, draft))
        while start < len(keys):
            newest = self._runs.get(keys[start])
            best = None
            if newest is not None:
                places = (newest, *reversed(self._before.get(keys[start], ())))
                best = self._best(shows, lines, start, places)
            if best is None:
                start += 1
                continue
            yield best
            start = best.start + best.count

    def shows(self, draft: Draft, at: int) -> bool:
        """Whether the message at this position is shown as it was when it was taken in."""
        entry = draft.entry(at)
        return entry is not None and entry.message is self._shown[at].message

    def _best(
        self,
        shows: Callable[[int], bool],
        lines: Sequence[str],
        start: int,
        places: Sequence[int],
    ) -> Run | None:
        best: Run | None = None
        for one in places:
            at, place = divmod(one, _LINES)
            if not shows(at):
                continue
            shown = self._shown[at]
            count = _common(lines, start, shown.lines, place)
            # A line that stands for others is no line of theirs: numbers must go on by one.
            count = _steady(shown.numbers, place, count)
            if count >= RUN and (best is None or count > best.count):
                best = Run(start, count, at, shown.numbers[place])
        return best


@lru_cache(maxsize=8)
def _keys(text: str) -> Sequence[int]:
    """What each `RUN` lines of a text, from each start on, are found by.

    Asked when the text is new, and again when it was sent.
    """
    hashes = list(map(hash, text.split("\n")))
    return tuple(map(hash, zip(*(hashes[start:] for start in range(RUN)), strict=False)))


def _common(one: Sequence[str], start: int, other: Sequence[str], place: int) -> int:
    most = min(len(one) - start, len(other) - place)
    count = 0
    while count < most and one[start + count] == other[place + count]:
        count += 1
    return count


def _steady(numbers: Sequence[int], place: int, count: int) -> int:
    if isinstance(numbers, range):
        return count
    steady = 0
    while steady < count and numbers[place + steady] == numbers[place] + steady:
        steady += 1
    return steady


def _numbers(lines: Sequence[str]) -> list[int]:
    """The number of each line where some stand for several."""
    numbers: list[int] = []
    number = 1
    for line in lines:
        numbers.append(number)
        found = REFERENCE.fullmatch(line)
        number += int(found[1]) if found else 1
    return numbers


class ReadIndex:
    """Which results show which lines of a file."""

    def __init__(self) -> None:
        self._upto = 0
        self._reads: dict[str, dict[int, Lines]] = {}

    def grow(self, draft: Draft) -> None:
        """Take in what was sent since."""
        for at in range(self._upto, draft.fresh.start):
            self.add(draft, at)
        self._upto = draft.fresh.start

    def add(self, draft: Draft, at: int) -> None:
        """Take in the result at this position, if its call read lines of a file."""
        call = draft.call(at)
        if call is None:
            return
        read = touched(call, draft.facts(call.name)).reads
        if read is not None:
            self._reads.setdefault(read.path, {})[at] = read

    def of(self, path: str) -> Mapping[int, Lines]:
        """The results that show lines of the file, by position."""
        return self._reads.get(path, {})

    def forget(self, path: str, at: int) -> None:
        """A result that shows its lines no more need not be looked at again."""
        self._reads[path].pop(at, None)
