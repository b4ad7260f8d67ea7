"""A cascade from its first phase to its last, and what it leaves in the record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Final

from windlass.cascade.compile import phase_in_words
from windlass.cascade.flow import MOST_VISITS, is_graph, leads_from, ways_on
from windlass.cascade.handoffs import END
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.model_names import model_names
from windlass.cascade.tools_named import servers_named
from windlass.engine._session_state import Ran, Route, Visit
from windlass.engine._subcascades import phase_output
from windlass.engine.cards.card_queue import CardIndexer, start_cards
from windlass.engine.cards.maker import models_beside
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import LimitHit, Listener, PhaseStarted, SessionStarted
from windlass.engine.phase.phase import run_phase, try_guarded
from windlass.engine.phase.phase_setup import rule_of
from windlass.engine.phase.tool_phase import run_tool_phase
from windlass.engine.phase.tools import tools_to_approve
from windlass.engine.result import Result
from windlass.engine.resume.resuming import definition_of, describe_run
from windlass.engine.soundings.sounded_cascade import run_sounded_cascade
from windlass.engine.soundings.soundings import try_sounded
from windlass.engine.turn.breaker import check_breaker, windows_in_outcome
from windlass.errors import (
    PersonNeeded,
    RunLimitReached,
    StepDiffers,
    StoreError,
    TaskError,
    WindlassError,
    person_needed_in,
    run_limit_in,
)
from windlass.history.base import FORKED_FROM, RAN, Ending, Outcome, SessionStart, ending_of
from windlass.history.decisions import Routed, VisitBegun, VisitsUsedUp
from windlass.providers.spending import Allowance
from windlass.settings.settings import Settings
from windlass.tools.mcp import Servers

_WHY: Final = {
    "model": "its model chose it",
    "output": "its output is that name",
    "only": "it is the only way on",
    "first": "nothing was chosen, and it is the first way on",
}
"""Why a phase goes on where it does, by who chose it."""


async def run_cascade(run: CascadeRun) -> Result:
    """Run every phase in order and record how the session ended.

    MCP servers live from the first phase to the last, and are stopped however the run ends; those
    of a sounding are there already.
    """
    record, cascade = run.record, run.cascade
    servers = needed_servers(run) if run.nesting.sounding is None else Servers({})
    async with AsyncExitStack() as closing:
        closing.push_async_callback(servers.stop)
        models = start_session(run)
        run = replace(run, nesting=replace(run.nesting, run_below=run_cascade))
        above = run.nesting.parent.record.session_id if run.nesting.parent else None
        run.emit(SessionStarted(record.session_id, cascade.cascade_id, models, above))
        if cascade.limits is not None and run.nesting.sounding is None:  # soundings share them
            run = run.within(Allowance(whose_limits(run), **dict(cascade.limits)))
        if run.nesting.parent is None:  # below, what holds for the whole run holds
            run = check_breaker(run)
        cards = start_cards(run)
        if cards is not None:
            closing.push_async_callback(cards.stop)

        async def work() -> Ending:
            await add_server_tools(run, servers)
            if cascade.soundings and cascade.soundings.are_several and run.nesting.sounding is None:
                return await run_sounded_cascade(run, cascade.soundings)
            return await walk_phases(run, run_one)

        async def run_one(phase: Phase) -> Ending:
            _tell_start(run, phase)
            sounded = phase.soundings is not None and phase.soundings.are_several
            own = run.within(Allowance(f"phase {phase.name!r}", **phase.rules.limits))
            try:
                if phase.tool is not None:
                    ending = await run_tool_phase(own, phase)
                else:
                    ending = await run_phase(own, phase, try_sounded if sounded else try_guarded)
            except (PersonNeeded, RunLimitReached):  # what it said by then is the output
                _keep_output(run, phase)
                raise
            _keep_output(run, phase)
            return ending

        return await run_session(run, work(), cards)


def _tell_start(run: CascadeRun, phase: Phase) -> None:
    """Tell who watches that a phase begins, and what it will see."""
    context = phase_in_words(phase, rule_of(run, phase))
    total = None if is_graph(run.cascade.phases) else len(run.cascade.phases)
    run.emit(PhaseStarted(phase.name, len(run.session.ran) + 1, total, context))


def _keep_output(run: CascadeRun, phase: Phase) -> None:
    """Make what a phase said by now its output, which is the last of all outputs."""
    outputs, visit = run.session.outputs, run.session.visit.number
    is_result = phase.tool is not None
    for name in filter(None, (run.stands_for(phase), phase.name)):
        outputs.pop(name, None)
        outputs[name] = phase_output(run.record, phase.name, visit, is_result=is_result)


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


def whose_limits(run: CascadeRun) -> str:
    """Who has the limits that a cascade declares, in words."""
    return "the run" if run.nesting.parent is None else f"sub-cascade {run.cascade.cascade_id!r}"


async def run_session(
    run: CascadeRun, work: Awaitable[Ending], cards: CardIndexer | None = None
) -> Result:
    """Do the work of a session that began, and record how it ended.

    A failure of a phase, a task, a provider or a limit ends the session and is answered in
    the result's `error`; what was recorded before stays. A store that cannot be
    written raises StoreError. A cancelled run is recorded as interrupted and the
    cancellation goes on. The last of its `cards` are waited for.
    """
    record, session, totals = run.record, run.session, run.totals
    error: WindlassError | None = None
    notes: dict[str, Any] = {}
    try:
        try:
            ending = await work
            if isinstance(run.emit, Listener):
                run.emit.check()
        except (StoreError, StepDiffers):
            raise
        except WindlassError as failure:
            if isinstance(failure, TaskError):
                notes = dict(failure.notes)
            if isinstance(run.emit, Listener):
                run.emit.check()  # it may be hidden by what it led to
            if (limit := run_limit_in(failure)) is not None:
                ending = Ending("incomplete", limit.reason)
                notes = {**notes, "budget": limit.amounts}
            elif (needed := person_needed_in(failure)) is not None:
                ending, notes = Ending("waiting"), {**notes, **needed.notes}
            else:
                ending, error = Ending("failed"), failure
                error.session_id = record.session_id
        if cards is not None:
            await cards.drain()
    except StepDiffers as differs:
        differs.session_id = record.session_id
        raise  # nothing was done
    except StoreError as failure:
        failure.session_id = record.session_id
        with suppress(StoreError):  # perhaps it takes this much; if not, the first failure is told
            _stop(run, failure)
        raise
    except Exception as bug:
        _stop(run, bug)  # nobody foresaw it; what was said before stays readable
        raise
    except BaseException:  # cancelled, or whoever runs this process ends it
        record.append(outcomes=[_outcome(run, Ending("interrupted"), "the run was interrupted")])
        raise
    record.set_time(None)
    record.append(outcomes=[_outcome(run, ending, str(error) if error else None)])
    outputs = {name: str(output) for name, output in session.outputs.items()}
    return Result(
        status=ending.status,
        output=None if error else next(reversed(outputs.values()), ""),
        outputs=outputs,
        state=dict(session.state),
        session_id=record.session_id,
        usage=totals.usage,
        cost=totals.cost,
        saved=totals.saved_tokens,
        error=error,
        notes=notes,
        reason=ending.reason,
    )


def _stop(run: CascadeRun, failure: Exception) -> None:
    text = f"{type(failure).__name__}: {failure}".removesuffix(": ")
    failed = _outcome(run, Ending("failed"), text)
    run.record.append([run.record.failure(None, failure)], outcomes=[failed])


def _outcome(run: CascadeRun, ending: Ending, error: str | None) -> Outcome:
    details, now = windows_in_outcome(run.totals.net), run.record.clock()
    return Outcome(ending.status, now, error=error, details=details, reason=ending.reason)


def needed_servers(run: CascadeRun) -> Servers:
    """Return the MCP servers whose tools the cascade names, not started. Raises UsageError.

    One that the cascade declares goes before one of the same name in the settings.
    """
    elsewhere, own = run.settings.mcp_servers, run.cascade.mcp_servers
    declared = {**elsewhere, **own}
    named = servers_named(run.cascade, elsewhere)
    if ({*named} - {*own}) & {*run.settings.untrusted_servers()}:
        run.settings.check_trust("mcp_servers")
    return Servers({name: declared[name] for name in named})


async def add_server_tools(run: CascadeRun, servers: Servers) -> None:
    """Start the servers and make their tools known to the run.

    Raises ServerError, and UsageError where a phase has tools approved that are none.
    """
    for tool in await servers.start():
        run.registry.register(tool)
    for phase in run.cascade.phases:
        tools_to_approve(run.registry, phase, ())


def models_seeing(run: CascadeRun, *others: str) -> tuple[str, ...]:
    """The models that will see content: those of the phases, the one that searches, others."""
    models = model_names(run.cascade, run.settings)
    models += [run.access.search.model] if run.access.search else []  # it sees what is searched for
    return tuple(dict.fromkeys([*models, *others]))


def start_session(run: CascadeRun) -> tuple[str, ...]:
    """Record how the session begins; returns the names of all models that will see content."""
    cascade, settings = run.cascade, run.settings
    children = (*run.ready.children.values(), *run.ready.tool_cascades.values())
    below = [each.cascade for child in children for each in child.walk()]
    others = [name for each in below for name in _models_of(each, settings)]
    models = models_seeing(run, *models_beside(cascade, settings), *others)
    data = definition_of(cascade)
    if cascade.mcp_servers:
        servers = cascade.mcp_servers.items()
        data["mcp_servers"] = {name: server.shown() for name, server in servers}
    data[RAN] = describe_run(run)
    if run.journal.origin and run.nesting.parent is None:
        data[RAN][FORKED_FROM] = run.journal.origin
    if run.record.recorded is not None:
        return models  # it began before
    start = SessionStart(
        cascade_id=cascade.cascade_id,
        model=", ".join(models),
        input=run.input,
        cascade=data,
        timestamp=run.record.clock(),
        parent_id=run.nesting.parent.record.session_id if run.nesting.parent else None,
        parent_phase=run.nesting.parent_phase,
        sounding_index=run.nesting.sounding,
    )
    run.record.append(start=start)
    return models


def _models_of(cascade: Cascade, settings: Settings) -> list[str]:
    """Return the models that will see content of a cascade that runs below another."""
    settings = settings.of_models(cascade.models, cascade.cascade_id)
    return [*model_names(cascade, settings), *models_beside(cascade, settings)]
