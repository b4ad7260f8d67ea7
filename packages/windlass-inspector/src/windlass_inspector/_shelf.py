"""Sessions that were read, kept as long as they do not grow; and what is worked out beside pages.

A long session takes most of a second to read, so that the last few stay. Its bills take another
second: they are begun when its first page is asked for, and a page waits for them a moment only.
"""

# Names of views are constants, and values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillBusy
from contextvars import copy_context
from threading import Lock, RLock
from typing import Any, Final, NamedTuple

from windlass.public import InspectedSession, Store

_KEPT: Final = 3
"""Sessions that are kept."""
_YOUNG_S: Final = 1.0
"""Seconds for which a session that grows is not read again."""


class Size(NamedTuple):
    """How much there is of a session, which only grows, and how it stands."""

    rows: int
    outcomes: int
    status: str


class _Kept(NamedTuple):
    session: InspectedSession
    size: Size
    at: float


class SessionShelf:
    """The sessions of a store that were asked for last."""

    def __init__(self, store: Store, price_as: str) -> None:
        self._store = store
        self._price_as = price_as
        self._kept: dict[str, _Kept] = {}
        self._reading: dict[str, RLock] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="windlass-bills")
        self._work: dict[tuple[int, str], Future[Any]] = {}

    def close(self) -> None:
        """Let go of what is not worked out yet."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def size(self, session_id: str) -> Size:
        """Return how much there is of a session now."""
        counts = [
            self._store.query(
                f"SELECT count(*) AS n FROM {view} WHERE session_id = ?", [session_id]
            )
            for view in ("unified_logs", "lineage")
        ]
        rows, outcomes = (int(found[0]["n"]) for found in counts)
        return Size(rows, outcomes, self._store.session_status(session_id).status)

    def open(self, session_id: str) -> InspectedSession:
        """A session as it is now, or was a moment ago. Raises UsageError for an unknown one."""
        with self._lock:
            reading = self._reading.setdefault(session_id, RLock())
        with reading:  # one reader for all who ask at once
            kept = self._kept.get(session_id)
            if kept is not None and time.monotonic() - kept.at < _YOUNG_S:
                return kept.session
            size = self.size(session_id)
            if kept is None or kept.size != size:
                session = InspectedSession(self._store, session_id, self._price_as)
                kept = _Kept(session, size, time.monotonic())
                self._keep(session_id, kept)
            else:
                self._keep(session_id, kept._replace(at=time.monotonic()))
            return kept.session

    def _keep(self, session_id: str, kept: _Kept) -> None:
        with self._lock:
            self._kept.pop(session_id, None)
            self._kept[session_id] = kept
            while len(self._kept) > _KEPT:
                oldest = next(iter(self._kept))
                gone = id(self._kept.pop(oldest).session)
                self._reading.pop(oldest, None)
                self._work = {key: work for key, work in self._work.items() if key[0] != gone}

    def later(
        self,
        session: InspectedSession,
        name: str,
        work: Callable[[], Any],
        wait_s: float,
    ) -> Any | None:
        """What `work` gives, which goes by `name`, done beside pages; None: it still goes on.

        Raises what `work` raises.
        """
        key = id(session), name
        with self._lock:
            if key not in self._work:
                self._work[key] = self._pool.submit(copy_context().run, work)
            future = self._work[key]
        try:
            return future.result(wait_s)
        except StillBusy:
            if future.done():  # it raised the same error itself
                raise
            return None
