"""Cascades that are tools: a call of one is a session of its own below the phase that calls it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from windlass.cascade.children import CASCADES, DEPTH, ReadyCascade
from windlass.engine._phase_run import TurnState
from windlass.engine._subcascades import add_up_child, open_below
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import SubCascadeEnded
from windlass.errors import RunLimitReached, ToolError, UsageError, person_needed
from windlass.history.base import SessionFilter, in_words
from windlass.history.decisions import SubCascadeRun
from windlass.history.step import Step
from windlass.messages import ToolCall, canonical_json
from windlass.tools.base import RunCascade


def cascade_caller(run: CascadeRun, phase: str, now: TurnState) -> RunCascade:
    """Return what runs the cascades that a phase calls, each as of the turn that calls it."""

    async def run_cascade(call: ToolCall, arguments: Mapping[str, Any]) -> str:
        turn = run.record.turn(phase, now.attempt, now.turn)
        return await call_cascade(run, turn, call, arguments)

    return run_cascade


async def call_cascade(
    run: CascadeRun, turn: Step, call: ToolCall, arguments: Mapping[str, Any]
) -> str:
    """Return the output of the cascade that a call of a turn names, on these arguments.

    A resumed run takes up the session that it began. Raises ToolError where the cascade fails, runs
    above already, is nested too deep or is one too many, RunLimitReached where it would pass a
    limit, PersonNeeded where it waits.
    """
    tool, phase = run.registry.get(call.name), turn.phase
    ready = run.tool_cascades.get(tool.cascade)
    if ready is None or run.run_below is None:
        raise ToolError(f"the cascade {call.name!r} is not at hand")
    family = list(_upward(run))
    if len(family) > DEPTH:
        raise ToolError(
            f"cascades are nested at most {DEPTH} deep, and {call.name!r} would be more"
        )
    if tool.cascade in (os.path.realpath(each.cascade.file) for each in family):
        raise ToolError(f"the cascade {call.name!r} runs already, and this call is made by it")
    try:
        name = _session_name(run, turn, call, arguments)
        _count(run, f"{run.record.session_id}.{name}", call.name, ready)
        child = open_below(run, name, ready, arguments, parent_phase=phase)
    except UsageError as refused:
        raise ToolError(str(refused)) from refused
    child = replace(child, caches=run.caches, notices=run.notices)
    session = child.record.session_id
    try:
        result = await run.run_below(child)
    finally:
        add_up_child(run, child)
    status, reason = result.status, result.reason
    run.emit(SubCascadeEnded(phase, call.name, session, status, reason, result.cost))
    words = f"its tool, the cascade {call.name!r} (session {session}), ended"
    run.record.decide(phase, f"{words} {in_words(status, reason)}", SubCascadeRun(session))
    if result.error is not None:
        raise ToolError(f"the cascade {call.name!r} failed: {result.error}") from result.error
    if (needed := person_needed(result.notes)) is not None:
        raise needed
    if "budget" in result.notes:
        raise RunLimitReached(**result.notes["budget"])
    return result.output or ""


def _upward(run: CascadeRun | None) -> Iterator[CascadeRun]:
    """Yield a run, and those above it."""
    while run is not None:
        yield run
        run = run.above


def _count(run: CascadeRun, session: str, name: str, ready: ReadyCascade) -> None:
    """Count a session that a call begins, with those that it will. Raises ToolError."""
    called = run.notices.called
    if not called and run.record.recorded is not None:  # those of before the run was resumed
        *_, top = _upward(run)
        below = SessionFilter(prefix=f"{top.record.session_id}.")
        sizes = {each.cascade.cascade_id: each.sessions for each in run.tool_cascades.values()}
        for each in run.record.store.sessions(below):
            of, dash, _ = each.session_id.rpartition(".")[2].rpartition("-")
            if dash and of == each.cascade_id:  # named as by `_session_name`
                called[each.session_id] = sizes.get(of, 1)
    if session not in called and sum(called.values()) + ready.sessions > CASCADES:
        raise ToolError(
            f"a run begins at most {CASCADES:,} cascades that are called as tools, each counted"
            f" with its sub-cascades, and {name!r} would be more; go on without it"
        )
    called[session] = ready.sessions


def _session_name(run: CascadeRun, turn: Step, call: ToolCall, arguments: Mapping[str, Any]) -> str:
    """What the session of a call is called below that of its run: the same in a resumed run."""
    place = run.journal.next_step(replace(turn, asks=f"tool {call.name} {call.id}"))
    drawn = canonical_json([place.as_json(), dict(arguments)])
    return f"{call.name}-{hashlib.sha256(drawn.encode('ascii')).hexdigest()[:10]}"
