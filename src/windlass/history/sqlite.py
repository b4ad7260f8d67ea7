"""The keeper that needs no server: one SQLite file and a folder of blobs.

    <store>/windlass.sqlite                              tables and views (schema.py)
    <store>/blobs/aa/<sha256>                            large bodies, pictures
    <store>/images/{session}/{phase}/image_{n}.png       links to pictures
    <store>/storage/tool_results/{ref}.json              links to shortened results

Several processes may use one store. Files are durable before the transaction that
names them, and are removed only after the transaction that forgets them.

More than 400 lines because every verb of a keeper stands here.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from windlass.cards.card import Card
from windlass.errors import StoreError, UsageError
from windlass.history import packing, pruning, query, reading, sqlite_cards
from windlass.history.appending import Writer, prepare
from windlass.history.base import (
    Batch,
    CallRecord,
    Discrepancy,
    EditRecord,
    Outcome,
    Pruned,
    SessionInfo,
    SessionStart,
    StateChange,
    StoredRow,
)
from windlass.history.blobs import Blobs, make_folder, sync_folder, tighten
from windlass.history.connect import FILE, Synchronous, is_unwritable, store_errors
from windlass.history.lost import Lost, once_each
from windlass.history.numbering import SessionHead
from windlass.history.opening import check_writable, open_reading, open_writing
from windlass.history.verify import verify_store
from windlass.interrupting import interruptible
from windlass.messages import Message

_REMEMBERED: Final = 256
"""Sessions whose last numbers and window are kept at hand between appends."""


class SqliteKeeper:
    """A store in `folder`, which is made where it is missing.

    `busy_s` is how long another process's write is waited for, in seconds.
    `synchronous` "NORMAL" gives up durability at a loss of power (not at a kill) for
    speed. Threads may share a keeper. Raises StoreError when the store cannot be opened.
    """

    remote = False

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
        self._known: dict[str, SessionHead] = {}
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
    ) -> SqliteKeeper:
        """The store in `folder`. Raises UsageError where there is none.

        One that cannot be written is opened for reading: to append to it raises StoreError; with
        `writing` to open it does.
        """
        if not (folder / FILE).is_file():
            raise UsageError(
                f"there is no store in {str(folder)!r}: run a cascade first, or name the store's "
                "folder with --store"
            )
        keeper = cls(folder, busy_s=busy_s, may_be_unwritable=not writing)
        if writing:
            try:
                with keeper._use() as db:
                    check_writable(db)
            except StoreError:
                keeper.close()
                raise
        return keeper

    def _tighten(self) -> None:
        """Close a store that an earlier version left open to others."""
        files = (FILE, f"{FILE}-wal", f"{FILE}-shm", "blobs", "images", "storage")
        tighten(*(self.folder / name for name in files))
        with suppress(OSError):  # the current folder may be gone
            if not Path.cwd().is_relative_to(self.folder.resolve()):
                tighten(self.folder)  # which holds the store alone, and is no project's

    def close(self) -> None:
        """Close the connections; the keeper cannot be used afterwards."""
        with self._lock, store_errors(self.file):
            if self._reader is not None:
                self._reader.close()
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    # ---- writing --------------------------------------------------------------------

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Write a batch, whole or not at all, and return the ids of its rows' messages.

        The session's first batch must carry `start`, and no other may. Messages that
        edits and calls name must be in the session (or in this batch). Raises
        StoreError; nothing of the batch is in the record then.
        """
        parts = (batch.rows, batch.calls, batch.edits, batch.state, batch.outcomes)
        if batch.start is None and not any(parts):
            return ()
        prepared = prepare(batch)
        with self._lock:
            with store_errors(self.file):
                damaged = self._blobs.write(prepared.blobs)
            writer = Writer(self._db, self._blobs, self.folder, prepared)
            try:
                with self._transaction() as db:
                    known = self._known_in(db, writer)
                    known, ids = writer.write(known)
                    writer.link_again(damaged)
            except StoreError as error:
                if isinstance(error.__cause__, sqlite3.IntegrityError):
                    raise writer.refuse(
                        f"the batch does not fit the record ({error.__cause__})"
                    ) from error.__cause__
                raise
            known.settle()
            self._known.pop(prepared.session_id, None)
            if all(outcome.phase is not None for outcome in batch.outcomes):  # it goes on
                self._known[prepared.session_id] = known
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
            return ids

    def _known_in(self, db: sqlite3.Connection, writer: Writer) -> SessionHead:
        session_id = writer.prepared.session_id
        remembered = self._known.get(session_id)
        if remembered is not None and writer.batch.start is None:
            last = reading.last_batch(db, remembered.session_no)
            if last == (remembered.batch, remembered.digest):
                return remembered
        number = reading.session_no(db, session_id)
        if writer.batch.start is not None:
            if number is not None:
                raise writer.refuse("a session of that name is in the store already")
            return writer.begin_session()
        if number is None:
            raise writer.refuse("the first batch of a session must carry its start")
        return reading.known(db, number)

    def store_tool_result(self, session_id: str, ref: str, key: str) -> Path:
        """Make the visible file `storage/tool_results/{ref}.json` of a stored body.

        Doing it again changes nothing. Raises StoreError where `ref` stands for another
        body already, or there is no such body.
        """
        name = packing.tool_result_name(ref)
        with self._use() as db:
            found = reading.message(db, self._blobs, key)
            # What is lost keeps its name, for `verify` to tell.
            body = {} if isinstance(found, Lost) else {key: found.canonical.encode("ascii")}
            self._blobs.write(body)
        with self._transaction() as db:
            session = reading.known_session(db, session_id)
            taken = db.execute("SELECT key FROM tool_results WHERE name = ?", (name,)).fetchone()
            if taken is not None and taken[0] != key:
                raise StoreError(
                    f"the reference {ref!r} stands for message {taken[0]!r} already: "
                    "a reference must not be given twice"
                )
            db.execute(
                "INSERT OR IGNORE INTO tool_results VALUES (?, ?, ?, ?)",
                (session, packing.text(ref), key, name),
            )
            self._blobs.write(body)
            if body:
                self._blobs.link(key, self.folder / name)
        return self.folder / name

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        They need not survive a loss of power, and so do not wait for the disk. Raises
        UsageError for an unknown session.
        """
        with self._use() as db:
            db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction():
                    sqlite_cards.put(db, reading.known_session(db, session_id), cards)
            finally:
                db.execute(f"PRAGMA synchronous = {self._synchronous}")

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        session_id: str | None = None,
        now: float,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove whole sessions, and the bodies and files that no other session uses.

        Chosen are those whose last row is more than `older_than_s` seconds before `now`
        (never a memory bank), or the one named. With `dry_run` nothing changes. Raises
        UsageError for an unknown session, or when neither or both are given.
        """
        if (older_than_s is None) == (session_id is None):
            raise UsageError("prune needs either an age or a session, and not both")
        with self._transaction() as db:
            chosen = pruning.choose(db, older_than_s, session_id, now)
            told = pruning.remove_rows(db, self._blobs, chosen, dry_run=dry_run)
        if not dry_run:
            # In a transaction of its own: whoever appends looks, under the same lock,
            # whether the files it names are there.
            with self._transaction() as db:
                pruning.remove_files(db, self._blobs, self.folder, now)
        return told

    # ---- reading --------------------------------------------------------------------

    def rows(self, session_id: str, *, phase: str | None = None) -> Iterator[StoredRow]:
        """A session's rows in order, with their messages; none where it is unknown.

        Bytes of pictures are not among them: `picture` fetches them.
        """
        with self._use() as db:
            session = reading.session_no(db, session_id)
        if session is None:
            return
        with store_errors(self.file):
            yield from reading.rows(self._fetch, self._blobs, session, session_id, phase)

    def _fetch(self, sql: str, params: dict[str, Any]) -> list[Any]:
        with self._use() as db:
            return db.execute(sql, params).fetchall()

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in for a message that cannot be read, and tell of each once."""
        self._blobs.on_lost = once_each(tell)

    def message(self, key: str) -> Message:
        """The message body with this key. Raises StoreError where there is none."""
        with self._use() as db:
            return reading.message(db, self._blobs, key)

    def picture(self, sha256: str) -> bytes:
        """The bytes of a picture. Raises StoreError where they are missing or changed."""
        with store_errors(self.file):
            return reading.picture(self._blobs, sha256)

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """The committed edits of a session, in order; none where it is unknown."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else reading.edits(db, self._blobs, session)

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """The session's calls in order, each with its whole window."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else reading.calls(db, self._blobs, session)

    def state(self, session_id: str) -> Sequence[StateChange]:
        """The state changes of a session, in order."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else reading.state(db, session)

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """How the phases, and at last the session, ended."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else reading.outcomes(db, session)

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """How the last so many sessions ended, newest first; None: it runs yet, or was killed."""
        with self._use() as db:
            return reading.endings(db, sessions)

    def start(self, session_id: str) -> SessionStart:
        """How a session began. Raises UsageError naming recent sessions where it is unknown."""
        with self._use() as db:
            return reading.start(db, reading.known_session(db, session_id))

    def sessions(self, *, limit: int | None = None) -> Sequence[SessionInfo]:
        """Sessions, newest first; tokens and costs summed over all their rows."""
        with self._use() as db:
            return reading.sessions(db, limit)

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            if session is None:
                return []
            return reading.picture_names(db, self.folder, session, phase)

    def results(self, session_id: str) -> Sequence[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file, by reference."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else reading.results(db, session)

    def cards(self, session_id: str) -> Sequence[Card]:
        """The cards of a session, in the order of its messages; [] where there are none."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            return [] if session is None else sqlite_cards.cards(db, session)

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """The first rows behind number `after` whose messages may have a card and have none."""
        with self._use() as db:
            session = reading.session_no(db, session_id)
            if session is None:
                return []
            return sqlite_cards.waiting(
                db, self._blobs, session, session_id, after=after, limit=limit
            )

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
