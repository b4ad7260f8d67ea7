"""SQL by users: one SELECT, bound parameters, a connection that can only read."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from windlass.errors import UsageError, did_you_mean

_ALLOWED: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_UNKNOWN: Final = re.compile(r"no such (column|table): (?:\w+\.)?(\S+)")
_STORE_FAILED: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
    }
)


def only_select(db: sqlite3.Connection) -> None:
    """Bar everything but reading on this connection, whatever SQL it is handed."""

    def decide(action: int, *_: str | None) -> int:
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    # A table-valued function declares its table when it is first used, which would be
    # barred; these two are made known before.
    db.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    db.set_authorizer(decide)


def _names(db: sqlite3.Connection, sql: str) -> tuple[list[str], list[str]]:
    """Return all tables and views, and the columns of those that `sql` mentions."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    tables = [
        name
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
    ]
    columns = {
        column[1]
        for table in tables
        if table in words
        for column in db.execute(f"PRAGMA table_info({table})")
    }
    return tables, sorted(columns)


def select(
    db: sqlite3.Connection, names_from: sqlite3.Connection, sql: str, params: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return the rows of one SELECT on `db`, which `only_select` has barred.

    `names_from` is a connection that may read the schema, for messages about unknown
    names. Raises UsageError for anything but one SELECT and for what SQLite refuses;
    sqlite3.Error where the store itself fails.
    """
    try:
        cursor = db.execute(sql, tuple(params))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _STORE_FAILED or "user-defined function" in str(error):
            raise
        raise UsageError(_sentence(names_from, sql, error)) from error


def _sentence(db: sqlite3.Connection, sql: str, error: Exception) -> str:
    text = str(error)
    if "one statement" in text:
        return "only one SELECT can be run at a time: leave out what follows the semicolon"
    if "not authorized" in text or "prohibited" in text:
        return f"only one SELECT can be run here, and this asks for more ({text})"
    if match := _UNKNOWN.search(text):
        tables, columns = _names(db, sql)
        names = columns if match[1] == "column" else tables
        return f"no {match[1]} {match[2]!r} in the store: {did_you_mean(match[2], names)}"
    return f"SQLite refuses this SELECT: {text}"
