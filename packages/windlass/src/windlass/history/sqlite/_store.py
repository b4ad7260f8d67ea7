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
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError, UsageError
from windlass.history import packing
from windlass.history.base import (
    BANK,
    Discrepancy,
    OnProgress,
    Outcome,
    SessionFilter,
    SessionInfo,
)
from windlass.history.base_store import BaseStore
from windlass.history.blobs import Blobs
from windlass.history.bodies_at_once import FILE
from windlass.history.numbering import NumberedBatch, PreparedBatch, reference_taken
from windlass.history.packing import BodyRow, OutcomeRow, SessionRow
from windlass.history.session_locks import HeldSessions
from windlass.history.sqlite._connect import (
    Synchronous,
    check_writable,
    connect_reading,
    is_unwritable,
    make_store_folder,
    open_reading,
    open_writing,
    store_errors,
)
from windlass.history.sqlite._schema import STEPS, version
from windlass.history.sqlite._session_rows import TABLES, SqliteProof, SqliteSession
from windlass.history.sqlite._user_sql import only_select, select
from windlass.safety.interrupting import interruptible
from windlass.safety.own_files import make_private, sync_folder
from windlass.selection.card import Card

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""

_BUSY_S: Final = 10.0


def _insert(table: str, columns: Sequence[str], *, ignore: bool = False) -> str:
    verb = "INSERT OR IGNORE" if ignore else "INSERT"
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


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

_CARD_COLUMNS: Final = (
    "session_no", "message_id", "summary", "keywords_json", "embedding", "embedding_model",
    "estimated_tokens", "is_anchor", "callout_name", "generated_at", "generator_model",
)  # fmt: skip

# A card of the same second is the newer one: it was put later.
_PUT_CARD: Final = (
    _insert("cards", _CARD_COLUMNS)
    + " ON CONFLICT (session_no, message_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CARD_COLUMNS[2:])
    + " WHERE excluded.generated_at >= generated_at"
)


def _card_row(session_no: int, card: Card) -> tuple[Any, ...]:
    return (
        session_no,
        card.id,
        packing.text(card.summary),
        packing.to_json([packing.text(word) for word in card.keywords]),
        struct.pack(f"<{len(card.embedding)}f", *card.embedding),
        packing.text(card.embedding_model),
        card.tokens,
        int(card.is_anchor),
        packing.optional(card.callout),
        card.generated_at,
        packing.text(card.generator_model),
    )


class SqliteStore(BaseStore[SqliteSession]):
    """A store in `folder`, which is made where it is missing.

    `busy_s` is how long another process's write is waited for, in seconds.
    `synchronous` "NORMAL" gives up durability at a loss of power (not at a kill) for
    speed. `db` is a connection that is open already. Threads may share a store. Raises
    StoreError when the store cannot be opened.
    """

    remote = False
    blobs: Blobs

    def __init__(
        self,
        folder: Path,
        *,
        busy_s: float = _BUSY_S,
        synchronous: Synchronous = "FULL",
        may_be_unwritable: bool = False,
        db: sqlite3.Connection | None = None,
    ) -> None:
        super().__init__(folder, Blobs(folder.absolute() / "blobs", folder.absolute()))
        self.file = self.folder / FILE
        self._busy_s = busy_s
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._db = db or self._open(may_be_unwritable=may_be_unwritable)

    def _open(self, *, may_be_unwritable: bool) -> sqlite3.Connection:
        with store_errors(self.file):
            make_store_folder(self.folder)
            is_new = not self.file.exists()
            if not is_new:
                self._tighten()
            try:
                db = open_writing(self.file, busy_s=self._busy_s, synchronous=self._synchronous)
            except sqlite3.Error as error:
                if not (may_be_unwritable and is_unwritable(error)):
                    raise
                db = open_reading(self.file, self.blobs, busy_s=self._busy_s)
            if is_new:
                sync_folder(self.folder)
            return db

    @classmethod
    def open_existing(
        cls,
        folder: Path,
        *,
        busy_s: float = _BUSY_S,
        writing: bool = False,
        reading: bool = False,
    ) -> SqliteStore:
        """Return the store in `folder`. Raises UsageError where there is none.

        One that cannot be written is opened for reading: to append to it raises StoreError; with
        `writing` to open it does. With `reading` any is opened so, and nothing of it is touched.
        """
        if not (folder / FILE).is_file():
            raise UsageError(
                f"there is no store in {str(folder)!r}: run a cascade first, or name the store's "
                "folder with --store"
            )
        if reading:
            blobs = Blobs(folder.absolute() / "blobs", folder.absolute())
            with store_errors(folder / FILE):
                return cls(
                    folder, busy_s=busy_s, db=open_reading(folder / FILE, blobs, busy_s=busy_s)
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
        make_private(*(self.folder / name for name in files))
        with suppress(OSError):  # the current folder may be gone
            if not Path.cwd().is_relative_to(self.folder.resolve()):
                make_private(self.folder)  # which holds the store alone, and is no project's

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        with self._use() as db:
            if self._reader is not None:
                self._reader.close()
            db.close()

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

    def _find(self, session_id: str) -> SqliteSession | None:
        sql = "SELECT session_no FROM sessions WHERE session_id = ?"
        row = self._db.execute(sql, (packing.text(session_id),)).fetchone()
        return SqliteSession(self._db, row[0]) if row else None

    def _recent(self) -> Iterable[str]:
        sql = f"SELECT session_id FROM sessions ORDER BY session_no DESC LIMIT {_RECENT}"
        return [name for (name,) in self._db.execute(sql)]

    def fetch_bodies(self, keys: list[str]) -> list[tuple[str, str | None]]:
        """Return key and body of those that are stored."""
        sql = "SELECT key, body FROM bodies WHERE key IN (SELECT value FROM json_each(?))"
        return self._db.execute(sql, (json.dumps(keys),)).fetchall()

    # ---- appending ------------------------------------------------------------------

    def _append(self, prepared: PreparedBatch) -> NumberedBatch:
        with self._lock:
            try:
                with self._use():
                    damaged = self.blobs.write(prepared.blobs)
                with self._transaction() as db:
                    numbered = self._write(db, prepared)
                    self._link_again(db, damaged)
            except StoreError as error:
                if isinstance(error.__cause__, sqlite3.IntegrityError):
                    raise prepared.refusal(
                        f"the batch does not fit the record ({error.__cause__})"
                    ) from error.__cause__
                raise
            self._remember(numbered)
            return numbered

    def _write(self, db: sqlite3.Connection, prepared: PreparedBatch) -> NumberedBatch:
        """Write a batch, inside a transaction."""
        head = self._head(prepared)
        session_no = head.session.number
        self._ensure_blobs(prepared)
        db.executemany(_INSERT_BODY, prepared.bodies.values())
        db.executemany(_insert("bodies", BodyRow._fields, ignore=True), prepared.lost.values())
        pictures = _insert("body_pictures", ("key", "sha256"), ignore=True)
        db.executemany(pictures, prepared.body_pictures)
        numbered = NumberedBatch(prepared, head)
        tools = _insert("tool_lists", ("sha256", "tools_json"), ignore=True)
        db.executemany(tools, numbered.tools.items())
        for kind, table in TABLES.items():
            db.executemany(_insert(table, kind._fields), numbered.rows[kind])
        extra = [(session_no, key) for key in numbered.extra_bodies]
        db.executemany(_insert("made_bodies", ("session_no", "key"), ignore=True), extra)
        batch = (session_no, numbered.head.batch, numbered.head.digest)
        db.execute("INSERT INTO batches VALUES (?, ?, ?)", batch)
        self._link_images(numbered)
        return numbered

    def _begin(self, row: SessionRow) -> SqliteSession:
        number = self._db.execute(_insert("sessions", row._fields), row).lastrowid
        assert number is not None
        return SqliteSession(self._db, number)

    def _ensure_blobs(self, prepared: PreparedBatch) -> None:
        """Look again, under the write lock, whether every blob is there.

        Only here is it certain: `prune` removes files under the same lock.
        """
        for sha in prepared.needed:
            if self.blobs.has(sha):
                continue
            if sha not in prepared.blobs:
                raise prepared.missing_picture(sha)
            self.blobs.write({sha: prepared.blobs[sha]})

    def _link_again(self, db: sqlite3.Connection, damaged: Iterable[str]) -> None:
        """Let visible names show these blobs anew: they were links to the files before."""
        for sha in damaged:
            names = "SELECT name FROM images WHERE sha256 = ? UNION"
            names += " SELECT name FROM tool_results WHERE key = ?"
            for (name,) in db.execute(names, (sha, sha)).fetchall():
                self.blobs.link(sha, self.folder, name)

    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        name = packing.tool_result_name(ref)
        self.blobs.write(body)
        with self._transaction() as db:
            session = self._known(session_id)
            taken = db.execute("SELECT key FROM tool_results WHERE name = ?", (name,)).fetchone()
            if taken is not None and taken[0] != key:
                raise reference_taken(ref, taken[0])
            row = (session.number, ref, key, name)
            db.execute("INSERT OR IGNORE INTO tool_results VALUES (?, ?, ?, ?)", row)
            self.blobs.write(body)
            if body:
                self.blobs.link(key, self.folder, name)

    # ---- pruning --------------------------------------------------------------------

    def _older(self, before: float) -> list[tuple[int, str]]:
        return self._db.execute(
            """
            SELECT s.session_no, s.session_id FROM sessions s
            WHERE max(s.started, coalesce(
                (SELECT max(timestamp) FROM log l WHERE l.session_no = s.session_no), 0)) < :before
                AND substr(s.session_id, 1, length(:bank)) <> :bank
            ORDER BY s.session_no
            """,
            {"before": before, "bank": BANK},
        ).fetchall()

    def _forget(self, sessions: list[int], *, dry_run: bool) -> tuple[int, int, set[str]]:
        db, chosen = self._db, {"chosen": json.dumps(sessions)}
        keys = db.execute(_GONE, chosen).fetchall()
        (rows,) = db.execute(
            f"SELECT count(*) FROM log WHERE session_no {_CHOSEN}", chosen
        ).fetchone()
        used = self.used_blobs(sessions, [key for (key,) in keys])
        if not dry_run:
            for table in _OF_SESSION:
                db.execute(f"DELETE FROM {table} WHERE session_no {_CHOSEN}", chosen)
            db.executemany("DELETE FROM body_pictures WHERE key = ?", keys)
            db.executemany("DELETE FROM bodies WHERE key = ?", keys)
            db.execute("DELETE FROM tool_lists WHERE sha256 NOT IN (SELECT tools FROM calls)")
        return rows, len(keys), used

    def used_blobs(self, sessions: Sequence[int] = (), keys: Sequence[str] = ()) -> set[str]:
        """Return the blobs that the record names, but for those of these sessions and bodies."""
        stored = self._db.execute(
            f"""
            WITH gone AS (SELECT value FROM json_each(:gone))
            SELECT key FROM bodies WHERE body IS NULL AND key NOT IN gone
            UNION SELECT sha256 FROM body_pictures WHERE key NOT IN gone
            UNION SELECT key FROM tool_results WHERE session_no {_REST}
            """,
            {"chosen": json.dumps(sessions), "gone": json.dumps(keys)},
        )
        return {sha for (sha,) in stored}

    def visible_names(self) -> set[str]:
        """Return the visible names of pictures and results, as paths under the store's folder."""
        sql = "SELECT name FROM images UNION SELECT name FROM tool_results"
        return {name for (name,) in self._db.execute(sql)}

    # ---- lists, cards, SQL ----------------------------------------------------------

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """Return how the last so many sessions ended, newest first.

        None: it runs yet, or was killed.
        """
        columns = ", ".join(f"o.{name}" for name in OutcomeRow._fields)
        with self._use() as db:
            stored = db.execute(
                f"""
                SELECT {columns} FROM (
                    SELECT session_no FROM sessions
                    WHERE substr(session_id, 1, length(:bank)) <> :bank
                    ORDER BY session_no DESC LIMIT :sessions) s
                LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = (
                    SELECT max(p.number) FROM outcomes p
                    WHERE p.session_no = s.session_no AND p.phase IS NULL)
                ORDER BY s.session_no DESC
                """,
                {"bank": BANK, "sessions": sessions},
            ).fetchall()
        return [
            None if values[0] is None else packing.read_outcome(OutcomeRow(*values))
            for values in stored
        ]

    def _listed(
        self, which: SessionFilter, held: HeldSessions, limit: int | None, offset: int
    ) -> Sequence[SessionInfo]:
        # The last ones are picked before anything is added up over their rows.
        with self._use() as db:
            stored = db.execute(
                """
                WITH picked AS (
                    SELECT * FROM (SELECT *, (
                        SELECT status FROM outcomes o
                        WHERE o.session_no = s.session_no AND o.phase IS NULL
                        ORDER BY number DESC LIMIT 1) AS recorded FROM sessions s)
                    WHERE substr(session_id, 1, length(:prefix)) = :prefix
                    AND coalesce(cascade_id = :cascade, 1)
                    AND coalesce(started >= :since, 1) AND coalesce(started < :until, 1)
                    AND (:banks OR substr(session_id, 1, length(:bank)) <> :bank)
                    AND CASE :under WHEN 'null' THEN 1 WHEN '[]' THEN parent_id IS NULL
                        ELSE parent_id IN (SELECT value FROM json_each(:under)) END
                    AND (instr(lower(session_id), lower(:name))
                        OR instr(lower(cascade_id), lower(:name)))
                    AND instr(lower(model), lower(:model))
                    AND (:with_key = '' OR EXISTS (
                        SELECT 1 FROM json_each(cascade_json) WHERE key = :with_key))
                    AND (:without_keys = '[]' OR NOT EXISTS (
                        SELECT 1 FROM json_each(cascade_json)
                        WHERE key IN (SELECT value FROM json_each(:without_keys))))
                    AND (:status IS NULL OR :status = CASE
                        WHEN session_id IN (SELECT value FROM json_each(:running)) THEN 'running'
                        WHEN recorded = 'completed' THEN recorded
                        WHEN session_id IN (SELECT value FROM json_each(:unknown)) THEN 'unknown'
                        WHEN recorded IS NULL THEN 'broken off'
                        WHEN session_id IN (SELECT value FROM json_each(:left)) THEN 'broken off'
                        ELSE recorded END)
                    ORDER BY started DESC, session_no DESC LIMIT :limit OFFSET :offset)
                SELECT s.session_id, s.cascade_id, s.model, s.started, o.timestamp,
                    coalesce(o.status, ''),
                    (SELECT count(*) FROM calls c WHERE c.session_no = s.session_no),
                    coalesce(sum(l.tokens_in), 0), coalesce(sum(l.tokens_out), 0),
                    coalesce(sum(l.tokens_cached), 0), sum(l.cost), o.error, o.reason,
                    s.parent_id, s.parent_phase, s.sounding_index
                FROM picked s
                LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = (
                    SELECT max(p.number) FROM outcomes p
                    WHERE p.session_no = s.session_no AND p.phase IS NULL)
                LEFT JOIN log l ON l.session_no = s.session_no
                GROUP BY s.session_no
                ORDER BY s.started DESC, s.session_no DESC
                """,
                {
                    **asdict(which),
                    "prefix": packing.text(which.prefix),
                    "under": json.dumps(which.under),
                    "name": packing.text(which.name),
                    "model": packing.text(which.model),
                    "with_key": packing.text(which.with_key),
                    "without_keys": json.dumps(which.without_keys),
                    "running": json.dumps(held.named("running")),
                    "unknown": json.dumps(held.named("unknown")),
                    "left": json.dumps(held.named("broken off")),
                    "bank": BANK,
                    "limit": -1 if limit is None else limit,
                    "offset": offset,
                },
            ).fetchall()
        return [
            SessionInfo(*values, parent_id=parent, parent_phase=phase, sounding_index=sounding)
            for *values, parent, phase, sounding in stored
        ]

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        They need not survive a loss of power, and so do not wait for the disk. Raises
        UsageError for an unknown session.
        """
        with self._use() as db:
            db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction():
                    session = self._known(session_id)
                    db.executemany(_PUT_CARD, [_card_row(session.number, card) for card in cards])
            finally:
                db.execute(f"PRAGMA synchronous = {self._synchronous}")

    def _query(self, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
        # A signal ends it.
        with self._use() as db:
            if self._reader is None:
                self._reader = open_reading(self.file, self.blobs, busy_s=self._busy_s)
                only_select(self._reader)
            reader = self._reader

            def abandon() -> None:
                self._reader = None  # closing it would wait for the query

            work = partial(select, reader, db, sql, params)
            return interruptible(work, reader.interrupt, abandon)

    def verify(self, on_progress: OnProgress | None = None) -> Iterator[Discrepancy]:
        """Derive hashes, ids, windows and links again and yield what disagrees.

        For a store too damaged to be opened there is `verify_store`.
        """
        return verify_store(self.folder, on_progress)


def verify_store(folder: Path, on_progress: OnProgress | None = None) -> Iterator[Discrepancy]:
    """Yield everything that disagrees in the store in `folder`; nothing for a sound one.

    Works on a store that cannot be opened any more. One of an older version is upgraded first.
    Files that nothing names are notes: a process that was killed leaves them, and `prune` removes
    them.
    """
    file = folder / FILE
    if not file.is_file():
        yield Discrepancy(str(file), "is missing")
        return
    try:
        with closing(connect_reading(file, busy_s=_BUSY_S)) as db:
            is_old = 0 < version(db) < len(STEPS)
        if is_old:
            with suppress(StoreError):  # then what cannot be read is told
                SqliteStore.open_existing(folder).close()
        db = connect_reading(file, busy_s=_BUSY_S)
    except sqlite3.Error as error:
        yield Discrepancy(str(file), f"cannot be opened: {error}")
        return
    with closing(db):
        yield from SqliteProof(SqliteStore(folder, db=db), db, on_progress).findings()
