"""The proof of a SQLite store: read everything back, derive it again, name what disagrees.

It reads only, and it goes on where something is broken: each check stands alone, and
a check that cannot be finished becomes a finding itself.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history import packing, pruning, sqlite_cards
from windlass.history.appending import SESSION_COLUMNS
from windlass.history.base import Discrepancy
from windlass.history.blobs import Blobs, file_digest
from windlass.history.connect import FILE
from windlass.history.connect import reading as open_reading
from windlass.history.migrations import APPLICATION_ID, STEPS, version
from windlass.history.proof import SessionProof, first_digest
from windlass.messages import Message, from_dict

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_BUSY_S: Final = 10.0
_OTHER_TABLES: Final = {
    "calls": packing.CALL_COLUMNS,
    "edits": packing.EDIT_COLUMNS,
    "state": packing.STATE_COLUMNS,
    "outcomes": packing.OUTCOME_COLUMNS,
}

# What damaged values lead to when they are read as what they should be.
_BROKEN: Final = (sqlite3.Error, OSError, StoreError, ValueError, TypeError, KeyError, IndexError)


def verify_store(folder: Path) -> Iterator[Discrepancy]:
    """Everything that disagrees in the store in `folder`; nothing for a sound one.

    Works on a store that cannot be opened any more. Files that nothing names are notes:
    a process that was killed leaves them, and `prune` removes them.
    """
    file = folder / FILE
    if not file.is_file():
        yield Discrepancy(str(file), "is missing")
        return
    blobs = Blobs(folder / "blobs")
    # Listed before the database is read: a file that is written meanwhile is then not
    # taken for one that nothing names.
    listed = sorted(blobs.list())
    try:
        db = open_reading(file, blobs, busy_s=_BUSY_S)
    except sqlite3.Error as error:
        yield Discrepancy(str(file), f"cannot be opened: {error}")
        return
    with closing(db):
        yield from _Proof(db, blobs, folder, listed).findings()


class _Reader:
    """A session of a SQLite store, as `proof.py` asks for it."""

    def __init__(self, db: sqlite3.Connection, session: int) -> None:
        self.db = db
        self.session = session

    def _columns(self, table: str, columns: tuple[str, ...], order: str) -> sqlite3.Cursor:
        return self.db.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE session_no = ? ORDER BY {order}",
            (self.session,),
        )

    def log(self) -> sqlite3.Cursor:
        """Its rows in order."""
        return self._columns("log", packing.LOG_COLUMNS, "seq")

    def table(self, name: str) -> sqlite3.Cursor:
        """The rows of one of the other tables."""
        return self._columns(name, _OTHER_TABLES[name], "number")

    def digests(self) -> dict[int, str]:
        """The digest of each batch."""
        return dict(self._columns("batches", ("number", "digest"), "number").fetchall())

    def images(self) -> sqlite3.Cursor:
        """The pictures its phases made."""
        return self._columns("images", ("seq", "sha256", "name"), "seq, number")

    def made(self) -> set[str]:
        """The bodies that calls and edits brought."""
        return {key for (key,) in self._columns("made_bodies", ("key",), "key")}

    def tools(self, sha256: str) -> str | None:
        """The JSON of a tool list."""
        stored = self.db.execute("SELECT tools_json FROM tool_lists WHERE sha256 = ?", (sha256,))
        found = stored.fetchone()
        return None if found is None else str(found[0])


class _Proof:
    """One reading of a store, in one snapshot of its database."""

    def __init__(
        self, db: sqlite3.Connection, blobs: Blobs, folder: Path, listed: list[str]
    ) -> None:
        self.db = db
        self.blobs = blobs
        self.folder = folder
        self.listed = listed
        self.sound: set[str] = set()
        self.bodies: set[str] = set()
        self.pictures: dict[str, list[str]] = {}

    def findings(self) -> Iterator[Discrepancy]:
        file = str(self.folder / FILE)
        yield from self._guarded(file, self._database(file))
        yield from self._guarded("blobs", self._blob_files())
        yield from self._guarded("table bodies", self._bodies())
        yield from self._guarded("table body_pictures", self._body_pictures())
        yield from self._guarded("table tool_lists", self._tool_lists())
        sessions: list[tuple[Any, ...]] = []
        yield from self._guarded("table sessions", self._sessions(sessions))
        for session, *values in sessions:
            proof = SessionProof(
                f"session {values[0]!r}",
                _Reader(self.db, session),
                first_digest(values),
                self.bodies,
                self.pictures,
                {},
            )
            for where, check in proof.checks(self._link):
                yield from self._guarded(where, check)
        yield from self._guarded("table cards", sqlite_cards.verify(self.db))
        yield from self._guarded("storage/tool_results", self._tool_results())
        yield from self._guarded("visible files", self._visible_files())

    def _guarded(self, where: str, check: Iterator[Discrepancy]) -> Iterator[Discrepancy]:
        try:
            yield from check
        except _BROKEN as error:
            yield Discrepancy(where, f"cannot be read to its end: {error}")

    # ---- the database and the files -------------------------------------------------

    def _database(self, file: str) -> Iterator[Discrepancy]:
        found = version(self.db)
        (application,) = self.db.execute("PRAGMA application_id").fetchone()
        if found > len(STEPS):
            yield Discrepancy(file, f"has version {found}, this Windlass knows {len(STEPS)}")
        if application != APPLICATION_ID:
            yield Discrepancy(file, "is not marked as a Windlass store")
        self.db.execute("BEGIN")
        for (line,) in self.db.execute("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                yield Discrepancy(file, f"SQLite finds: {line}")
        for table, row, parent, _ in self.db.execute("PRAGMA foreign_key_check").fetchall():
            place = f"table {table}" if row is None else f"table {table}, row {row}"
            yield Discrepancy(place, f"refers to something in {parent} that is not there")

    def _blob_files(self) -> Iterator[Discrepancy]:
        used = pruning.used_blobs(self.db)
        for sha in self.listed:
            where = f"blob {sha}"
            try:
                changed = file_digest(self.blobs.path(sha)) != sha
            except FileNotFoundError:
                continue  # removed since it was listed; who needs it will say so
            if not _NAME.fullmatch(sha):
                yield Discrepancy(where, "is no file of the store", "note")
            elif changed:
                yield Discrepancy(where, "holds other bytes than its name says")
            else:
                self.sound.add(sha)
            if _NAME.fullmatch(sha) and sha not in used:
                yield Discrepancy(where, "is named by nothing", "note")
        for sha in sorted(used.difference(self.listed)):
            if not self.blobs.has(sha):
                yield Discrepancy(f"blob {sha}", "is missing")
            else:
                self.sound.add(sha)  # written while we were reading

    # ---- bodies ---------------------------------------------------------------------

    def _bodies(self) -> Iterator[Discrepancy]:
        for key, role, chars, tool_calls, body in self.db.execute(
            "SELECT key, role, chars, tool_calls, body FROM bodies"
        ):
            self.bodies.add(key)
            where = f"message {key}"
            if body is None and key not in self.sound:
                continue  # its blob is missing or changed, which has been said
            data = self.blobs.read(key, check=False) if body is None else str(body).encode()
            if hashlib.sha256(data).hexdigest() != key:
                yield Discrepancy(where, "its text is not what its key is the hash of")
                continue
            message: Message = from_dict(json.loads(data))
            if message.key != key:
                yield Discrepancy(where, "its text is not in canonical form")
            if (role, chars, tool_calls) != (message.role, message.chars, len(message.tool_calls)):
                yield Discrepancy(
                    where, "its role, length or number of tool calls is wrong in bodies"
                )
            shas = [picture.sha256 for picture in message.pictures if picture.sha256]
            if shas:
                self.pictures[key] = shas

    def _body_pictures(self) -> Iterator[Discrepancy]:
        stored: defaultdict[str, set[str]] = defaultdict(set)
        for key, sha in self.db.execute("SELECT key, sha256 FROM body_pictures"):
            stored[key].add(sha)
        for key in sorted(self.bodies & (stored.keys() | self.pictures.keys())):
            shown = set(self.pictures.get(key, ()))
            if key in self.pictures and shown != stored[key]:
                yield Discrepancy(f"message {key}", "its pictures are not those in body_pictures")

    def _tool_lists(self) -> Iterator[Discrepancy]:
        for sha, tools in self.db.execute("SELECT sha256, tools_json FROM tool_lists"):
            if hashlib.sha256(tools.encode()).hexdigest() != sha:
                yield Discrepancy(f"tools {sha}", "are not what their key is the hash of")

    # ---- sessions -------------------------------------------------------------------

    def _sessions(self, found: list[tuple[Any, ...]]) -> Iterator[Discrepancy]:
        columns = ", ".join(("session_no", *SESSION_COLUMNS))
        for values in self.db.execute(f"SELECT {columns} FROM sessions ORDER BY session_no"):
            found.append(values)
            yield from ()

    # ---- visible names --------------------------------------------------------------

    def _tool_results(self) -> Iterator[Discrepancy]:
        for key, name in self.db.execute("SELECT DISTINCT key, name FROM tool_results"):
            yield from self._link(key, name)

    def _link(self, sha: str, name: str) -> Iterator[Discrepancy]:
        path = self.folder / name
        if not path.is_file():
            yield Discrepancy(name, f"is missing (it shows blob {sha})")
        elif file_digest(path) != sha:
            yield Discrepancy(name, f"holds other bytes than blob {sha}, which it shows")

    def _visible_files(self) -> Iterator[Discrepancy]:
        names = {
            name
            for (name,) in self.db.execute(
                "SELECT name FROM images UNION SELECT name FROM tool_results"
            )
        }
        for path in pruning.visible_files(self.folder):
            name = path.relative_to(self.folder).as_posix()
            if name not in names:
                yield Discrepancy(name, "is named by nothing", "note")
