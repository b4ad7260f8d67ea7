"""The run's hand on the history: ids, times, and what a snowball would hold.

The one place in the engine room that makes rows. It keeps, beside the store, the
list of what was born in the session (without pictures' bytes), because what a
snowball would have sent is told at every call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from windlass.history.base import (
    BORN,
    Batch,
    EditRecord,
    NodeType,
    Row,
    Store,
    StoredRow,
    continued,
    standing,
)
from windlass.messages import Message, Picture
from windlass.window.entries import Item
from windlass.wire.base import Usage


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
        self.clock = clock
        self.new_id = new_id
        self.born: list[Item] = []
        self.traces: dict[str, str] = {}
        self.times: dict[str, float] = {}
        self.said: Callable[[], object] = lambda: None
        self.on_append: Callable[[Sequence[Item], Sequence[EditRecord]], object] = lambda *_: None
        self.sounding: tuple[str, int] | None = None
        self._edits = [0]  # shared by all hands on one session

    @property
    def edits(self) -> int:
        """How many edits were recorded in the session."""
        return self._edits[0]

    def apart(self, phase: str, index: int) -> Recorder:
        """A hand on the same history for a sounding: it knows nothing of those beside it."""
        own = Recorder(self.store, self.session_id, self.clock, self.new_id)
        own.born, own.traces, own.times = self.born.copy(), self.traces.copy(), self.times.copy()
        own.said = self.said
        own.sounding = phase, index
        own._edits = self._edits
        return own

    def take_over(self, own: Recorder) -> None:
        """Count what was said in a sounding as said; others must have said nothing since."""
        self.born, self.traces, self.times = own.born, own.traces, own.times

    def row(self, node: NodeType, message: Message | None = None, **columns: Any) -> Row:
        """A row of this session, with a trace id and the time; `columns` are those of `Row`."""
        columns.setdefault("trace_id", self.new_id())
        if self.sounding is not None:
            columns.setdefault("sounding_index", self.sounding[1])
        if message is not None:
            bytes_of = {p.sha256: p.data for p in message.pictures if p.data is not None}
            columns.setdefault("pictures", bytes_of)
        return Row(node_type=node, timestamp=self.clock(), message=message, **columns)

    def append(self, rows: Sequence[Row] = (), **others: Any) -> list[Item]:
        """Append a batch and return the occurrences of its rows that have a message."""
        ids = self.store.append(Batch(self.session_id, rows=tuple(rows), **others))
        self._edits[0] += len(others.get("edits", ()))
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
        self.on_append(items, others.get("edits", ()))
        return items

    def take_back(self, item: Item) -> None:
        """Count a reply as not said: the next one goes on with it. It stays in the store."""
        self.born.remove(item)

    def add(self, node: NodeType, message: Message, **columns: Any) -> Item:
        """Append one message and return its occurrence; `columns` are those of its row."""
        (item,) = self.append([self.row(node, message, **columns)])
        return item

    def decide(self, phase: str, text: str, **metadata: Any) -> None:
        """Record a decision that is no message: what was decided, and why."""
        self.append([self.row(NodeType.DECISION, phase=phase, metadata={"text": text, **metadata})])

    def failure(self, phase: str | None, error: BaseException) -> Row:
        """A row that tells of a failure, with its type and text."""
        metadata = {"error": type(error).__name__, "text": str(error)}
        return self.row(NodeType.ERROR, phase=phase, metadata=metadata)

    def rows(self, phase: str | None = None) -> list[StoredRow]:
        """The rows of a phase, or of the whole session, without soundings that did not win."""
        return list(standing(self.store.rows(self.session_id, phase=phase), self.sounding))

    def soundings(self, phase: str) -> list[list[Item]]:
        """What was said in each sounding of a phase, by its index, read from the record."""
        found: dict[int, list[StoredRow]] = {}
        for stored in self.store.rows(self.session_id, phase=phase):
            if stored.row.sounding_index is not None:
                found.setdefault(stored.row.sounding_index, []).append(stored)
        return [_said(found.get(index, [])) for index in range(max(found, default=-1) + 1)]

    def items(self, phase: str | None = None) -> list[Item]:
        """What was said in a phase, or in the whole session, read from the record."""
        return _said(self.rows(phase))


def _said(rows: Sequence[StoredRow]) -> list[Item]:
    replaced = continued(rows)
    return [
        _item(stored.id, stored.row, stored.row.message)
        for stored in rows
        if stored.row.node_type in BORN
        and stored.row.message is not None
        and stored.id is not None
        and stored.id not in replaced
    ]


def _item(id_: str, row: Row, message: Message) -> Item:
    return Item(id_, message, row.node_type, row.phase, row.turn, row.attempt)


def usage_columns(model: str, usage: Usage, cost: float | None) -> dict[str, Any]:
    """The columns of a row that say what a call of a model took; `cost` in US dollars."""
    return {
        "model": model,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "tokens_cached": usage.tokens_cached,
        "cost": cost,
    }


def without_bytes(message: Message) -> Message:
    """The message with its pictures' bytes let go; they are in the store."""
    if not any(picture.data for picture in message.pictures):
        return message
    return message.with_parts(
        *(
            dataclasses.replace(part, data=None) if isinstance(part, Picture) else part
            for part in message.parts
        )
    )
