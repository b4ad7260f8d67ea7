"""The files that a user names for what is to be written: pages, settings, exports.

What is there already may be the recording that is read, somebody's work, or a store. It is replaced
where Windlass wrote it, which its first lines say; the user may allow the rest with `--force`, but
for what is read and for a store.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.errors import UsageError
from windlass.safety.own_files import part_of_store, replace

MARK: Final = "written by Windlass"
"""What one of the first two lines of a page, or of a file of settings, says in a comment."""
_MARKS: Final = (f"<!-- {MARK} -->".encode(), f"# {MARK}".encode())
_HEAD: Final = 100
"""Bytes within which the mark stands."""


def check_place(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise UsageError where a file lies in a store, or is one of those that are read for it.

    Of an input that is a folder, what Windlass wrote may be written again.
    """
    name = repr(str(path))
    with _errors(path):
        if part_of_store(path.resolve()) or part_of_store(path.parent.resolve() / path.name):
            raise UsageError(f"{name} lies in a store, which keeps its own files: name another")
        if not path.exists():
            return
        is_ours = _is_ours(path)
        if any(_is_among(path, given, is_ours=is_ours) for given in inputs):
            raise UsageError(f"{name} is what is read here: name another file to write")


def check_output(path: Path, inputs: Iterable[Path] = (), *, force: bool = False) -> None:
    """Raise UsageError where a file may not be written, or replaced.

    `inputs` are the files and folders that are read for it. `force`: what is there may be replaced
    though Windlass did not write it, unless it is one of these, or of a store.
    """
    check_place(path, inputs)
    name = repr(str(path))
    with _errors(path):
        if path.is_dir():
            raise UsageError(f"{name} cannot be written: it is a folder")
        if force or not os.path.lexists(path) or _is_stream(path) or _is_ours(path):
            return
    what = "is a link" if path.is_symlink() else "is there already, and Windlass did not write it"
    raise UsageError(f"{name} {what}: name another file, or replace it with --force")


def write_output(
    path: Path, pieces: Iterable[str], inputs: Iterable[Path] = (), *, force: bool = False
) -> None:
    """Write the file that a user named, whole or not at all. Raises UsageError, as the check does.

    It is written beside and renamed, so a failure leaves what was there. A link is replaced.
    """
    check_output(path, inputs, force=force)
    encoded = (piece.encode() for piece in pieces)
    with _errors(path):
        if _is_stream(path):
            with path.open("wb") as file:
                file.writelines(encoded)
        else:
            replace(path, encoded)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Tell in a sentence what the system says of a file. Raises UsageError."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:  # also links in a circle, NUL in a name
        reason = getattr(error, "strerror", None) or str(error)
        if not os.path.isdir(path.parent):  # noqa: PTH112 - which never raises
            reason = f"there is no folder {str(path.parent)!r}"
        raise UsageError(f"{str(path)!r} cannot be written: {reason}") from error


def _is_stream(path: Path) -> bool:
    """Return whether it is a pipe or a terminal, which holds nothing that could be lost."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
    return False


def _is_ours(path: Path) -> bool:
    """Return whether Windlass wrote what is there, or nothing is in it."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return not head or any(line in _MARKS for line in head.splitlines()[:2])


def _is_among(path: Path, given: Path, *, is_ours: bool) -> bool:
    """Return whether a file is the given one, by any name, or one of the given folder."""
    if not os.path.isdir(given):  # noqa: PTH112 - which never raises: it may be no path at all
        return _is_same(path, given)
    return not is_ours and any(_is_same(path, each) for each in _files_under(given))


def _files_under(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.samefile(other)
    return False
