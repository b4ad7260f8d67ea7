"""A cascade from its first phase to its last, and what it leaves in the record."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.cascade.compile import compile_rule, phase_in_words
from windlass.cascade.flow import is_graph
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.model_names import model_names
from windlass.cascade.tools_named import servers_named
from windlass.engine._subcascades import (
    add_up_child,
    open_child,
    phase_output,
    take_over_child,
    tell_unknown_names,
)
from windlass.engine._walk import walk_phases
from windlass.engine.cards.card_queue import CardIndexer, start_cards
from windlass.engine.cards.maker import models_beside
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Listener, PhaseStarted, SessionStarted, SubCascadeEnded
from windlass.engine.phase.phase import run_phase
from windlass.engine.phase.tool_phase import run_tool_phase
from windlass.engine.result import Result
from windlass.engine.resume.resuming import definition_of, describe_run
from windlass.engine.soundings.sounded_cascade import run_sounded_cascade
from windlass.engine.soundings.soundings import run_sounded
from windlass.engine.turn.approving import tools_to_approve
from windlass.engine.turn.breaker import check_breaker, windows_in_outcome
from windlass.errors import (
    PersonNeeded,
    PhaseFailed,
    RunLimitReached,
    StepDiffers,
    StoreError,
    TaskError,
    WindlassError,
    person_needed,
    person_needed_in,
    run_limit_in,
)
from windlass.history.base import FORKED_FROM, RAN, Ending, Outcome, SessionStart, ending_of
from windlass.history.base import in_words as status_text
from windlass.history.decisions import SubCascadeRun
from windlass.providers.spending import Allowance
from windlass.settings.settings import Settings
from windlass.tools.mcp import Servers


async def run_cascade(run: CascadeRun) -> Result:
    """Run every phase in order and record how the session ended.

    MCP servers live from the first phase to the last, and are stopped however the run ends; those
    of a sounding are there already.
    """
    record, cascade = run.record, run.cascade
    servers = needed_servers(run) if run.sounding is None else Servers({})
    async with AsyncExitStack() as closing:
        closing.push_async_callback(servers.stop)
        models = start_session(run)
        run = replace(run, run_below=run_cascade)
        above = run.parent.record.session_id if run.parent else None
        run.emit(SessionStarted(record.session_id, cascade.cascade_id, models, above))
        if cascade.limits is not None and run.sounding is None:  # soundings share them
            run = run.within(Allowance(whose_limits(run), **dict(cascade.limits)))
        if run.parent is None:  # below, what holds for the whole run holds
            run = check_breaker(run)
        cards = start_cards(run)
        if cards is not None:
            closing.push_async_callback(cards.stop)

        async def work() -> Ending:
            await add_server_tools(run, servers)
            if cascade.soundings and cascade.soundings.are_several and run.sounding is None:
                return await run_sounded_cascade(run, cascade.soundings, run_cascade)
            return await walk_phases(run, run_one)

        async def run_one(phase: Phase) -> Ending:
            _tell_start(run, phase)
            sounded = phase.soundings is not None and phase.soundings.are_several
            attempt = run_sounded if sounded else run_phase
            if phase.tool is not None:
                attempt = run_tool_phase
            own = run.within(Allowance(f"phase {phase.name!r}", **phase.rules.limits))
            try:
                ending = await attempt(own, phase, partial(run_children, own, phase))
            except (PersonNeeded, RunLimitReached):  # what it said by then is the output
                _keep_output(run, phase)
                raise
            _keep_output(run, phase)
            return ending

        return await run_session(run, work(), cards)


def _tell_start(run: CascadeRun, phase: Phase) -> None:
    """Tell who watches that a phase begins, and what it will see."""
    exclude = phase.context.exclude if phase.context is not None else ()
    ran = run.session.names_that_ran(exclude)
    context = phase_in_words(phase, compile_rule(run.cascade, phase, run.settings, ran))
    total = None if is_graph(run.cascade.phases) else len(run.cascade.phases)
    run.emit(PhaseStarted(phase.name, len(run.session.ran) + 1, total, context))


def _keep_output(run: CascadeRun, phase: Phase) -> None:
    """Make what a phase said by now its output, which is the last of all outputs."""
    outputs, visit = run.session.outputs, run.session.visit.number
    is_result = phase.tool is not None
    for name in filter(None, (run.stands_for(phase), phase.name)):
        outputs.pop(name, None)
        outputs[name] = phase_output(run.record, phase.name, visit, is_result=is_result)


def whose_limits(run: CascadeRun) -> str:
    """Who has the limits that a cascade declares, in words."""
    return "the run" if run.parent is None else f"sub-cascade {run.cascade.cascade_id!r}"


async def run_children(run: CascadeRun, phase: Phase) -> Ending:
    """Run a phase's sub-cascades one after the other; returns how they ended together.

    Raises PhaseFailed where one fails, RunLimitReached where one would pass a limit, and
    PersonNeeded where one waits.
    """
    endings: list[Ending] = []
    for position, sub in enumerate(phase.sub_cascades):
        tell_unknown_names(run, phase, sub)
        child = open_child(run, phase, position)
        name, session = child.cascade.cascade_id, child.record.session_id
        try:
            result = await run_cascade(child)
        finally:
            add_up_child(run, child)
        ended = Ending(result.status, result.reason)
        text = f"its sub-cascade {name!r} (session {session})"
        told = SubCascadeEnded(phase.name, name, session, ended.status, ended.reason, result.cost)
        run.emit(told)
        if result.error is not None:
            failure = f"phase {phase.name!r}: {text} failed: {result.error}"
            raise PhaseFailed(failure) from result.error
        words = f"{text} ended {status_text(*ended)}"
        run.record.decide(phase.name, words, SubCascadeRun(session))
        if sub.context_out:
            take_over_child(run, phase, child)
        if (needed := person_needed(result.notes)) is not None:
            raise needed
        if "budget" in result.notes:
            raise RunLimitReached(**result.notes["budget"])
        endings.append(ended)
    return ending_of(endings)


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
    details, now = windows_in_outcome(run.net), run.record.clock()
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
    models += [run.search.model] if run.search else []  # it sees what is searched for
    return tuple(dict.fromkeys([*models, *others]))


def start_session(run: CascadeRun) -> tuple[str, ...]:
    """Record how the session begins; returns the names of all models that will see content."""
    cascade, settings = run.cascade, run.settings
    children = (*run.children.values(), *run.tool_cascades.values())
    below = [each.cascade for child in children for each in child.walk()]
    others = [name for each in below for name in _models_of(each, settings)]
    models = models_seeing(run, *models_beside(cascade, settings), *others)
    data = definition_of(cascade)
    if cascade.mcp_servers:
        servers = cascade.mcp_servers.items()
        data["mcp_servers"] = {name: server.shown() for name, server in servers}
    data[RAN] = describe_run(run, definition_of(cascade))
    if run.journal.origin and run.parent is None:
        data[RAN][FORKED_FROM] = run.journal.origin
    if run.record.recorded is not None:
        return models  # it began before
    start = SessionStart(
        cascade_id=cascade.cascade_id,
        model=", ".join(models),
        input=run.input,
        cascade=data,
        timestamp=run.record.clock(),
        parent_id=run.parent.record.session_id if run.parent else None,
        parent_phase=run.parent_phase,
        sounding_index=run.sounding,
    )
    run.record.append(start=start)
    return models


def _models_of(cascade: Cascade, settings: Settings) -> list[str]:
    """Return the models that will see content of a cascade that runs below another."""
    settings = settings.of_models(cascade.models, cascade.cascade_id)
    return [*model_names(cascade, settings), *models_beside(cascade, settings)]
