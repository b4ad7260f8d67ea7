"""A folder of files named by the SHA-256 of their bytes: `blobs/aa/<sha256>`.

A file is there whole or not at all: it is written under another name, synced,
renamed, and its folder synced. This module knows no message and no database.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

_Item = TypeVar("_Item")

TEMPORARY: Final = ".tmp"
"""How the names of unfinished files end; a killed process may leave some."""

_MANY: Final = 4
"""From so many files on they are synced side by side: a disk joins waiting syncs into one."""

_SURE: Final = 50_000
"""How many names are remembered as safely on the disk before the memory starts anew."""

_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a loss of power, where the system can do that."""
    if os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
"""What is recorded is its owner's alone; a stricter umask takes more away."""

_READ_ONLY: Final = 0o400


def make_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, durably, for nobody else."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    sync_folder(folder.parent)


def tighten(*paths: Path) -> None:
    """Take from others what they may do with these, as far as they are there and one's own."""
    if os.name == "nt":
        return
    for path in paths:
        with suppress(OSError):  # a medium that cannot be written stays as it is
            stat = path.stat()
            if stat.st_uid == os.geteuid() and stat.st_mode & 0o077:
                path.chmod(stat.st_mode & PRIVATE_FOLDER)


def open_private(path: Path, mode: int = PRIVATE_FILE) -> int:
    """A handle to a new file that is its owner's alone. Raises FileExistsError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def visible_files(folder: Path) -> list[Path]:
    """The files in the places where a store keeps visible names."""
    return [*folder.glob("images/*/*/image_*"), *folder.glob("storage/tool_results/*.json")]


def remove_visible(folder: Path, names: Collection[str]) -> None:
    """Remove every visible file that is not among `names`, and folders left empty."""
    for path in visible_files(folder):
        if path.relative_to(folder).as_posix() not in names:
            path.unlink(missing_ok=True)
    for level in ("images/*/*", "images/*"):
        for path in folder.glob(level):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


class Blobs:
    """The blobs under `root` (`<store>/blobs`). Every method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._sure: dict[str, tuple[int, int, int]] = {}
        self.on_lost: Callable[[str], None] | None = None

    def path(self, sha256: str) -> Path:
        """Where the blob lies, or would lie."""
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Whether a file of that name is there; its bytes are not looked at."""
        return os.path.exists(f"{self.root}/{sha256[:2]}/{sha256}")  # noqa: PTH110 - called for every body of every batch

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name; when this returns they survive a loss of power.

        The caller vouches that each name is the SHA-256 of its bytes. What is there
        already stays, unless its bytes are others (by a bad disk, or by other hands);
        the names of those are the answer. With `renew` what stays becomes as young as
        what is written now.
        """
        if renew:
            for sha in blobs:
                with suppress(FileNotFoundError):
                    self.renew(sha)
        missing = {sha: data for sha, data in blobs.items() if not self._is_stored(sha, data)}
        if not missing:
            return ()
        damaged = [sha for sha in missing if self.has(sha)]
        with ExitStack() as undo:
            written = [self._write_temporary(sha, data, undo) for sha, data in missing.items()]
            _each(os.fsync, [handle for handle, _ in written])
            for sha, (_, path) in zip(missing, written, strict=True):
                path.replace(self.path(sha))
        _each(sync_folder, {self.path(sha).parent for sha in missing})
        if len(self._sure) > _SURE:
            self._sure.clear()
        for sha in missing:
            self._sure[sha] = _seen(self.path(sha).stat())
        return damaged

    def _is_stored(self, sha256: str, data: bytes) -> bool:
        path = self.path(sha256)
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        if stat.st_size != len(data):
            return False
        if self._sure.get(sha256) != _seen(stat):
            if file_digest(path) != sha256:
                return False
            # Another process may have renamed it a moment ago and not yet synced the
            # folder: our record must not name what a loss of power could still take.
            sync_folder(path.parent)
            self._sure[sha256] = _seen(stat)
        return True

    def _make_folders(self) -> None:
        # All at once, since each would cost a sync of its own when its first blob comes.
        make_folder(self.root)
        for number in range(256):
            (self.root / f"{number:02x}").mkdir(PRIVATE_FOLDER, exist_ok=True)
        sync_folder(self.root)

    def _write_temporary(self, sha256: str, data: bytes, undo: ExitStack) -> tuple[int, Path]:
        path = self.path(sha256)
        if not path.parent.is_dir():
            self._make_folders()
        temporary = path.with_name(f".{sha256}.{os.urandom(6).hex()}{TEMPORARY}")
        # Read-only from birth: visible names are links to this very file, and what a
        # person writes into one of them would change the record.
        handle = open_private(temporary, _READ_ONLY)
        undo.callback(temporary.unlink, missing_ok=True)
        undo.callback(os.close, handle)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        return handle, temporary

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """The bytes of a blob.

        With `check` they are hashed, and ValueError is raised when they are not what
        the name says. Raises FileNotFoundError where there is no such blob.
        """
        data = self.path(sha256).read_bytes()
        if check and hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"the bytes of blob {sha256} are not those it is named after")
        return data

    def link(self, sha256: str, name: Path) -> None:
        """Give the blob a visible `name`, by a hard link, or by a copy where links do not work.

        A file of that name is replaced: it can only be the rest of a step that was
        never recorded.
        """
        make_folder(name.parent)
        temporary = name.with_name(f".{name.name}.{os.urandom(6).hex()}{TEMPORARY}")
        try:
            try:
                os.link(self.path(sha256), temporary)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with (
                    self.path(sha256).open("rb") as blob,
                    os.fdopen(open_private(temporary), "wb") as file,
                ):
                    shutil.copyfileobj(blob, file)
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(name)
        finally:
            # POSIX leaves the first name where both are links to one file.
            temporary.unlink(missing_ok=True)
        sync_folder(name.parent)

    def list(self) -> Iterator[str]:
        """The names of all blobs, in no order; temporary files are left out."""
        for path in self.root.glob("??/*"):
            if not path.name.endswith(TEMPORARY):
                yield path.name

    def remove_unfinished(self, before: float) -> None:
        """Remove what killed processes left half written before that time (seconds since 1970)."""
        for path in self.root.glob(f"??/.*{TEMPORARY}"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def size(self, sha256: str) -> int:
        """The size of a blob in bytes."""
        return self.path(sha256).stat().st_size

    def written(self, sha256: str) -> float:
        """When the blob was written or renewed, in seconds since 1970."""
        return self.path(sha256).stat().st_mtime

    def renew(self, sha256: str) -> None:
        """Make the blob as young as one just written."""
        os.utime(self.path(sha256))

    def digest(self, sha256: str) -> str:
        """The SHA-256 that the bytes of the blob really have."""
        return file_digest(self.path(sha256))

    def remove(self, sha256: str) -> None:
        """Remove a blob; one that is not there is no error."""
        self._sure.pop(sha256, None)
        self.path(sha256).unlink(missing_ok=True)


def _seen(stat: os.stat_result) -> tuple[int, int, int]:
    """What of a file changes when its bytes do."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _each(do: Callable[[_Item], None], items: Collection[_Item]) -> None:
    if len(items) < _MANY:
        for item in items:
            do(item)
        return
    # Imported here, since few batches need it and every start of the program would pay.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(do, items):
            pass  # only so that an error is raised here
