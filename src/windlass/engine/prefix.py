"""What a phase's injected sources cost where they stand, and where they could stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.caching.meter import shared_tokens, weigh
from windlass.caching.rates import rate
from windlass.engine.state import PhaseRun, Run
from windlass.window.assemble import assemble
from windlass.window.entries import show


def position_report(run: Run, phase_run: PhaseRun) -> dict[str, Any]:
    """What it costs that injected sources stand where they stand, beside the other place.

    For each place: tokens that still stand as in the request before (a cache may hold
    them), and the input cost in US dollars if it does (None: the model has no price).
    """
    info = phase_run.info
    told: dict[str, Any] = {"chosen": phase_run.progress.blocks.position}
    for place in ("start", "end"):
        entries = assemble(
            replace(phase_run.progress.blocks, position=place), show(phase_run.progress.own, "")
        )
        messages = [entry.message for entry in entries]
        weighed = weigh(
            info.counter,
            messages,
            run.definitions(phase_run.allowed, messages),
            tools_first=info.tools_first,
        )
        total = sum(tokens for _, tokens in weighed)
        shared = shared_tokens(weighed, run.progress.previous)
        price = rate(info.name) if not info.free else None
        dollars = (
            None
            if price is None
            else (shared * price.cache_read + (total - shared) * price.cache_write) / 1e6
        )
        told[place] = {"tokens": total, "shared_tokens": shared, "dollars": dollars}
    return told
