"""Writes the rows of a run, and remembers what was said in it.

The one place in the engine room that makes rows. It keeps, beside the store, the
list of what was born in the session (without pictures' bytes), because what a
snowball would have sent is told at every call.
"""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

from windlass.history.base import (
    BORN,
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    Row,
    SessionStart,
    StateChange,
    Store,
    StoredRow,
)
from windlass.history.decisions import ErrorDetails
from windlass.history.lanes import Lanes
from windlass.history.row_details import STEPS, RowDetails, json_of, kind_of
from windlass.history.step import Step
from windlass.messages import Message, Picture, canonical_json
from windlass.window.entries import Item
from windlass.wire.base import Usage

SEED: Final = "~"
"""Stands in the name of a session before its seed, where that is not the name itself."""


class Recorder:
    """Appends one session's rows, and remembers what was born in it.

    `born` are those occurrences in order, `traces` the trace id of each occurrence,
    `times` when it was recorded (seconds since 1970). `said` is called after each append of
    messages, `on_append` with them and with the edits beside them. `sounding` is the phase and the
    index of the sounding whose rows it makes (None: it makes those of none).
    `clock` gives seconds since 1970, `new_id` a fresh trace id: both are handed in,
    so that a test can hold them still.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self.store = store
        self.session_id = session_id
        self._clock = clock
        self._at: float | None = None
        self.new_id = new_id
        self.born: list[Item] = []
        self.traces: dict[str, str] = {}
        self.times: dict[str, float] = {}
        self.said: Callable[[], object] = lambda: None
        self.on_append: Callable[[Sequence[Item], Sequence[EditRecord]], object] = lambda *_: None
        self.sounding: tuple[str, int] | None = None
        self.recorded: Recorded | None = None
        self._edits = [0]  # shared by all hands on one session

    @property
    def seed(self) -> str:
        """The seed of what is drawn: runs with equal seeds draw alike, and so do resumed ones."""
        return self.session_id.partition(SEED)[2] or self.session_id

    def clock(self) -> float:
        """Seconds since 1970; while a resumed run follows its record, the time recorded there."""
        return self._clock() if self._at is None else self._at

    def set_time(self, at: float | None) -> None:
        """Record as of this time from now on, in seconds since 1970 (None: the time it is)."""
        self._at = at

    @property
    def edits(self) -> int:
        """How many edits were recorded in the session."""
        return self._edits[0]

    @property
    def sounding_index(self) -> int | None:
        """The index of the sounding whose rows it makes (None: of none)."""
        return None if self.sounding is None else self.sounding[1]

    @property
    def follows_record(self) -> bool:
        """Whether a resumed run found in its record all that it came to until now."""
        return self._at is not None

    def catch_up(self, at: float | None) -> None:
        """Move on to this time, in seconds since 1970 (None: the time it is); never back."""
        if self._at is not None and (at is None or at > self._at):
            self._at = at

    @contextmanager
    def fresh_recorder(self) -> Iterator[Recorder]:
        """A recorder of the same session that heard nothing yet; this one's clock follows it."""
        own = Recorder(self.store, self.session_id, self._clock, self.new_id)
        own._at, own.recorded, own.on_append = self._at, self.recorded, self.on_append
        try:
            yield own
        finally:
            self.catch_up(own._at)

    def recorder_of_sounding(self, phase: str, index: int) -> Recorder:
        """A recorder of the same session for one sounding, which hears nothing of the others."""
        own = copy.copy(self)
        own.born, own.traces, own.times = self.born.copy(), self.traces.copy(), self.times.copy()
        own.on_append, own.sounding = (lambda *_: None), (phase, index)
        return own

    def take_over(self, own: Recorder) -> None:
        """Count what was said in a sounding as said here; nothing may have been said since."""
        self.born, self.traces, self.times = own.born, own.traces, own.times

    def stamp(self, row: Row) -> Row:
        """The row with what it lacks: trace id, time, sounding, and the bytes of its pictures."""
        shown = () if row.message is None else row.message.pictures
        sounding = self.sounding_index if row.sounding_index is None else row.sounding_index
        return replace(
            row,
            trace_id=row.trace_id or self.new_id(),
            timestamp=row.timestamp or self.clock(),
            sounding_index=sounding,
            pictures=row.pictures or {p.sha256: p.data for p in shown if p.data is not None},
        )

    def append(
        self,
        rows: Iterable[Row] = (),
        *,
        calls: Sequence[CallRecord] = (),
        edits: Sequence[EditRecord] = (),
        state: Sequence[StateChange] = (),
        outcomes: Sequence[Outcome] = (),
        start: SessionStart | None = None,
    ) -> list[Item]:
        """Append a batch and return the occurrences of its rows that have a message.

        What the record of a resumed session holds already is not written again.
        """
        rows = tuple(map(self.stamp, rows))
        batch = Batch(self.session_id, rows, calls, edits, state, outcomes, start)
        ids: Sequence[str | None]
        if self.recorded is None:
            ids = self.store.append(batch)
        else:
            rows, ids = self._append_new(batch)
        self._edits[0] += len(edits)
        items: list[Item] = []
        for row, id_ in zip(rows, ids, strict=True):
            if row.message is None or id_ is None:
                continue
            item = _item(id_, row, without_bytes(row.message))
            items.append(item)
            self.traces[id_] = row.trace_id
            self.times[id_] = row.timestamp
            if row.node_type in BORN:
                self.born.append(item)
        if items:
            self.said()
        self.on_append(items, edits)
        return items

    def _append_new(self, batch: Batch) -> tuple[tuple[Row, ...], Sequence[str | None]]:
        """Append what the record does not hold; returns all rows as they stand there."""
        assert self.recorded is not None
        rows = [(row, self.recorded.take(row)) for row in batch.rows]
        new = self.recorded.not_recorded(batch, [row for row, held in rows if held is None])
        written = iter(() if new == Batch(self.session_id) else self.store.append(new))
        stand = [
            (row, next(written)) if held is None else (held.row, held.id) for row, held in rows
        ]
        return tuple(row for row, _ in stand), [ident for _, ident in stand]

    def withdraw(self, item: Item) -> None:
        """Count a reply as not said: the next one goes on with it. It stays in the store."""
        self.born.remove(item)

    def add(self, row: Row) -> Item:
        """Append one message and return its occurrence."""
        (item,) = self.append([row])
        return item

    def turn(self, phase: str, attempt: int, turn: int) -> Step:
        """Return the step of a turn's own call."""
        return Step(phase, self.sounding_index, attempt, turn)

    def decide(self, phase: str | None, text: str, details: RowDetails) -> None:
        """Record a decision that is no message: what was decided, and why."""
        self.append([Row(NodeType.DECISION, phase=phase, text=text, details=details)])

    def failure(self, phase: str | None, error: BaseException) -> Row:
        """Return a row that tells of a failure, with its type and text."""
        details = ErrorDetails(type(error).__name__, str(error))
        return Row(NodeType.ERROR, phase=phase, text=details.text, details=details)

    def rows(self, phase: str | None = None) -> Sequence[StoredRow]:
        """The rows of a phase, or of the whole session, without soundings that did not win."""
        return self._lanes(phase).standing(*self.sounding or ()).rows

    def items(self, phase: str | None = None, visit: int | None = None) -> list[Item]:
        """Return what was said in a visit of a phase, or in the whole session; as in `rows`.

        A phase that may run several times is asked for one visit, from 1 (None: the last).
        """
        lanes = self._lanes(phase)
        said = lanes.standing(*self.sounding or ()).messages
        if phase is not None:
            number = visit or lanes.visit(phase)
            said = [stored for stored in said if lanes.lane(stored).visit == number]
        return _items(said)

    def soundings(self, phase: str, visit: int | None = None) -> list[list[Item]]:
        """What was said in each sounding of a visit of a phase, by its index; as in `rows`."""
        lanes = self._lanes(phase)
        number = visit or lanes.visit(phase)
        tried = {lane.sounding: lane for lane in lanes if lane.visit == number}
        indexes = range(max((index for index in tried if index is not None), default=-1) + 1)
        return [_items(lanes.said_in(tried[index])) if index in tried else [] for index in indexes]

    def last_turn(self, phase: str) -> int:
        """The last turn that a phase took, also in soundings that did not win; 0: it took none."""
        return max((stored.row.turn or 0 for stored in self._come_by(phase)), default=0)

    def _lanes(self, phase: str | None) -> Lanes:
        return Lanes(self._come_by(phase))

    def _come_by(self, phase: str | None) -> Iterator[StoredRow]:
        """Yield the stored rows; of a resumed session those that the run has come to."""
        for stored in self.store.rows(self.session_id, phase=phase):
            if self.recorded is None or self.recorded.has_passed(stored):
                yield stored


def _items(rows: Iterable[StoredRow]) -> list[Item]:
    return [
        _item(stored.id, stored.row, stored.row.message)
        for stored in rows
        if stored.id is not None and stored.row.message is not None
    ]


class Recorded:
    """What the record of a resumed session holds; the run finds it again step by step.

    Messages of `finished` phases are left out: these phases do not run again.
    """

    def __init__(self, store: Store, session_id: str, finished: Container[str] = ()) -> None:
        self.rows: list[StoredRow] = []
        self._last = 0
        for stored in store.rows(session_id):
            self._last = stored.seq
            row = stored.row
            if row.node_type == NodeType.DECISION or (row.phase or "") not in finished:
                self.rows.append(stored)
        self._said: dict[str | None, set[str]] = defaultdict(set)
        for stored in self.rows:
            if stored.row.message is not None:
                self._said[stored.row.phase].add(stored.row.message.key)
        self._come_by: set[int] = set()
        self._rows: dict[_Same, deque[StoredRow]] = defaultdict(deque)
        for stored in self.rows:
            self._rows[_same(stored.row)].append(stored)
        ended = store.outcomes(session_id)
        outcomes = [each for each in ended if each.phase]
        outcomes += [
            each for each in ended[-1:] if (each.phase, each.status) == (None, "completed")
        ]
        beside: list[_Beside] = [*store.edits(session_id), *store.state(session_id), *outcomes]
        self._others = Counter(map(_same_beside, beside))

    def take(self, row: Row) -> StoredRow | None:
        """Return the row as it was recorded, each once; None: it was not recorded."""
        found = self._rows.get(_same(row))
        if not found or kind_of(row) in STEPS:  # what is sent again stands twice
            return None
        self._come_by.add(found[0].seq)
        return found.popleft()

    def differs(self, phase: str, message: Message) -> bool:
        """Return whether a phase had begun in the record, and without this message."""
        said = self._said.get(phase)
        return said is not None and message.key not in said

    def has_passed(self, stored: StoredRow) -> bool:
        """Return whether the resumed run came to a row, or wrote it."""
        return stored.seq > self._last or stored.seq in self._come_by

    def not_recorded(self, batch: Batch, rows: Sequence[Row]) -> Batch:
        """Return what of a batch is not recorded, where of its rows these are not."""
        traces = {row.trace_id for row in batch.rows} - {row.trace_id for row in rows}
        return Batch(
            batch.session_id,
            tuple(rows),
            tuple(call for call in batch.calls if call.trace_id not in traces),
            tuple(filter(self._is_new, batch.edits)),
            tuple(filter(self._is_new, batch.state)),
            tuple(filter(self._is_new, batch.outcomes)),
        )  # without its start: the session began long ago

    def _is_new(self, one: _Beside) -> bool:
        """Return whether something beside rows is not recorded, each time that it is recorded."""
        same = _same_beside(one)
        is_new = self._others[same] <= 0
        self._others[same] -= not is_new
        return is_new


_Beside: TypeAlias = EditRecord | StateChange | Outcome
_Same: TypeAlias = tuple[object, ...]
"""What is equal for two rows of a session that say the same at the same place."""


def _same(row: Row) -> _Same:
    """Return what identifies a row of a session, whenever it was written."""
    place = (row.node_type, row.phase, row.turn, row.attempt, row.sounding_index)
    if row.message is not None:
        return *place, row.message.key
    # Details of an earlier version may be written in another way.
    details = json_of(row) if row.details is None else row.details.as_json()
    return *place, row.text, _as_read_back(details)


def _same_beside(one: _Beside) -> _Same:
    """Return what identifies something that a batch holds besides its rows, likewise."""
    match one:
        case EditRecord(message_id, kind, because, reason, replacement):
            key = None if replacement is None else replacement.key
            return EditRecord, message_id, kind, because, reason, key
        case StateChange(phase, key, value):
            return StateChange, phase, key, _as_read_back(value)
        case Outcome():
            return Outcome, one.phase, one.status


def _as_read_back(value: Any) -> str:
    """Return a JSON value as text that is equal for equal ones, whether it was stored or not."""
    return canonical_json(json.loads(json.dumps(value, default=list), parse_int=float))


def _item(id_: str, row: Row, message: Message) -> Item:
    return Item(id_, message, row.node_type, row.phase, row.turn, row.attempt)


def with_usage(row: Row, model: str, usage: Usage, cost: float | None) -> Row:
    """Return the row with what a call of a model took; `cost` in US dollars."""
    return replace(
        row,
        model=model,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cached=usage.tokens_cached,
        cost=cost,
    )


def without_bytes(message: Message) -> Message:
    """Return the message with its pictures' bytes let go; they are in the store."""
    if not any(picture.data for picture in message.pictures):
        return message
    return message.with_parts(
        *(replace(part, data=None) if isinstance(part, Picture) else part for part in message.parts)
    )
