"""How a batch becomes rows and files: `prepare` before the write lock, `write` inside it.

Everything that can fail or takes time without the lock (serialising, hashing, the
files of large bodies and pictures) happens before it is taken.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Batch, CallRecord, EditRecord, Outcome, Row, Shown
from windlass.history.blobs import Blobs
from windlass.messages import Message, Text

INLINE: Final = 4096
"""Bytes of canonical JSON up to which a body stands in the database; above, it is a blob."""


def _insert(table: str, columns: Sequence[str], *, ignore: bool = False) -> str:
    verb = "INSERT OR IGNORE" if ignore else "INSERT"
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


BODY_COLUMNS: Final = ("key", "role", "chars", "tool_calls", "preview", "body")
SESSION_COLUMNS: Final = (
    "session_id", "cascade_id", "model", "started", "input_json", "cascade_json",
)  # fmt: skip
_INSERT_BODY: Final = _insert("bodies", BODY_COLUMNS, ignore=True)
_INSERT_LOG: Final = _insert("log", packing.LOG_COLUMNS)


@dataclass(slots=True)
class Prepared:
    """A batch serialised: rows for the tables, bytes for the blobs.

    `needed` are the blobs that the bodies refer to, whether their bytes came with the
    batch or are expected in the store.
    """

    batch: Batch
    session_id: str
    log: list[list[Any]] = field(default_factory=list[list[Any]])
    bodies: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    body_pictures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    needed: set[str] = field(default_factory=set[str])
    made: list[str] = field(default_factory=list[str])

    def add(self, message: Message, pictures: Mapping[str, bytes]) -> None:
        """Take in a body, and the bytes of its pictures as far as they are at hand."""
        key = message.key
        if message.pictures:
            self._add_pictures(message, pictures)
        if key in self.bodies:
            return
        canonical = message.canonical
        parts = message.parts
        inline = len(canonical) <= INLINE
        plain = inline and len(parts) == 1 and isinstance(parts[0], Text)
        self.bodies[key] = (
            key,
            message.role,
            message.chars,
            len(message.tool_calls),
            None if plain else packing.preview(message),
            canonical if inline else None,
        )
        if not inline:
            self.blobs[key] = canonical.encode("ascii")
            self.needed.add(key)

    def _add_pictures(self, message: Message, pictures: Mapping[str, bytes]) -> None:
        for picture in message.pictures:
            sha = picture.sha256
            if not sha:
                continue
            self.needed.add(sha)
            if message.key not in self.bodies:
                self.body_pictures.append((message.key, sha))
            data = pictures.get(sha, picture.data)
            if data is None or sha in self.blobs:
                continue
            if hashlib.sha256(data).hexdigest() != sha:
                raise StoreError(
                    f"the bytes given for picture {sha!r} are not those of that SHA-256: "
                    "nothing was recorded"
                )
            self.blobs[sha] = data


def prepare(batch: Batch) -> Prepared:
    """Serialise a batch. Raises StoreError for pictures that do not belong to their row."""
    prepared = Prepared(batch, packing.text(batch.session_id))
    for row in batch.rows:
        if row.message is not None:
            prepared.add(row.message, row.pictures)
        if row.pictures:
            _check_pictures(row)
        prepared.log.append(packing.log_values(row))
    made = [message for call in batch.calls for message in call.bodies]
    made += [edit.replacement for edit in batch.edits if edit.replacement is not None]
    for message in made:
        prepared.add(message, {})
        prepared.made.append(message.key)
    return prepared


def _check_pictures(row: Row) -> None:
    shown = {picture.sha256 for picture in row.message.pictures} if row.message else set[str]()
    for sha in row.pictures:
        if sha not in shown:
            raise StoreError(
                f"row {row.trace_id!r} brings picture {sha!r}, which its message does not show: "
                "nothing was recorded"
            )


@dataclass(slots=True)
class Known:
    """What an appender must know of a session: numbers given so far, and the last window.

    True up to `batch`, whose digest tells whether another process has appended since.
    `counts` are occurrences by content hash; `fresh` those of the batch being written,
    apart until it is committed (copying all counts for each batch would be quadratic).
    """

    session_no: int
    batch: int
    digest: str
    rows: int
    calls: int
    edits: int
    state: int
    outcomes: int
    counts: dict[str, int]
    fresh: dict[str, int] = field(default_factory=dict[str, int])
    window: tuple[Shown, ...] = ()
    bodies: tuple[str, ...] = ()

    def has(self, message_id: str) -> bool:
        """Whether an occurrence of that id is in the session."""
        content_hash, _, number = message_id.rpartition("-")
        last = self.fresh.get(content_hash) or self.counts.get(content_hash, 0)
        return number.isdecimal() and 1 <= int(number) <= last

    def settle(self) -> None:
        """Count the batch just committed in."""
        self.counts.update(self.fresh)
        self.fresh = {}


class Writer:
    """Writes one prepared batch, inside a transaction that the keeper holds."""

    def __init__(
        self, db: sqlite3.Connection, blobs: Blobs, folder: Path, prepared: Prepared
    ) -> None:
        self.db = db
        self.blobs = blobs
        self.folder = folder
        self.prepared = prepared
        self.batch = prepared.batch
        self.links: list[tuple[str, str]] = []

    def refuse(self, what: str) -> StoreError:
        """The error that stops this batch."""
        return StoreError(f"{what} (session {self.batch.session_id!r}): nothing was recorded")

    def begin_session(self) -> Known:
        """Write the session's own row."""
        start = self.batch.start
        assert start is not None
        values = (
            self.prepared.session_id,
            packing.text(start.cascade_id),
            packing.text(start.model),
            packing.real(start.timestamp),
            packing.to_json(start.input),
            packing.to_json(start.cascade),
        )
        added = self.db.execute(_insert("sessions", SESSION_COLUMNS), values)
        assert added.lastrowid is not None
        return Known(added.lastrowid, 0, packing.digest(*values), 0, 0, 0, 0, 0, {})

    def write(self, known: Known) -> tuple[Known, tuple[str | None, ...]]:
        """Write everything, and return what is known then and the ids of the rows' messages."""
        self._ensure_blobs()
        bodies = list(self.prepared.bodies.values())
        self.db.executemany(_INSERT_BODY, bodies)
        if self.prepared.body_pictures:
            pictures = _insert("body_pictures", ("key", "sha256"), ignore=True)
            self.db.executemany(pictures, self.prepared.body_pictures)
        known = replace(known, batch=known.batch + 1, fresh={})
        log, ids = self._log(known)
        if self.prepared.made:
            made = [(known.session_no, key) for key in self.prepared.made]
            self.db.executemany(_insert("made_bodies", ("session_no", "key"), ignore=True), made)
        calls = [self._call(known, call) for call in self.batch.calls]
        edits = [self._edit(known, edit) for edit in self.batch.edits]
        state = self._state(known)
        outcomes = [self._outcome(known, outcome) for outcome in self.batch.outcomes]
        known.digest = packing.digest(known.digest, log, calls, edits, state, outcomes)
        self.db.execute(
            "INSERT INTO batches VALUES (?, ?, ?)", (known.session_no, known.batch, known.digest)
        )
        for sha, name in self.links:
            self.blobs.link(sha, self.folder / name)
        return known, ids

    def _ensure_blobs(self) -> None:
        """Look again, under the write lock, whether every blob is there.

        Only here is it certain: `prune` removes files under the same lock.
        """
        missing = [sha for sha in self.prepared.needed if not self.blobs.has(sha)]
        at_hand = {sha: self.prepared.blobs[sha] for sha in missing if sha in self.prepared.blobs}
        self.blobs.write(at_hand)
        for sha in missing:
            if sha not in at_hand:
                raise self.refuse(f"the bytes of picture {sha!r} are neither given nor stored")

    def _log(self, known: Known) -> tuple[list[tuple[Any, ...]], tuple[str | None, ...]]:
        counts, fresh = known.counts, known.fresh
        rows: list[tuple[Any, ...]] = []
        ids: list[str | None] = []
        for seq, (row, values) in enumerate(
            zip(self.batch.rows, self.prepared.log, strict=True), known.rows + 1
        ):
            if row.message is None:
                ids.append(None)
            else:
                key = row.message.key
                # Counted by the short hash, so that an id stays unique even where two
                # different messages share their first 16 digits.
                short = key[:16]
                number = (fresh.get(short) or counts.get(short, 0)) + 1
                fresh[short] = number
                values[packing.OCCURRENCE] = number
                ids.append(packing.occurrence_id(key, number))
            rows.append((known.session_no, seq, known.batch, *values))
        self.db.executemany(_INSERT_LOG, rows)
        for seq, row in enumerate(self.batch.rows, known.rows + 1):
            if row.keep_pictures:
                self._images(known, seq, row)
        known.rows += len(rows)
        return rows, tuple(ids)

    def _images(self, known: Known, seq: int, row: Row) -> None:
        if row.message is None:
            return
        phase = packing.text(row.phase or "")
        session_id = self.prepared.session_id
        (number,) = self.db.execute(
            "SELECT count(*) FROM images WHERE session_no = ? AND phase = ?",
            (known.session_no, phase),
        ).fetchone()
        for picture in row.message.pictures:
            if not picture.sha256:
                continue
            name = packing.image_name(session_id, phase, number, picture.media_type)
            self.db.execute(
                "INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)",
                (known.session_no, phase, number, seq, picture.sha256, name),
            )
            self.links.append((picture.sha256, name))
            number += 1

    def _must_know(self, known: Known, message_id: str) -> None:
        if not known.has(message_id):
            raise self.refuse(f"there is no message {message_id!r} that the batch could refer to")

    def _must_have_body(self, known: Known, key: str) -> None:
        if not self.db.execute("SELECT 1 FROM bodies WHERE key = ?", (key,)).fetchone():
            raise self.refuse(f"the body {key!r} is shown in a window but was never given")
        # It may have come with another session, which `prune` must then not take it with.
        self.db.execute("INSERT OR IGNORE INTO made_bodies VALUES (?, ?)", (known.session_no, key))

    def _call(self, known: Known, call: CallRecord) -> tuple[Any, ...]:
        base = known.calls or None
        shown = packing.clean_shown(call.shown)
        packed = packing.against(known.window, shown)
        for entry in packed:
            if isinstance(entry, list):
                continue
            self._must_know(known, entry.message_id)
            if entry.shown_as is not None:
                self._must_have_body(known, entry.shown_as)
        bodies = tuple(message.key for message in call.bodies)
        tools_json = packing.to_json([dict(tool) for tool in call.tools])
        tools = hashlib.sha256(tools_json.encode()).hexdigest()
        self.db.execute("INSERT OR IGNORE INTO tool_lists VALUES (?, ?)", (tools, tools_json))
        known.calls += 1
        values = (
            known.session_no,
            known.calls,
            known.batch,
            packing.text(call.trace_id),
            packing.text(call.model),
            call.request_hash,
            call.sent_tokens,
            call.full_tokens,
            tools,
            base,
            len(shown),
            packing.pack_window(packed),
            packing.pack_keys(known.bodies, bodies),
            packing.to_json(call.details),
        )
        self.db.execute(_insert("calls", packing.CALL_COLUMNS), values)
        known.window, known.bodies = shown, bodies
        return values

    def _edit(self, known: Known, edit: EditRecord) -> tuple[Any, ...]:
        self._must_know(known, edit.message_id)
        known.edits += 1
        values = (
            known.session_no,
            known.edits,
            known.batch,
            edit.message_id,
            edit.kind,
            packing.text(edit.because),
            packing.text(edit.reason),
            None if edit.replacement is None else edit.replacement.key,
        )
        self.db.execute(_insert("edits", packing.EDIT_COLUMNS), values)
        return values

    def _state(self, known: Known) -> list[tuple[Any, ...]]:
        rows = [
            (
                known.session_no,
                number,
                known.batch,
                packing.text(change.phase),
                packing.text(change.key),
                packing.to_json(change.value),
            )
            for number, change in enumerate(self.batch.state, known.state + 1)
        ]
        self.db.executemany(_insert("state", packing.STATE_COLUMNS), rows)
        known.state += len(rows)
        return rows

    def _outcome(self, known: Known, outcome: Outcome) -> tuple[Any, ...]:
        trace = packing.optional(outcome.output_trace)
        if trace is not None:
            found = self.db.execute(
                "SELECT 1 FROM log WHERE session_no = ? AND trace_id = ?", (known.session_no, trace)
            )
            if not found.fetchone():
                raise self.refuse(f"there is no row {trace!r} that could be an output")
        known.outcomes += 1
        values = (
            known.session_no,
            known.outcomes,
            known.batch,
            packing.optional(outcome.phase),
            outcome.status,
            packing.real(outcome.timestamp),
            trace,
            packing.optional(outcome.error),
            int(outcome.hidden),
            packing.to_json(outcome.details),
        )
        self.db.execute(_insert("outcomes", packing.OUTCOME_COLUMNS), values)
        return values
