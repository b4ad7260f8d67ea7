"""How an older store becomes one of today: numbered steps, only ever added.

Each step runs in one transaction with the note that it ran (`PRAGMA user_version`).
The number of a step is its place in `STEPS`, from 1.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from windlass.errors import StoreError
from windlass.history.sqlite._schema import (
    COLUMNS_2,
    COLUMNS_4,
    DROPPED_3,
    OUTCOMES_3,
    TABLES_1,
    TABLES_2,
    VIEWS_1,
    VIEWS_2,
    VIEWS_3,
    VIEWS_4,
    VIEWS_5,
)
from windlass.safety.store_parts import APPLICATION_ID

Step: TypeAlias = Callable[[sqlite3.Connection], None]


def first(db: sqlite3.Connection) -> None:
    """The tables and views of the first version."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (*TABLES_1, *VIEWS_1):
        db.execute(statement)


def second(db: sqlite3.Connection) -> None:
    """Context cards."""
    for statement in (*TABLES_2, *VIEWS_2):
        db.execute(statement)


def third(db: sqlite3.Connection) -> None:
    """Why a phase or session is incomplete, and the status `waiting`.

    SQLite cannot change a CHECK, so the table is made anew; it is not renamed, because that
    reads all views, and some need functions that this connection may not have.
    """
    for statement in DROPPED_3:
        db.execute(statement)
    db.execute(f"CREATE TEMP TABLE older AS SELECT {COLUMNS_2} FROM outcomes")  # noqa: S608
    db.execute("DROP TABLE outcomes")
    db.execute(OUTCOMES_3)
    db.execute(f"INSERT INTO outcomes ({COLUMNS_2}) SELECT * FROM older")  # noqa: S608
    db.execute("DROP TABLE older")
    for statement in VIEWS_3:
        db.execute(statement)


def fourth(db: sqlite3.Connection) -> None:
    """The session under which a session ran as a sub-cascade."""
    for statement in (*COLUMNS_4, *VIEWS_4):
        db.execute(statement)


def fifth(db: sqlite3.Connection) -> None:
    """`unified_logs` without functions that only Windlass has."""
    for statement in VIEWS_5:
        db.execute(statement)


STEPS: Final[tuple[Step, ...]] = (first, second, third, fourth, fifth)
READABLE: Final = 4
"""The version from which on a store is read as it is: what came later is for other clients."""


def version(db: sqlite3.Connection) -> int:
    """Return how many steps this store has seen."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection, place: str, steps: Sequence[Step] = STEPS) -> None:
    """Bring the store up to the last step; `place` names it in errors.

    The connection must be in autocommit mode. Two processes may do this at once: each
    step is decided inside the write lock. Raises StoreError for a store newer than
    `steps`, or for a database that is not a Windlass store.
    """
    while (current := version(db)) < len(steps):
        try:
            db.execute("BEGIN IMMEDIATE")
            current = version(db)
            if current == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StoreError(
                    f"{place!r} is a SQLite database of something else: name another store folder"
                )
            if current < len(steps):
                steps[current](db)
                db.execute(f"PRAGMA user_version = {current + 1}")
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
    if current > len(steps):
        raise StoreError(
            f"the store {place!r} was written by a newer Windlass (its version {current}, "
            f"this one knows {len(steps)}): update Windlass, or name another store"
        )
