"""The messages of a session by its calls: what became of each message at each call.

A row of the matrix is a message, a column a call, and a cell one byte, a `Cell`. It is made of the
record alone. What a cache gave is the provider's number, laid over the messages by the engine's
count: it is exact to about a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress, count, islice, pairwise
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.caching.rates import many, money
from windlass.errors import UsageError
from windlass.history.base import BORN, EditRecord, NodeType, ShownMessage, StoredRow
from windlass.history.lanes import History
from windlass.history.row_details import ReplyDetails
from windlass.report.calls import Call, SessionRecord, edits_in
from windlass.report.contents import what_is
from windlass.text.tokens import FamilyCounter

CALLS: Final = 1_000
"""How many calls a matrix has at most."""


class Cell(IntEnum):
    """What became of a message at a call; `words` says it.

    A message that was sent as it was said is `READ` or `WRITTEN` where the cache gave or took it,
    and else `SHOWN`. What was edited or brought in is told as that, whatever the cache did.
    """

    ABSENT = 0
    """It was not said yet, or is no part of what the call could have been sent."""
    SHOWN = 1
    DIGESTED = 2
    """Sent shorter than it was said."""
    MASKED = 3
    """A line stands in its place."""
    FOLDED = 4
    """One text stands for it and others."""
    BROUGHT_IN = 5
    DROPPED = 6
    """It was said, and this call was not sent it."""
    READ = 7
    WRITTEN = 8

    @property
    def words(self) -> str:
        """Return the cell in words."""
        return _WORDS.get(self, self.name.lower().replace("_", " "))


_WORDS: Final = {
    Cell.ABSENT: "not part of it",
    Cell.READ: "read from cache",
    Cell.WRITTEN: "written to cache",
}

_OF_EDIT: Final[Mapping[str, Cell]] = {
    **dict.fromkeys(("mask", "expire", "prune", "supersede"), Cell.MASKED),
    **dict.fromkeys(("fold", "summarise", "compact", "retry"), Cell.FOLDED),
}
"""What the edits come to that do more than shorten a message."""

_Bytes: TypeAlias = NDArray[np.uint8]
_Places: TypeAlias = NDArray[np.intp]


class CellRun(NamedTuple):
    """The same cell of a message from one call to another, by their numbers."""

    cell: Cell
    first: int
    last: int

    def __str__(self) -> str:
        more = f"-{self.last}" if self.last > self.first else ""
        return f"{self.cell.words} {self.first}{more}"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A message: what it is, and where it was said.

    `tokens` are the most that one call was sent of it, by the engine's count.
    """

    message_id: str
    what: str
    phase: str | None
    turn: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A call: its number in the session, where it was made, and what it cost in US dollars.

    `dollars` is None where no price is known.
    """

    number: int
    phase: str | None
    turn: int | None
    dollars: float | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Messages by calls: `cells` has a byte for each call of the first message, then the next."""

    session_id: str
    rows: tuple[MatrixRow, ...]
    columns: tuple[MatrixColumn, ...]
    cells: bytes
    calls: int
    """How many calls the session made; the matrix has `CALLS` of them at most."""
    left_out: int
    """How many messages are left out, because none of these calls was sent them."""

    @property
    def first(self) -> int:
        """Return the number of its first call."""
        return self.columns[0].number if self.columns else 1

    def row(self, at: int) -> bytes:
        """Return the cells of one message, by its place from 0."""
        width = len(self.columns)
        return self.cells[at * width : (at + 1) * width]

    def cell(self, row: int, column: int) -> Cell:
        """Return one cell, by places from 0."""
        return Cell(self.row(row)[column])

    def runs(self) -> list[list[CellRun]]:
        """For each message what became of it, one run of calls after the other."""
        width = len(self.columns)
        begins = np.ones((len(self.rows), width), np.bool_)
        cells = np.frombuffer(self.cells, np.uint8).reshape(begins.shape)
        begins[:, 1:] = cells[:, 1:] != cells[:, :-1]
        starts = np.flatnonzero(begins).tolist()
        found: list[list[CellRun]] = [[] for _ in self.rows]
        for start, end in pairwise([*starts, len(self.cells)]):
            if cell := self.cells[start]:
                row, at = divmod(start, width)
                found[row].append(
                    CellRun(Cell(cell), self.first + at, self.first + at + end - start - 1)
                )
        return found

    def told(self) -> list[str]:
        """Return the same in words, such as `shown 3-41, masked 42-90`."""
        return [", ".join(map(str, runs)) for runs in self.runs()]


def matrix_of(record: SessionRecord, dollars: Mapping[int, float | None], first: int = 1) -> Matrix:
    """Return the matrix of a session, from call `first` on.

    Messages that were said before that call and that no call of the matrix was sent are left out.
    Raises UsageError where there is no such call.

    Args:
        record: The session.
        dollars: What each call cost in US dollars, by its number; of others no price is known.
        first: The number of the first call, from 1.
    """
    if not 1 <= first <= max(1, len(record.calls)):
        raise UsageError(
            f"session {record.session_id!r} has no call {first};"
            f" it made {many(len(record.calls), 'call')}"
        )
    drawing = _Drawing(record, first)
    cells = np.zeros((len(drawing.calls), len(drawing.messages)), np.uint8)
    for at in range(len(drawing.calls)):
        drawing.fill(cells[at], at)
    tokens = drawing.most_tokens()
    return Matrix(
        record.session_id,
        tuple(
            MatrixRow(str(each.id), what_is(each, record), each.row.phase, each.row.turn, most)
            for each, most in zip(drawing.messages, tokens, strict=True)
        ),
        tuple(
            MatrixColumn(call.number, call.phase, call.turn, dollars.get(call.number))
            for call in drawing.calls
        ),
        np.ascontiguousarray(cells.T).tobytes(),
        len(record.calls),
        drawing.left_out,
    )


class _Drawing:
    """Fills the columns of a matrix one by one: each is what stood before, less what is hidden.

    The entries of windows are the same objects from call to call, so each is looked at once.
    """

    def __init__(self, record: SessionRecord, first: int) -> None:
        self._record = record
        self.calls = record.calls[first - 1 : first - 1 + CALLS]
        self._entries: list[ShownMessage] = []
        self._windows = list(self._numbered(self.calls))
        self.messages = self._messages(record.calls[first - 2].stored.seq if first > 1 else 0)
        self._row_of = {str(each.id): at for at, each in enumerate(self.messages)}
        self._lines: dict[int, tuple[_Places, _Places]] = {}
        # Prompts and blocks are made anew, so that none is missing where it was not sent: 0.
        self._stays = np.array([each.row.node_type in BORN for each in self.messages], np.uint8)
        self._rows = np.array([self._row_of[one.message_id] for one in self._entries], np.intp)
        self._tokens = np.array([one.tokens for one in self._entries], np.int64)
        self._forms = np.array([self._form(one) for one in self._entries], np.uint8)
        self._hidden = _Hidden(record, self._row_of)
        models = (call.model for call in self.calls)
        self._missing = sum(record.missing(FamilyCounter(each)) for each in islice(models, 1))

    def _numbered(self, calls: Iterable[Call]) -> Iterator[_Places]:
        """For each call the numbers of its entries, which are numbered as they first come."""
        number_of: dict[int, int] = {}
        last: Sequence[ShownMessage] = ()
        numbers = np.zeros(0, np.intp)
        for shown in (call.shown for call in calls):
            differing = compress(count(), map(is_not, shown, last))
            same = next(differing, min(len(shown), len(last)))
            for one in shown[same:]:
                if id(one) not in number_of:
                    number_of[id(one)] = len(self._entries)
                    self._entries.append(one)
            more = [number_of[id(one)] for one in shown[same:]]
            numbers = np.concatenate([numbers[:same], np.array(more, np.intp)])
            last = shown
            yield numbers

    def _messages(self, before: int) -> list[StoredRow]:
        """Give the messages that have a row: said in these calls' time, or sent to one of them."""
        seen = {one.message_id for one in self._entries}
        last = self.calls[-1].stored.seq if self.calls else 0
        found = [
            stored
            for stored in self._record.by_id.values()
            if stored.id in seen or (stored.seq < last and stored.row.node_type in BORN)
        ]
        kept = [each for each in found if each.seq >= before or each.id in seen]
        self.left_out = len(found) - len(kept)
        return kept

    def _form(self, shown: ShownMessage) -> Cell:
        """Return what an entry is, whatever the cache did."""
        if edits := edits_in(shown.because):
            return _OF_EDIT.get(edits[0], Cell.DIGESTED)
        node = self._record.by_id[shown.message_id].row.node_type
        return Cell.SHOWN if node in BORN or node == NodeType.SYSTEM else Cell.BROUGHT_IN

    def _stood(self, history: History) -> _Places:
        """Return the rows of the matrix whose messages stood before a call."""
        line = history.line
        if id(line) not in self._lines:
            rows = np.array([self._row_of.get(str(each.id), -1) for each in line], np.intp)
            self._lines[id(line)] = np.flatnonzero(rows >= 0), rows[rows >= 0]
        places, rows = self._lines[id(line)]
        return rows[: int(np.searchsorted(places, history.until))]

    def fill(self, column: _Bytes, at: int) -> None:
        """Fill the column of the call at this place."""
        call, window = self.calls[at], self._windows[at]
        stood = self._stood(call.history)
        hidden = self._hidden.cells(call.details.edits, call.stored.seq)
        column[stood] = (hidden * self._stays)[stood]
        forms = self._forms[window]
        if call.sent_tokens:
            self._lay_cache(forms, self._tokens[window], call)
        column[self._rows[window]] = forms

    def _lay_cache(self, forms: _Bytes, tokens: NDArray[np.int64], call: Call) -> None:
        """Tell what was read from the cache, and behind it what was written to it.

        A message counts where its middle lies; tools stand in front of all.
        """
        cached, written = call.tokens_cached, call.reply_details.tokens_written
        if not len(tokens) or not (cached or written):
            return
        ends = np.cumsum(tokens)
        middles = ends - tokens / 2 + (call.sent_tokens - int(ends[-1]) + self._missing)
        middles *= call.tokens_in / (call.sent_tokens + self._missing)
        plain = forms == Cell.SHOWN
        forms[plain & (middles < cached + written)] = Cell.WRITTEN
        forms[plain & (middles < cached)] = Cell.READ

    def most_tokens(self) -> list[int]:
        """Return the most tokens that a call was sent of each message."""
        most = np.zeros(len(self.messages), np.int64)
        np.maximum.at(most, self._rows, self._tokens)
        return [int(each) for each in most]


class _Hidden:
    """How each message is told where a call was not sent it: folded into another, or dropped."""

    def __init__(self, record: SessionRecord, row_of: Mapping[str, int]) -> None:
        self._edits: Sequence[EditRecord] = record.store.edits(record.session_id)
        self._row_of = row_of
        replies = ((stored.seq, ReplyDetails.read(stored.row)) for stored in record.rows)
        cut = ((seq, reply.continues or "") for seq, reply in replies if reply is not None)
        self._continued = [(seq, row_of[name]) for seq, name in cut if name in row_of]
        self._begin()

    def _begin(self) -> None:
        self._done = 0
        self._cells = np.full(len(self._row_of), Cell.DROPPED, np.uint8)

    def cells(self, edits: int | None, seq: int) -> _Bytes:
        """Return one cell a message, at a call that had so many `edits` of the record.

        None: all.
        """
        until = len(self._edits) if edits is None else edits
        if until < self._done:
            self._begin()
        for edit in islice(self._edits, self._done, until):
            row = self._row_of.get(edit.message_id)
            if row is not None:
                # What is pruned is shown nowhere; any other drop is into the text of another.
                is_told = edit.kind == "drop" and edit.because != "prune"
                self._cells[row] = Cell.FOLDED if is_told else Cell.DROPPED
        self._done = until
        for after, row in self._continued:
            if after < seq:
                self._cells[row] = Cell.FOLDED
        return self._cells


def cell_text(record: SessionRecord, matrix: Matrix, row: int, column: int) -> str:
    """Return one cell in a sentence, by places from 0. Raises UsageError where there is none."""
    if not (0 <= row < len(matrix.rows) and 0 <= column < len(matrix.columns)):
        raise UsageError(
            f"there is no cell {column + 1} of message {row + 1}: the matrix has"
            f" {many(len(matrix.rows), 'message')} and {many(len(matrix.columns), 'call')}"
        )
    message, call, cell = matrix.rows[row], matrix.columns[column], matrix.cell(row, column)
    place = "" if message.turn is None else f" of {message.phase}, turn {message.turn},"
    text = f"Message {row + 1}, {message.what}{place} at call {call.number}: {cell.words}"
    why = _why(record, message.message_id, record.calls[call.number - 1], cell)
    cost = "has no price" if call.dollars is None else f"cost {money(call.dollars)}"
    return f"{text}{why}. The call {cost}."


def _why(record: SessionRecord, message_id: str, call: Call, cell: Cell) -> str:
    """Say what was sent of a message, and because of what; empty where nothing is known of that."""
    entry = next((one for one in call.shown if one.message_id == message_id), None)
    if entry is not None and not edits_in(entry.because):
        return f", {many(entry.tokens, 'token')} ({entry.reason})"
    edits = record.store.edits(record.session_id)[: call.details.edits]
    found = [edit for edit in edits if edit.message_id == message_id]
    if entry is not None:
        reason = found[-1].reason if found else entry.reason
        return f", {many(entry.tokens, 'token')} ({entry.because}: {reason})"
    if cell == Cell.ABSENT:
        return ""
    if found and found[-1].kind == "drop":
        return f" ({found[-1].because}: {found[-1].reason})"
    return " (its context does not include it)" if cell == Cell.DROPPED else ""
