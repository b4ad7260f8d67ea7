"""Lanes: the lists of messages that a session's rows belong to, and what stood before each row.

Rows are written in one order, and several lists may grow at once: soundings of a phase run side by
side, and so do tasks. This module alone says what stood before a row. A row of no sounding stands
before all that come later; one of a sounding before the others of that sounding, and, where the
sounding is taken, before all that come after that was decided, but for those of other soundings
beside it. A task begins with nothing that another task said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from windlass.history.base import BORN, NodeType, StoredRow
from windlass.history.decisions import SoundingsDecided, VisitBegun
from windlass.history.row_details import ReplyDetails, ToolResult


@dataclass(frozen=True, slots=True)
class Lane:
    """A list of messages that only grows: a time that a phase runs, a sounding of it, or a task.

    `visit` counts the times from 1, `sounding` the soundings of that time from 0 (None: it is
    none). It goes on from what stood in the lane that it `continues` (None: it begins with
    nothing) before row `since` of the session.
    """

    phase: str
    visit: int = 1
    sounding: int | None = None
    continues: Lane | None = field(default=None, compare=False, repr=False)
    since: int = field(default=1, compare=False)

    def __str__(self) -> str:
        """Get the lane in short: `solve#2.1` is sounding 1 of the second time that `solve` runs."""
        return f"{self.phase}#{self.visit}" + ("" if self.sounding is None else f".{self.sounding}")

    def chain(self) -> Iterator[Lane]:
        """Yield the lane, the one that it continues, and so on."""
        lane: Lane | None = self
        while lane is not None:
            yield lane
            lane = lane.continues


class History(NamedTuple):
    """What stood before a row: the first `until` rows of a line, the first `born` that were `said`.

    What is said are messages, without replies that a later one goes on with and without results of
    interrupted tools that ran again. Rows of one lane share these lists, so that what is new from
    one to the next can be told in no time.
    """

    line: Sequence[StoredRow]
    until: int
    said: Sequence[StoredRow]
    born: int

    @property
    def rows(self) -> Sequence[StoredRow]:
        """Return all rows that stood before."""
        return self.line[: self.until]

    @property
    def messages(self) -> Sequence[StoredRow]:
        """Return the rows of what was said before."""
        return self.said[: self.born]


_Asked: TypeAlias = tuple[object, ...]
"""The place of a call of a tool, which may be answered again in a resumed run."""


class Lanes:
    """The lanes of a session's rows, or of those of one phase.

    Args:
        rows: The rows in order.
        kinds: The types of rows that say something.
        tasks: Whether each phase is a task, which hears nothing of the others.
    """

    def __init__(
        self,
        rows: Iterable[StoredRow],
        *,
        kinds: Collection[NodeType] = BORN,
        tasks: bool = False,
    ) -> None:
        self._tasks = tasks
        self._visits = Counter[str]()
        self._known: dict[Lane, Lane] = {}
        self._common: list[StoredRow] = []
        """The rows that all hear of."""
        self._trunk = _Line(kinds)
        """What stands for what comes next."""
        self._last: Lane | None = None
        """The lane that what comes next continues."""
        self._lines: dict[Lane, _Line] = {}
        """The soundings and tasks, which others hear nothing of."""
        self._places: dict[int, tuple[Lane, History]] = {}
        for stored in rows:
            self._take(stored)

    def __iter__(self) -> Iterator[Lane]:
        """Return the lanes, in the order in which they begin."""
        return iter(self._known)

    def lane(self, stored: StoredRow) -> Lane:
        """Return the lane of a row."""
        return self._places[stored.seq][0]

    def before(self, stored: StoredRow) -> History:
        """Return what stood before a row."""
        return self._places[stored.seq][1]

    def visit(self, phase: str) -> int:
        """For which time a phase ran last, from 1."""
        return 1 + self._visits[phase]

    def standing(self, phase: str = "", sounding: int | None = None) -> History:
        """Return what stands at the end: for a sounding that still runs, or for what comes next."""
        line = self._lines.get(Lane(phase, self.visit(phase), sounding), self._trunk)
        line.hear(self._common)
        return line.history()

    def said_in(self, lane: Lane) -> list[StoredRow]:
        """Return the messages that were said in one lane itself."""
        line = self._lines.get(lane, self._trunk)
        return [stored for stored in line.said if self.lane(stored) == lane]

    def _take(self, stored: StoredRow) -> None:
        row = stored.row
        phase = row.phase or ""
        if VisitBegun.read(row) is not None:
            self._visits[phase] += 1
        lane = self._lane(phase, row.sounding_index, stored.seq)
        line = self._lines.get(lane, self._trunk)
        line.hear(self._common)
        self._places[stored.seq] = lane, line.history()
        if line is self._trunk and row.sounding_index is None:
            self._common.append(stored)
            line.hear(self._common)
        else:
            line.append(stored)
        if (decided := SoundingsDecided.read(row)) is not None:
            won = Lane(phase, self.visit(phase), decided.winner)
            if won in self._lines:
                self._trunk, self._last = self._lines[won], self._known[won]

    def _lane(self, phase: str, sounding: int | None, seq: int) -> Lane:
        """Return the lane of the next row; one of no phase belongs to what runs."""
        if not phase and self._last is not None:
            of_index = (each for each in reversed(self._lines) if each.sounding == sounding)
            return self._last if sounding is None else next(of_index, self._last)
        lane = Lane(phase, self.visit(phase), sounding)
        if lane in self._known:
            return self._known[lane]
        above = self._last
        if self._tasks:
            above = None
        elif sounding is not None:
            above = self._lane(phase, None, seq)
        lane = self._known[lane] = Lane(phase, lane.visit, sounding, above, seq)
        if phase and (self._tasks or sounding is not None):
            self._lines[lane] = self._trunk.copy()
        else:
            self._last = lane
        return lane


class _Line:
    """The rows that stand before the next one, and the messages among them that are said."""

    def __init__(self, kinds: Collection[NodeType]) -> None:
        self._kinds = kinds
        self.rows: list[StoredRow] = []
        self.said: list[StoredRow] = []
        self._heard = 0
        self._interrupted: dict[_Asked, str] = {}

    def copy(self) -> _Line:
        """Return the same rows, of a list that goes on by itself."""
        own = _Line(self._kinds)
        own.rows, own.said = self.rows.copy(), self.said.copy()
        own._heard, own._interrupted = self._heard, self._interrupted.copy()
        return own

    def hear(self, common: Sequence[StoredRow]) -> None:
        """Add the rows that all hear of and that came since."""
        for stored in common[self._heard :]:
            self.append(stored)
        self._heard = len(common)

    def history(self) -> History:
        """Return what stands before the next row."""
        return History(self.rows, len(self.rows), self.said, len(self.said))

    def append(self, stored: StoredRow) -> None:
        """Add a row; those that had what it takes the place of keep their list."""
        self.rows.append(stored)
        if stored.row.message is None:
            return
        gone = self._replaced(stored)
        if gone is not None:
            self.said = [each for each in self.said if each.id != gone]
        if stored.row.node_type in self._kinds:
            self.said.append(stored)

    def _replaced(self, stored: StoredRow) -> str | None:
        """Give the id of the cut reply, or of the interrupted result, that a message stands for."""
        row = stored.row
        if (reply := ReplyDetails.read(row)) is not None:
            return reply.continues
        if (result := ToolResult.read(row)) is None or row.message is None:
            return None
        asked = row.phase, row.sounding_index, row.attempt, row.turn, row.message.tool_call_id
        before = self._interrupted.pop(asked, None)
        if result.interrupted and stored.id is not None:
            self._interrupted[asked] = stored.id
        return before


def standing(rows: Iterable[StoredRow]) -> Sequence[StoredRow]:
    """Return the rows that count for what comes later.

    Those of soundings only where they are taken.
    """
    return Lanes(rows).standing().rows
