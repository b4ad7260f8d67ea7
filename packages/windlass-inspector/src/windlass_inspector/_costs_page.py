"""The page of a session's costs: its phases, the messages that cost most, and what was saved.

The page of a replay: what other policies would have cost on the session's calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import (
    InspectedSession,
    Replay,
    UsageError,
    check_prices,
    conversations_of,
    describe_replay,
    list_notes,
    only_one,
    policies_of,
    price_source,
    rate,
    replay_all,
    totals_table,
)
from windlass_inspector._inspector import Inspector
from windlass_inspector._plots import LinePlot, sums_of

_WAIT_S: Final = 1.0
"""Seconds that the page waits for the bills, which are all it shows."""


def costs_page(inspector: Inspector, request: Request) -> Response:
    """Return what a session cost, with all sessions under it."""
    session = inspector.session(request)
    if not inspector.billed(session, _WAIT_S):
        return inspector.respond("waiting.html", session, {"tab": "costs", "what": "The bills"})
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
        {
            "report": report,
            "costs": report.costs,
            "plot": sums_of(series, is_money=True),
            "sources": sources,
            "saved": sum(each.dollars for each in report.savings),
        },
    )


_POLICIES: Final = ("everything", "default")
_MOST: Final = 4
"""Policies at once."""


def policies_page(inspector: Inspector, request: Request) -> Response:
    """Return a replay of the session's own calls; nothing is sent."""
    session = inspector.session(request)
    given = " ".join(request.query_params.getlist("policies")).split()
    policies = tuple(dict.fromkeys(given or _POLICIES))
    problem = ""
    if len(policies) > _MOST:
        problem, policies = f"Compare {_MOST} policies at most.", policies[:_MOST]
    if any("." in name or "/" in name for name in policies):
        problem, policies = "A file is read by windlass replay alone, not here.", _POLICIES
    try:
        policies_of(policies)
    except UsageError as error:
        problem, policies = f"{error}.", _POLICIES
    values: dict[str, Any] = {"given": " ".join(policies), "problem": problem}
    if not session.view.calls:
        return inspector.respond("replay.html", session, {"replayed": None, **values})
    name = f"replay {' '.join(policies)}"
    replayed = inspector.shelf.later(session, name, lambda: _replay(session, policies), _WAIT_S)
    if replayed is None:
        return inspector.respond("waiting.html", session, {"tab": "replay", "what": "The replay"})
    return inspector.respond("replay.html", session, {**values, **_values(replayed)})


def _replay(session: InspectedSession, policies: Sequence[str]) -> Replay:
    conversations = conversations_of(session.store, session.session_id)
    models = {call.model for call in session.view.calls}
    told = {session.priced_model(model) for model in models}
    # A model that costs nothing is told at the prices of the one that stands for it.
    prices = check_prices(("own",) if told == models else sorted(told)[:1])
    return replay_all(conversations, policies_of(policies), prices)


def _values(replayed: Replay) -> Mapping[str, Any]:
    table = totals_table(replayed)
    one = only_one(replayed)
    return {
        "replayed": replayed,
        "table": table,
        "rows": list(zip(table.texts, replayed.totals, strict=True)),
        "about": list(describe_replay(replayed)),
        "notes": list(list_notes(replayed)),
        "plots": [] if one is None else [_plot(replayed)],
        "hidden": [] if one is None else [each for each in one.outlays if each.hidden],
    }


def _plot(replayed: Replay) -> LinePlot:
    outlays = replayed.recordings[0].outlays
    series = [(cost.policy, [call.cost for call in cost.calls]) for cost in outlays]
    return sums_of(series, is_money=outlays[0].dollars is not None)
