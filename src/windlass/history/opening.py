"""A SQLite store's connections, brought up to this version where they can be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from windlass.history.blobs import Blobs
from windlass.history.connect import Synchronous, copied, reading, writing
from windlass.history.migrations import STEPS, migrate, version


def open_writing(
    file: Path, blobs: Blobs, *, busy_s: float, synchronous: Synchronous
) -> sqlite3.Connection:
    """A connection that appends. Raises sqlite3.Error, StoreError."""
    db = writing(file, blobs, busy_s=busy_s, synchronous=synchronous)
    try:
        migrate(db, str(file))
    except BaseException:
        db.close()
        raise
    return db


def open_reading(file: Path, blobs: Blobs, *, busy_s: float) -> sqlite3.Connection:
    """A connection that cannot write. An older store that could not be brought up is copied."""
    db = reading(file, blobs, busy_s=busy_s)
    if version(db) < len(STEPS):
        db.close()
        db = copied(file, blobs)
        migrate(db, str(file))
    db.execute("PRAGMA query_only = ON")
    return db


def check_writable(db: sqlite3.Connection) -> None:
    """Raise sqlite3.OperationalError where the database cannot be written; nothing is changed."""
    try:
        db.execute("BEGIN IMMEDIATE")  # which a database that cannot be written takes
        db.execute(f"PRAGMA user_version = {version(db)}")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
