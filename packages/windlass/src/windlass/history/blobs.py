"""Bytes by their SHA-256, in a folder (`blobs/aa/<sha256>`) or in a place that a plugin knows.

In a folder a file is there whole or not at all: it is written under another name, synced,
renamed, and its folder synced. This module knows no database.

What stands in the place of a message whose text is missing or changed, for who looks back.

A run never gets one: there it is a StoreError.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from windlass.errors import StoreError
from windlass.history.base import NodeType
from windlass.messages import Message, Role, Text
from windlass.safety.own_files import (
    PRIVATE_FILE,
    TEMPORARY,
    linked_part,
    make_folder,
    replace,
    sync_folder,
    temporary_beside,
)

_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)
BLOB_NAME: Final = re.compile(r"[0-9a-f]{64}")

_READ_ONLY: Final = 0o400


def file_digest(path: Path) -> str:
    """Return SHA-256 of a file's bytes, in hex. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(sha256: str, data: bytes) -> bytes:
    """Return the bytes of a blob. Raises ValueError where they are not those it is named after."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"the bytes of blob {sha256} are not those it is named after")
    return data


def visible_files(folder: Path) -> list[Path]:
    """Return the files in the places where a store keeps visible names; none in a linked folder."""
    found = [*folder.glob("images/*/*/*image_*"), *folder.glob("storage/tool_results/*.json")]
    return [path for path in found if linked_part(path.parent, folder) is None]


def remove_visible(folder: Path, names: Collection[str]) -> None:
    """Remove every visible file that is not among `names`, and folders left empty."""
    for path in visible_files(folder):
        if path.relative_to(folder).as_posix() not in names:
            path.unlink(missing_ok=True)
    for level in ("images/*/*", "images/*"):
        for path in folder.glob(level):
            if linked_part(path, folder) is None and path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def visible_place(folder: Path, name: str) -> Path:
    """Where a visible name lies, in a folder that is there and no link."""
    path = folder / name
    make_folder(path.parent, folder)
    return path


class BlobPlace(Protocol):
    """Where blobs lie: each method does what it does in `Blobs`, which are those of a folder."""

    on_lost: Callable[[str], None] | None

    def has(self, sha256: str) -> bool:
        """Return whether there is a blob of that name."""
        ...

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name; return those that were damaged before. `renew`: put them again."""
        ...

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """Return the bytes of a blob. Raises FileNotFoundError, and ValueError for damaged ones."""
        ...

    def link(self, sha256: str, folder: Path, name: str) -> None:
        """Give a blob a visible name in a folder."""
        ...

    def list(self) -> Iterator[str]:
        """Yield the names of all blobs."""
        ...

    def size(self, sha256: str) -> int:
        """Return the size of a blob in bytes."""
        ...

    def written(self, sha256: str) -> float:
        """Return when a blob was last put, in seconds since 1970."""
        ...

    def renew(self, sha256: str) -> None:
        """Make a blob as young as one that is put now."""
        ...

    def digest(self, sha256: str) -> str:
        """Return the SHA-256 of what is stored under a name."""
        ...

    def remove(self, sha256: str) -> None:
        """Remove a blob; one that is not there is no error."""
        ...

    def remove_unfinished(self, before: float) -> None:
        """Remove what was never finished, begun before a time in seconds since 1970."""
        ...


class Blobs:
    """The blobs under `root` (`<store>/blobs`). Every method may raise OSError.

    No folder between `within`, which is the root or lies above it, and a blob may be a link: to
    write through one raises StoreError, and there are no blobs behind it.
    """

    on_lost: Callable[[str], None] | None = None
    """Called with each message that cannot be read, when a stand-in is read in its place."""

    def __init__(self, root: Path, within: Path | None = None) -> None:
        self.root = root
        self._within = within or root

    def path(self, sha256: str) -> Path:
        """Where the blob lies, or would lie."""
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Return whether a file of that name is there; its bytes are not looked at."""
        path = self.path(sha256)
        return path.is_file() and linked_part(path, self._within) is None

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name; when this returns they survive a loss of power.

        The caller vouches that each name is the SHA-256 of its bytes. What is there
        already stays, unless its bytes are others (by a bad disk, or by other hands);
        the names of those are the answer. With `renew` what stays becomes as young as
        what is written now.
        """
        damaged: list[str] = []
        for sha, data in blobs.items():
            path = self.path(sha)
            make_folder(path.parent, self._within)
            if path.is_symlink() or path.exists():
                if renew and not path.is_symlink():
                    with suppress(FileNotFoundError):
                        self.renew(sha)
                if (
                    not path.is_symlink()
                    and path.stat().st_size == len(data)
                    and file_digest(path) == sha
                ):
                    # Another process may have renamed it a moment ago and not yet synced the
                    # folder: our record must not name what a loss of power could still take.
                    sync_folder(path.parent)
                    continue
                damaged.append(sha)
            # Read-only from birth: visible names are links to this very file, and what a
            # person writes into one of them would change the record.
            replace(path, [data], _READ_ONLY, durable=True)
        return damaged

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """Return the bytes of a blob.

        With `check` they are hashed, and ValueError is raised when they are not what
        the name says. Raises FileNotFoundError where there is no such blob.
        """
        if not self.has(sha256):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path(sha256)))
        data = self.path(sha256).read_bytes()
        return check_digest(sha256, data) if check else data

    def link(self, sha256: str, folder: Path, name: str) -> None:
        """Give the blob a visible `name` in `folder`: a hard link, or a copy where there are none.

        A file of that name is replaced: it can only be the rest of a step that was
        never recorded. Raises StoreError for a name that leads out of the folder.
        """
        path = visible_place(folder, name)
        temporary = temporary_beside(path)
        try:
            os.link(self.path(sha256), temporary)
            temporary.replace(path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            replace(path, [self.read(sha256, check=False)], PRIVATE_FILE, durable=True)
        finally:
            # POSIX leaves the first name where both are links to one file.
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    def list(self) -> Iterator[str]:
        """Yield the names of all blobs, in no order; temporary files are left out."""
        for path in self._files("*"):
            if not path.name.endswith(TEMPORARY):
                yield path.name

    def remove_unfinished(self, before: float) -> None:
        """Remove what killed processes left half written before that time (seconds since 1970)."""
        for path in self._files(f".*{TEMPORARY}"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _files(self, names: str) -> Iterator[Path]:
        """Yield the files of such names beside the blobs; none in a linked folder."""
        for folder in self.root.glob("??"):
            if linked_part(folder, self._within) is None:
                yield from folder.glob(names)

    def size(self, sha256: str) -> int:
        """Return the size of a blob in bytes."""
        return self.path(sha256).stat().st_size

    def written(self, sha256: str) -> float:
        """When the blob was written or renewed, in seconds since 1970."""
        return self.path(sha256).stat().st_mtime

    def renew(self, sha256: str) -> None:
        """Make the blob as young as one just written."""
        os.utime(self.path(sha256))

    def digest(self, sha256: str) -> str:
        """Return the SHA-256 that the bytes of the blob really have."""
        return file_digest(self.path(sha256))

    def remove(self, sha256: str) -> None:
        """Remove a blob; one that is not there is no error."""
        self.path(sha256).unlink(missing_ok=True)


_ROLES: Final[dict[str, Role]] = {
    NodeType.SYSTEM: "system",
    NodeType.AGENT: "assistant",
    NodeType.FOLLOW_UP: "assistant",
    NodeType.TOOL_RESULT: "tool",
}


@dataclass(frozen=True)
class LostMessage(Message):
    """A message that says why the one it stands for cannot be read, and has the key of that one."""

    @classmethod
    def of(cls, key: str, why: str, role: Role = "user") -> LostMessage:
        """Return the stand-in for the message with this key."""
        message = cls(role, (Text(f"[message {key[:16]} cannot be read: {why}]"),))
        message.__dict__["key"] = key  # else it would be worked out from this text
        return message

    def in_row(self, node_type: str) -> LostMessage:
        """Return the same in the role that messages of such a row have."""
        message = LostMessage(_ROLES.get(node_type, self.role), self.parts)
        message.__dict__["key"] = self.key
        return message


def tell_once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return `tell`, for texts that it has not heard."""
    heard: set[str] = set()

    def hear(text: str) -> None:
        if text not in heard:
            heard.add(text)
            tell(text)

    return hear


def damage_error(what: str) -> StoreError:
    """Return the error for a piece of the record that is not what it should be."""
    return StoreError(f"{what}: the store is damaged, run `windlass verify` to see how")


def stand_in_for(key: str, why: str, blobs: BlobPlace, what: str = "file") -> LostMessage:
    """Return the stand-in for a message, of which `blobs` is told.

    Raises StoreError: none is wanted.
    """
    sentence = f"the {what} of message {key!r} {why}" if what else f"there is no message {key!r}"
    if blobs.on_lost is None:
        raise damage_error(sentence)
    blobs.on_lost(sentence)
    return LostMessage.of(key, f"its {what or 'row'} {key} {why}")
