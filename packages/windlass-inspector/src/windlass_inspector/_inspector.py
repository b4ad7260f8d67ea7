"""What all pages share: the store, the sessions that were read, the head of each page."""

# Names of views are constants, and values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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
from windlass_inspector._shelf import SessionShelf

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
        self, template: str, session: InspectedSession | None = None, **values: Any
    ) -> Response:
        """Return a page, about a session where one is given."""
        head = {} if session is None else {"head": head_of(session)}
        lost = ""
        if self.losses:
            lost = (
                f"The store has lost {many(len(self.losses), 'message')}, which are marked where"
                " they stood: windlass verify says more."
            )
        return HTMLResponse(page(template, lost=lost, **head, **values))


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
    """The models at whose prices calls are told that cost nothing (empty: there are none)."""
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
