"""What `verify` reads of a SQLite store besides its sessions."""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator

from windlass.history._base_store import BaseStore
from windlass.history._proof import Checks, StoreProof
from windlass.history.base import Discrepancy, OnProgress
from windlass.history.bodies_at_once import FILE
from windlass.history.sqlite._migrations import STEPS, version
from windlass.history.sqlite._session_rows import CARD_OF_ROW, SqliteSession
from windlass.safety.store_parts import APPLICATION_ID


class SqliteProof(StoreProof[SqliteSession]):
    """One reading of a store, in one snapshot of its database."""

    def __init__(
        self,
        store: BaseStore[SqliteSession],
        db: sqlite3.Connection,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__(store, on_progress)
        self.db = db

    def _contents(self, listed: list[str]) -> Checks:
        file = str(self.store.folder / FILE)
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
        (total,) = self.db.execute("SELECT count(*) FROM bodies").fetchone()
        stored = self.db.execute("SELECT key, role, chars, tool_calls, body FROM bodies")
        for values in self.counted("messages", stored, total):
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

    def _sessions(self) -> Iterator[tuple[str, SqliteSession]]:
        for name, number in self.db.execute(
            "SELECT session_id, session_no FROM sessions ORDER BY session_no"
        ):
            yield name, SqliteSession(self.db, number)

    def _cards(self) -> Iterator[Discrepancy]:
        """Cards that no selection will ever see, and vectors that cannot be read."""
        if not self.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cards'").fetchone():
            return  # of an older Windlass: the table is made when the store is opened for use
        for session, message_id, size in self.db.execute(
            "SELECT c.session_no, c.message_id, length(c.embedding) FROM cards c WHERE NOT EXISTS "
            f"(SELECT 1 FROM log l WHERE {CARD_OF_ROW}) OR length(c.embedding) % 4 != 0 "
            "OR (length(c.embedding) = 0) != (c.embedding_model = '')"
        ):
            where = f"session number {session}, card {message_id}"
            if size % 4:
                yield Discrepancy(where, "has a vector that cannot be read", "note")
            else:
                yield Discrepancy(where, "is of no message, or its vector of no model", "note")
