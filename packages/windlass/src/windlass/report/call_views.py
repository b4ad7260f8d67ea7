"""What a session's calls saw: the values behind `windlass show`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.history.base import (
    BORN,
    CHAT,
    FORKED_FROM,
    RAN,
    Row,
    SessionInfo,
    SessionParent,
    SessionStart,
    Store,
    StoredRow,
)
from windlass.history.decisions import WindowSelection, text_of
from windlass.history.marks import Callout, CalloutMark
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.history.row_details import STEPS, Validation, json_of, kind_of
from windlass.report.calls import Call, SessionRecord
from windlass.tasks.model import OPERATORS
from windlass.text.titles import dated, first_words


@dataclass(frozen=True, slots=True)
class Note:
    """A decision, validation or error of the session, in one line."""

    node_type: str
    phase: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SessionView(SessionParent):
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
    calls: tuple[Call, ...]
    notes: tuple[Note, ...]
    pictures: Mapping[str, Path]
    """The files in which its pictures can be looked at, by SHA-256."""
    callouts: Sequence[Callout] = ()
    """The messages that were marked as important."""
    children: tuple[SessionInfo, ...] = ()
    """The sessions under it, as `nested` lists them."""
    forked_from: str | None = None
    """The session whose first calls it inherited."""
    resume: str | None = None
    """The command that goes on with it (None: it runs, is over, or cannot be gone on with)."""
    place: str = ""
    """Where it runs, or may run (empty: nowhere)."""


def words_of(store: Store, session_id: str, most: int = 60) -> str:
    """Return the user's first words in a session; its cascade's name where there are none."""
    return words_in(store.rows(session_id), most) or store.start(session_id).cascade_id


def words_in(rows: Iterable[StoredRow], most: int) -> str:
    """Give the first words in some rows of a session, but for what was put in (a skill's text)."""
    said = (row.message for row in (stored.row for stored in rows) if row.node_type in BORN)
    return first_words((message for message in said if message is not None), most)


def title_of(store: Store, session_id: str) -> str:
    """Return what people know a session by: its day and its first words."""
    return dated(words_of(store, session_id), store.start(session_id).timestamp)


def view_session(store: Store, session_id: str) -> SessionView:
    """Return the whole session. Raises UsageError where it is unknown."""
    return view_recorded(SessionRecord(store, session_id))


def view_recorded(record: SessionRecord) -> SessionView:
    """Return a session that was read. Its store stays open while calls are looked into."""
    store, session_id, rows = record.store, record.session_id, record.rows
    start = record.start
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
        calls=record.calls,
        notes=notes,
        pictures=_picture_files(store, session_id, rows),
        callouts=record.callouts,
        parent_id=start.parent_id,
        parent_phase=start.parent_phase,
        sounding_index=start.sounding_index,
        children=tuple(nest_with_totals(sessions_below(store, [session_id]))),
        resume=go_on_with(start, session_id, stands.status),
        place=stands.holder.place if stands.holder else "",
        forked_from=start.cascade.get(RAN, {}).get(FORKED_FROM),
    )


def go_on_with(start: SessionStart, session_id: str, status: str) -> str | None:
    """Return the command that goes on with a session that stands so; None: there is none."""
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


def _picture_files(store: Store, session_id: str, rows: Sequence[StoredRow]) -> dict[str, Path]:
    """Give the visible file of each picture that a phase made, the first where it made it twice."""
    files: dict[str, Path] = {}
    for phase in dict.fromkeys(stored.row.phase for stored in rows if stored.row.phase):
        for sha256, path in store.picture_names(session_id, phase):
            files.setdefault(sha256, path)
    return files


def note_text(row: Row) -> str:
    """Return a row that is no message, in words."""
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
    """Return what the window of a call did, in one line; `explain` and SQL have its options."""
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
