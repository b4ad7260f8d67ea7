"""The page of a session's costs: its phases, the messages that cost most, and what was saved."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import price_source, rate
from windlass_inspector._inspector import Inspector
from windlass_inspector._plots import sums_of

_WAIT_S: Final = 1.0
"""Seconds that the page waits for the bills, which are all it shows."""


def costs_page(inspector: Inspector, request: Request) -> Response:
    """Return what a session cost, with all sessions under it."""
    session = inspector.session(request)
    if not inspector.billed(session, _WAIT_S):
        return inspector.respond("waiting.html", session, tab="costs", what="The bills")
    report = session.report
    sent = [call.dollars or 0.0 for call in report.calls]
    everything = [call.snowball_dollars or 0.0 for call in report.calls]
    series = [("as sent", sent)]
    if not report.costs.is_everything:
        series.append(("sending everything", everything))
    sources = {
        model: f"{name}: {price_source(name)}" if rate(name) else f"{name} has no price"
        for model, name in report.costs.priced_as.items()
    }
    return inspector.respond(
        "costs.html",
        session,
        report=report,
        costs=report.costs,
        plot=sums_of(series, is_money=True),
        sources=sources,
        saved=sum(each.dollars for each in report.savings),
    )
