"""The pieces of a conversation, and how likely each is to be needed.

The points are logarithms of how much more often later calls quoted such a piece, measured on
recorded sessions of people at work; they are added up, less half a point for each doubling of its
length. What a later message repeats, and lines that a later edit removed, are worth the least.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.messages import Message
from windlass.window._pending import PendingEdits
from windlass.window.compaction._calls import CallTexts, Deed, read_call
from windlass.window.digests import ERROR
from windlass.window.failures import has_failed

LINES: Final = 12
"""Lines of a piece."""
_ARGUMENTS: Final[dict[Deed, float]] = {
    "edit": 1.3, "bash": 1.2, "read": 1.2, "git": 1.0, "write": 0.7, "search": -0.5,
    "agent": -1.0, "todo": -1.0, "other": -1.0,
}  # fmt: skip
_RESULTS: Final[dict[Deed, float]] = {
    "read": 0.0, "edit": 0.0, "write": 0.0, "git": -0.3, "search": -0.8, "agent": -1.0,
    "todo": -1.0, "bash": -1.5, "other": -1.5,
}  # fmt: skip
_WORDS: Final = -1.5
_AGES: Final = ((5, 2.0), (10, 1.4), (20, 1.0), (40, 0.0), (80, -0.5), (160, -1.0))
_OLDEST: Final = -2.0
_NEAR: Final = 25
"""Calls within which a file was touched lately, and a failing command ran lately."""
_READ_LATELY: Final = 1.5
_READ_ONCE: Final = -0.2
_READ_EDITED: Final = -0.7
_EDITED_SINCE: Final = -0.8
_REPEATED: Final = -2.5
_REMOVED: Final = -2.5
_NO_LINE: Final = -2.0
_MOST_REPEATED: Final = 0.8
_MOST_REMOVED: Final = 0.3
_LEAST_LINE: Final = 12
"""Characters of a line that says something."""
_ASKED: Final = (0.0, 0.2, 0.2, 0.5)
"""Points for none, one, two and more words of the user's newest messages."""
_WORD: Final = re.compile(r"[^\W\d_]{5,}")
_COMMON: Final = 0.1
"""A word in a larger share of the pieces distinguishes none of them."""
_FAILING: Final = 4.0
"""Lines of a failure that stands come before all else: they are few."""
_REFERRED_TO: Final = 4.0
"""What newer messages refer to instead of saying it again."""
_KEY_CHARS: Final = 40
_USUAL_CHARS: Final = 400
HEADER_CHARS: Final = 56
"""Characters by which the line above a piece is reckoned."""
_GUTTER: Final = re.compile(r" *\d{1,9}(?:→|\t)")
_NUMBERED: Final = 0.8
"""The share of lines that begin with a number where a text numbers its lines."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of what one message said.

    `part` is which text of the message it is of (0: its words or its result), `about` says what
    that is; `first` is the number of its first line there, from 1.
    """

    at: int
    part: int
    about: str
    first: int
    lines: tuple[str, ...]
    points: float

    @property
    def chars(self) -> int:
        """Its characters with the ends of its lines."""
        return sum(map(len, self.lines)) + len(self.lines)

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class _Source:
    """One text of a message, with what is known of it."""

    at: int
    part: int
    about: str
    lines: tuple[str, ...]
    base: float
    age: int
    call: CallTexts | None = None
    is_result: bool = False
    failing: bool = False
    first: int = 1
    """The number of its first line."""


def chunks_of(step: PendingEdits, places: Sequence[int], upto: int) -> list[Chunk]:
    """Return the pieces of what the messages at `places` said, with their points, in order.

    What stands up to `upto` tells which of it is repeated, edited or removed later.
    """
    history = _History(step, upto)
    inside = frozenset(places)
    sources = [source for source in history.sources if source.at in inside]
    pieces = [piece for source in sources for piece in history.pieces(source)]
    words = history.words
    if not words:
        return pieces
    shared = [words.intersection(map(str.lower, _WORD.findall(piece.text))) for piece in pieces]
    count = Counter(word for each in shared for word in each)
    common = {word for word, times in count.items() if times > _COMMON * len(pieces)}
    return [
        Chunk(
            piece.at, piece.part, piece.about, piece.first, piece.lines,
            piece.points + _ASKED[min(len(each - common), len(_ASKED) - 1)],
        )
        for piece, each in zip(pieces, shared, strict=True)
    ]  # fmt: skip


class _History:
    """What was said up to a position: the texts, and what became of their lines and files."""

    def __init__(self, step: PendingEdits, upto: int) -> None:
        self._step = step
        self.sources: list[_Source] = []
        self._last: dict[str, int] = {}
        """The last position at which each line stands."""
        self._removed: dict[str, int] = {}
        """The last position at which an edit removed a line."""
        self._touched: dict[str, int] = {}
        self._edited: dict[str, int] = {}
        """The last positions at which a file was touched, and changed."""
        self._ran: dict[str, int] = {}
        """The position of the last result of each command."""
        asked: list[str] = []
        calls: dict[int, CallTexts] = {}
        for at in range(upto):
            message = step.original(at)
            age = step.seen(at)
            if message.role == "user":
                asked.append(message.text)
            elif message.role == "assistant":
                if message.text.strip():
                    self._add(_Source(at, 0, "", _lines(message.text), _WORDS, age))
                results = {step.original(one).tool_call_id: one for one in step.results(at)}
                for number, call in enumerate(message.tool_calls, 1):
                    place = results.get(call.id)
                    done = read_call(step, call, place)
                    if place is not None:
                        calls[place] = done
                        self._ran[_key(call.name, done)] = place
                    for path in done.paths:
                        self._touched[path] = at
                        if done.writes:
                            self._edited[path] = at
                    self._removed |= dict.fromkeys(
                        [line for line in done.removed if len(line) >= _LEAST_LINE], at
                    )
                    about = " ".join((call.name, *done.paths[:1]))
                    if text := "\n".join(done.texts):
                        base = _ARGUMENTS[done.deed]
                        self._add(_Source(at, number, about, _lines(text), base, age, done))
            elif message.role == "tool" and message.text.strip():
                result_of, called = calls.get(at), step.call(at)
                if result_of is not None and _says_only_ok(message, result_of):
                    continue
                deed: Deed = result_of.deed if result_of else "other"
                about = " ".join(
                    (called.name if called else "", *(result_of.paths[:1] if result_of else ()))
                ).strip()
                lines, first = _plain_lines(message.text)
                self._add(
                    _Source(
                        at, 0, about, lines, _RESULTS[deed], age, result_of,
                        is_result=True, failing=has_failed(message), first=first,
                    )
                )  # fmt: skip
        self.words = frozenset(word.lower() for text in asked[-2:] for word in _WORD.findall(text))

    def _add(self, source: _Source) -> None:
        self.sources.append(source)
        at = source.at
        for line in source.lines:
            if len(line) >= _LEAST_LINE:
                self._last[line.strip()] = at

    def pieces(self, source: _Source) -> Iterator[Chunk]:
        """Yield the pieces of a text with their points, but for words of the user."""
        base = source.base + next((p for age, p in _AGES if source.age < age), _OLDEST)
        base += self._of_file(source)
        if self._step.pinned(source.at):
            base += _REFERRED_TO
        failing = self._is_failing(source)
        lines = source.lines
        for begin in range(0, len(lines), LINES):
            piece = lines[begin : begin + LINES]
            said = [line.strip() for line in piece if len(line) >= _LEAST_LINE]
            points = base
            if not said:
                points += _NO_LINE
            else:
                again = sum([self._last.get(line, -1) > source.at for line in said])
                gone = sum([self._removed.get(line, -1) > source.at for line in said])
                points += _REPEATED if again >= _MOST_REPEATED * len(said) else 0.0
                points += _REMOVED if gone > _MOST_REMOVED * len(said) else 0.0
            chars = sum(map(len, piece)) + len(piece)
            points -= 0.5 * math.log2((chars + HEADER_CHARS) / _USUAL_CHARS)
            if failing and any(map(ERROR.search, piece)):
                points += _FAILING
            if chars > len(piece):
                yield Chunk(
                    source.at, source.part, source.about, source.first + begin, piece, points
                )

    def _of_file(self, source: _Source) -> float:
        """Points for a read of a file, by what was done with the file since."""
        call = source.call
        if call is None or not call.paths:
            return 0.0
        path, points = call.paths[0], 0.0
        edited = self._edited.get(path)
        if source.is_result and call.deed == "read":
            touched = self._step.seen(self._touched.get(path, 0))
            if edited is not None:
                points += _READ_EDITED
            else:
                points += _READ_LATELY if touched <= _NEAR else _READ_ONCE
        if edited is not None and edited > source.at:
            points += _EDITED_SINCE
        return points

    def _is_failing(self, source: _Source) -> bool:
        """Return whether it is the result of the last run of a command, which failed lately."""
        if not (source.is_result and source.failing and source.call is not None):
            return False
        called = self._step.call(source.at)
        return (
            called is not None
            and source.age <= _NEAR
            and self._ran.get(_key(called.name, source.call)) == source.at
        )


def _says_only_ok(result: Message, call: CallTexts) -> bool:
    """Return whether a result says no more than that the plan or the file is written."""
    if call.deed == "todo":
        return True
    return call.writes and not has_failed(result) and "\n" not in result.text.strip()


def _key(name: str, call: CallTexts) -> str:
    """Return what runs of one command have in common."""
    return f"{name}:{' '.join(call.texts)[:_KEY_CHARS]}"


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


def _plain_lines(text: str) -> tuple[tuple[str, ...], int]:
    """The lines of a text without the numbers that a tool wrote before them, and the first one."""
    lines = text.split("\n")
    begins = [match.end() if (match := _GUTTER.match(line)) else 0 for line in lines]
    some = [begin for begin, line in zip(begins, lines, strict=True) if line.strip()]
    if sum(map(bool, some)) < _NUMBERED * len(some):
        return tuple(lines), 1
    first = next(at for at, begin in enumerate(begins) if begin)
    number = int(re.sub(r"\D", "", lines[first][: begins[first]]))
    plain = tuple(line[begin:] for begin, line in zip(begins, lines, strict=True))
    return plain, max(1, number - first)
