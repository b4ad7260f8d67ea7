"""HTML pages: each one self-contained file, for light and dark, without a script.

The templates are those of `pages/`. A page extends `base.html`; `figures.html` has macros for bars
and lines, whose labels are text of the page, so that they are as large on a narrow screen.

A replay as a page to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2

from windlass.caching.rates import money
from windlass.replays.outcomes import (
    PolicyCost,
    RecordingReplay,
    Replay,
    amount_text,
    cost_text,
    describe_replay,
    list_notes,
    only_one,
    percents,
    totals_table,
)
from windlass.replays.pricing import OWN
from windlass.safety.escaping import escaped
from windlass.safety.outputs import MARK


def page(template: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pieces of a page, made by a template of `pages/` such as `export.html`.

    Every value is escaped, as HTML and as on a terminal. Those that are iterators are asked for
    one by one, so that a page may be larger than memory.
    """
    yield from map(escaped, _environment().get_template(template).generate(values))


def _moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, to the minute in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("windlass.report", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["mark"] = MARK
    environment.filters["money"] = money
    environment.filters["number"] = "{:,}".format
    environment.filters["moment"] = _moment
    return environment


DEAREST: Final = 12
"""Calls, or recordings, that a page lists."""


def replay_page(replayed: Replay) -> Iterator[str]:
    """Return the pieces of the page."""
    one, lines = only_one(replayed), list(describe_replay(replayed))
    if one is not None:
        lines[0] = lines[0].removeprefix(f"{one.title}: ")  # the heading says it
    return page(
        "replay.html",
        {
            "title": one.title if one is not None else "What it cost, and what it would have cost",
            "about": lines,
            "notes": list(list_notes(replayed)),
            "table": totals_table(replayed),
            "groups": [_group(replayed.totals, prices) for prices in _prices(replayed.totals)],
            "calls": []
            if one is None
            else [_calls(one, prices) for prices in _prices(one.outlays)],
            "hidden": [] if one is None else [cost for cost in one.outlays if cost.hidden],
            "recordings": [] if one is not None else _recordings(replayed),
            "policies": list(replayed.policies),
            "times": () if one is None else one.times,
            "skipped": replayed.skipped,
        },
    )


def _prices(outlays: tuple[PolicyCost, ...]) -> list[str]:
    return list(dict.fromkeys(cost.prices for cost in outlays))


def _group(totals: tuple[PolicyCost, ...], prices: str) -> dict[str, Any]:
    """Return what each policy costs at some prices, as rows of bars."""
    outlays = [cost for cost in totals if cost.prices == prices]
    return {
        "prices": "those of the recording's own model" if prices == OWN else prices,
        "rows": [
            (cost.policy, [_middle(cost)], f"{cost_text(cost)} ({percents(cost.ratio)})")
            for cost in outlays
        ],
    }


def _middle(cost: PolicyCost) -> float:
    if cost.dollars is not None:
        return cost.dollars.middle
    return cost.bill.middle + cost.again.middle


def _calls(one: RecordingReplay, prices: str) -> dict[str, Any]:
    """Return what each call costs at some prices, and the dearest ones."""
    outlays = [cost for cost in one.outlays if cost.prices == prices]
    first = outlays[0]
    order = sorted(range(len(first.calls)), key=lambda at: -first.calls[at].cost)[:DEAREST]
    return {
        "prices": prices,
        "unit": "fresh input tokens" if first.dollars is None else "US dollars",
        "text": lambda cost: amount_text(first, cost),
        "policies": [cost.policy for cost in outlays],
        "series": [(cost.policy, [call.cost for call in cost.calls]) for cost in outlays],
        "tokens": [(cost.policy, [call.tokens for call in cost.calls]) for cost in outlays],
        "dearest": [
            (
                at + 1,
                [
                    (amount_text(cost, cost.calls[at].cost), round(cost.calls[at].tokens))
                    for cost in outlays
                ],
            )
            for at in order
        ],
    }


def _recordings(replayed: Replay) -> list[dict[str, Any]]:
    """Return the recordings, those first that cost the most."""
    listed = sorted(replayed.recordings, key=_dearness, reverse=True)
    return [
        {
            "name": one.name,
            "file": Path(one.source).name,
            "model": one.model,
            "calls": one.call_count,
            "grade": one.grade,
            "recorded": one.recorded,
            "costs": [(cost_text(cost), percents(cost.ratio)) for cost in one.outlays],
        }
        for one in listed
    ]


def _dearness(one: RecordingReplay) -> tuple[bool, float]:
    return one.outlays[0].dollars is not None, _middle(one.outlays[0])
