"""An earlier read of a file that a later one covers, or a write replaced, says so in a line.

By lines covered, never by the path alone; and only while the later read is shown whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Text
from windlass.window.failures import has_failed
from windlass.window.kinds import END, Lines
from windlass.window.pending import PendingEdits, Proposal

_SAME: Final = 0.6
"""The share of an earlier read's lines that the later must show, or it is another text: cut
short, or written anew."""


@dataclass(frozen=True, slots=True)
class Supersede:
    """Replaces reads that are shown again, or whose file was replaced.

    Args:
        min_chars: Reads of fewer characters stay.
        within: Only reads that at most so many calls have seen (None: all). What lies behind an
            older one is long, and a cache would have to take it in again.
        writes: Whether a write that replaces the whole file makes earlier reads obsolete.
    """

    min_chars: int = 200
    within: int | None = 1
    writes: bool = True
    name: str = "supersede"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The earlier reads that what is new makes obsolete."""
        index = pending.derived(_ReadIndex)
        index.grow(pending)
        for at in pending.fresh:
            if pending.call(at) is None or not _is_whole(pending, at):
                continue
            access = pending.touched(at)
            if access.reads is not None:
                for earlier, lines in self._earlier(pending, index, access.reads.path):
                    if access.reads.covers(lines):
                        write = partial(self._again, at=earlier, later=at, lines=lines)
                        yield Proposal((earlier,), "supersede", "read again later", write)
            elif access.writes and access.whole and self.writes:
                for earlier, lines in self._earlier(pending, index, access.writes):
                    write = partial(self._replaced, at=earlier, lines=lines)
                    yield Proposal((earlier,), "supersede", "the file was replaced", write)

    def _earlier(
        self, pending: PendingEdits, index: _ReadIndex, path: str
    ) -> list[tuple[int, Lines]]:
        """The reads of the file that are young enough, oldest first."""
        return [
            (at, lines)
            for at, lines in index.of(path).items()
            if self.within is None or pending.seen(at) <= self.within
        ]

    def _again(self, pending: PendingEdits, at: int, later: int, lines: Lines) -> Message | None:
        message = self._current(pending, at)
        if message is None or not _is_whole(pending, later):
            return None
        if not _shows(pending.original(later).text, message.text):
            return None
        original = pending.recall_hint(at)
        line = f"[{_span(lines)} {lines.path}, read again later; as it was then: {original}]"
        return message.with_parts(Text(line))

    def _replaced(self, pending: PendingEdits, at: int, lines: Lines) -> Message | None:
        message = self._current(pending, at)
        if message is None:
            return None
        original = pending.recall_hint(at)
        line = f"[{_span(lines)} {lines.path}, replaced since; as it was: {original}]"
        return message.with_parts(Text(line))

    def _current(self, pending: PendingEdits, at: int) -> Message | None:
        """The earlier read, where it is still shown and worth a line."""
        entry = pending.entry(at)
        if entry is None or not _is_whole(pending, at) or entry.message.chars < self.min_chars:
            return None
        return entry.message


class _ReadIndex:
    """Which results show which lines of a file."""

    def __init__(self) -> None:
        self._upto = 0
        self._reads: dict[str, dict[int, Lines]] = {}

    def grow(self, pending: PendingEdits) -> None:
        """Take in what was sent since."""
        for at in range(self._upto, pending.fresh.start):
            lines = pending.touched(at).reads
            if lines is not None:
                self._reads.setdefault(lines.path, {})[at] = lines
        self._upto = pending.fresh.start

    def of(self, path: str) -> Mapping[int, Lines]:
        """The results that show lines of the file, by position."""
        return self._reads.get(path, {})


def _is_whole(pending: PendingEdits, at: int) -> bool:
    """Whether all of a result is shown, and it is no failure."""
    entry = pending.entry(at)
    if entry is None or entry.because not in (None, "encode"):
        return False
    return not has_failed(entry.message)


def _shows(later: str, earlier: str) -> bool:
    lines = [line for line in earlier.split("\n") if line.strip()]
    there = set(later.split("\n"))
    return sum(line in there for line in lines) >= _SAME * len(lines)


def _span(lines: Lines) -> str:
    if lines.last == END:
        return f"lines {lines.first}- of" if lines.first > 1 else "all of"
    return f"lines {lines.first}-{lines.last} of"
