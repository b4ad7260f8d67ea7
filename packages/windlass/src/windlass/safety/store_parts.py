"""What belongs to a store: told by what it holds and not by its name.

A store can lie in any folder, several can lie side by side, and files of it can be linked or copied
elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from windlass.safety.own_files import USUAL_STORE

APPLICATION_ID: Final = 0x574E444C
"""What SQLite files of a history carry at byte 68 of their header ("WNDL"), for `file`, too."""
_MAGIC: Final = b"SQLite format 3\0"
_AT: Final = 68
_DATABASE: Final = "windlass.sqlite"
_RESULTS: Final = Path("storage", "tool_results")
_PARTS: Final = frozenset({"blobs", "engine", "images", "running", "storage"})
_BLOB: Final = re.compile(r"[0-9a-f]{64}")


def in_a_store(root: Path, real: Path) -> bool:
    """Return whether what lies at a real path is a store, a part of one, or a copy of its database.

    Folders above `root` do not count: what is asked is which parts of `root` are closed. Where
    `root` itself is a store, only what belongs to that store is.
    """
    if _is_database(real) or _is_blob(real):
        return True
    if not real.is_relative_to(root):
        return False
    parts = real.relative_to(root).parts
    if parts and _is_own(root, parts[0]):
        return True
    inside = [root.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    return any(_holds_record(each) or (each / _RESULTS).is_dir() for each in inside)


def part_of_store(real: Path) -> bool:
    """Return whether what lies, or would lie, at a real path is kept by a store, wherever that is.

    What others put beside a store's own files is not, unless they lie in `.windlass`.
    """
    if _is_database(real) or _is_blob(real):
        return True
    above = zip(real.parents, (real, *real.parents), strict=False)
    return any(folder.name == USUAL_STORE or _is_own(folder, below.name) for folder, below in above)


def _is_own(folder: Path, name: str) -> bool:
    """Return whether a store in `folder` keeps what is there under this name."""
    return (name in _PARTS or name.startswith(_DATABASE)) and _holds_record(folder)


def _is_database(file: Path) -> bool:
    """Return whether a file is the database of a history, whatever it is called."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            head = opened.read(_AT + 4)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[_AT:] == APPLICATION_ID.to_bytes(4, "big")


def _holds_record(folder: Path) -> bool:
    """Return whether a folder holds a history's database, or its blobs."""
    # The 256 folders of blobs are made at once, before the first.
    blobs = (folder / "blobs", folder)
    laid_out = ((each / "00").is_dir() and (each / "ff").is_dir() for each in blobs)
    return (folder / _DATABASE).is_file() or any(laid_out)


def _is_blob(file: Path) -> bool:
    return bool(_BLOB.fullmatch(file.name)) and file.parent.name == file.name[:2]
