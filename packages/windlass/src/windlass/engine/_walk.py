"""The phases of a cascade in the order in which they run, each visit of one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from windlass.cascade.flow import MOST_VISITS, is_graph, leads_from, ways_on
from windlass.cascade.handoffs import END
from windlass.cascade.model import Phase
from windlass.engine._session_state import Ran, Route, Visit
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import LimitHit
from windlass.history.base import Ending, ending_of
from windlass.history.decisions import Routed, VisitBegun, VisitsUsedUp

_WHY: Final = {
    "model": "its model chose it",
    "output": "its output is that name",
    "only": "it is the only way on",
    "first": "nothing was chosen, and it is the first way on",
}
"""Why a phase goes on where it does, by who chose it."""


async def walk_phases(run: CascadeRun, run_one: Callable[[Phase], Awaitable[Ending]]) -> Ending:
    """Run phase after phase, as each says what comes next; returns how they ended together."""
    endings: list[Ending] = []
    phase: Phase | None = run.cascade.phases[0]
    while phase is not None:
        if not _begin_visit(run, phase):
            return ending_of([*endings, Ending("incomplete", "turns")])
        ending = await run_one(phase)
        endings.append(ending)
        hidden = phase.context_retention == "output_only"
        visit, of = run.session.visit.number, run.stands_for(phase)
        run.session.ran.append(Ran(phase.name, visit, ending.status, hidden, of))
        phase = _next_phase(run, phase)
    return ending_of(endings)


def _begin_visit(run: CascadeRun, phase: Phase) -> bool:
    """Note that the phase runs once more; False where it has run as often as it may."""
    session, name = run.session, phase.name
    session.route = None
    number = 1 + sum(each.phase == name for each in session.ran)
    session.visit = Visit(name, number)
    if number == 1:
        return True
    if number > MOST_VISITS:
        text = f"phase {name!r} was to run again, and has run {MOST_VISITS} times; the run ends"
        run.tell(name, text, VisitsUsedUp(MOST_VISITS))
        run.emit(LimitHit(name, "turns", f"phase {name!r}", MOST_VISITS, MOST_VISITS))
        return False
    session.visit = Visit(name, number, run.record.last_turn(name))
    text = f"phase {name!r} runs again: visit {number}"
    run.tell(name, text, VisitBegun(number, session.visit.after_turn))
    return True


def _next_phase(run: CascadeRun, phase: Phase) -> Phase | None:
    """Return the phase that comes next (None: the run is over); in a graph the record says why."""
    phases, name = list(run.cascade.phases), phase.name
    route = run.session.route
    if route is None and not is_graph(phases):
        at = [each.name for each in phases].index(name) + 1
        return phases[at] if at < len(phases) else None
    ways = leads_from(phase) if route is not None else ways_on(phase)
    if route is None and not ways:
        return None
    route = route or Route(ways[0], "only" if len(ways) == 1 else "first")
    what = "ends the run" if route.target == END else f"goes on with {route.target!r}"
    text = f"phase {name!r} {what}: {route.why or _WHY.get(route.by, route.by)}"
    run.tell(name, text, Routed(route.target, route.by, ways), detail=route.by == "only")
    return next((each for each in phases if each.name == route.target), None)
