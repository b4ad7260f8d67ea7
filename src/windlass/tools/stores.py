"""What is a store of Windlass, told by what it holds and not by its name.

A store holds what other sessions said. It can lie in any folder, several can lie side by side,
and files of it can be linked or copied elsewhere; none of it is a tool's business.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

APPLICATION_ID: Final = 0x574E444C
"""What SQLite files of a history carry at byte 68 of their header."""
_MAGIC: Final = b"SQLite format 3\0"
_AT: Final = 68
_DATABASE: Final = "windlass.sqlite"
_RESULTS: Final = Path("storage", "tool_results")
_PARTS: Final = frozenset({"blobs", "engine", "images", "storage"})
_BLOB: Final = re.compile(r"[0-9a-f]{64}")


def in_a_store(root: Path, real: Path) -> bool:
    """Whether what lies at a real path is a store, a part of one, or a copy of its database.

    Folders above `root` do not count: what is asked is which parts of `root` are closed. Where
    `root` itself is a store, only what belongs to that store is.
    """
    if is_database(real) or _is_blob(real):
        return True
    if not real.is_relative_to(root):
        return False
    parts = real.relative_to(root).parts
    own = parts and (parts[0] in _PARTS or parts[0].startswith(_DATABASE))
    if own and _holds_record(root):
        return True
    inside = [root.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    return any(_holds_record(each) or (each / _RESULTS).is_dir() for each in inside)


def is_database(file: Path) -> bool:
    """Whether a file is the database of a history, whatever it is called."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            head = opened.read(_AT + 4)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[_AT:] == APPLICATION_ID.to_bytes(4, "big")


def _holds_record(folder: Path) -> bool:
    """Whether a folder holds a history's database, or its blobs."""
    # The 256 folders of blobs are made at once, before the first.
    blobs = (folder / "blobs", folder)
    laid_out = ((each / "00").is_dir() and (each / "ff").is_dir() for each in blobs)
    return (folder / _DATABASE).is_file() or any(laid_out)


def _is_blob(file: Path) -> bool:
    return bool(_BLOB.fullmatch(file.name)) and file.parent.name == file.name[:2]
