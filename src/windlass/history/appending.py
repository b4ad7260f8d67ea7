"""How a batch becomes rows and files: `prepare` before the write lock, `write` inside it.

Everything that can fail or takes time without the lock (serialising, hashing, the
files of large bodies and pictures) happens before it is taken.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history import numbering, packing
from windlass.history.base import Batch, Row
from windlass.history.blobs import Blobs
from windlass.history.lost import Lost
from windlass.history.numbering import SessionHead
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
_TOOLS: Final = ("sha256", "tools_json")
_KEEP_BODY: Final = _insert("bodies", BODY_COLUMNS, ignore=True)
_INSERT_BODY: Final = (
    _insert("bodies", BODY_COLUMNS)
    # What other hands changed is as it was once its message is stored again.
    + " ON CONFLICT (key) DO UPDATE SET role = excluded.role, chars = excluded.chars,"
    " tool_calls = excluded.tool_calls, preview = excluded.preview, body = excluded.body"
    " WHERE body IS NOT excluded.body OR chars <> excluded.chars OR role <> excluded.role"
)
_INSERT: Final = {
    "log": _insert("log", packing.LOG_COLUMNS),
    "calls": _insert("calls", packing.CALL_COLUMNS),
    "edits": _insert("edits", packing.EDIT_COLUMNS),
    "state": _insert("state", packing.STATE_COLUMNS),
    "outcomes": _insert("outcomes", packing.OUTCOME_COLUMNS),
    "images": "INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)",
}


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
    lost: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    made: list[str] = field(default_factory=list[str])

    def add(self, message: Message, pictures: Mapping[str, bytes]) -> None:
        """Take in a body, and the bytes of its pictures as far as they are at hand."""
        key = message.key
        if message.pictures:
            self._add_pictures(message, pictures)
        if key in self.bodies:
            return
        if isinstance(message, Lost):
            self.lost[key] = (key, message.role, 0, 0, packing.preview(message), None)
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
            if sha not in self.batch.lost:
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

    def refuse(self, what: str) -> StoreError:
        """The error that stops this batch."""
        return numbering.refusal(self.prepared, what)

    def begin_session(self) -> SessionHead:
        """Write the session's own row."""
        values = numbering.session_values(self.prepared)
        added = self.db.execute(_insert("sessions", SESSION_COLUMNS), values)
        assert added.lastrowid is not None
        return numbering.begun(added.lastrowid, self.prepared)

    def write(self, known: SessionHead) -> tuple[SessionHead, tuple[str | None, ...]]:
        """Write everything, and return what is known then and the ids of the rows' messages."""
        self._ensure_blobs()
        bodies = list(self.prepared.bodies.values())
        self.db.executemany(_INSERT_BODY, bodies)
        self.db.executemany(_KEEP_BODY, self.prepared.lost.values())
        if self.prepared.body_pictures:
            pictures = _insert("body_pictures", ("key", "sha256"), ignore=True)
            self.db.executemany(pictures, self.prepared.body_pictures)
        numbered = numbering.number(self.prepared, known, self)
        known = numbered.known
        self.db.executemany(_insert("tool_lists", _TOOLS, ignore=True), numbered.tools.items())
        for table, statement in _INSERT.items():
            rows = getattr(numbered, table)
            if rows:
                self.db.executemany(statement, rows)
        if numbered.made:
            made = [(known.session_no, key) for key in numbered.made]
            self.db.executemany(_insert("made_bodies", ("session_no", "key"), ignore=True), made)
        self.db.execute(
            "INSERT INTO batches VALUES (?, ?, ?)", (known.session_no, known.batch, known.digest)
        )
        for *_, sha, name in numbered.images:
            if sha not in self.batch.lost or self.blobs.has(sha):
                self.blobs.link(sha, self.folder / name)
        return known, numbered.ids

    def link_again(self, damaged: Iterable[str]) -> None:
        """Let visible names show these blobs anew: they were links to the files before."""
        for sha in damaged:
            names = "SELECT name FROM images WHERE sha256 = ? UNION"
            names += " SELECT name FROM tool_results WHERE key = ?"
            for (name,) in self.db.execute(names, (sha, sha)).fetchall():
                self.blobs.link(sha, self.folder / name)

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

    def images(self, known: SessionHead, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        (count,) = self.db.execute(
            "SELECT count(*) FROM images WHERE session_no = ? AND phase = ?",
            (known.session_no, phase),
        ).fetchone()
        return int(count)

    def has_body(self, known: SessionHead, key: str) -> bool:
        """Whether the store has a body of that key."""
        del known
        return self._finds("SELECT 1 FROM bodies WHERE key = ?", key)

    def has_row(self, known: SessionHead, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        sql = "SELECT 1 FROM log WHERE session_no = ? AND trace_id = ?"
        return self._finds(sql, known.session_no, trace_id)

    def _finds(self, sql: str, *values: Any) -> bool:
        return self.db.execute(sql, values).fetchone() is not None
