"""The first page of a session: what to shorten, drop or keep, and its calls with their money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import (
    Call,
    Charge,
    InspectedSession,
    Note,
    PrefixBreak,
    charges_of,
    roots_of,
    total_of,
)
from windlass_inspector._inspector import Inspector, number_in, shares_saved
from windlass_inspector._plots import bars_of

_CALLS: Final = 200
"""Calls of a page."""
_NOTES: Final = 40
"""Notes that are told."""
_BREAKS: Final = 5
"""Breaks of the prefix that are told besides the first, the dearest."""


def session_page(inspector: Inspector, request: Request) -> Response:
    """Return what a session says of itself, and a part of its calls."""
    session = inspector.session(request)
    calls = session.view.calls
    advice = session.advice  # before the bills, which would take the processor from it
    is_billed = inspector.billed(session)
    begin = _begin(request, len(calls))
    return inspector.respond(
        "session.html",
        session,
        {
            "advice": advice,
            "is_billed": is_billed,
            "totals": _totals(session, is_billed=is_billed),
            "report": session.report if is_billed else None,
            "breaks": _breaks(session.breaks) if is_billed else None,
            "plot": bars_of([_dollars(session, call, is_billed=is_billed) for call in calls]),
            "calls": [
                (call, _dollars(session, call, is_billed=is_billed))
                for call in calls[begin : begin + _CALLS]
            ],
            "begin": begin,
            "step": _CALLS,
            "view": session.view,
            "notes": _told(session.view.notes)[:_NOTES],
            "notes_left": max(0, len(_told(session.view.notes)) - _NOTES),
        },
    )


def _begin(request: Request, calls: int) -> int:
    """Return the first call of the page, from 0."""
    at = number_in(request.query_params.get("from", "")) or 0
    return min(at, max(0, calls - 1)) // _CALLS * _CALLS


def _dollars(session: InspectedSession, call: Call, *, is_billed: bool) -> float | None:
    """Return what a call cost; where its model costs nothing, once that is worked out."""
    if is_billed and call.number in session.costs:
        return session.costs[call.number].dollars
    return call.cost or None


def _totals(session: InspectedSession, *, is_billed: bool) -> dict[str, Any]:
    """Give the figures at the top of the page, with all sessions under it, as the list has them."""
    name = session.session_id
    root_of = roots_of([name], session.view.children)
    everything = None
    if is_billed:
        costs = session.report.costs.total
        total: Charge = costs
        dollars, everything = costs.dollars, costs.snowball_dollars
    else:
        # What calls of free models would cost elsewhere is worked out with the bills.
        charges = charges_of(session.store, list(root_of), session.price_as, lambda _: {})
        total = total_of(charge for _, charge in charges)
        dollars = None if total.notional else total.dollars
    if session.view.children:
        saved = shares_saved(session.store, root_of).get(name)
    else:
        whole = sum(call.snowball_tokens for call in session.view.calls)
        sent = sum(call.sent_tokens for call in session.view.calls)
        saved = 1 - sent / whole if whole else None
    return {
        "charge": total,
        "saved": saved,
        "dollars": dollars,
        "everything": everything,
    }


def _breaks(breaks: Sequence[PrefixBreak]) -> dict[str, Any]:
    """Return the first break, the dearest others, and the sum of all."""
    dearest = sorted(breaks[1:], key=lambda each: each.dollars or 0.0, reverse=True)
    known = [each.dollars for each in breaks if each.dollars is not None]
    return {
        "first": breaks[0] if breaks else None,
        "dearest": dearest[:_BREAKS],
        "count": len(breaks),
        "tokens": sum(each.tokens for each in breaks),
        "dollars": sum(known) if known else None,
    }


def _told(notes: Sequence[Note]) -> Sequence[Note]:
    """Return the notes that say something; choices of windows stand with their calls."""
    return [note for note in notes if note.node_type != "context_selection" and note.text]
