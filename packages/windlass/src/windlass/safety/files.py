"""Files that others wrote or named: they are found, opened and read here.

What stands under a name may be a device, a pipe, a link that leads elsewhere, or have no end. So
only regular files are opened, nothing waits for one, and no more is read than the caller takes.
Where folders are given, a file must lie in one of them, whatever links lead to it: no folder or
link that is exchanged meanwhile leads out.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from windlass.safety.own_files import in_a_store

PROMPT_BYTES: Final = 1_000_000
"""Bytes of a text that is named to stand in a request."""
MOST_BYTES: Final = 10_000_000
"""Bytes of a text that is read as a whole, where nothing else is said."""

_FLAGS: Final[int] = sum(
    getattr(os, name, 0) for name in ("O_RDONLY", "O_BINARY", "O_NONBLOCK", "O_NOCTTY")
)
_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final[int] = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)


class UnreadableError(ValueError):
    """A file is not read. The text is the clause that follows its name."""


class MissingFileError(UnreadableError):
    """There is no such file."""


def is_open(folder: Path, real: Path, *, hidden: bool = False) -> bool:
    """Whether what lies at a real path in a folder may be looked at by those who name files in it.

    Stores of Windlass are nobody's business, nor names that begin with a dot, but for `hidden`.
    """
    folder = folder.resolve()
    if not real.is_relative_to(folder) or in_a_store(folder, real):
        return False
    return hidden or not any(part.startswith(".") for part in real.relative_to(folder).parts)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file, `most` of them at most. Raises UnreadableError."""
    with open_file(path) as file:
        return _read(file, most)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file of at most `most` bytes. Raises UnreadableError."""
    return _text(read_bytes(path, most))


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders in which files must lie that a cascade, a task or a model names.

    Names are relative to the first.
    """

    paths: tuple[Path, ...] = (Path(),)
    outside: str = "lies outside the folder of the cascade; move the file there"
    """What is said of a file elsewhere, behind its name."""
    hidden: bool = False
    """Whether names that begin with a dot are open, too."""

    def with_first(self, folder: Path) -> Folders:
        """Return these and another one, which names are relative to."""
        return replace(self, paths=(folder, *self.paths))

    def at(self, name: str | Path) -> Path:
        """Return the path that a name stands for."""
        return self.paths[0] / name

    def find(self, name: str | Path) -> Path:
        """Return the real path that a name stands for, whether or not anything is there.

        Raises UnreadableError for one that lies outside, or is open to nobody.
        """
        return self._find(name)[0]

    def holds(self, name: str | Path) -> bool:
        """Return whether a name stands for a path that `find` gives."""
        try:
            self.find(name)
        except UnreadableError:
            return False
        return True

    def open(self, name: str | Path) -> BinaryIO:
        """Return the file that a name stands for, to read from. Raises UnreadableError."""
        return open_file(*self._find(name))

    def read_bytes(self, name: str | Path, most: int = MOST_BYTES) -> bytes:
        """Return the bytes of a file, `most` of them at most. Raises UnreadableError."""
        with self.open(name) as file:
            return _read(file, most)

    def read_text(self, name: str | Path, most: int = MOST_BYTES) -> str:
        """Return the text of a file of at most `most` bytes. Raises UnreadableError."""
        return _text(self.read_bytes(name, most))

    def _find(self, name: str | Path) -> tuple[Path, Path]:
        """Return the real path of a file, and that of the folder it lies in."""
        try:
            real = Path(os.path.realpath(self.at(name)))
            around = [each for each in map(_real, self.paths) if real.is_relative_to(each)]
            open_to = (each for each in around if is_open(each, real, hidden=self.hidden))
            folder = next(open_to, None)
        except (OSError, ValueError) as error:  # a name that no file can have
            raise _unreadable(error) from error
        if folder is not None:
            return real, folder
        if not around:
            raise UnreadableError(self.outside)
        if in_a_store(around[0], real):
            raise UnreadableError("lies in a store of Windlass, and is not open here")
        raise UnreadableError("is hidden (a name that begins with a dot), and is not open here")


def in_root(root: Path, *, hidden: bool = False) -> Folders:
    """Return the folder in which tools work, `hidden` as in `Folders`."""
    return Folders((root,), f"leads out of the folder {str(root)!r} (--root)", hidden)


HERE: Final = Folders()
"""The current folder alone."""


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def open_file(path: Path, within: Path | None = None) -> BinaryIO:
    """Return a regular file to read from.

    Where `within` is given, both are real paths, and no link is followed between them. Raises
    UnreadableError.
    """
    try:
        _check_kind(path.stat().st_mode)  # opening a device may already do something
        file = os.fdopen(_handle(path, within), "rb")
        try:
            _check_kind(os.fstat(file.fileno()).st_mode)
        except UnreadableError:
            file.close()
            raise
    except UnreadableError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError("is not there") from error
    except (OSError, ValueError) as error:  # a name that no file can have
        raise _unreadable(error) from error
    return file


def _unreadable(error: OSError | ValueError) -> UnreadableError:
    reason = getattr(error, "strerror", None) or str(error)
    return UnreadableError(f"cannot be read ({reason})")


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UnreadableError(f"cannot be read ({os.strerror(errno.EISDIR)})")
    if not stat.S_ISREG(mode):
        raise UnreadableError("is not a regular file")


def _handle(path: Path, within: Path | None) -> int:
    if within is None or os.open not in os.supports_dir_fd:
        return os.open(path, _FLAGS)
    *above, name = path.relative_to(within).parts
    at = os.open(within, _FOLDER)
    try:
        for part in above:
            below = os.open(part, _FOLDER | _NO_FOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _FLAGS | _NO_FOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _read(file: BinaryIO, most: int) -> bytes:
    try:
        data = file.read(most + 1)
    except OSError as error:
        raise _unreadable(error) from error
    if len(data) > most:
        raise UnreadableError(f"has more than {most:,} bytes")
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start})") from error
