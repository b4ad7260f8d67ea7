"""Where blobs lie: one small protocol, kept by a folder (`blobs.py`) or by an object store.

An object store is whatever `obstore` opens: S3 and what speaks like it, Google's, Azure's.
An object's name is `aa/<sha256>`, as in a folder. Nothing here knows a message or a database.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from windlass.errors import StoreError, UsageError
from windlass.history.blobs import TEMPORARY, Blobs, make_folder, open_private, sync_folder
from windlass.imports import logging_unchanged
from windlass.redaction import redacted

_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class BlobPlace(Protocol):
    """A place that keeps bytes by their SHA-256. Methods raise OSError where it fails."""

    on_lost: Callable[[str], None] | None
    """Told of each message that cannot be read, where who reads takes a stand-in for it."""

    def has(self, sha256: str) -> bool:
        """Whether there is a blob of that name; its bytes are not looked at."""
        ...

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name, safe when this returns; `renew`: also make young what is there.

        The answer are the names of those that were there with other bytes.
        """
        ...

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """The bytes; FileNotFoundError: none; with `check` ValueError where they are changed."""
        ...

    def link(self, sha256: str, name: Path) -> None:
        """Make a visible local file of the blob."""
        ...

    def list(self) -> Iterator[str]:
        """The names of all blobs, in no order."""
        ...

    def size(self, sha256: str) -> int:
        """The size in bytes."""
        ...

    def written(self, sha256: str) -> float:
        """When it was last written or renewed, in seconds since 1970."""
        ...

    def renew(self, sha256: str) -> None:
        """Make it as young as one just written; FileNotFoundError where there is none."""
        ...

    def digest(self, sha256: str) -> str:
        """The SHA-256 that its bytes really have."""
        ...

    def remove(self, sha256: str) -> None:
        """Remove it; one that is not there is no error."""
        ...

    def remove_unfinished(self, before: float) -> None:
        """Remove what killed processes left half written before that time."""
        ...


def open_blobs(place: str, folder: Path) -> BlobPlace:
    """The blobs at `place`: the address of an object store, or a folder (relative to `folder`).

    Raises UsageError for an address of another kind, and where the library is missing.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return Blobs(folder / Path(place).expanduser())
    if scheme not in _SCHEMES:
        raise UsageError(
            f"blobs={redacted(place)!r}: {scheme!r} is no kind of object store; "
            "expected a folder or one of " + ", ".join(f"{name}://" for name in _SCHEMES)
        )
    return ObjectBlobs(place)


class ObjectBlobs:
    """Blobs in an object store. Keys and region come from the environment, as its vendor's do.

    An object is there whole or not at all, which is what object stores promise.
    """

    def __init__(self, address: str) -> None:
        self.address = redacted(address)
        self.on_lost: Callable[[str], None] | None = None
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
            raise UsageError(f"blobs={self.address!r} cannot be used ({_words(error)})") from error

    def _name(self, sha256: str) -> str:
        return f"{sha256[:2]}/{sha256}"

    def _do(self, name: str, *values: Any, **options: Any) -> Any:
        try:
            return getattr(self._obstore, name)(self._store, *values, **options)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise StoreError(
                f"the object store {self.address} failed ({_words(error)}): see that it answers, "
                "that the bucket exists and that the environment has its keys"
            ) from error

    def has(self, sha256: str) -> bool:
        """Whether there is an object of that name."""
        try:
            self._do("head", self._name(sha256))
        except FileNotFoundError:
            return False
        return True

    def write(self, blobs: Mapping[str, bytes], *, renew: bool = False) -> Collection[str]:
        """Store blobs by name; `renew` puts those again that are there."""
        for sha, data in blobs.items():
            if renew or not self.has(sha) or self.size(sha) != len(data):
                self._do("put", self._name(sha), data)
        return ()

    def read(self, sha256: str, *, check: bool = True) -> bytes:
        """The bytes of a blob."""
        data = bytes(self._do("get", self._name(sha256)).bytes())
        if check and hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"the bytes of blob {sha256} are not those it is named after")
        return data

    def link(self, sha256: str, name: Path) -> None:
        """Write a local copy: people and tools look at files."""
        make_folder(name.parent)
        temporary = name.with_name(f".{name.name}.{os.urandom(6).hex()}{TEMPORARY}")
        try:
            with os.fdopen(open_private(temporary), "wb") as file:
                file.write(self.read(sha256))
            temporary.replace(name)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(name.parent)

    def list(self) -> Iterator[str]:
        """The names of all blobs."""
        for portion in self._do("list"):
            for entry in portion:
                name = str(entry["path"]).rpartition("/")[2]
                if _NAME.fullmatch(name):
                    yield name

    def size(self, sha256: str) -> int:
        """The size of a blob in bytes."""
        return int(self._do("head", self._name(sha256))["size"])

    def written(self, sha256: str) -> float:
        """When it was last put."""
        return float(self._do("head", self._name(sha256))["last_modified"].timestamp())

    def renew(self, sha256: str) -> None:
        """Put it once more: an object's time cannot be set."""
        self._do("put", self._name(sha256), self.read(sha256))

    def digest(self, sha256: str) -> str:
        """The SHA-256 of what is stored under that name."""
        return hashlib.sha256(self.read(sha256, check=False)).hexdigest()

    def remove(self, sha256: str) -> None:
        """Remove a blob; one that is not there is no error."""
        try:
            self._do("delete", self._name(sha256))
        except FileNotFoundError:
            return

    def remove_unfinished(self, before: float) -> None:
        """Nothing: an object store shows no unfinished objects."""


def _words(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]
