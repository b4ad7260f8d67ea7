"""Addresses of ClickHouse: what they say, and the store that one opens.

clickhouse://user@host:8123/database?blobs=s3://bucket/prefix
chdb://folder?database=windlass                          the engine in this process
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from windlass.public import StoreAddress, UsageError, did_you_mean, own_files, whole_number
from windlass_clickhouse.client import ClickHouseClient, Target
from windlass_clickhouse.layout import TableOptions
from windlass_clickhouse.objects import open_blobs
from windlass_clickhouse.store import ClickHouseStore

PASSWORD: Final = "WINDLASS_CLICKHOUSE_PASSWORD"  # noqa: S105 - the name of a variable

_OPTIONS: Final = {
    "clickhouse": ("blobs", "files", "secure", "ttl_days", "vectors"),
    "chdb": ("blobs", "files", "database", "ttl_days", "vectors"),
}
_DATABASE: Final = "windlass"


@dataclass(frozen=True, slots=True)
class Place:
    """An address, read. Folders are absolute.

    `blobs` is an object store's address or a folder; `files` the folder of visible files.
    """

    target: Target
    blobs: str
    files: Path
    tables: TableOptions


def open_store(
    address: StoreAddress, environ: Mapping[str, str], *, existing: bool = False
) -> ClickHouseStore:
    """Open the store at an address; `existing`: raise UsageError where there is none.

    Raises UsageError for a wrong address and a library that is not installed, StoreError.
    """
    place = read_address(address)
    return ClickHouseStore(
        ClickHouseClient(place.target, environ.get(PASSWORD)),
        open_blobs(place.blobs, place.files),
        place.files,
        options=place.tables,
        existing=existing,
    )


def read_address(store: StoreAddress) -> Place:
    """Return the parts of an address. Raises UsageError that names what is wrong with it."""
    parts = urlsplit(store.url)
    options = _options(parts, store)
    tables = TableOptions(
        ttl_days=_number(options, "ttl_days", store), vectors=_number(options, "vectors", store)
    )
    if parts.scheme == "chdb":
        path = unquote(parts.netloc + parts.path)
        if not path:
            raise _wrong(store, "it names no folder; expected chdb://folder")
        folder = (store.folder / Path(path).expanduser()).absolute()
        database = options.get("database", _DATABASE)
        if database == "default":
            raise _wrong(store, "files of this machine are tables of 'default'; name another")
        target = Target(str(store), database, path=str(folder / "engine"))
        files = _folder(store, options.get("files"), folder)
        return Place(target, options.get("blobs", str(files / "blobs")), files, tables)
    database = unquote(parts.path.strip("/"))
    if not parts.hostname or not database or "/" in database:
        expected = "clickhouse://user@host:8123/database?blobs=PLACE"
        raise _wrong(store, f"it must name a host and a database; expected {expected}")
    if "blobs" not in options:
        raise _wrong(
            store,
            "it does not say where pictures and large bodies lie; add ?blobs= with a folder that "
            "all machines share, or an object store such as s3://bucket/prefix",
        )
    secure = _switch(options, store)
    try:
        port = parts.port
    except ValueError as error:
        raise _wrong(store, f"its port is wrong ({error})") from None
    target = Target(
        str(store).partition("?")[0],
        database,
        host=parts.hostname,
        port=port or (8443 if secure else 8123),
        user=unquote(parts.username or "default"),
        secure=secure,
    )
    files = _folder(store, options.get("files"), store.folder / own_files.USUAL_STORE)
    blobs = options["blobs"]
    if "://" not in blobs:
        blobs = str(_folder(store, blobs, store.folder))
    return Place(target, blobs, files, tables)


def _options(parts: SplitResult, store: StoreAddress) -> dict[str, str]:
    names = _OPTIONS[parts.scheme]
    values: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in names:
            raise _wrong(store, f"unknown option {name!r}; {did_you_mean(name, names)}")
        if not value:
            raise _wrong(store, f"its option {name} is empty")
        values[name] = value
    return values


def _number(options: Mapping[str, str], name: str, store: StoreAddress) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    number = whole_number(value)
    if number is None or not 1 <= number <= 100_000:  # noqa: PLR2004 - a slip of the pen
        raise _wrong(store, f"{name} must be a whole number from 1 to 100,000, not {value:.40}")
    return number


def _switch(options: Mapping[str, str], store: StoreAddress) -> bool:
    match options.get("secure", "false").lower():
        case "true" | "1" | "yes":
            return True
        case "false" | "0" | "no":
            return False
        case value:
            raise _wrong(store, f"secure must be true or false, not {value!r}")


def _folder(store: StoreAddress, value: str | None, default: Path) -> Path:
    if value is None:
        return default.absolute()
    return (store.folder / Path(value).expanduser()).absolute()


def _wrong(store: StoreAddress, what: str) -> UsageError:
    return UsageError(f"the store {str(store)!r} cannot be used: {what}")
