"""Bytes by their SHA-256, in a folder (`blobs/aa/<sha256>`) or in an object store.

In a folder a file is there whole or not at all: it is written under another name, synced,
renamed, and its folder synced. An object store is whatever `obstore` opens: S3 and what speaks
like it, Google's, Azure's. This module knows no message and no database.

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
from typing import Any, Final, TypeAlias

from windlass.errors import StoreError, UsageError
from windlass.history.base import NodeType
from windlass.messages import Message, Role, Text
from windlass.safety.imports import logging_unchanged
from windlass.safety.own_files import (
    PRIVATE_FILE,
    TEMPORARY,
    linked_part,
    make_folder,
    replace,
    sync_folder,
    temporary_beside,
)
from windlass.safety.redaction import redacted

_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)
_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_NAME: Final = re.compile(r"[0-9a-f]{64}")

_READ_ONLY: Final = 0o400


def file_digest(path: Path) -> str:
    """Return SHA-256 of a file's bytes, in hex. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(sha256: str, data: bytes) -> bytes:
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


def _visible(folder: Path, name: str) -> Path:
    """Where a visible name lies, in a folder that is there and no link."""
    path = folder / name
    make_folder(path.parent, folder)
    return path


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
        return _checked(sha256, data) if check else data

    def link(self, sha256: str, folder: Path, name: str) -> None:
        """Give the blob a visible `name` in `folder`: a hard link, or a copy where there are none.

        A file of that name is replaced: it can only be the rest of a step that was
        never recorded. Raises StoreError for a name that leads out of the folder.
        """
        path = _visible(folder, name)
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


class ObjectBlobs:
    """Blobs in an object store, named as in a folder: each method does what it does in `Blobs`.

    Keys and region come from the environment, as its vendor's do. An object is there whole or
    not at all, which is what object stores promise.
    """

    on_lost: Callable[[str], None] | None = None

    def __init__(self, address: str) -> None:
        self.address = redacted(address)
        try:
            with logging_unchanged("obstore"):
                import obstore
                from obstore.store import from_url
        except ImportError as error:
            raise UsageError(
                f"blobs={self.address!r} needs obstore: pip install 'windlass[objects]'"
            ) from error
        self._obstore: Any = obstore
        try:
            self._store: Any = from_url(address)
        except Exception as error:
            reason = _first_line(error)
            raise UsageError(f"blobs={self.address!r} cannot be used ({reason})") from error

    def _do(self, method: str, *values: Any) -> Any:
        try:
            return getattr(self._obstore, method)(self._store, *values)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise StoreError(
                f"the object store {self.address} failed ({_first_line(error)}): see that it "
                "answers, that the bucket exists and that the environment has its keys"
            ) from error

    def _do_for(self, method: str, sha256: str, *values: Any) -> Any:
        return self._do(method, f"{sha256[:2]}/{sha256}", *values)

    def has(self, sha256: str) -> bool:
        """Return whether there is an object of that name."""
        try:
            self._do_for("head", sha256)
        except FileNotFoundError:
            return False
        return True

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name; `renew` puts those again that are there."""
        for sha, data in blobs.items():
            if renew or not self.has(sha) or self.size(sha) != len(data):
                self._do_for("put", sha, data)
        return ()

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """Return the bytes of a blob."""
        data = bytes(self._do_for("get", sha256).bytes())
        return _checked(sha256, data) if check else data

    def link(self, sha256: str, folder: Path, name: str) -> None:
        """Write a local copy: people and tools look at files."""
        replace(_visible(folder, name), [self.read(sha256)], PRIVATE_FILE, durable=True)

    def list(self) -> Iterator[str]:
        """Yield the names of all blobs."""
        for portion in self._do("list"):
            for entry in portion:
                name = str(entry["path"]).rpartition("/")[2]
                if _NAME.fullmatch(name):
                    yield name

    def size(self, sha256: str) -> int:
        """Return the size of a blob in bytes."""
        return int(self._do_for("head", sha256)["size"])

    def written(self, sha256: str) -> float:
        """When it was last put."""
        return float(self._do_for("head", sha256)["last_modified"].timestamp())

    def renew(self, sha256: str) -> None:
        """Put it once more: an object's time cannot be set."""
        self._do_for("put", sha256, self.read(sha256))

    def digest(self, sha256: str) -> str:
        """Return the SHA-256 of what is stored under that name."""
        return hashlib.sha256(self.read(sha256, check=False)).hexdigest()

    def remove(self, sha256: str) -> None:
        """Remove a blob; one that is not there is no error."""
        with suppress(FileNotFoundError):
            self._do_for("delete", sha256)

    def remove_unfinished(self, before: float) -> None:
        """Nothing: an object store shows no unfinished objects."""


BlobPlace: TypeAlias = Blobs | ObjectBlobs


def open_blobs(place: str, folder: Path) -> BlobPlace:
    """Get the blobs at `place`: the address of an object store, or a folder (relative to `folder`).

    Raises UsageError for an address of another kind, and where the library is missing.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return Blobs(folder / Path(place).expanduser())
    if scheme not in _SCHEMES:
        raise UsageError(
            f"blobs={redacted(place)!r}: {scheme!r} is not a kind of object store; "
            "expected a folder or one of " + ", ".join(f"{name}://" for name in _SCHEMES)
        )
    return ObjectBlobs(place)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]


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
