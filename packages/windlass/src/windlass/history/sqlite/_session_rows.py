"""What is read of a session in a SQLite store: the rows of its tables, and its cards.

What `verify` reads of a SQLite store besides its sessions.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from windlass.history.base import Discrepancy, OnProgress
from windlass.history.base_session import PORTION, card_of
from windlass.history.base_store import BaseStore
from windlass.history.bodies_at_once import FILE
from windlass.history.card_rows import NODES
from windlass.history.packing import (
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.history.proof import Checks, StoreProof
from windlass.history.sqlite._schema import STEPS, version
from windlass.safety.own_files import APPLICATION_ID
from windlass.selection.card import Card

TABLES: Final[dict[type[Any], str]] = {
    LogRow: "log", CallRow: "calls", EditRow: "edits", StateRow: "state",
    OutcomeRow: "outcomes", ImageRow: "images",
}  # fmt: skip
CARD_OF_ROW: Final = (
    "c.session_no = l.session_no AND c.message_id = substr(l.key, 1, 16) || '-' || l.occurrence"
)

_SqlValue: TypeAlias = str | int | float | bytes | None


class SqliteSession:
    """One session, as `SessionReader` has it."""

    def __init__(self, db: sqlite3.Connection, number: int) -> None:
        self.number = number
        self._db = db

    def _select(self, what: str, **values: _SqlValue) -> list[Any]:
        return self._db.execute(f"SELECT {what}", {"session": self.number, **values}).fetchall()

    def _rows(self, kind: type[TableRow], more: str, **values: _SqlValue) -> list[TableRow]:
        columns = ", ".join(f"l.{name}" for name in kind._fields)
        sql = f"{columns} FROM {TABLES[kind]} l WHERE l.session_no = :session {more}"
        return [kind._make(row) for row in self._select(sql, **values)]

    def start(self) -> SessionRow:
        """Return how it began."""
        columns = ", ".join(SessionRow._fields)
        return SessionRow(*self._select(f"{columns} FROM sessions WHERE session_no = :session")[0])

    def log(self, after: int = 0, phase: str | None = None) -> list[LogRow]:
        """Return the first rows behind number `after`."""
        more = "AND l.seq > :after" + ("" if phase is None else " AND l.phase = :phase")
        return self._rows(
            LogRow, f"{more} ORDER BY l.seq LIMIT {PORTION}", after=after, phase=phase
        )

    def table(self, kind: type[TableRow]) -> list[TableRow]:
        """Return its rows of another table."""
        return self._rows(kind, "ORDER BY " + ("seq, number" if kind is ImageRow else "number"))

    def results(self) -> list[tuple[str, str]]:
        """Return (Reference, key) of the results that have a visible file."""
        return self._select("ref, key FROM tool_results WHERE session_no = :session ORDER BY ref")

    def extra_bodies(self) -> set[str]:
        """Return the bodies that calls and edits brought."""
        return {key for (key,) in self._select("key FROM made_bodies WHERE session_no = :session")}

    def tool_lists(self) -> dict[str, str]:
        """Return the tools that its calls sent."""
        of_calls = "SELECT tools FROM calls WHERE session_no = :session"
        return dict(
            self._select(f"sha256, tools_json FROM tool_lists WHERE sha256 IN ({of_calls})")
        )

    def digests(self) -> dict[int, str]:
        """Return the digest of each batch."""
        return dict(self._select("number, digest FROM batches WHERE session_no = :session"))

    def last_batch(self) -> tuple[int, str] | None:
        """Return number and digest of the last batch."""
        last = self._select(
            "number, digest FROM batches WHERE session_no = :session ORDER BY number DESC LIMIT 1"
        )
        return last[0] if last else None

    def has_body(self, key: str) -> bool:
        """Return whether the store has a body of that key."""
        return bool(self._select("1 FROM bodies WHERE key = :key", key=key))

    def traces_among(self, traces: list[str]) -> list[str]:
        """Return those of these traces that the session has rows of."""
        sql = "trace_id FROM log WHERE session_no = :session AND trace_id IN "
        sql += "(SELECT value FROM json_each(:traces))"
        return [trace for (trace,) in self._select(sql, traces=json.dumps(traces))]

    def cards(self) -> list[Card]:
        """Return the cards of its messages."""
        stored = self._select(
            "c.message_id, substr(l.key, 1, 16), c.summary, c.keywords_json, c.estimated_tokens, "
            "b.role, l.phase, l.turn, c.is_anchor, c.callout_name, c.embedding, "
            "c.embedding_model, c.generator_model, c.generated_at "
            f"FROM log l JOIN cards c ON {CARD_OF_ROW} JOIN bodies b ON b.key = l.key "
            "WHERE l.session_no = :session ORDER BY l.seq"
        )
        return [card_of(values, json.loads, _vector) for values in stored]

    def without_cards(self, after: int, limit: int) -> list[LogRow]:
        """Return the first rows behind `after` whose messages may have a card and have none."""
        nodes = ", ".join(f"'{node}'" for node in NODES)
        more = (
            f"AND l.seq > :after AND l.node_type IN ({nodes}) "
            "AND l.key IN (SELECT key FROM bodies) AND NOT EXISTS "
            f"(SELECT 1 FROM cards c WHERE {CARD_OF_ROW}) ORDER BY l.seq LIMIT :limit"
        )
        return self._rows(LogRow, more, after=after, limit=limit)


def _vector(blob: bytes) -> Sequence[float]:
    """Return the float32 numbers of a blob; () for an empty one, or one that cannot be read."""
    count, rest = divmod(len(blob), 4)
    return () if rest else struct.unpack(f"<{count}f", blob)


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
        """Yield cards that no selection will ever see, and vectors that cannot be read."""
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
