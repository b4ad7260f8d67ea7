"""Where lines are shown: looked up instead of searched for.

An index holds what calls have seen, grows by what is new, and forgets nothing; whether what
it finds is still shown is asked when it is used. It knows nothing of when a repeat is worth
a reference. Numbers that tools write before the lines of a file are told apart from the lines: a
file that was changed is shown again with other numbers before the same lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count, pairwise
from typing import Any, Final, TypeAlias

from windlass.messages import Message
from windlass.window._pending import PendingEdits
from windlass.window._references import read_reference
from windlass.window.encode import in_rows, is_encoded
from windlass.window.encode.command_output import clean
from windlass.window.encode.gutters import (
    NUMBER,
    bare_lines,
    counted,
    moved,
    number_of,
    shift_between,
    widened,
)
from windlass.window.encode.legend import legend_of
from windlass.window.entries import Entry
from windlass.window.kinds import arguments_of

RUN: Final = 2
"""Lines that a run has at least, and that it is found by."""
_PLACES: Final = 4
"""Texts remembered that show the same lines, the newest; they are tried one after the other."""
_KEPT_CHARS: Final = 50_000
"""Of texts of at most so many characters the lines are remembered: of one in view they are asked
for call after call."""
_LINES: Final = 1 << 32
"""More lines than a text has: one number then says a text and a line."""
_FEWEST_CHARS: Final = 12
"""Characters of the two lines that a run is found by: `}` and an empty line are everywhere."""
_MOST_TRIES: Final = 2_000
"""Runs looked for in one text: made of a few lines again and again, it would take a second."""
_DEEPEST: Final = 4
"""Values within values of a call's arguments that are looked into."""
_FIRST: Final = 20
"""Lines among which the first with a number is, where lines without numbers are looked for."""
_KEY: Final = re.compile(r"(?!lines?$)[A-Za-z_][\w-]{0,39}")
"""Keys that a path names as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownText:
    """A text in view: what the message at `at` shows.

    `path`: where it stands in the arguments of the message's calls, as `recall` takes it; in that
    case `text` is the text. `rows`: it is data, in rows as a window shows it. `message` is the
    message as it was when it was taken in.
    """

    at: int
    message: Message
    path: str = ""
    text: str = ""
    rows: bool = False


@dataclass(frozen=True, slots=True)
class LineRun:
    """Lines of a new text that a text in view shows, all of them.

    `start` counts the new text's lines from 0; `first` is the number, from 1, of the line
    among those that the text in view stands for. `numbered`: the numbers that the new text has
    before the first line and the last, where the text in view has others or none before them.
    """

    start: int
    count: int
    source: ShownText
    first: int
    numbered: tuple[int, int] | None = None


class LineIndex:
    """The lines that tool results show, and texts in the arguments of calls."""

    def __init__(self) -> None:
        self._shown: list[ShownText] = []
        self._runs: dict[int, int] = {}
        """Where some lines were shown last: the text times `_LINES`, and the first line."""
        self._before: dict[int, list[int]] = {}
        """Where they were shown before that, if they were: the oldest place first."""
        self._texts: dict[str, list[ShownText]] = {}
        self._cut: dict[str, ShownText] = {}
        """Results that are shown cut, by what they were."""

    def add(self, pending: PendingEdits, at: int) -> None:
        """Take in the message at this position as it is shown: a result, or the texts of calls."""
        entry = pending.entry(at)
        if entry is None:
            return
        if entry.item.message.role == "tool" and entry.message.parts:
            text = _text_of(entry)
            shown = ShownText(at, entry.message, rows=_has_rows(text))
            self._texts.setdefault(text, []).append(shown)
            if entry.because == "compress":
                self._cut[entry.item.message.text] = shown
            self._take_in(shown, text)
        elif entry.message.tool_calls:
            for path, text in _argument_texts(entry.message):
                self._take_in(ShownText(at, entry.message, path, text), text)

    def _take_in(self, shown: ShownText, text: str) -> None:
        keys = keys_of(text)
        for key in self._runs.keys() & keys:
            places = self._before.setdefault(key, [])
            if len(places) == _PLACES - 1:
                del places[0]
            places.append(self._runs[key])
        # Backwards: where a text repeats itself, the first place has the longest run.
        first = len(self._shown) * _LINES
        places_now = range(first + len(keys) - 1, first - 1, -1)
        self._runs.update(zip(reversed(keys), places_now, strict=True))
        self._shown.append(shown)

    def whole(self, pending: PendingEdits, text: str) -> ShownText | None:
        """Return the newest result that shows exactly this text."""
        for shown in reversed(self._texts.get(text, ())):
            if is_shown(pending, shown):
                return shown
        return None

    def whole_cut(self, pending: PendingEdits, original: str) -> ShownText | None:
        """Return the result that was this text and is shown cut."""
        shown = self._cut.get(original)
        return shown if shown is not None and is_shown(pending, shown) else None

    def runs(self, pending: PendingEdits, text: str) -> Iterator[LineRun]:
        """Yield the longest runs of its lines that one text shows, in order, none overlapping."""
        places = self._runs
        if not places:
            return
        keys = keys_of(text)
        lines_at: dict[int, _Lines | None] = {}
        new: _New | None = None
        done = tries = 0
        for start in compress(count(), map(places.__contains__, keys)):
            if start < done:
                continue
            new = new or _New(text)
            if len(new.lines[start]) + len(new.lines[start + 1]) < _FEWEST_CHARS:
                continue
            sources = self._sources(pending, keys[start], lines_at)
            if not sources:
                continue
            tries += 1
            if tries > _MOST_TRIES:
                return
            best = self._longest(sources, new, range(done, len(new.lines)), start)
            if best is not None:
                yield best
                done = best.start + best.count

    def _sources(
        self, pending: PendingEdits, key: int, lines_at: dict[int, _Lines | None]
    ) -> list[tuple[int, int, _Lines]]:
        """Where lines with this key are shown now: the text, the line, and all lines there.

        The newest comes first. `lines_at`: what is known of texts that were asked for before.
        """
        sources: list[tuple[int, int, _Lines]] = []
        for place in (self._runs[key], *reversed(self._before.get(key, ()))):
            number = place // _LINES
            if number not in lines_at:
                shown = self._shown[number]
                lines_at[number] = _lines_of(pending, shown) if is_shown(pending, shown) else None
            lines = lines_at[number]
            if lines is not None:
                sources.append((number, place % _LINES, lines))
        return sources

    def _longest(
        self, sources: Iterable[tuple[int, int, _Lines]], new: _New, free: range, start: int
    ) -> LineRun | None:
        """Get the longest run among the free lines around `start` that one of the sources shows."""
        best: LineRun | None = None
        for number, place, (shown, numbers) in sources:
            how = new.like(shown[place], start) if numbers[place] > 0 else None
            if how is None:
                continue
            first, last = start, start + 1
            ahead = place - start
            while first > free.start and first + ahead > 0:
                before = first - 1 + ahead
                if numbers[before] + 1 != numbers[before + 1]:
                    break
                if not new.is_so(shown[before], first - 1, how):
                    break
                first -= 1
            while last < free.stop and last + ahead < len(shown):
                # A line that stands for others is no line of theirs: numbers go on by one.
                now = last + ahead
                if numbers[now - 1] + 1 != numbers[now] or not new.is_so(shown[now], last, how):
                    break
                last += 1
            numbered = None
            if how and last - first >= RUN:
                first, last, numbered = new.numbered(range(first, last))
            if last - first >= RUN and (best is None or last - first > best.count):
                there = numbers[first + ahead]
                best = LineRun(first, last - first, self._shown[number], there, numbered)
        return best


def is_shown(pending: PendingEdits, shown: ShownText) -> bool:
    """Return whether a text is in view as it was when it was taken in."""
    entry = pending.entry(shown.at)
    if entry is None or entry.message is shown.message:
        return entry is not None
    # What is said beside a call may have changed since.
    return bool(shown.path) and entry.message.tool_calls == shown.message.tool_calls


_Lines: TypeAlias = tuple[Sequence[str], Sequence[int]]
"""The lines of a text, and the number of each in the original; 0 or less: it is none of it."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """How lines are like others that have no numbers before them: by what is behind the number.

    `ahead`: by how much the number before a line is more than its place in the text, from 0.
    """

    ahead: int


class _New:
    """A new text, line by line."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._number = next(filter(None, map(NUMBER.match, self.lines[:_FIRST])), None)
        """Before the first line that has one: it shows how those behind it are written."""

    def like(self, shown: str, at: int) -> int | _Counted | None:
        """Return how the line is what is shown, by a number raised or put before it.

        None: it is not.
        """
        line = self.lines[at]
        shift = shift_between(shown, line)
        if shift is None and self._number and line.endswith(shown):
            number = number_of(line)
            if number is not None:
                how = _Counted(number - at)
                return how if self.is_so(shown, at, how) else None
        return shift

    def is_so(self, shown: str, at: int, how: int | _Counted) -> bool:
        """Return whether the line is what is shown in just this way."""
        line = self.lines[at]
        if isinstance(how, _Counted):
            first = self._number
            return (
                first is not None
                and line is not first.string
                and line == counted(shown, at + how.ahead, first.string)
            )
        return shown == line if not how else moved(shown, how) == line

    def numbered(self, among: range) -> tuple[int, int, tuple[int, int]]:
        """The first of these lines with a number and the one behind the last, and both numbers."""
        first, low = self._next_number(among)
        last, high = self._next_number(reversed(among))
        return first, last + 1, (low, high)

    def _next_number(self, among: Iterable[int]) -> tuple[int, int]:
        """Return the first of these lines with a number, and the number.

        One of them has a number.
        """
        lines = self.lines
        return next((at, number) for at in among if (number := number_of(lines[at])) is not None)


def _lines_of(pending: PendingEdits, shown: ShownText) -> _Lines:
    if shown.path:
        lines = shown.text.split("\n")
        return lines, range(1, len(lines) + 1)
    entry = pending.entry(shown.at)
    assert entry is not None  # it is shown
    text, original = _text_of(entry), entry.item.message.text
    find = _lines if len(original) <= _KEPT_CHARS else _lines.__wrapped__
    return find(text, original, refers=entry.because == "repeat")


def _text_of(entry: Entry) -> str:
    """Return what a result shows, its lines as they were before they were written shorter."""
    text = entry.message.text
    exact = entry.because in ("encode", "repeat") and legend_of(text) is None
    return widened(text) if exact else text


@lru_cache(maxsize=64)
def _lines(text: str, original: str, *, refers: bool) -> _Lines:
    """Return the lines of a text, and the number of each in its original."""
    lines = text.split("\n")
    if text == original:
        return lines, range(1, len(lines) + 1)
    there = (in_rows(original) if _has_rows(text) else original).split("\n")
    if not set(there).issuperset(lines) and clean(original) != original:
        cleaned = clean(original).split("\n")  # so it is shown where a program wrote it
        there = cleaned if len(set(cleaned) & set(lines)) > len(set(there) & set(lines)) else there
    places: Mapping[str, list[int]] | None = None
    numbers: list[int] = []
    at = 0
    for line in lines:
        stands_for = read_reference(line) if refers else None
        if stands_for is not None:
            at += stands_for.last - stands_for.first + 1
            numbers.append(-1)
            continue
        if at >= len(there) or there[at] != line:
            places = _places(there) if places is None else places
            known = places.get(line, ())
            next_one = bisect_left(known, at)
            if next_one == len(known):
                numbers.append(-1)
                continue
            at = known[next_one]
        at += 1
        numbers.append(at)
    return lines, numbers


def _has_rows(text: str) -> bool:
    """Return whether a text is data in rows, or begins with rows of another."""
    if is_encoded(text):
        return True
    first = read_reference(text.partition("\n")[0])
    return first is not None and first.rows


def _places(lines: Sequence[str]) -> Mapping[str, list[int]]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        places[line].append(at)
    return places


def _argument_texts(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the texts of several lines in the arguments of its calls, each with its path."""
    several = len(message.tool_calls) > 1
    for number, call in enumerate(message.tool_calls):
        if "\\n" in call.arguments:
            yield from _texts_in(arguments_of(call), f"[{number}]" if several else "")


def _texts_in(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if "\n" in value and path:
            yield path, value
    elif depth < _DEEPEST:
        if isinstance(value, dict):
            for key, one in value.items():
                if _KEY.fullmatch(key):
                    yield from _texts_in(one, f"{path}.{key}" if path else key, depth + 1)
        elif isinstance(value, list):
            for at, one in enumerate(value):
                yield from _texts_in(one, f"{path}[{at}]", depth + 1)


@lru_cache(maxsize=8)
def keys_of(text: str) -> Sequence[int]:
    """Return what two lines of a text, from each start on, are found by.

    Asked when the text is new, and again when it was sent.
    """
    lines = bare_lines(text)
    return tuple(map(hash, pairwise(lines)))


def starts_of(entry: Entry, text: str) -> Sequence[int]:
    """At which line of the original each line of a text begins, which an entry shows."""
    lines, numbers = _lines(text, entry.item.message.text, refers=entry.because == "repeat")
    starts: list[int] = []
    at = 1
    for line, number in zip(lines, numbers, strict=True):
        stands_for = read_reference(line) if number < 0 else None
        at = number if number > 0 else at
        starts.append(at)
        at += 1 if stands_for is None else stands_for.last - stands_for.first + 1
    return starts
