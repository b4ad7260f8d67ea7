"""The store that needs no server: one SQLite file and a folder of blobs.

    <store>/windlass.sqlite                              tables and views (schema.py)
    <store>/blobs/aa/<sha256>                            large bodies, pictures
    <store>/images/{session}/{phase}/image_{n}.png       links to pictures
    <store>/storage/tool_results/{ref}.json              links to shortened results

Several processes may use one store. Files are durable before the transaction that
names them, and are removed only after the transaction that forgets them.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError, UsageError
from windlass.history import packing, query, sqlite_reading
from windlass.history.base import BANK, Discrepancy, Outcome, Pruned, SessionInfo, StoredRow
from windlass.history.blobs import Blobs, make_folder, remove_visible, sync_folder, tighten
from windlass.history.connect import (
    FILE,
    Synchronous,
    check_writable,
    is_unwritable,
    open_reading,
    open_writing,
    store_errors,
)
from windlass.history.numbering import BodyRow, Numbered, Prepared, SessionHead, number
from windlass.history.reading import BaseStore, read_head, reference_taken, stored_row
from windlass.history.sqlite_reading import SqliteSession, used_blobs, visible_names
from windlass.history.verify import verify_store
from windlass.interrupting import interruptible
from windlass.selection.card import Card

_REMEMBERED: Final = 256
"""Sessions whose last numbers and window are kept at hand between appends."""

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""


def _insert(table: str, columns: Sequence[str], *, ignore: bool = False) -> str:
    verb = "INSERT OR IGNORE" if ignore else "INSERT"
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_KEEP_BODY: Final = _insert("bodies", BodyRow._fields, ignore=True)
_INSERT_BODY: Final = (
    _insert("bodies", BodyRow._fields)
    # What other hands changed is as it was once its message is stored again.
    + " ON CONFLICT (key) DO UPDATE SET role = excluded.role, chars = excluded.chars,"
    " tool_calls = excluded.tool_calls, preview = excluded.preview, body = excluded.body"
    " WHERE body IS NOT excluded.body OR chars <> excluded.chars OR role <> excluded.role"
)

# Tables with rows of a session, those that refer to others first.
_OF_SESSION: Final = (
    "cards", "images", "tool_results", "made_bodies", "calls", "edits", "state", "outcomes", "log",
    "batches", "sessions",
)  # fmt: skip
_KEYS: Final = """
    SELECT key FROM log WHERE key IS NOT NULL AND session_no {these}
    UNION SELECT key FROM made_bodies WHERE session_no {these}
    UNION SELECT key FROM tool_results WHERE session_no {these}
"""
_CHOSEN: Final = "IN (SELECT value FROM json_each(:chosen))"
_REST: Final = "NOT IN (SELECT value FROM json_each(:chosen))"
_GONE: Final = f"{_KEYS.format(these=_CHOSEN)} EXCEPT SELECT * FROM ({_KEYS.format(these=_REST)})"


class SqliteStore(BaseStore):
    """A store in `folder`, which is made where it is missing.

    `busy_s` is how long another process's write is waited for, in seconds.
    `synchronous` "NORMAL" gives up durability at a loss of power (not at a kill) for
    speed. Threads may share a store. Raises StoreError when the store cannot be opened.
    """

    remote = False
    _blobs: Blobs

    def __init__(
        self,
        folder: Path,
        *,
        busy_s: float = 10.0,
        synchronous: Synchronous = "FULL",
        may_be_unwritable: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.file = self.folder / FILE
        self._busy_s = busy_s
        self._synchronous = synchronous
        self._blobs = Blobs(self.folder / "blobs")
        self._lock = threading.RLock()
        self._heads: dict[str, SessionHead] = {}
        self._reader: sqlite3.Connection | None = None
        with store_errors(self.file):
            make_folder(self.folder)
            fresh = not self.file.exists()
            if not fresh:
                self._tighten()
            try:
                self._db = open_writing(
                    self.file, self._blobs, busy_s=busy_s, synchronous=synchronous
                )
            except sqlite3.Error as error:
                if not (may_be_unwritable and is_unwritable(error)):
                    raise
                self._db = open_reading(self.file, self._blobs, busy_s=busy_s)
            if fresh:
                sync_folder(self.folder)

    @classmethod
    def open_existing(
        cls, folder: Path, *, busy_s: float = 10.0, writing: bool = False
    ) -> SqliteStore:
        """The store in `folder`. Raises UsageError where there is none.

        One that cannot be written is opened for reading: to append to it raises StoreError; with
        `writing` to open it does.
        """
        if not (folder / FILE).is_file():
            raise UsageError(
                f"there is no store in {str(folder)!r}: run a cascade first, or name the store's "
                "folder with --store"
            )
        store = cls(folder, busy_s=busy_s, may_be_unwritable=not writing)
        if writing:
            try:
                with store._use() as db:
                    check_writable(db)
            except StoreError:
                store.close()
                raise
        return store

    def _tighten(self) -> None:
        """Close a store that an earlier version left open to others."""
        files = (FILE, f"{FILE}-wal", f"{FILE}-shm", "blobs", "images", "storage")
        tighten(*(self.folder / name for name in files))
        with suppress(OSError):  # the current folder may be gone
            if not Path.cwd().is_relative_to(self.folder.resolve()):
                tighten(self.folder)  # which holds the store alone, and is no project's

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        with self._lock, store_errors(self.file):
            if self._reader is not None:
                self._reader.close()
            self._db.close()

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock, store_errors(self.file):
            yield self._db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._use() as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                # In `finally` and not for chosen errors: a Ctrl-C must not leave it open.
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _fetch(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with self._use() as db:
            return db.execute(sql, values).fetchall()

    def _find(self, session_id: str) -> SqliteSession | None:
        sql = "SELECT session_no FROM sessions WHERE session_id = :name"
        numbers = self._fetch(sql, {"name": packing.text(session_id)})
        return SqliteSession(self._fetch, numbers[0][0]) if numbers else None

    def _recent(self) -> Iterable[str]:
        return sqlite_reading.recent(self._db)

    def _fetch_bodies(self, keys: list[str]) -> list[tuple[str, str | None]]:
        sql = "SELECT key, body FROM bodies WHERE key IN (SELECT value FROM json_each(:keys))"
        return self._fetch(sql, {"keys": json.dumps(keys)})

    # ---- appending ------------------------------------------------------------------

    def _append(self, prepared: Prepared) -> tuple[str | None, ...]:
        with self._lock:
            with store_errors(self.file):
                damaged = self._blobs.write(prepared.blobs)
            try:
                with self._transaction() as db:
                    numbered = self._write(db, prepared)
                    self._link_again(db, damaged)
            except StoreError as error:
                if isinstance(error.__cause__, sqlite3.IntegrityError):
                    raise prepared.refusal(
                        f"the batch does not fit the record ({error.__cause__})"
                    ) from error.__cause__
                raise
            numbered.head.settle()
            self._heads.pop(prepared.session_id, None)
            if all(outcome.phase is not None for outcome in prepared.batch.outcomes):  # it goes on
                self._heads[prepared.session_id] = numbered.head
            if len(self._heads) > _REMEMBERED:
                del self._heads[next(iter(self._heads))]
            return tuple(numbered.ids)

    def _write(self, db: sqlite3.Connection, prepared: Prepared) -> Numbered:
        """Write a batch, inside a transaction."""
        session, head = self._head(db, prepared)
        self._ensure_blobs(prepared)
        db.executemany(_INSERT_BODY, prepared.bodies.values())
        db.executemany(_KEEP_BODY, prepared.lost.values())
        pictures = _insert("body_pictures", ("key", "sha256"), ignore=True)
        db.executemany(pictures, prepared.body_pictures)
        numbered = number(prepared, head, session)
        tools = _insert("tool_lists", ("sha256", "tools_json"), ignore=True)
        db.executemany(tools, numbered.tools.items())
        for table in ("log", "calls", "edits", "state", "outcomes", "images"):
            if rows := getattr(numbered, table):
                db.executemany(_insert(table, rows[0]._fields), rows)
        extra = [(session.number, key) for key in numbered.extra_bodies]
        db.executemany(_insert("made_bodies", ("session_no", "key"), ignore=True), extra)
        batch = (session.number, numbered.head.batch, numbered.head.digest)
        db.execute("INSERT INTO batches VALUES (?, ?, ?)", batch)
        for image in numbered.images:
            if image.sha256 not in prepared.batch.lost or self._blobs.has(image.sha256):
                self._blobs.link(image.sha256, self.folder / image.name)
        return numbered

    def _head(
        self, db: sqlite3.Connection, prepared: Prepared
    ) -> tuple[SqliteSession, SessionHead]:
        """The session, and what it has so far; one that begins gets its row."""
        head = self._heads.get(prepared.session_id)
        begins = prepared.batch.start is not None
        if head is not None and not begins:
            session = SqliteSession(self._fetch, head.session_no)
            if session.last_batch() == (head.batch, head.digest):
                return session, head
        stored = self._find(prepared.session_id)
        if begins:
            if stored is not None:
                raise prepared.refusal("a session of that name is in the store already")
            row = prepared.session_row()
            number_of = db.execute(_insert("sessions", row._fields), row).lastrowid
            assert number_of is not None
            first = SessionHead(number_of, 0, packing.digest(*row))
            return SqliteSession(self._fetch, number_of), first
        if stored is None:
            raise prepared.refusal("the first batch of a session must carry its start")
        return stored, read_head(stored)

    def _ensure_blobs(self, prepared: Prepared) -> None:
        """Look again, under the write lock, whether every blob is there.

        Only here is it certain: `prune` removes files under the same lock.
        """
        missing = [sha for sha in prepared.needed if not self._blobs.has(sha)]
        self._blobs.write({sha: prepared.blobs[sha] for sha in missing if sha in prepared.blobs})
        for sha in missing:
            if sha not in prepared.blobs:
                raise prepared.refusal(f"the bytes of picture {sha!r} are neither given nor stored")

    def _link_again(self, db: sqlite3.Connection, damaged: Iterable[str]) -> None:
        """Let visible names show these blobs anew: they were links to the files before."""
        for sha in damaged:
            names = "SELECT name FROM images WHERE sha256 = ? UNION"
            names += " SELECT name FROM tool_results WHERE key = ?"
            for (name,) in db.execute(names, (sha, sha)).fetchall():
                self._blobs.link(sha, self.folder / name)

    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        name = packing.tool_result_name(ref)
        self._blobs.write(body)
        with self._transaction() as db:
            session = self._known(session_id, self._find(session_id))
            taken = db.execute("SELECT key FROM tool_results WHERE name = ?", (name,)).fetchone()
            if taken is not None and taken[0] != key:
                raise reference_taken(ref, taken[0])
            row = (session.number, ref, key, name)
            db.execute("INSERT OR IGNORE INTO tool_results VALUES (?, ?, ?, ?)", row)
            self._blobs.write(body)
            if body:
                self._blobs.link(key, self.folder / name)

    # ---- pruning --------------------------------------------------------------------

    def _older(self, before: float) -> list[tuple[int, str]]:
        return self._fetch(
            """
            SELECT s.session_no, s.session_id FROM sessions s
            WHERE max(s.started, coalesce(
                (SELECT max(timestamp) FROM log l WHERE l.session_no = s.session_no), 0)) < :before
                AND substr(s.session_id, 1, length(:bank)) <> :bank
            ORDER BY s.session_no
            """,
            {"before": before, "bank": BANK},
        )

    def _prune(
        self, choose: Callable[[], list[tuple[int, str]]], *, now: float, dry_run: bool
    ) -> Pruned:
        # The database forgets first, then the files go. A crash between the two leaves files
        # that nothing names; the next prune takes whatever is not named.
        with self._transaction() as db:
            pruned = self._remove_rows(db, choose(), dry_run=dry_run)
        if not dry_run:
            # In a transaction of its own: whoever appends looks, under the same lock,
            # whether the files it names are there.
            with self._transaction() as db:
                used = used_blobs(db)
                for sha in list(self._blobs.list()):
                    if sha not in used:
                        self._blobs.remove(sha)
                self._blobs.remove_unfinished(now - _STALE_S)
                remove_visible(self.folder, visible_names(db))
        return pruned

    def _remove_rows(
        self, db: sqlite3.Connection, chosen: list[tuple[int, str]], *, dry_run: bool
    ) -> Pruned:
        named = {"chosen": json.dumps([session for session, _ in chosen])}
        keys = db.execute(_GONE, named).fetchall()
        count = f"SELECT count(*) FROM log WHERE session_no {_CHOSEN}"
        (rows,) = db.execute(count, named).fetchone()
        used = used_blobs(db, without=frozenset(key for (key,) in keys))
        if not dry_run:
            for table in _OF_SESSION:
                db.execute(f"DELETE FROM {table} WHERE session_no {_CHOSEN}", named)
            db.executemany("DELETE FROM body_pictures WHERE key = ?", keys)
            db.executemany("DELETE FROM bodies WHERE key = ?", keys)
            db.execute("DELETE FROM tool_lists WHERE sha256 NOT IN (SELECT tools FROM calls)")
            used = used_blobs(db)
        files = [sha for sha in self._blobs.list() if sha not in used]
        return Pruned(
            sessions=tuple(session_id for _, session_id in chosen),
            rows=rows,
            bodies=len(keys),
            blobs=len(files),
            bytes=sum(self._blobs.size(sha) for sha in files),
        )

    # ---- lists, cards, SQL ----------------------------------------------------------

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """How the last so many sessions ended, newest first; None: it runs yet, or was killed."""
        with self._use() as db:
            return sqlite_reading.endings(db, sessions)

    def sessions(self, *, limit: int | None = None) -> Sequence[SessionInfo]:
        """Sessions, newest first; tokens and costs summed over all their rows."""
        with self._use() as db:
            return sqlite_reading.sessions(db, limit)

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        They need not survive a loss of power, and so do not wait for the disk. Raises
        UsageError for an unknown session.
        """
        with self._use() as db:
            db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction():
                    session = self._known(session_id, self._find(session_id))
                    sqlite_reading.put_cards(db, session.number, cards)
            finally:
                db.execute(f"PRAGMA synchronous = {self._synchronous}")

    def cards(self, session_id: str) -> Sequence[Card]:
        """The cards of a session, in the order of its messages; [] where there are none."""
        with self._use():
            session = self._find(session_id)
            return [] if session is None else session.cards()

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """The first rows behind number `after` whose messages may have a card and have none."""
        with self._use():
            session = self._find(session_id)
            rows = [] if session is None else session.without_cards(after, limit)
            messages = self._messages(row.key for row in rows)
        return [stored_row(session_id, row, messages[row.key]) for row in rows]

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of one SELECT with bound parameters, on a connection that cannot write.

        Raises UsageError for anything else, and for SQL that SQLite refuses. A signal ends it.
        """
        with self._use() as db:
            if self._reader is None:
                self._reader = open_reading(self.file, self._blobs, busy_s=self._busy_s)
                query.only_select(self._reader)
            reader = self._reader

            def abandon() -> None:
                self._reader = None  # closing it would wait for the query

            work = partial(query.select, reader, db, sql, params)
            return interruptible(work, reader.interrupt, abandon)

    def verify(self) -> Iterator[Discrepancy]:
        """Derive hashes, ids, windows and links again and yield what disagrees.

        For a store too damaged to be opened there is `verify_store`.
        """
        return verify_store(self.folder)
