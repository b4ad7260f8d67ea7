"""The proof of a SQLite store, also of one that is too damaged to be opened for use."""

# Table and column names are constants of this package; values are always bound.
from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from windlass.history import sqlite_reading
from windlass.history.base import Discrepancy
from windlass.history.blobs import Blobs
from windlass.history.connect import FILE, connect_reading
from windlass.history.migrations import APPLICATION_ID, STEPS, version
from windlass.history.proof import Checks, StoreProof
from windlass.history.sqlite_reading import SqliteSession

_BUSY_S: Final = 10.0


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
    try:
        db = connect_reading(file, blobs, busy_s=_BUSY_S)
    except sqlite3.Error as error:
        yield Discrepancy(str(file), f"cannot be opened: {error}")
        return
    with closing(db):
        yield from SqliteProof(db, blobs, folder).findings()


class SqliteProof(StoreProof[SqliteSession]):
    """One reading of a store, in one snapshot of its database."""

    def __init__(self, db: sqlite3.Connection, blobs: Blobs, folder: Path) -> None:
        super().__init__(blobs, folder)
        self.db = db

    def _contents(self, listed: list[str]) -> Checks:
        file = str(self.folder / FILE)
        yield file, self._database(file)
        yield "blobs", self._blob_files(listed)
        yield "table bodies", self._bodies()
        yield "table body_pictures", self._body_pictures()
        yield "table tool_lists", self._tool_lists()

    def _database(self, file: str) -> Iterator[Discrepancy]:
        steps = version(self.db)
        (application,) = self.db.execute("PRAGMA application_id").fetchone()
        if steps > len(STEPS):
            yield Discrepancy(file, f"has version {steps}, this Windlass knows {len(STEPS)}")
        if application != APPLICATION_ID:
            yield Discrepancy(file, "is not marked as a Windlass store")
        self.db.execute("BEGIN")
        for (line,) in self.db.execute("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                yield Discrepancy(file, f"SQLite finds: {line}")
        for table, row, parent, _ in self.db.execute("PRAGMA foreign_key_check").fetchall():
            place = f"table {table}" if row is None else f"table {table}, row {row}"
            yield Discrepancy(place, f"refers to something in {parent} that is not there")

    def _bodies(self) -> Iterator[Discrepancy]:
        for values in self.db.execute("SELECT key, role, chars, tool_calls, body FROM bodies"):
            yield from self._body(*values)

    def _body_pictures(self) -> Iterator[Discrepancy]:
        stored: defaultdict[str, set[str]] = defaultdict(set)
        for key, sha in self.db.execute("SELECT key, sha256 FROM body_pictures"):
            stored[key].add(sha)
        for key in sorted(self.bodies & self.pictures.keys()):
            if set(self.pictures[key]) != stored[key]:
                yield Discrepancy(f"message {key}", "its pictures are not those in body_pictures")

    def _tool_lists(self) -> Iterator[Discrepancy]:
        for sha, tools in self.db.execute("SELECT sha256, tools_json FROM tool_lists"):
            if hashlib.sha256(tools.encode()).hexdigest() != sha:
                yield Discrepancy(f"tools {sha}", "are not what their key is the hash of")

    def _fetch(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    def _sessions(self) -> Iterator[tuple[str, SqliteSession]]:
        for name, session in self.db.execute(
            "SELECT session_id, session_no FROM sessions ORDER BY session_no"
        ):
            yield name, SqliteSession(self._fetch, session)

    def _used_blobs(self) -> set[str]:
        return sqlite_reading.used_blobs(self.db)

    def _cards(self) -> Iterator[Discrepancy]:
        return sqlite_reading.verify_cards(self.db)

    def _results(self) -> Iterator[tuple[str, str]]:
        yield from self.db.execute("SELECT DISTINCT key, name FROM tool_results")

    def _visible_names(self) -> set[str]:
        return sqlite_reading.visible_names(self.db)
