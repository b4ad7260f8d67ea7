"""The files that Windlass writes itself: each of them is opened or replaced here.

What lies in the way may have been put there by others, so nothing is written through a link: not
through a symbolic one, not into a file that has another name, and not into a linked folder of a
store. A file that is replaced is there whole or not at all.

What belongs to a store: told by what it holds and not by its name.

A store can lie in any folder, several can lie side by side, and files of it can be linked or copied
elsewhere.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.errors import StoreError

TEMPORARY: Final = ".tmp"
"""How the names of unfinished files end; a killed process may leave some."""

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
"""What is recorded is its owner's alone; a stricter umask takes more away."""

USUAL_STORE: Final = ".windlass"
"""The folder in which a store lies where nobody says another."""
_MOST_RULES: Final = 1 << 16
"""Bytes of a `.gitignore` that are read."""
_UNWRITABLE: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE: Final = 1 << 16
"""Bytes that are gathered before they are written."""


# ---- what lies in the way -----------------------------------------------------------


def linked_part(path: Path, within: Path) -> Path | None:
    """Return the first link on the way from the folder `within` to `path`, which counts too.

    Raises StoreError where `path` does not lie in `within`.
    """
    parts = path.relative_to(within).parts if path.is_relative_to(within) else ("..",)
    if ".." in parts:
        raise StoreError(f"{str(path)!r} does not lie in the store {str(within)!r}")
    ways = (within.joinpath(*parts[: count + 1]) for count in range(len(parts)))
    return next((way for way in ways if way.is_symlink()), None)


def refuse_links(path: Path, within: Path) -> None:
    """Raise StoreError where a link stands between the folder `within` and `path`, or is `path`."""
    if (link := linked_part(path, within)) is not None:
        raise _is_link(link)


def refuse_linked_store(store: Path) -> None:
    """Raise StoreError where a store that nobody named is a link: others may have put it there."""
    if store.is_symlink():
        raise StoreError(
            f"{str(store)!r} is a link, and nobody named it as the store: move it away, or name the"
            " folder that it leads to with --store"
        )


def refuse_shared(*paths: Path) -> None:
    """Raise StoreError for one that cannot be written alone: a link, or no ordinary file."""
    for path in paths:
        with suppress(FileNotFoundError):
            _check(path, path.lstat())


def _check(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _is_link(path)
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(
            f"{str(path)!r} is not a regular file, so nothing is written to it: move it away"
        )
    if found.st_nlink > 1:
        raise StoreError(
            f"{str(path)!r} is a file with another name (a hard link), which would change too,"
            " so it is not written: put a copy in its place"
        )


def _is_link(path: Path) -> StoreError:
    return StoreError(f"{str(path)!r} is a link, and nothing is written through it: move it away")


# ---- folders ------------------------------------------------------------------------


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a loss of power, where the system can do that."""
    if os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, within: Path | None = None) -> None:
    """Make `folder` and what is missing above it, durably, for nobody else.

    A `.windlass`, be it `folder` or `within`, is left out by git from then on. Raises StoreError
    where `folder`, or one between it and `within`, is a link.
    """
    if within is not None:
        refuse_links(folder, within)
        if within != folder:
            make_folder(within)
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)
    if folder.name == USUAL_STORE:
        ignore_in_git(folder)


def ignore_in_git(folder: Path) -> None:
    """Let git leave out a folder, whatever its `.gitignore` says by now.

    Rules that stand there stay; the last one counts. A folder that cannot be written stays as it
    is. Raises OSError.
    """
    file = folder / ".gitignore"
    rules = b""
    # git does not follow a link, and nobody writes rules without end.
    if file.is_file() and not file.is_symlink() and file.stat().st_size <= _MOST_RULES:
        rules = file.read_bytes()
    lines = rules.splitlines()
    if lines[-1:] != [b"*"]:
        try:
            mode = None if lines else PRIVATE_FILE
            replace(file, [line + b"\n" for line in (*lines, b"*")], mode)
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise


def make_private(*paths: Path) -> None:
    """Take away what others may do with these files and folders, if they exist and are ours.

    A link, and a file that has a second name, stays as it is.
    """
    if os.name == "nt":
        return
    for path in paths:
        with suppress(OSError):  # a medium that cannot be written stays as it is
            found = path.lstat()
            is_alone = stat.S_ISDIR(found.st_mode) or (
                stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            )
            if is_alone and found.st_uid == os.geteuid() and found.st_mode & 0o077:
                path.chmod(found.st_mode & PRIVATE_FOLDER)


# ---- files --------------------------------------------------------------------------


def open_new(path: Path, mode: int = PRIVATE_FILE) -> int:
    """Return a handle to a new file. Raises FileExistsError, also for a link that leads nowhere."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, mode)


def open_own(path: Path, mode: int = PRIVATE_FILE, *, flags: int = 0) -> int:
    """Return a handle to read and write a file with, which is made where it is missing.

    `flags` are others of `os.open`. Raises OSError, and StoreError for a link and for what is no
    ordinary file.
    """
    refuse_shared(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW | _BINARY | flags, mode)
    try:
        _check(path, os.fstat(handle))  # what came there meanwhile
    except StoreError:
        os.close(handle)
        raise
    return handle


def temporary_beside(path: Path) -> Path:
    """Return a name for an unfinished file that is to be put in the place of `path`."""
    return path.with_name(f".{os.urandom(8).hex()}{TEMPORARY}")


def replace(
    path: Path, pieces: Iterable[bytes], mode: int | None = None, *, durable: bool = False
) -> None:
    """Put a new file in the place of `path`, whole or not at all.

    A link there is replaced; what it leads to, and what else links to the old file, stays as it is.
    The file has the mode of the old one, or the usual one, where none is given. `durable`: when
    this returns it survives a loss of power. Raises OSError.
    """
    temporary = temporary_beside(path)
    handle = open_new(temporary, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "wb", _AT_ONCE) as file:
            file.writelines(pieces)
            if durable:
                file.flush()
                os.fsync(handle)
        if mode is None and path.exists() and not path.is_symlink():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


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
