"""What a session's calls saw: the values behind `windlass show`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, overload

from windlass.errors import UsageError
from windlass.history.base import (
    BORN,
    CHAT,
    FORKED_FROM,
    RAN,
    CallRecord,
    Row,
    SessionInfo,
    SessionStart,
    ShownMessage,
    Store,
    StoredRow,
)
from windlass.history.callout_rows import Callout, find_callouts
from windlass.history.decisions import (
    CalloutMark,
    VisitBegun,
    WindowSelection,
    standing,
    text_of,
)
from windlass.history.details import CallDetails
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.history.row_details import STEPS, Validation, continued, json_of, kind_of
from windlass.messages import Message
from windlass.report._session_record import SessionRecord
from windlass.tasks.model import OPERATORS
from windlass.text.titles import dated, first_words
from windlass.window.entries import INJECT


@dataclass(frozen=True, slots=True)
class Seen:
    """One message of a call's window."""

    position: int
    message_id: str
    role: str
    phase: str | None
    """Where it was said, as `turn` is."""
    turn: int | None
    reason: str
    tokens: int
    """What was sent of it, by the engine's count."""
    message: Message
    """What was sent."""
    because: str | None = None
    """The names of the edits that changed it, with commas between."""
    original: Message | None = None
    """What was said, where an edit changed it."""
    callout: str | None = None
    """Its name, where it is called out."""

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
    """One call: where it stands, what it saw, what came back, and what was not shown."""

    number: int
    node_type: str
    phase: str | None
    turn: int | None
    attempt: int | None
    model: str
    tokens_in: int
    """Tokens in, cached and out are those that the provider reported."""
    tokens_cached: int
    tokens_out: int
    cost: float | None
    seconds: float
    sent_tokens: int
    """What was sent, by the engine's count."""
    snowball_tokens: int
    """What a snowball would have sent, by the engine's count."""
    tools: tuple[str, ...]
    seen: Sequence[Seen]
    """Its window; each message is put together when it is looked at."""
    reply: Message
    hidden: Mapping[str, int]
    """How many messages were said in the session and not seen by this call, by their phase."""
    details: CallDetails
    sounding_index: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, in words: its phase, turn and attempt, and its sounding."""
        sounding = "" if self.sounding_index is None else f"sounding {self.sounding_index}, "
        return f"phase {self.phase}, {sounding}turn {self.turn}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Note:
    """A decision, validation or error of the session, in one line."""

    node_type: str
    phase: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session: how it began and ended, its calls, and its notes in order."""

    session_id: str
    cascade_id: str
    model: str
    input: Mapping[str, Any]
    status: str
    """One of `STATES`."""
    reason: str | None
    """Why its status is `incomplete`."""
    error: str | None
    calls: tuple[CallView, ...]
    notes: tuple[Note, ...]
    pictures: Mapping[str, Path]
    """The files in which its pictures can be looked at, by SHA-256."""
    callouts: tuple[Callout, ...] = ()
    """The messages that were marked as important."""
    parent_id: str | None = None
    """The session whose phase `parent_phase` ran it (None: no session did)."""
    parent_phase: str | None = None
    sounding_index: int | None = None
    children: tuple[SessionInfo, ...] = ()
    """The sessions under it, as `nested` lists them."""
    forked_from: str | None = None
    """The session whose first calls it inherited."""
    resume: str | None = None
    """The command that goes on with it (None: it runs, is over, or cannot be gone on with)."""
    place: str = ""
    """Where it runs, or may run (empty: nowhere)."""


def words_of(store: Store, session_id: str, most: int = 60) -> str:
    """The user's first words in a session; its cascade's name where there are none."""
    return words_in(store.rows(session_id), most) or store.start(session_id).cascade_id


def words_in(rows: Iterable[StoredRow], most: int) -> str:
    """The first words in some rows of a session, but for what was put in (a skill's text)."""
    said = (row.message for row in (stored.row for stored in rows) if row.node_type in BORN)
    return first_words((message for message in said if message is not None), most)


def title_of(store: Store, session_id: str) -> str:
    """What people know a session by: its day and its first words."""
    return dated(words_of(store, session_id), store.start(session_id).timestamp)


def view_session(store: Store, session_id: str) -> SessionView:
    """The whole session. Raises UsageError where it is unknown."""
    return view_recorded(SessionRecord(store, session_id))


def view_recorded(record: SessionRecord) -> SessionView:
    """A session that was read. Its store stays open while calls are looked into."""
    store, session_id, rows = record.store, record.session_id, record.rows
    start = record.start
    callouts = find_callouts(rows)
    by_trace = {stored.row.trace_id: stored for stored in rows}
    said = _Said.of(record, {callout.message_id: callout.name for callout in callouts})
    calls = tuple(
        _call_view(number, call, by_trace[call.trace_id], said)
        for number, call in enumerate(record.sent_calls, start=1)
    )
    stands = store.session_status(session_id)
    notes = tuple(
        Note(stored.row.node_type, stored.row.phase, note_text(stored.row))
        for stored in rows
        if stored.row.message is None
        and CalloutMark.read(stored.row) is None
        and kind_of(stored.row) not in STEPS
    )
    return SessionView(
        session_id=session_id,
        cascade_id=start.cascade_id,
        model=start.model,
        input=start.input,
        status=stands.status,
        reason=stands.reason,
        error=stands.error,
        calls=calls,
        notes=notes,
        pictures=_picture_files(store, session_id, rows),
        callouts=callouts,
        parent_id=start.parent_id,
        parent_phase=start.parent_phase,
        sounding_index=start.sounding_index,
        children=tuple(nest_with_totals(sessions_below(store, [session_id]))),
        resume=go_on_with(start, session_id, stands.status),
        place=stands.holder.place if stands.holder else "",
        forked_from=start.cascade.get(RAN, {}).get(FORKED_FROM),
    )


def go_on_with(start: SessionStart, session_id: str, status: str) -> str | None:
    """The command that goes on with a session that stands so; None: there is none."""
    if status == "running":
        return None
    phases: Sequence[Mapping[str, Any]] = start.cascade.get("phases") or ({},)
    if phases[-1].get("instructions") == CHAT:
        return f"windlass chat --session {session_id}"
    if status == "completed":
        return None
    commands = {OPERATORS: "evaluate", RAN: "run"}
    command = next((commands[key] for key in commands if key in start.cascade), None)
    if start.parent_id is not None or command is None:
        return None
    return f"windlass {command} --resume {session_id}"


_NUMBERS: Final = re.compile(r"\[[\d-]+\]")


def without_numbers(phase: str) -> str:
    """A phase's name without the numbers of inputs: inner tasks of a reduce share it."""
    return _NUMBERS.sub("[]", phase)


@dataclass(frozen=True, slots=True)
class _Said:
    """What was said in a session: its record, names of callouts, and the rows of each phase.

    Made once for all calls, because a session has thousands; inner tasks of a reduce are one phase.
    """

    record: SessionRecord
    names: Mapping[str, str]
    born: Mapping[str, list[int]]
    replaced: frozenset[str]

    @classmethod
    def of(cls, record: SessionRecord, names: Mapping[str, str]) -> _Said:
        """What the rows of a session say."""
        born = defaultdict[str, list[int]](list)
        replaced = continued(record.rows)
        for stored in standing(record.rows):
            if stored.row.node_type in BORN and stored.id not in replaced:
                born[_phase(stored)].append(stored.seq)
        return cls(record, names, born, replaced)


def _phase(stored: StoredRow) -> str:
    return without_numbers(stored.row.phase or "-")


class _Window(Sequence[Seen]):
    """The messages that a call saw, each put together when it is looked at."""

    def __init__(self, call: CallRecord, said: _Said) -> None:
        self._call = call
        self._said = said

    def __len__(self) -> int:
        return len(self._call.shown)

    def key(self, at: int) -> str:
        """The key of what was sent at a position, without putting it together."""
        return self._said.record.sent(self._call.shown[at])[0]

    def entry(self, at: int) -> ShownMessage:
        """The entry at a position, as the record has it."""
        return self._call.shown[at]

    @overload
    def __getitem__(self, at: int) -> Seen: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Seen]: ...

    def __getitem__(self, at: int | slice) -> Seen | Sequence[Seen]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        position = range(len(self))[at]
        shown = self._call.shown[position]
        source = self._said.record.by_id[shown.message_id]
        message = self._said.record.sent(shown)[1]
        return Seen(
            position=position,
            message_id=shown.message_id,
            role=message.role,
            phase=source.row.phase,
            turn=source.row.turn,
            reason=shown.reason,
            tokens=shown.tokens,
            message=message,
            because=shown.because,
            original=source.row.message if shown.shown_as is not None else None,
            callout=self._said.names.get(shown.message_id),
        )


def first_other(now: Sequence[Seen], was: Sequence[Seen]) -> int | None:
    """The first position at which two windows send something else; None where one ends first."""
    places = range(min(len(now), len(was)))
    if isinstance(now, _Window) and isinstance(was, _Window):
        # Entries that did not change are one object: thousands of calls are compared in no time.
        places_left = (at for at in places if now.entry(at) is not was.entry(at))
        return next((at for at in places_left if now.key(at) != was.key(at)), None)
    return next((at for at in places if now[at].message.key != was[at].message.key), None)


class _Hidden(Mapping[str, int]):
    """How many messages of each phase stand before a call and were not shown to it."""

    def __init__(self, call: CallRecord, stored: StoredRow, said: _Said) -> None:
        self._call = call
        self._before = stored.seq
        self._sounded = None if stored.row.sounding_index is None else stored.row.phase
        self._said = said

    def __getitem__(self, phase: str) -> int:
        return self._counts[phase]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        born = self._said.born
        left = Counter({phase: bisect_left(seqs, self._before) for phase, seqs in born.items()})
        for id_ in {shown.message_id for shown in self._call.shown} - self._said.replaced:
            stored = self._said.record.by_id[id_]
            if stored.row.node_type in BORN and stored.seq < self._before:
                left[_phase(stored)] -= 1
        if self._sounded is not None:  # other soundings are no part of its history
            left.pop(self._sounded, None)
        return {phase: count for phase, count in left.items() if count > 0}


def _picture_files(store: Store, session_id: str, rows: Sequence[StoredRow]) -> dict[str, Path]:
    """The visible file of each picture that a phase made, the first where it made it twice."""
    files: dict[str, Path] = {}
    for phase in dict.fromkeys(stored.row.phase for stored in rows if stored.row.phase):
        for sha256, path in store.picture_names(session_id, phase):
            files.setdefault(sha256, path)
    return files


def rows_before(rows: Sequence[StoredRow], at: StoredRow) -> list[StoredRow]:
    """The rows that stand before one of them, and of soundings those that count for it."""
    phase, index = at.row.phase or "", at.row.sounding_index
    own = None if index is None else (phase, index)
    until = [stored for stored in rows if stored.seq <= at.seq]
    visits = (each for each in until if each.row.phase == phase and VisitBegun.read(each.row))
    begun = max((each.seq for each in visits), default=0)

    def counts(row: Row) -> bool:
        return own is None or row.phase != phase or row.sounding_index in (None, index)

    return [
        stored
        for stored in standing(until, own)
        if stored.seq < at.seq and (stored.seq < begun or counts(stored.row))
    ]


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


def _call_view(number: int, call: CallRecord, stored: StoredRow, said: _Said) -> CallView:
    row = stored.row
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
        seen=_Window(call, said),
        reply=row.message or Message("assistant"),
        hidden=_Hidden(call, stored, said),
        details=call.details,
        sounding_index=row.sounding_index,
    )


def note_text(row: Row) -> str:
    """A row that is no message, in words."""
    if text := text_of(row):
        return text
    if (judged := Validation.read(row)) is not None:
        verdict = "accepted" if judged.valid else f"refused: {judged.validation_reason}"
        return f"attempt {judged.attempt} {verdict}"
    if (selection := WindowSelection.read(row)) is not None:
        return _selection_text(selection)
    plain = {key: told for key, told in json_of(row).items() if isinstance(told, str | int | float)}
    return ", ".join(f"{key}: {told}" for key, told in plain.items())


def _selection_text(selection: WindowSelection) -> str:
    """What the window of a call did, in one line; `explain` and SQL have its options."""
    sent, full, saved = (
        selection.context_size,
        selection.full_history_size,
        selection.tokens_saved,
    )
    less = f"{saved:,} tokens fewer" if saved >= 0 else f"{-saved:,} tokens more"
    return (
        f"turn {selection.turn}: {sent} of {full} messages sent, {selection.masked_count} of"
        f" them shortened, {less} than all of them (profile {selection.policy})"
    )
