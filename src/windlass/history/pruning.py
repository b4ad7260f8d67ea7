"""The only thing that deletes: whole sessions, and what no other session uses.

The database forgets first, then the files go. A crash between the two leaves files
that nothing names; the next prune takes them along, since it removes whatever is not
named and not only what it has just forgotten.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from windlass.history import reading
from windlass.history.base import BANK, Pruned
from windlass.history.blobs import Blobs

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""

_OF_SESSION: Final = (
    "cards", "images", "tool_results", "made_bodies", "calls", "edits", "state", "outcomes", "log",
    "batches", "sessions",
)  # fmt: skip

_KEYS: Final = """
    SELECT key FROM log WHERE key IS NOT NULL AND session_no {those}
    UNION SELECT key FROM made_bodies WHERE session_no {those}
    UNION SELECT key FROM tool_results WHERE session_no {those}
"""
_CHOSEN: Final = "IN (SELECT value FROM json_each(:chosen))"
_REST: Final = "NOT IN (SELECT value FROM json_each(:chosen))"
_GONE: Final = f"{_KEYS.format(those=_CHOSEN)} EXCEPT SELECT * FROM ({_KEYS.format(those=_REST)})"


def choose(
    db: sqlite3.Connection, older_than_s: float | None, session_id: str | None, now: float
) -> list[tuple[int, str]]:
    """Number and name of the sessions to remove. Raises UsageError for an unknown one."""
    if session_id is not None:
        return [(reading.known_session(db, session_id), session_id)]
    assert older_than_s is not None
    return db.execute(
        """
        SELECT s.session_no, s.session_id FROM sessions s
        WHERE max(s.started, coalesce(
            (SELECT max(timestamp) FROM log l WHERE l.session_no = s.session_no), 0)) < :before
            AND substr(s.session_id, 1, length(:bank)) <> :bank
        ORDER BY s.session_no
        """,
        {"before": now - older_than_s, "bank": BANK},
    ).fetchall()


def used_blobs(db: sqlite3.Connection, gone: Iterable[str] = ()) -> set[str]:
    """The blobs that the record names, without those of the bodies in `gone`."""
    stored = db.execute(
        """
        SELECT key, key FROM bodies WHERE body IS NULL
        UNION ALL SELECT key, sha256 FROM body_pictures
        UNION ALL SELECT key, key FROM tool_results
        """
    )
    without = frozenset(gone)
    return {sha for key, sha in stored if key not in without}


def remove_rows(
    db: sqlite3.Connection, blobs: Blobs, chosen: Sequence[tuple[int, str]], *, dry_run: bool
) -> Pruned:
    """Remove the sessions' rows and report what goes; with `dry_run` only report."""
    those = {"chosen": json.dumps([number for number, _ in chosen])}
    gone = [key for (key,) in db.execute(_GONE, those)]
    (rows,) = db.execute(f"SELECT count(*) FROM log WHERE session_no {_CHOSEN}", those).fetchone()
    used = used_blobs(db, gone)
    if not dry_run:
        for table in _OF_SESSION:
            db.execute(f"DELETE FROM {table} WHERE session_no {_CHOSEN}", those)
        keys = [(key,) for key in gone]
        db.executemany("DELETE FROM body_pictures WHERE key = ?", keys)
        db.executemany("DELETE FROM bodies WHERE key = ?", keys)
        db.execute("DELETE FROM tool_lists WHERE sha256 NOT IN (SELECT tools FROM calls)")
        used = used_blobs(db)
    files = [sha for sha in blobs.list() if sha not in used]
    return Pruned(
        sessions=tuple(session_id for _, session_id in chosen),
        rows=rows,
        bodies=len(gone),
        blobs=len(files),
        bytes=sum(blobs.size(sha) for sha in files),
    )


def remove_files(db: sqlite3.Connection, blobs: Blobs, folder: Path, now: float) -> None:
    """Remove every blob and visible name that the record does not name.

    To be called inside a write transaction: an appender looks under the same lock
    whether its files are there.
    """
    used = used_blobs(db)
    for sha in list(blobs.list()):
        if sha not in used:
            blobs.remove(sha)
    blobs.remove_unfinished(now - _STALE_S)
    names = {
        name
        for (name,) in db.execute("SELECT name FROM images UNION SELECT name FROM tool_results")
    }
    remove_visible(folder, names)


def remove_visible(folder: Path, names: Collection[str]) -> None:
    """Remove every visible file that is not among `names`, and folders left empty."""
    for path in visible_files(folder):
        if path.relative_to(folder).as_posix() not in names:
            path.unlink(missing_ok=True)
    for level in ("images/*/*", "images/*"):
        for path in folder.glob(level):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def visible_files(folder: Path) -> list[Path]:
    """The files in the places where a store keeps visible names."""
    return [*folder.glob("images/*/*/image_*"), *folder.glob("storage/tool_results/*.json")]
