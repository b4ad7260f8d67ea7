"""Where a history is, and the store that opens it: a folder, or an address that a plugin knows.

The password never stands in an address: it is in the environment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from windlass.errors import UsageError
from windlass.settings.fields import StoreAddress
from windlass.settings.plugins import STORES, load_plugin

if TYPE_CHECKING:
    from windlass.history.base import Store

_SHARED: Final[dict[tuple[int, Path], tuple[Store, int]]] = {}
"""Open stores by process and folder, with the number of those who use each."""
_LOCK: Final = threading.Lock()


class StoreModule(Protocol):
    """What a plugin for a kind of store announces: the module that opens it."""

    def open_store(
        self, address: StoreAddress, environ: Mapping[str, str], *, existing: bool
    ) -> Store:
        """Open the store at an address. Raises UsageError for a wrong one, StoreError.

        `existing`: raise UsageError where there is none.
        """
        ...


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
    plugin: StoreModule = load_plugin(STORES, store.scheme)
    return plugin.open_store(store, environ, existing=existing)


def check_folder(store: Path) -> None:
    """Raise UsageError where something else stands in the place of a folder, or of one above."""
    for place in (store, *store.parents):
        if kind := _no_folder(place):
            what = f"is {kind}" if place == store else f"lies under {str(place)!r}, which is {kind}"
            raise UsageError(f"the store {str(store)!r} {what}; name a folder with --store")


def _no_folder(place: Path) -> str:
    """What stands in the place of a folder (empty: a folder, or nothing that can be seen)."""
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
