"""The spans of all sessions that are appended to a store while they run."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from windlass.public import BANK, Batch, NodeType, SessionFilter, SessionStart, Store, row_details
from windlass_otel._session_spans import SessionSpans, began_at
from windlass_otel.genai_messages import Contents
from windlass_otel.spans import OtelSpan, SpanSink

_TOLD = frozenset({NodeType.AGENT, NodeType.FOLLOW_UP, NodeType.TOOL_RESULT})
_STEPS = frozenset(
    {row_details.CallSent.kind, row_details.CallAnswered.kind, row_details.CallFailed.kind}
)


class SpanMaker:
    """Makes the spans of sessions, batch by batch.

    Args:
        store: Where a session that began before is looked up.
        sink: Where the spans go.
        contents: What is told of contents.
    """

    def __init__(self, store: Store, sink: SpanSink, contents: Contents) -> None:
        self._store = store
        self._sink = sink
        self._contents = contents
        self._sessions: dict[str, SessionSpans] = {}
        self._numbers: dict[str, int] = {}
        """How many spans were made of sessions that ended; they may be gone on with."""

    def take(self, batch: Batch, idents: Sequence[str | None]) -> None:
        """Tell of a batch that was appended; `idents` are the occurrences of its messages."""
        session = batch.session_id
        if session.startswith(BANK):
            return
        spans = self._sessions.get(session)
        if spans is None:
            if batch.start is None and not _begins(batch):
                return
            spans = self._open(batch)
        calls = {call.trace_id: call for call in batch.calls}
        for row, ident in zip(batch.rows, idents, strict=True):
            spans.take_row(row, ident, calls.get(row.trace_id))
        for outcome in batch.outcomes:
            spans.take_outcome(outcome)
        if spans.ended:
            self._numbers[session] = self._sessions.pop(session).number

    def finish(self, status_of: Callable[[str], str] = lambda _: "") -> None:
        """Close what is open: nothing more comes. `status_of` says how a session stands."""
        for session, spans in reversed(self._sessions.items()):
            spans.finish(status=status_of(session))
        self._sessions.clear()

    def _open(self, batch: Batch) -> SessionSpans:
        session, start = batch.session_id, batch.start or self._store.start(batch.session_id)
        at = start.timestamp if batch.start or not batch.rows else began_at(batch.rows[0])
        parent, number = self._above(start), self._numbers.get(session, 0)
        spans = SessionSpans(session, start, self._sink, self._contents, parent, at, number)
        if batch.start is None:  # it goes on with what was said before
            new = {row.trace_id for row in batch.rows}
            for stored in self._store.rows(session):
                if stored.row.trace_id not in new:
                    spans.know(stored.row, stored.id)
        self._sessions[session] = spans
        return spans

    def _above(self, start: SessionStart) -> OtelSpan | None:
        above = self._sessions.get(start.parent_id or "")
        if above is None:
            return None
        return above.phase_span(start.parent_phase, at=start.timestamp)


def _begins(batch: Batch) -> bool:
    """Return whether a session that is not known goes on with this: it calls a model or a tool."""
    return any(row.node_type in _TOLD or row_details.kind_of(row) in _STEPS for row in batch.rows)


def replay_spans(store: Store, session_id: str, sink: SpanSink, contents: Contents) -> None:
    """Make the spans of a session, and of those under it, out of their record.

    Raises UsageError for an unknown session.
    """
    maker = SpanMaker(store, sink, contents)
    sessions = [session_id]
    for each in sessions:  # it grows
        below = store.sessions(SessionFilter(under=(each,)))
        sessions += [info.session_id for info in reversed(below)]
    recorded = heapq.merge(*(_batches(store, each) for each in sessions), key=lambda one: one[0])
    for _, batch, idents in recorded:
        maker.take(batch, idents)
    maker.finish(lambda name: store.session_status(name).status)


def _batches(store: Store, session_id: str) -> Iterator[tuple[float, Batch, Sequence[str | None]]]:
    """Yield what was appended to a session, row by row, each with its time."""
    start = store.start(session_id)
    yield start.timestamp, Batch(session_id, start=start), ()
    calls = {call.trace_id: call for call in store.calls(session_id)}
    outcomes, at = deque(store.outcomes(session_id)), start.timestamp
    for stored in store.rows(session_id):
        while outcomes and outcomes[0].timestamp < stored.row.timestamp:
            at = max(at, outcomes[0].timestamp)
            yield at, Batch(session_id, outcomes=[outcomes.popleft()]), ()
        at, call = max(at, stored.row.timestamp), calls.get(stored.row.trace_id)
        yield at, Batch(session_id, rows=[stored.row], calls=[call] if call else []), [stored.id]
    for outcome in outcomes:
        yield max(at, outcome.timestamp), Batch(session_id, outcomes=[outcome]), ()


class ObservedStore:
    """A store whose appended batches are told of; it does all else as the store itself.

    What goes wrong with telling takes nothing from the run: it is counted in `failures`.
    """

    def __init__(self, store: Store, maker: SpanMaker) -> None:
        self._store = store
        self._maker = maker
        self._lock = threading.Lock()
        self.failures = 0

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Append to the store, then tell of it."""
        idents = self._store.append(batch)
        with self._lock:
            try:
                self._maker.take(batch, idents)
            except Exception:  # noqa: BLE001 - whatever it is, the run goes on
                self.failures += 1
        return idents

    def finish(self) -> None:
        """Close the spans that are open."""
        with self._lock, suppress(Exception):
            self._maker.finish()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
