"""Cascades below a run: a session of its own for each, and what goes in and comes out.

It shares with the run above it the store, the settings, the providers with their budget, and
what is known of the models' caches; its state, its tools and its totals are its own.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from windlass.cascade.children import CASCADES, DEPTH
from windlass.cascade.model import Phase, SubCascade
from windlass.cascade.ready import ReadyCascade, output_names
from windlass.engine._phase_run import TurnState
from windlass.engine._session_state import EndedVisit
from windlass.engine.cascade_run import CascadeRun, Nesting
from windlass.engine.events import Event, SubCascadeEnded
from windlass.engine.opening import has_begun, open_under
from windlass.engine.phase.sources import last_said
from windlass.engine.result import Result
from windlass.engine.resume.resuming import fork_run, resume_run
from windlass.engine.setup import prepare
from windlass.engine.turn.record import Recorder
from windlass.errors import PhaseFailed, RunLimitReached, ToolError, UsageError, person_needed
from windlass.history.base import Ending, SessionFilter, StateChange, ending_of, in_words
from windlass.history.decisions import Remark, SubCascadeRun
from windlass.history.step import Step
from windlass.messages import Message, ToolCall, canonical_json
from windlass.text.templates import PhaseOutput
from windlass.tools.base import RunCascade
from windlass.window.originals import meant, reference


def open_child(run: CascadeRun, phase: Phase, position: int) -> CascadeRun:
    """Return the run of a phase's sub-cascade, with nothing done yet."""
    index = next(at for at, each in enumerate(run.cascade.phases) if each is phase)
    held, sub = run.ready.children[index, position], phase.sub_cascades[position]
    visit = run.session.visit.number
    again = f".visit_{visit}" if visit > 1 else ""
    name = f"{index + 1}.{position + 1}{again}"
    child = open_below(run, name, held, child_input(run, sub), Nesting(run, phase.name))
    if sub.context_in:
        child.session.state.update(copy.deepcopy(run.session.state))
    return child


def open_below(
    run: CascadeRun,
    name: str,
    ready: ReadyCascade,
    given: Mapping[str, Any],
    nesting: Nesting,
    *,
    on_event: Callable[[Event], None] | None = None,
) -> CascadeRun:
    """Return a run whose session is called after that of `run`; taken up where it began already."""
    record, journal = run.record, run.journal
    session = f"{record.session_id}.{name}"
    opened = open_under(record.store, session, may_be_begun=record.recorded is not None)
    child = prepare(
        ready._replace(tool_cascades=run.ready.tool_cascades),
        given,
        opened,
        settings=run.settings,
        access=run.access,
        nesting=nesting,
        on_event=on_event or run.emit,
    )
    child = replace(child, caches=run.caches, notices=run.notices)
    if opened.is_begun:
        return resume_run(child, journal.again)
    if journal.origin and has_begun(record.store, f"{journal.origin}.{name}"):
        return fork_run(child, f"{journal.origin}.{name}", journal.before)
    return child


def child_input(run: CascadeRun, sub: SubCascade) -> dict[str, Any]:
    """Return the input of a sub-cascade: the state, over it the input, over both what is mapped.

    A text of `input_map` that is a key of the state, or else of the input, stands for its value.
    """
    state, given = run.session.state, run.input

    def value_of(written: Any) -> Any:
        if not isinstance(written, str):
            return written
        return state[written] if written in state else given.get(written, written)

    mapped = {name: value_of(written) for name, written in sub.input_map.items()}
    return copy.deepcopy({**({**state, **given} if sub.context_in else {}), **mapped})


def tell_unknown_names(run: CascadeRun, phase: Phase, sub: SubCascade) -> None:
    """Say which words of `input_map` look like keys and are none: they are given as they are."""
    for name, written in sub.input_map.items():
        if not isinstance(written, str) or not written.isidentifier():
            continue
        if written not in run.session.state and written not in run.input:
            text = (
                f"input_map of {sub.ref!r}: {written!r} is no key of the state or of the input, so"
                f" the input {name!r} is that word"
            )
            run.tell(phase.name, text, Remark("input_map"))


async def run_children(run: CascadeRun, phase: Phase) -> Ending:
    """Run a phase's sub-cascades one after the other; returns how they ended together.

    Raises PhaseFailed where one fails, RunLimitReached where one would pass a limit, and
    PersonNeeded where one waits.
    """
    endings: list[Ending] = []
    for position, sub in enumerate(phase.sub_cascades):
        tell_unknown_names(run, phase, sub)
        child = open_child(run, phase, position)
        name = child.cascade.cascade_id
        result = await _run_below(run, child, phase.name, name)
        text = f"its sub-cascade {name!r} (session {result.session_id})"
        if result.error is not None:
            failure = f"phase {phase.name!r}: {text} failed: {result.error}"
            raise PhaseFailed(failure) from result.error
        ended = Ending(result.status, result.reason)
        words = f"{text} ended {in_words(*ended)}"
        run.record.decide(phase.name, words, SubCascadeRun(result.session_id))
        if sub.context_out:
            take_over_child(run, phase, child)
        _check_ended(result)
        endings.append(ended)
    return ending_of(endings)


async def _run_below(run: CascadeRun, child: CascadeRun, phase: str, name: str) -> Result:
    """Return what a cascade below a phase came to; what it took counts above, however it ends."""
    assert run.nesting.run_below is not None
    try:
        result = await run.nesting.run_below(child)
    finally:
        run.totals.add_all(child.totals)
        run.session.remembered += child.session.remembered
    status, reason = result.status, result.reason
    run.emit(SubCascadeEnded(phase, name, result.session_id, status, reason, result.cost))
    return result


def _check_ended(result: Result) -> None:
    """Raise PersonNeeded or RunLimitReached where a cascade below waits for the one above."""
    if (needed := person_needed(result.notes)) is not None:
        raise needed
    if "budget" in result.notes:
        raise RunLimitReached(**result.notes["budget"])


def take_over_child(run: CascadeRun, phase: Phase, child: CascadeRun) -> None:
    """Lay a sub-cascade's state over that of the run above it; its outputs and phases are at hand.

    A phase of the run itself goes before one of the same name.
    """
    take_state(run, phase.name, child)
    own = {each.name for each in run.cascade.phases}
    done = child.session
    whole = phase_output(done.said_in or child.record, None)
    for name, of_phase in output_names(child.cascade).items():
        begun = not of_phase or of_phase in done.outputs  # a limit may have ended it before
        if name not in own and begun:
            run.session.outputs[name] = done.outputs[of_phase] if of_phase else whole
    for visit in done.ran:
        said_in, is_last = done.said_in or child.record, visit is done.ran[-1]
        names = tuple(
            name
            for name, of_phase in output_names(child.cascade).items()
            if name not in own and (of_phase == visit.phase or (of_phase is None and is_last))
        )
        after = len(run.session.ran)
        run.session.below.append(EndedVisit(names, visit, said_in, done.edits, after))


def take_state(run: CascadeRun, phase: str, child: CascadeRun) -> None:
    """Lay the state of a run below over that of the run above it, where it changed in `phase`."""
    own = run.session.state
    state = {key: value for key, value in child.session.state.items() if key != "input"}
    changed = {
        key: copy.deepcopy(value)
        for key, value in state.items()
        if key not in own or own[key] != value
    }
    own.update(changed)
    changes = [StateChange(phase, key, value) for key, value in changed.items()]
    run.record.append(state=changes)


def phase_output(
    record: Recorder, phase: str | None, visit: int | None = None, *, is_result: bool = False
) -> PhaseOutput:
    """Return the output of a visit of a phase: its text, state, pictures and stored tool results.

    A tool result is found by its reference (`result_` and a content hash) or by the
    name of its tool, which means that tool's latest result. Without a phase it is that of the
    whole session, without a visit that of the last. `is_result`: the phase runs a tool.
    """

    def text() -> str:
        output = last_said(record.items(phase, visit))
        return output.message.text if output else ""

    def state() -> dict[str, object]:
        changes = record.store.state(record.session_id)
        return {change.key: change.value for change in changes if phase in (None, change.phase)}

    def images() -> list[str]:
        items = record.items(phase, visit)
        return [picture.describe() for item in items for picture in item.message.pictures]

    def results() -> Mapping[str, Message]:
        named: dict[str, Message] = {}
        for item in record.items(phase, visit):
            if item.message.role == "tool":
                named[reference(item.message)] = item.message
                if item.message.name:
                    named[item.message.name] = item.message
        return named

    def soundings() -> list[str]:
        tried = record.soundings(phase, visit) if phase else ()
        return [last.message.text if last else "" for last in map(last_said, tried)]

    def result(name: str) -> str:
        named = results()
        if name in named:
            return named[name].text
        by_hash = {message.content_hash: message for message in named.values()}
        return by_hash[meant(name, by_hash)].text

    return PhaseOutput(
        text=text,
        state=state,
        images=images,
        result=result,
        soundings=soundings,
        known_results=lambda: list(results()),
        is_result=is_result,
    )


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
    ready = run.ready.tool_cascades.get(tool.cascade)
    if ready is None or run.nesting.run_below is None:
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
        child = open_below(run, name, ready, arguments, Nesting(run, phase))
    except UsageError as refused:
        raise ToolError(str(refused)) from refused
    result = await _run_below(run, child, phase, call.name)
    session = result.session_id
    words = f"its tool, the cascade {call.name!r} (session {session}), ended"
    ended = in_words(result.status, result.reason)
    run.record.decide(phase, f"{words} {ended}", SubCascadeRun(session))
    if result.error is not None:
        raise ToolError(f"the cascade {call.name!r} failed: {result.error}") from result.error
    _check_ended(result)
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
        sizes = {
            each.cascade.cascade_id: each.sessions for each in run.ready.tool_cascades.values()
        }
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
