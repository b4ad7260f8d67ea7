"""What all pages share: the store, the sessions that were read, the head of each page.

Sessions that were read, kept as long as they do not grow; and what is worked out beside pages.

A long session takes most of a second to read, so that the last few stay. Its bills take another
second: they are begun when its first page is asked for, and a page waits for them a moment only.
"""

# Names of views are constants, and values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillBusy
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Lock, RLock
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from windlass.public import (
    CHAT,
    IMPORTED,
    OPERATORS,
    RAN,
    InspectedSession,
    SessionStart,
    Store,
    evidence_text,
    in_words,
    many,
    words_in,
)
from windlass_inspector._rendering import name_in, page

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
        """Return a session as it is now, or was a moment ago.

        Raises UsageError for an unknown one.
        """
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
        """Return what `work` gives, which goes by `name`, done beside pages.

        None: it still goes on.

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


_WAIT_S: Final = 0.25
"""Seconds that a page waits for what is worked out beside it."""
_DIGITS: Final = 8
"""Digits of the numbers in addresses."""
_LONG: Final = 1_500
"""Rows from which on a session's bills take longer than that."""


@dataclass(frozen=True, slots=True)
class Inspector:
    """A store that is looked at.

    `price_as` is the model at whose prices those are told that cost nothing; `losses` are sentences
    about messages that the store has lost.
    """

    store: Store
    shelf: SessionShelf
    price_as: str
    losses: list[str] = field(default_factory=list[str])

    def session(self, request: Request) -> InspectedSession:
        """Return the session whose page is asked for. Raises UsageError where there is none."""
        return self.shelf.open(name_in(request.path_params["session"]))

    def billed(self, session: InspectedSession, wait_s: float | None = None) -> bool:
        """Return whether a session's bills are worked out; they are begun where not.

        The page waits for them a moment, and for those of a long session not at all.
        """
        if wait_s is None:
            wait_s = _WAIT_S if len(session.record.rows) < _LONG else 0.0

        def work() -> bool:
            return bool(session.report) and session.breaks is not None

        return self.shelf.later(session, "bills", work, wait_s) is not None

    def respond(
        self,
        template: str,
        session: InspectedSession | None,
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> Response:
        """Return a page, about a session where one is given."""
        head = {} if session is None else {"head": head_of(session)}
        lost = ""
        if self.losses:
            lost = (
                f"The store has lost {many(len(self.losses), 'message')}, which are marked where"
                " they stood: windlass verify says more."
            )
        return HTMLResponse(page(template, {"lost": lost, **head, **values}))


def shares_saved(store: Store, root_of: Mapping[str, str]) -> Mapping[str, float]:
    """Return the share of everything that the calls of each root did not send, by our count."""
    if not root_of:
        return {}
    marks = ", ".join("?" * len(root_of))
    rows = store.query(
        "SELECT session_id, sum(sent_tokens) AS sent, sum(snowball_tokens) AS whole"
        f" FROM call_list WHERE session_id IN ({marks}) GROUP BY session_id",
        list(root_of),
    )
    sums: dict[str, list[int]] = {}
    for row in rows:
        of_root = sums.setdefault(root_of[row["session_id"]], [0, 0])
        of_root[0] += row["sent"]
        of_root[1] += row["whole"]
    return {name: 1 - sent / whole for name, (sent, whole) in sums.items() if whole}


def number_in(text: str) -> int | None:
    """Return a whole number in an address; None: it is none, or has more than eight digits."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def kind_of(start: SessionStart) -> str:
    """Return what a session is of: `run`, `task`, `chat` or `imported`."""
    if IMPORTED in start.cascade:
        return "imported"
    if OPERATORS in start.cascade:
        return "task"
    phases: Sequence[Mapping[str, Any]] = start.cascade.get("phases") or ({},)
    return "chat" if phases[-1].get("instructions") == CHAT else "run"


def told_as(session: InspectedSession) -> str:
    """Return the models at whose prices calls are told that cost nothing.

    Empty: there are none.
    """
    models = {call.model for call in session.view.calls}
    return ", ".join(sorted({session.priced_model(model) for model in models} - models))


def head_of(session: InspectedSession) -> Mapping[str, Any]:
    """Return what stands at the top of each page of a session."""
    view, start, rows = session.view, session.record.start, session.record.rows
    return {
        "id": view.session_id,
        "title": words_in(rows, 90) or view.cascade_id,
        "kind": kind_of(start),
        "cascade": view.cascade_id,
        "models": view.model,
        "told_as": told_as(session),
        "began": start.timestamp,
        "state": in_words(view.status, view.reason),
        "is_running": view.status == "running",
        "error": view.error,
        "evidence": evidence_text(start.cascade),
        "parent": view.parent_id,
        "parent_phase": view.parent_phase,
        "sounding": view.sounding_index,
        "forked_from": view.forked_from,
        "is_run": RAN in start.cascade,
        "resume": view.resume,
        "calls": len(view.calls),
        "under": len(view.children),
        "rows": len(rows),
        "has_soundings": session.has_soundings,
    }
