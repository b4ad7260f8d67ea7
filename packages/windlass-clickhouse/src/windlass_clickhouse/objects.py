"""Blobs in an object store: what `obstore` opens, S3 and its like, Google's, Azure's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    BLOB_NAME,
    BlobPlace,
    Blobs,
    StoreError,
    UsageError,
    check_digest,
    logging_unchanged,
    own_files,
    redacted,
    visible_place,
)

_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


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
        return check_digest(sha256, data) if check else data

    def link(self, sha256: str, folder: Path, name: str) -> None:
        """Write a local copy: people and tools look at files."""
        own_files.replace(
            visible_place(folder, name), [self.read(sha256)], own_files.PRIVATE_FILE, durable=True
        )

    def list(self) -> Iterator[str]:
        """Yield the names of all blobs."""
        for portion in self._do("list"):
            for entry in portion:
                name = str(entry["path"]).rpartition("/")[2]
                if BLOB_NAME.fullmatch(name):
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


def open_blobs(place: str, folder: Path) -> BlobPlace:
    """The blobs at `place`: the address of an object store, or a folder (relative to `folder`).

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
