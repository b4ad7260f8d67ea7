"""Messages of a SQLite store by the beginning of their hashes, without opening it as a store.

For a command that must answer at once: it imports little, and reads one row. What is out of the
ordinary (a store that is damaged, locked, or on a read-only medium) is left to the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from windlass.safety.files import UnreadableError, read_bytes

FILE: Final = "windlass.sqlite"
"""The database, in the folder of the store."""


def bodies_beginning(folder: Path, digits: str, most: int) -> Mapping[str, bytes] | None:
    """Get the JSON of messages by their keys, of those whose key begins so; `most` of them at most.

    None: there is no such store, or it has to be opened to know.
    """
    import sqlite3

    file = folder.absolute() / FILE
    if not file.is_file():
        return None
    sql = "SELECT key, body FROM bodies WHERE key >= ? AND key < ? LIMIT ?"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as db:
            rows = db.execute(sql, (digits, f"{digits}g", most)).fetchall()
        found = {
            str(key): read_bytes(_blob(folder, key)) if body is None else str(body).encode()
            for key, body in rows
        }
    except (sqlite3.Error, OSError, UnreadableError):
        return None
    sound = all(hashlib.sha256(data).hexdigest() == key for key, data in found.items())
    return found if sound else None


def _blob(folder: Path, key: str) -> Path:
    return folder / "blobs" / key[:2] / key
