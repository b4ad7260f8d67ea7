"""Connections to a SQLite store: how they are opened, and what their errors mean to people.

Knows SQLite and the folder of blobs, and nothing of batches or sessions.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from windlass.errors import StoreError, UsageError
from windlass.history.blobs import Blobs, LostMessage
from windlass.history.sqlite._schema import READABLE, STEPS, WHOLE_LOGS, migrate, version
from windlass.safety.own_files import make_folder, open_new, refuse_shared

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

Synchronous = Literal["FULL", "NORMAL"]


def _sentence(error: sqlite3.Error, file: Path) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return (
                f"the store {str(file)!r} is locked by another program: "
                "close what holds it open, then try again"
            )
        case sqlite3.SQLITE_FULL:
            return _full(file)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return _not_writable(file)
        case sqlite3.SQLITE_CANTOPEN:
            return (
                f"the store {str(file)!r} cannot be opened: see that the folder is there and "
                "may be written, or name another with --store"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return (
                f"the store {str(file)!r} is damaged ({error}): run `windlass verify` to see "
                "what is left"
            )
        case _:
            return f"the store {str(file)!r} failed ({error}): run `windlass verify` to see why"


def _full(place: Path) -> str:
    return (
        f"no space is left for the store {str(place)!r}, and nothing of this step was recorded: "
        "free some space, or name another folder with --store"
    )


def _not_writable(place: Path) -> str:
    return (
        f"the store {str(place)!r} may not be written: give yourself the right to read and "
        "write it, or name another folder with --store"
    )


def make_store_folder(folder: Path) -> None:
    """Make the folder of a store. Raises UsageError for a path where there can be none."""
    try:
        make_folder(folder)
    except OSError as error:
        if error.errno in (*_NO_SPACE, *_NO_RIGHT):
            raise
        raise UsageError(
            f"the store {str(folder)!r} cannot be made ({error.strerror}); name another folder with"
            " --store"
        ) from error


@contextmanager
def store_errors(file: Path) -> Iterator[None]:
    """Translate what SQLite and the file system raise into StoreError, one sentence each."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_sentence(error, file)) from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreError(_full(file.parent)) from error
        if error.errno in _NO_RIGHT:
            raise StoreError(_not_writable(file.parent)) from error
        raise StoreError(
            f"the store {str(file.parent)!r} failed ({error}): run `windlass verify` to see why"
        ) from error


def _show_whole(db: sqlite3.Connection, blobs: Blobs) -> None:
    """Make `unified_logs` show whole contents on this connection, those in files too."""

    def stored(key: str, body: str | None) -> dict[str, Any]:
        # One that is damaged hides itself and no other row.
        try:
            stored_body: dict[str, Any] = json.loads(body if body is not None else blobs.read(key))
        except FileNotFoundError:
            return {"content": LostMessage.of(key, f"its file {key} is missing").text}
        except (OSError, ValueError) as error:
            return {"content": LostMessage.of(key, f"its file {key} is damaged ({error})").text}
        return stored_body

    def content(key: str, body: str | None) -> str | None:
        value = stored(key, body)["content"]
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def tool_calls(key: str, body: str | None) -> str | None:
        value = stored(key, body).get("tool_calls")
        return None if value is None else json.dumps(value, ensure_ascii=False)

    db.create_function("windlass_content", 2, content)
    db.create_function("windlass_tool_calls", 2, tool_calls)
    db.execute(WHOLE_LOGS)


def _wal(db: sqlite3.Connection, busy_s: float) -> None:
    # SQLite does not wait for the lock of this one change, so two processes that meet at
    # a fresh store would fail without a second try.
    until = time.monotonic() + busy_s
    while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _refuse_shared_logs(file: Path) -> None:
    """Raise StoreError where a file that SQLite keeps beside its database is a link."""
    refuse_shared(*(file.with_name(f"{file.name}-{log}") for log in ("wal", "shm", "journal")))


def _writing(file: Path, *, busy_s: float, synchronous: Synchronous) -> sqlite3.Connection:
    """Return a connection that appends: autocommit, write-ahead log, commits synced to the disk."""
    refuse_shared(file)
    _refuse_shared_logs(file)
    # SQLite gives its other files the mode of this one.
    with suppress(FileExistsError):
        os.close(open_new(file))
    db = sqlite3.connect(file, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        _wal(db, busy_s)
        db.execute(f"PRAGMA synchronous = {synchronous}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def connect_reading(file: Path, *, busy_s: float) -> sqlite3.Connection:
    """Return a connection that cannot write: it takes no write lock and sees what others commit.

    On a medium that cannot be written it sees what is there now.
    """
    db = _read_only(file, busy_s, "mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if not is_unwritable(error):
            return db  # damaged; whoever reads on says so
        db.close()
        return _frozen(file, busy_s)
    except sqlite3.Error:
        return db
    return db


def _copied(file: Path) -> sqlite3.Connection:
    """Return a connection to a copy of the database, which is removed when it is closed."""
    folder = TemporaryDirectory(prefix="windlass-")
    try:
        for name in (file.name, f"{file.name}-wal"):
            if (part := file.with_name(name)).exists():
                shutil.copyfile(part, Path(folder.name, name))
        db = sqlite3.connect(
            Path(folder.name, file.name),
            isolation_level=None,
            check_same_thread=False,
            factory=_Copy,
        )
        db.folder = folder
    except BaseException:
        folder.cleanup()
        raise
    return db


class _Copy(sqlite3.Connection):
    folder: TemporaryDirectory[str]

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


def is_unwritable(error: BaseException) -> bool:
    """Return whether SQLite failed because it may write neither the file nor beside it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def _frozen(file: Path, busy_s: float) -> sqlite3.Connection:
    """Return a connection to a file beside which SQLite can keep no log of its own."""
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        # A process was killed before it moved these commits into the file.
        return _copied(file)
    return _read_only(file, busy_s, "mode=ro&immutable=1")


def _read_only(file: Path, busy_s: float, how: str) -> sqlite3.Connection:
    real = file.resolve()
    _refuse_shared_logs(real)
    return sqlite3.connect(
        f"{real.as_uri()}?{how}",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
    )


def open_writing(file: Path, *, busy_s: float, synchronous: Synchronous) -> sqlite3.Connection:
    """Return a connection that appends. Raises sqlite3.Error, StoreError."""
    db = _writing(file, busy_s=busy_s, synchronous=synchronous)
    try:
        with _copy_kept(db, file):
            migrate(db, str(file))
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def _copy_kept(db: sqlite3.Connection, file: Path) -> Iterator[None]:
    """Keep a copy of an older store's database beside it until it is upgraded."""
    before = version(db)
    if not 0 < before < len(STEPS):
        yield
        return
    # A name that nobody can have taken: SQLite would write through a link.
    copy = file.with_name(f"{file.name}.version-{before}.{os.urandom(8).hex()}")
    try:
        os.close(open_new(copy))
        with closing(sqlite3.connect(copy)) as kept:
            db.backup(kept)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    yield
    for each in file.parent.glob(
        f"{file.name}.version-*"
    ):  # those of a process that was killed, too
        each.unlink(missing_ok=True)


def open_reading(file: Path, blobs: Blobs, *, busy_s: float) -> sqlite3.Connection:
    """Return a connection that cannot write and has whole contents in `unified_logs`.

    An older store that could not be brought up is copied.
    """
    db = connect_reading(file, busy_s=busy_s)
    try:
        if version(db) < READABLE:
            db.close()
            db = _copied(file)
            migrate(db, str(file))
        _show_whole(db, blobs)
        db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def check_writable(db: sqlite3.Connection) -> None:
    """Raise sqlite3.OperationalError where the database cannot be written; nothing is changed."""
    try:
        db.execute("BEGIN IMMEDIATE")  # which a database that cannot be written takes
        db.execute(f"PRAGMA user_version = {version(db)}")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
