"""The breaker: no windows where they lost money over the last sessions.

Each session leaves in its outcome what its windows saved and what was spent on them (`Net`). A
new one adds up those of the sessions before it, one question to the store. Sessions without
windows, those that were switched off here among them, and those that were killed count as
nothing; so a loss passes out of sight after so many sessions, and windows are tried again.
A session in which everything could not have been sent lost nothing by its windows. What keeps
a request within the model's window and the user's own limits is never switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from windlass.caching.rates import money
from windlass.cascade.compile import compile_rule
from windlass.cascade.model import Phase
from windlass.engine._session_state import Net
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.history.base import Outcome
from windlass.history.decisions import Breaker
from windlass.history.details import OutcomeDetails, WindowSavings

LEAST: Final = 3
"""Sessions with windows without which nothing is switched off: one may be chance."""
_TOLERANCE: Final = 1e-6
"""US dollars that are no loss yet."""


def check_losses(endings: Sequence[Outcome | None], sessions: int) -> Breaker | None:
    """Return what windows lost in the newest sessions, if they did; `endings` are newest first.

    This session counts among those without windows, after which they are made again.
    """
    savings = [ending.details.windows if ending else None for ending in endings[:sessions]]
    if _earns(savings):
        return None
    lost = -sum(map(_net, filter(None, savings)))
    # Each session to come without windows pushes the oldest out of sight, once there are enough.
    after = ([*[None] * count, *savings][:sessions] for count in range(1, sessions + 1))
    back_after = next(count for count, then in enumerate(after, start=1) if _earns(then))
    return Breaker(lost, len(savings), back_after)


def _earns(savings: Sequence[WindowSavings | None]) -> bool:
    """Return whether sessions with these savings lost nothing, or are too few to tell."""
    nets = list(map(_net, filter(None, savings)))
    return len(nets) < LEAST or sum(nets) >= -_TOLERANCE


def _net(saving: WindowSavings) -> float:
    """What the windows of a session saved all in all, in US dollars; no loss where they must be."""
    return max(0.0, saving.net) if saving.needed else saving.net


def check_breaker(run: CascadeRun) -> CascadeRun:
    """The run, with its windows off where those of the last sessions lost money, which is said."""
    sessions = run.settings.breaker_sessions
    if not sessions or not any(map(partial(_has_window, run), run.cascade.phases)):
        return run
    # The run's own session is among the newest, and has not ended.
    trip = check_losses(run.record.store.endings(sessions + 1)[1:], sessions)
    if trip is None:
        return run
    text = breaker_text(trip)
    run.record.decide(None, text, trip)
    run.emit(Noted("", text))
    return replace(run, settings=run.settings.after_losses())


def breaker_text(trip: Breaker) -> str:
    """Return why windows are off in a sentence, with the way back."""
    return (
        f"the breaker (setting breaker_sessions) has windows off, everything is sent that fits:"
        f" in the last {trip.sessions} sessions they cost"
        f" {money(trip.lost, digits=4)} more than they saved; they are tried again after"
        f" {trip.back_after} sessions, or at once with WINDLASS_BREAKER_SESSIONS=0"
    )


def _has_window(run: CascadeRun, phase: Phase) -> bool:
    rule = compile_rule(run.cascade, phase, run.settings)
    return rule.mode == "auto" or (rule.policy is not None and rule.policy.enabled)


def windows_in_outcome(net: Net) -> OutcomeDetails:
    """Return what a session's outcome says of its windows; nothing where none had a price."""
    if not net.calls:
        return OutcomeDetails()
    savings = WindowSavings(net.calls, net.saved, net.spent, net.net, net.needed)
    return OutcomeDetails(windows=savings)
