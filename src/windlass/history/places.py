"""Where a history is: a folder, or an address of ClickHouse, and the store that opens it.

    ./.windlass                                              SQLite and a folder of files
    clickhouse://user@host:8123/database?blobs=s3://bucket/prefix
    chdb://folder?database=windlass                          the engine in this process

The password never stands in an address: it is in the environment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from windlass.errors import UsageError, did_you_mean
from windlass.safety.foreign import whole_number
from windlass.safety.own_files import USUAL_STORE
from windlass.settings.fields import StoreAddress

if TYPE_CHECKING:
    from windlass.history.base import Store
    from windlass.history.clickhouse.client import Target
    from windlass.history.clickhouse.layout import TableOptions

PASSWORD: Final = "WINDLASS_CLICKHOUSE_PASSWORD"  # noqa: S105 - the name of a variable

_OPTIONS: Final = {
    "clickhouse": ("blobs", "files", "secure", "ttl_days", "vectors"),
    "chdb": ("blobs", "files", "database", "ttl_days", "vectors"),
}
_DATABASE: Final = "windlass"

_SHARED: Final[dict[tuple[int, Path], tuple[Store, int]]] = {}
"""Open stores by process and folder, with the number of those who use each."""
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Place:
    """An address, read. Folders are absolute.

    `blobs` is an object store's address or a folder; `files` the folder of visible files.
    """

    target: Target
    blobs: str
    files: Path
    tables: TableOptions


def open_place(
    store: Path | StoreAddress,
    environ: Mapping[str, str],
    *,
    existing: bool = False,
    writing: bool = False,
    reading: bool = False,
) -> Store:
    """Return the store of a store; `existing`: raise UsageError where there is none.

    A folder that exists and cannot be written is opened for reading, and not at all (StoreError)
    where `writing` is meant. Where `reading` is meant, nothing in a folder is touched.

    Raises UsageError for a wrong address, a file, and a library that is not installed.
    """
    if isinstance(store, Path):
        from windlass.history.sqlite import SqliteStore

        check_folder(store)
        if not existing:
            return SqliteStore(store)
        return SqliteStore.open_existing(store, writing=writing, reading=reading)
    from windlass.history._blobs import open_blobs
    from windlass.history.clickhouse.client import ClickHouseClient
    from windlass.history.clickhouse.store import ClickHouseStore

    place = read_address(store)
    return ClickHouseStore(
        ClickHouseClient(place.target, environ.get(PASSWORD)),
        open_blobs(place.blobs, place.files),
        place.files,
        options=place.tables,
        existing=existing,
    )


def check_folder(store: Path) -> None:
    """Raise UsageError where something else stands in the place of a folder, or of one above."""
    for place in (store, *store.parents):
        if kind := _no_folder(place):
            what = f"is {kind}" if place == store else f"lies under {str(place)!r}, which is {kind}"
            raise UsageError(f"the store {str(store)!r} {what}; name a folder with --store")


def _no_folder(place: Path) -> str:
    """Return what stands in the place of a folder.

    Empty: a folder, or nothing that can be seen.
    """
    try:
        if place.exists():
            return "" if place.is_dir() else "a file" if place.is_file() else "no folder"
    except OSError:  # whoever opens it is told
        return ""
    return "a link that leads nowhere" if place.is_symlink() else ""


@contextmanager
def shared_place(store: Path | StoreAddress, environ: Mapping[str, str]) -> Iterator[Store]:
    """The history of a store for as long as it is needed.

    Those who need a folder at the same time share one: each holds files open, and a process may
    hold only so many. Raises what `open_place` raises.
    """
    if not isinstance(store, Path):
        with open_place(store, environ) as own:
            yield own
        return
    # Of this process: connections to SQLite must not be used by a fork.
    key = os.getpid(), store.absolute()
    with _LOCK:
        if key in _SHARED:
            history, users = _SHARED[key]
        else:
            history, users = open_place(store, environ), 0
        _SHARED[key] = history, users + 1
    try:
        yield history
    finally:
        with _LOCK:
            users = _SHARED[key][1] - 1
            if users:
                _SHARED[key] = history, users
            else:
                del _SHARED[key]
                history.close()


def read_address(store: StoreAddress) -> Place:
    """Return the parts of an address. Raises UsageError that names what is wrong with it."""
    from windlass.history.clickhouse.client import Target
    from windlass.history.clickhouse.layout import TableOptions

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
    files = _folder(store, options.get("files"), store.folder / USUAL_STORE)
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
