"""What a session's calls saw: the values behind `windlass show`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windlass.errors import UsageError
from windlass.history.base import BORN, CallRecord, Store, StoredRow
from windlass.history.callouts import Callout, CalloutMark, called_out
from windlass.history.details import CallDetails
from windlass.messages import Message
from windlass.window.entries import INJECT


@dataclass(frozen=True, slots=True)
class Seen:
    """One message of a call's window: what was sent, and the original where it was edited.

    `tokens` by the engine's count; `phase` and `turn` where it was said; `callout` its name
    where it is called out.
    """

    position: int
    message_id: str
    role: str
    phase: str | None
    turn: int | None
    reason: str
    tokens: int
    message: Message
    because: str | None = None
    original: Message | None = None
    callout: str | None = None

    @property
    def edit(self) -> str | None:
        """The name of the edit that changed the message; None where only a block was added."""
        names = [name for name in (self.because or "").split(", ") if name != INJECT]
        return ", ".join(names) or None

    @property
    def has_block(self) -> bool:
        """Whether a block of injectors stands at the end of the message."""
        return INJECT in (self.because or "").split(", ")


@dataclass(frozen=True, slots=True)
class CallView:
    """One call: where it stands, what it saw, what came back, and what was not shown.

    Token counts as the provider reported them; `sent_tokens` and `snowball_tokens` by
    the engine. `hidden` counts what was said in the session and this call did not see,
    by the phase it was said in.
    """

    number: int
    node_type: str
    phase: str | None
    turn: int | None
    attempt: int | None
    model: str
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: float | None
    seconds: float
    sent_tokens: int
    snowball_tokens: int
    tools: tuple[str, ...]
    seen: tuple[Seen, ...]
    reply: Message
    hidden: Mapping[str, int]
    details: CallDetails


@dataclass(frozen=True, slots=True)
class Note:
    """A decision, validation or error of the session, in one line."""

    node_type: str
    phase: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session: how it began and ended, its calls, and its notes in order.

    `pictures` are the files in which its pictures can be looked at, by SHA-256; `callouts`
    the messages that were marked as important.
    """

    session_id: str
    cascade_id: str
    model: str
    input: Mapping[str, Any]
    status: str
    error: str | None
    calls: tuple[CallView, ...]
    notes: tuple[Note, ...]
    pictures: Mapping[str, Path]
    callouts: tuple[Callout, ...] = ()


def view_session(store: Store, session_id: str) -> SessionView:
    """The whole session. Raises UsageError where it is unknown."""
    start = store.start(session_id)
    rows = list(store.rows(session_id))
    by_id = {stored.id: stored for stored in rows if stored.id is not None}
    by_trace = {stored.row.trace_id: stored for stored in rows}
    callouts = called_out(rows)
    names = {callout.message_id: callout.name for callout in callouts}
    history = _History(rows)
    calls = tuple(
        _call_view(
            store, number, call, by_trace[call.trace_id], history=history, by_id=by_id, names=names
        )
        for number, call in enumerate(store.calls(session_id), start=1)
    )
    ended = [outcome for outcome in store.outcomes(session_id) if outcome.phase is None]
    notes = tuple(
        Note(stored.row.node_type, stored.row.phase, _note_text(stored))
        for stored in rows
        if stored.row.message is None and CalloutMark.read(stored) is None
    )
    return SessionView(
        session_id=session_id,
        cascade_id=start.cascade_id,
        model=start.model,
        input=start.input,
        status=ended[-1].status if ended else "running or killed",
        error=ended[-1].error if ended else None,
        calls=calls,
        notes=notes,
        pictures=_picture_files(store, session_id, rows),
        callouts=callouts,
    )


_NUMBERS: Final = re.compile(r"\[[\d-]+\]")


def without_numbers(phase: str) -> str:
    """A phase's name without the numbers of inputs: inner tasks of a reduce share it."""
    return _NUMBERS.sub("[]", phase)


class _History:
    """The messages of a session, counted by phase as it goes on; inner tasks together.

    Counted once for all calls, because a reduce has ten thousand of them.
    """

    def __init__(self, rows: list[StoredRow]) -> None:
        self._messages = [
            (stored.seq, stored.id, without_numbers(stored.row.phase or "-"))
            for stored in rows
            if stored.row.node_type in BORN
        ]
        self._places = {id_: (seq, phase) for seq, id_, phase in self._messages}
        self._at = 0
        self._totals = Counter[str]()

    def hidden(self, before: int, visible: Collection[str]) -> dict[str, int]:
        """How many messages of each phase stand before row `before` and are not visible."""
        if self._at and self._messages[self._at - 1][0] >= before:
            self._at, self._totals = 0, Counter()
        while self._at < len(self._messages) and self._messages[self._at][0] < before:
            self._totals[self._messages[self._at][2]] += 1
            self._at += 1
        left = self._totals.copy()
        for id_ in visible:
            seq, phase = self._places.get(id_, (before, ""))
            if seq < before:
                left[phase] -= 1
        return {phase: count for phase, count in left.items() if count > 0}


def _picture_files(store: Store, session_id: str, rows: list[StoredRow]) -> dict[str, Path]:
    """The visible file of each picture that a phase made, the first where it made it twice."""
    files: dict[str, Path] = {}
    for phase in dict.fromkeys(stored.row.phase for stored in rows if stored.row.phase):
        for sha256, path in store.picture_names(session_id, phase):
            files.setdefault(sha256, path)
    return files


def view_call(session: SessionView, number: int) -> CallView:
    """Call `number` of a session, counted from 1. Raises UsageError naming the range."""
    if not 1 <= number <= len(session.calls):
        raise UsageError(
            f"session {session.session_id!r} has no call {number};"
            f" it has calls 1 to {len(session.calls)}"
            if session.calls
            else f"session {session.session_id!r} has no call {number}; it made none"
        )
    return session.calls[number - 1]


def _call_view(
    store: Store,
    number: int,
    call: CallRecord,
    stored: StoredRow,
    *,
    history: _History,
    by_id: Mapping[str, StoredRow],
    names: Mapping[str, str],
) -> CallView:
    row = stored.row
    edited = {body.key: body for body in call.bodies}
    seen: list[Seen] = []
    for position, shown in enumerate(call.shown):
        source = by_id[shown.message_id]
        original = source.row.message or Message("user")
        message = original
        if shown.shown_as is not None:
            message = edited.get(shown.shown_as) or store.message(shown.shown_as)
        seen.append(
            Seen(
                position=position,
                message_id=shown.message_id,
                role=message.role,
                phase=source.row.phase,
                turn=source.row.turn,
                reason=shown.reason,
                tokens=shown.tokens,
                message=message,
                because=shown.because,
                original=original if shown.shown_as is not None else None,
                callout=names.get(shown.message_id),
            )
        )
    visible = {shown.message_id for shown in call.shown}
    return CallView(
        number=number,
        node_type=row.node_type,
        phase=row.phase,
        turn=row.turn,
        attempt=row.attempt,
        model=call.model,
        tokens_in=row.tokens_in or 0,
        tokens_cached=row.tokens_cached or 0,
        tokens_out=row.tokens_out or 0,
        cost=row.cost,
        seconds=(row.duration_ms or 0.0) / 1_000,
        sent_tokens=call.sent_tokens,
        snowball_tokens=call.full_tokens,
        tools=tuple(tool["function"]["name"] for tool in call.tools),
        seen=tuple(seen),
        reply=row.message or Message("assistant"),
        hidden=history.hidden(stored.seq, visible),
        details=call.details,
    )


def _note_text(stored: StoredRow) -> str:
    metadata = stored.row.metadata
    if "text" in metadata:
        return str(metadata["text"])
    if "valid" in metadata:
        verdict = "accepted" if metadata["valid"] else f"refused: {metadata['validation_reason']}"
        return f"attempt {metadata['attempt']} {verdict}"
    return ", ".join(f"{key}: {value}" for key, value in metadata.items())
