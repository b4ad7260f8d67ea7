"""The entries of a conversation by position, and how they stood at an earlier moment.

Entries are added at the end and changed in place; each change leaves behind what stood there
before. So a window need not copy what it shows: it keeps the moment, and whoever asks later
has the changes since taken back. This module knows entries and edits; it decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.window.entries import Edit, Entry


@dataclass(frozen=True, slots=True)
class Moment:
    """How many entries there were, and how many changes had been made."""

    entries: int
    changes: int


class EntryLog:
    """What stands for good: `now` by position (None: not shown), and the latest edit of each."""

    def __init__(self) -> None:
        self.now: list[Entry | None] = []
        self.edits: dict[int, Edit] = {}
        self.changes: list[int] = []
        """The positions whose entries changed, in the order in which they did."""
        self.gone: list[int] = []
        """The positions that are not shown any more, in order."""
        self._before: list[tuple[Entry | None, Edit | None]] = []
        """What stood at each of the changed positions until then."""

    @property
    def moment(self) -> Moment:
        """This moment."""
        return Moment(len(self.now), len(self.changes))

    def change(self, at: int, entry: Entry | None, edit: Edit) -> None:
        """Let `entry` stand at a position from now on, because of an edit."""
        self.changes.append(at)
        self._before.append((self.now[at], self.edits.get(at)))
        if entry is None and self.now[at] is not None:
            insort(self.gone, at)
        self.now[at], self.edits[at] = entry, edit

    def shown_before(self, at: int) -> int:
        """How many entries before a position are shown."""
        return at - bisect_left(self.gone, at)

    def entries_at(self, moment: Moment, ahead: Mapping[int, Entry | None]) -> list[Entry]:
        """What was shown at a moment, with `ahead` in the place of what stood for good."""
        stood = self.now[: moment.entries]
        for number in range(len(self.changes) - 1, moment.changes - 1, -1):
            at = self.changes[number]
            if at < moment.entries:
                stood[at] = self._before[number][0]
        for at, entry in ahead.items():
            stood[at] = entry
        return [entry for entry in stood if entry is not None]

    def edits_at(self, moment: Moment, ahead: Mapping[int, Edit]) -> dict[int, Edit]:
        """The latest edit of each position at a moment, and those that were ahead."""
        stood = dict(self.edits)
        for number in range(len(self.changes) - 1, moment.changes - 1, -1):
            at, edit = self.changes[number], self._before[number][1]
            if edit is None:
                stood.pop(at, None)
            else:
                stood[at] = edit
        return {**stood, **ahead}


def merged(places: Sequence[int], more: Sequence[int]) -> Sequence[int]:
    """Two ordered lists of positions as one, in order; the first itself where the other is empty.

    >>> merged([1, 4], [3])
    [1, 3, 4]
    """
    return sorted({*places, *more}) if more else places
