"""A replay as a page to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from windlass.replays.outcomes import PolicyCost, RecordingReplay, Replay
from windlass.replays.pricing import OWN
from windlass.replays.printed import (
    amount_text,
    cost_text,
    describe_replay,
    list_notes,
    only_one,
    percents,
    totals_table,
)
from windlass.report.page import page

DEAREST: Final = 12
"""Calls, or recordings, that a page lists."""


def replay_page(replayed: Replay) -> Iterator[str]:
    """The pieces of the page."""
    one, lines = only_one(replayed), list(describe_replay(replayed))
    if one is not None:
        lines[0] = lines[0].removeprefix(f"{one.title}: ")  # the heading says it
    return page(
        "replay.html",
        title=one.title if one is not None else "What it cost, and what it would have cost",
        about=lines,
        notes=list(list_notes(replayed)),
        table=totals_table(replayed),
        groups=[_group(replayed.totals, prices) for prices in _prices(replayed.totals)],
        calls=[] if one is None else [_calls(one, prices) for prices in _prices(one.outlays)],
        hidden=[] if one is None else [outlay for outlay in one.outlays if outlay.hidden],
        recordings=[] if one is not None else _recordings(replayed),
        policies=list(replayed.policies),
        times=() if one is None else one.times,
        skipped=replayed.skipped,
    )


def _prices(outlays: tuple[PolicyCost, ...]) -> list[str]:
    return list(dict.fromkeys(outlay.prices for outlay in outlays))


def _group(totals: tuple[PolicyCost, ...], prices: str) -> dict[str, Any]:
    """What each policy costs at some prices, as rows of bars."""
    outlays = [outlay for outlay in totals if outlay.prices == prices]
    return {
        "prices": "those of the recording's own model" if prices == OWN else prices,
        "rows": [
            (outlay.policy, [_middle(outlay)], f"{cost_text(outlay)} ({percents(outlay.ratio)})")
            for outlay in outlays
        ],
    }


def _middle(outlay: PolicyCost) -> float:
    if outlay.dollars is not None:
        return outlay.dollars.middle
    return outlay.bill.middle + outlay.again.middle


def _calls(one: RecordingReplay, prices: str) -> dict[str, Any]:
    """What each call costs at some prices, and the dearest ones."""
    outlays = [outlay for outlay in one.outlays if outlay.prices == prices]
    first = outlays[0]
    order = sorted(range(len(first.calls)), key=lambda at: -first.calls[at].cost)[:DEAREST]
    return {
        "prices": prices,
        "unit": "fresh input tokens" if first.dollars is None else "US dollars",
        "text": lambda cost: amount_text(first, cost),
        "policies": [outlay.policy for outlay in outlays],
        "series": [(outlay.policy, [call.cost for call in outlay.calls]) for outlay in outlays],
        "tokens": [(outlay.policy, [call.tokens for call in outlay.calls]) for outlay in outlays],
        "dearest": [
            (
                at + 1,
                [
                    (amount_text(outlay, outlay.calls[at].cost), round(outlay.calls[at].tokens))
                    for outlay in outlays
                ],
            )
            for at in order
        ],
    }


def _recordings(replayed: Replay) -> list[dict[str, Any]]:
    """The recordings, those first that cost the most."""
    listed = sorted(replayed.recordings, key=_dearness, reverse=True)
    return [
        {
            "name": one.name,
            "file": Path(one.source).name,
            "model": one.model,
            "calls": one.call_count,
            "grade": one.grade,
            "recorded": one.recorded,
            "costs": [(cost_text(outlay), percents(outlay.ratio)) for outlay in one.outlays],
        }
        for one in listed
    ]


def _dearness(one: RecordingReplay) -> tuple[bool, float]:
    return one.outlays[0].dollars is not None, _middle(one.outlays[0])
