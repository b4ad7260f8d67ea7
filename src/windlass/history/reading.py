"""How a session is read back out of a SQLite store: functions from a connection to values.

Only what is asked for is loaded: one message is one row (and at most one blob),
and a session's rows come in portions.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from windlass.errors import UsageError, did_you_mean
from windlass.history import packing
from windlass.history.base import (
    BANK,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    SessionInfo,
    SessionStart,
    ShownMessage,
    StateChange,
    StoredRow,
)
from windlass.history.blob_places import BlobPlace
from windlass.history.blobs import Blobs
from windlass.history.lost import Lost, damaged, lost
from windlass.history.numbering import SessionHead
from windlass.messages import Message, from_dict

_PORTION: Final = 200
"""Rows read at a time: no reader holds a snapshot open while its caller thinks."""

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""


def session_no(db: sqlite3.Connection, session_id: str) -> int | None:
    """The number of a session, or None where there is none of that name."""
    found = db.execute(
        "SELECT session_no FROM sessions WHERE session_id = ?", (packing.text(session_id),)
    ).fetchone()
    return None if found is None else int(found[0])


def known_session(db: sqlite3.Connection, session_id: str) -> int:
    """The number of a session. Raises UsageError that names recent ones where it is unknown."""
    number = session_no(db, session_id)
    if number is None:
        recent = db.execute(
            "SELECT session_id FROM sessions ORDER BY session_no DESC LIMIT ?", (_RECENT,)
        )
        hint = did_you_mean(session_id, (name for (name,) in recent))
        raise UsageError(f"no session {session_id!r} in this store: {hint}")
    return number


# ---- messages -----------------------------------------------------------------------


def decode(key: str, body: str | None, blobs: BlobPlace) -> Message:
    """The message of a body row, or its stand-in where `blobs` says that one is wanted.

    Raises StoreError when it is not what `key` is the hash of.
    """
    try:
        data = blobs.read(key, check=False) if body is None else str(body).encode()
    except FileNotFoundError:
        return lost(key, "is missing", blobs)
    except OSError as error:
        if blobs.on_lost is None:
            raise
        return lost(key, f"cannot be read ({error.strerror})", blobs)
    if hashlib.sha256(data).hexdigest() != key:
        return lost(key, "has been changed", blobs, "stored text" if body else "file")
    return from_dict(json.loads(data))


def message(db: sqlite3.Connection, blobs: Blobs, key: str) -> Message:
    """The message with this key. Raises StoreError where there is none."""
    found = db.execute("SELECT body FROM bodies WHERE key = ?", (key,)).fetchone()
    if found is None:
        return lost(key, "is missing", blobs, "")
    return decode(key, found[0], blobs)


def picture(blobs: BlobPlace, sha256: str) -> bytes:
    """The bytes of a picture. Raises StoreError where they are missing or changed."""
    try:
        return blobs.read(sha256)
    except FileNotFoundError as error:
        raise damaged(f"the file of picture {sha256!r} is missing") from error
    except ValueError as error:
        raise damaged(f"the file of picture {sha256!r} has been changed") from error


# ---- a session ----------------------------------------------------------------------

_ROWS: Final = f"""
    SELECT b.body, {", ".join("l." + name for name in packing.LOG_COLUMNS)}
    FROM log l LEFT JOIN bodies b ON b.key = l.key
    WHERE l.session_no = :session AND l.seq > :after {{phase}}
    ORDER BY l.seq LIMIT :portion
"""
_ROWS_ALL: Final = _ROWS.format(phase="")
_ROWS_PHASE: Final = _ROWS.format(phase="AND l.phase = :phase")


def rows(
    fetch: Callable[[str, dict[str, Any]], list[Any]],
    blobs: Blobs,
    session: int,
    session_id: str,
    phase: str | None,
) -> Iterator[StoredRow]:
    """The rows of a session in order; `fetch` runs one statement and returns all its rows."""
    after = 0
    while True:
        portion = fetch(
            _ROWS_ALL if phase is None else _ROWS_PHASE,
            {"session": session, "after": after, "phase": phase, "portion": _PORTION},
        )
        for body, _, seq, _, *values in portion:
            key = values[packing.OCCURRENCE - 1]
            found = None if key is None else decode(key, body, blobs)
            yield stored_row(session_id, seq, values, found)
            after = seq
        if len(portion) < _PORTION:
            return


def stored_row(
    session_id: str, seq: int, values: Sequence[Any], message: Message | None
) -> StoredRow:
    """A row as readers get it; `values` are its columns from `trace_id` on."""
    key, occurrence = values[packing.OCCURRENCE - 1], values[packing.OCCURRENCE]
    if isinstance(message, Lost):
        message = message.said_in(NodeType(values[3]))
    return StoredRow(
        seq=seq,
        session_id=session_id,
        id=None if key is None else packing.occurrence_id(key, occurrence),
        key=key,
        row=packing.log_row(values, message),
    )


def windows(
    db: sqlite3.Connection, session: int
) -> Iterator[tuple[tuple[Any, ...], tuple[ShownMessage, ...], tuple[str, ...]]]:
    """Each call of a session in order: its columns, its whole window, the keys of its bodies.

    Raises StoreError where a window cannot be put together.
    """
    columns = ", ".join(packing.CALL_COLUMNS)
    return unpacked(
        db.execute(
            f"SELECT {columns} FROM calls WHERE session_no = ? ORDER BY number", (session,)
        ).fetchall()
    )


def unpacked(
    stored: Iterable[tuple[Any, ...]],
) -> Iterator[tuple[tuple[Any, ...], tuple[ShownMessage, ...], tuple[str, ...]]]:
    """`windows` of the rows of a session's calls, in order."""
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()
    for values in stored:
        number = values[1]
        base, entries, window_json, bodies_json = values[9:13]
        try:
            if (base or 0) == number - 1:
                shown = packing.unpack_window(shown, window_json)
                bodies = packing.unpack_keys(bodies, bodies_json)
        except ValueError as error:
            raise damaged(
                f"the window of call {number} does not hold together ({error})"
            ) from error
        if (base or 0) != number - 1 or len(shown) != entries:
            raise damaged(
                f"the window of call {number} does not hold together "
                f"({len(shown)} of {entries} entries, told against call {base})"
            )
        yield values, shown, bodies


def calls(db: sqlite3.Connection, blobs: Blobs, session: int) -> list[CallRecord]:
    """The calls of a session in order, each with its whole window."""
    tool_lists: dict[str, tuple[Any, ...]] = {}
    messages: dict[str, Message] = {}
    found: list[CallRecord] = []
    for values, shown, keys in windows(db, session):
        tools = values[8]
        if tools not in tool_lists:
            stored = db.execute(
                "SELECT tools_json FROM tool_lists WHERE sha256 = ?", (tools,)
            ).fetchone()
            if stored is None:
                raise damaged(f"the tools of call {values[1]} are missing")
            tool_lists[tools] = tuple(json.loads(stored[0]))
        for key in keys:
            if key not in messages:
                messages[key] = message(db, blobs, key)
        bodies = tuple(messages[key] for key in keys)
        found.append(call_record(values, shown, tool_lists[tools], bodies))
    return found


def call_record(
    values: tuple[Any, ...],
    shown: tuple[ShownMessage, ...],
    tools: tuple[Any, ...],
    bodies: tuple[Message, ...],
) -> CallRecord:
    """A call of its columns, its window, its tools and the bodies it brought."""
    return CallRecord(
        trace_id=values[3],
        model=values[4],
        shown=shown,
        request_hash=values[5],
        tools=tools,
        sent_tokens=values[6],
        full_tokens=values[7],
        bodies=bodies,
        details=json.loads(values[13]),
    )


def edits(db: sqlite3.Connection, blobs: Blobs, session: int) -> list[EditRecord]:
    """The committed edits of a session, in order."""
    stored = db.execute(
        "SELECT message_id, kind, because, reason, replacement FROM edits "
        "WHERE session_no = ? ORDER BY number",
        (session,),
    ).fetchall()
    return [
        EditRecord(
            message_id, kind, because, reason, None if key is None else message(db, blobs, key)
        )
        for message_id, kind, because, reason, key in stored
    ]


def state(db: sqlite3.Connection, session: int) -> list[StateChange]:
    """The state changes of a session, in order."""
    stored = db.execute(
        "SELECT phase, key, value_json FROM state WHERE session_no = ? ORDER BY number", (session,)
    )
    return [StateChange(phase, key, json.loads(value)) for phase, key, value in stored]


def outcomes(db: sqlite3.Connection, session: int) -> list[Outcome]:
    """How the phases of a session, and at last it itself, ended."""
    stored = db.execute(
        "SELECT status, timestamp, phase, output_trace, error, hidden, details_json "
        "FROM outcomes WHERE session_no = ? ORDER BY number",
        (session,),
    )
    return [
        Outcome(status, at, phase, trace, error, bool(hidden), json.loads(details))
        for status, at, phase, trace, error, hidden, details in stored
    ]


def endings(db: sqlite3.Connection, sessions: int) -> list[Outcome | None]:
    """How the last so many sessions ended, newest first; None: there is no word of it."""
    stored = db.execute(
        "SELECT o.status, o.timestamp, o.error, o.details_json "
        "FROM (SELECT session_no FROM sessions WHERE substr(session_id, 1, length(:bank)) <> :bank "
        "ORDER BY session_no DESC LIMIT :sessions) s "
        "LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = ("
        "SELECT max(p.number) FROM outcomes p WHERE p.session_no = s.session_no "
        "AND p.phase IS NULL) ORDER BY s.session_no DESC",
        {"bank": BANK, "sessions": sessions},
    )
    return [
        None if status is None else Outcome(status, at, error=error, details=json.loads(details))
        for status, at, error, details in stored
    ]


def start(db: sqlite3.Connection, session: int) -> SessionStart:
    """How a session began."""
    cascade_id, model, given, cascade, started = db.execute(
        "SELECT cascade_id, model, input_json, cascade_json, started FROM sessions "
        "WHERE session_no = ?",
        (session,),
    ).fetchone()
    return SessionStart(cascade_id, model, json.loads(given), json.loads(cascade), started)


def picture_names(
    db: sqlite3.Connection, folder: Path, session: int, phase: str
) -> list[tuple[str, Path]]:
    """(SHA-256, visible file) of the pictures a phase made, in order."""
    stored = db.execute(
        "SELECT sha256, name FROM images WHERE session_no = ? AND phase = ? ORDER BY number",
        (session, packing.text(phase)),
    )
    return [(sha, folder / name) for sha, name in stored]


def results(db: sqlite3.Connection, session: int) -> list[tuple[str, str]]:
    """(Reference, key) of a session's stored results, by reference."""
    return db.execute(
        "SELECT ref, key FROM tool_results WHERE session_no = ? ORDER BY ref", (session,)
    ).fetchall()


def sessions(db: sqlite3.Connection, limit: int | None) -> list[SessionInfo]:
    """Sessions, newest first."""
    # The last ones are picked before anything is added up over their rows.
    stored = db.execute(
        """
        WITH picked AS (
            SELECT * FROM sessions ORDER BY started DESC, session_no DESC LIMIT ?)
        SELECT s.session_id, s.cascade_id, s.model, s.started, o.timestamp,
            coalesce(o.status, 'running'),
            (SELECT count(*) FROM calls c WHERE c.session_no = s.session_no),
            coalesce(sum(l.tokens_in), 0), coalesce(sum(l.tokens_out), 0),
            coalesce(sum(l.tokens_cached), 0), sum(l.cost), o.error
        FROM picked s
        LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = (
            SELECT max(p.number) FROM outcomes p
            WHERE p.session_no = s.session_no AND p.phase IS NULL)
        LEFT JOIN log l ON l.session_no = s.session_no
        GROUP BY s.session_no
        ORDER BY s.started DESC, s.session_no DESC
        """,
        (-1 if limit is None else limit,),
    )
    return [SessionInfo(*values) for values in stored]


# ---- for the writer -----------------------------------------------------------------


def last_batch(db: sqlite3.Connection, session: int) -> tuple[int, str] | None:
    """Number and digest of a session's last batch."""
    found: tuple[int, str] | None = db.execute(
        "SELECT number, digest FROM batches WHERE session_no = ? ORDER BY number DESC LIMIT 1",
        (session,),
    ).fetchone()
    return found


def known(db: sqlite3.Connection, session: int) -> SessionHead:
    """What an appender must know of a session, read anew."""
    last = last_batch(db, session)
    if last is None:
        raise damaged(f"session number {session} has no batch")
    rows, calls, edits, state, outcomes = (
        db.execute(
            f"SELECT coalesce(max({column}), 0) FROM {table} WHERE session_no = ?", (session,)
        ).fetchone()[0]
        for table, column in (
            ("log", "seq"),
            ("calls", "number"),
            ("edits", "number"),
            ("state", "number"),
            ("outcomes", "number"),
        )
    )
    counts: dict[str, int] = dict(
        db.execute(
            "SELECT substr(key, 1, 16), max(occurrence) FROM log "
            "WHERE session_no = ? AND key IS NOT NULL GROUP BY 1",
            (session,),
        ).fetchall()
    )
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()
    # Only the last one is wanted, but each is told against the one before.
    for last_window in windows(db, session):
        _, shown, bodies = last_window
    return SessionHead(
        session_no=session,
        batch=last[0],
        digest=last[1],
        rows=rows,
        calls=calls,
        edits=edits,
        state=state,
        outcomes=outcomes,
        counts=counts,
        window=shown,
        bodies=bodies,
    )
