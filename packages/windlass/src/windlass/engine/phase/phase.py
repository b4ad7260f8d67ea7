"""One phase: it is opened, tried until an output is accepted, and settled in the record.

`phase_setup.py` fixes what it sees, `_attempts.py` makes its turns, `verdicts.py` says whether an
output will do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from windlass.cascade.flow import ways_on
from windlass.cascade.model import OutputExtraction, Phase
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import Route
from windlass.engine._subcascades import run_children
from windlass.engine.cascade_run import AS_WRITTEN, CascadeRun, Wording
from windlass.engine.events import LimitHit, PhaseEnded
from windlass.engine.people.deciding import decide_after
from windlass.engine.phase._attempts import run_attempts
from windlass.engine.phase.callouts import mark_output
from windlass.engine.phase.phase_setup import begin_phase
from windlass.engine.phase.remembering import keep_messages
from windlass.engine.phase.verdicts import Guard
from windlass.engine.turn.record import Recorder
from windlass.engine.turn.windows import lasting_edits
from windlass.errors import (
    AnswerNeeded,
    PersonNeeded,
    PhaseFailed,
    RunLimitReached,
    StepDiffers,
    StoreError,
    Unsure,
    WindlassError,
)
from windlass.history.base import Ending, Outcome, StateChange, ending_of
from windlass.history.decisions import Asks, Remark, RunLimit, Waits
from windlass.history.details import OutcomeDetails
from windlass.safety.fairness import wait_for_turn
from windlass.safety.foreign import parse_json
from windlass.safety.patterns import search
from windlass.window.entries import Item


async def run_phase(run: CascadeRun, phase: Phase, trying: Trying) -> Ending:
    """Run one phase to its end, after its sub-cascades, and record its outcome.

    `trying` is how it is carried out: once, or as soundings.

    Returns `completed`, or `incomplete` where it ended by a limit or, with
    `on_exhausted: continue`, without an accepted output. Raises PhaseFailed, or
    what a call raised; the outcome is in the record then, too.
    """
    await wait_for_turn()
    return await settle(run, phase, _after_children(run, phase, trying))


@dataclass(frozen=True, slots=True)
class Tried:
    """A phase that was carried out, and is in the record but for its outcome."""

    phase_run: PhaseRun
    ending: Ending
    output: Item | None
    changes: Sequence[StateChange] = ()
    details: OutcomeDetails = field(default_factory=OutcomeDetails)

    @property
    def text(self) -> str:
        """Its output (empty: it said nothing)."""
        return self.output.message.text if self.output else ""


Trying: TypeAlias = Callable[[CascadeRun, Phase], Awaitable[Tried]]
"""Carries a phase out, and leaves its outcome to be recorded."""


async def try_guarded(run: CascadeRun, phase: Phase, wording: Wording = AS_WRITTEN) -> Tried:
    """Return what a phase comes to, once its wards let the input of the cascade in."""
    await Guard(run, phase).check_input()
    return await try_phase(run, await begin_phase(run, phase, wording))


async def try_phase(run: CascadeRun, phase_run: PhaseRun) -> Tried:
    """Attempts at a phase until one is accepted, and what is taken from its output."""
    ending, output = await run_attempts(run, phase_run)
    mark_output(run, phase_run, output)
    return Tried(phase_run, ending, output, await extract_state(run, phase_run.phase, output))


async def _after_children(run: CascadeRun, phase: Phase, trying: Trying) -> Tried:
    """Run a phase's sub-cascades and then the phase itself; what both came to together."""
    ended = await run_children(run, phase)
    tried = await trying(run, phase)
    return replace(tried, ending=ending_of([ended, tried.ending]))


async def settle(run: CascadeRun, phase: Phase, trying: Awaitable[Tried]) -> Ending:
    """Have a phase carried out and record its outcome; returns how it ended."""
    with failure_recorded(run, phase.name):
        tried = await trying
        run.session.route = route_of(tried)
        decided = await decide_after(run, tried.phase_run, tried.text)
    name, record, session = phase.name, run.record, run.session
    changes = [*tried.changes, *decided]
    phase_run, ending, output = tried.phase_run, tried.ending, tried.output
    session.state.update(phase_run.now.state)
    session.edits.update(lasting_edits(phase_run))
    session.last_phase = phase_run
    outcome = Outcome(
        ending.status,
        record.clock(),
        name,
        output_trace=record.traces[output.id] if output else None,
        hidden=phase_run.rule.output_only,
        details=tried.details,
        reason=ending.reason,
    )
    record.append(outcomes=[outcome], state=[*phase_run.now.state.changes(name), *changes])
    session.state.update({change.key: change.value for change in changes})
    keep_messages(run, phase_run)
    run.emit(PhaseEnded(name, ending.status, tried.text, ending.reason))
    return ending


def route_of(tried: Tried) -> Route | None:
    """Return what a phase that ended chose to come next; None: nothing."""
    chosen, text = tried.phase_run.now.route, tried.text.strip()
    if chosen is not None:
        return Route(chosen, "model")
    return Route(text, "output") if text in ways_on(tried.phase_run.phase) else None


def record_question(record: Recorder, name: str, needed: AnswerNeeded) -> None:
    """Record what a phase asks a person, and that nobody has answered."""
    asked = needed.question, needed.tool, needed.call, needed.options, needed.why, needed.context
    record.decide(name, str(needed), Asks(*asked))


@contextmanager
def failure_recorded(run: CascadeRun, name: str) -> Iterator[None]:
    """Record and tell why a phase does not come to its end, where it does not."""
    try:
        yield
    except (StoreError, StepDiffers):
        raise  # told where the session ends, once: the store may not take it
    except WindlassError as error:
        _record_failure(run, name, error)
        raise


def _record_failure(run: CascadeRun, name: str, error: WindlassError) -> None:
    """Record and tell why a phase did not come to its end; no step can follow in it."""
    record, now = run.record, run.record.clock()
    match error:
        case RunLimitReached() as limit:
            is_own = limit.reached_in is None  # else it was reached in a phase of a sub-cascade
            limit.reached_in = limit.reached_in or name
            record.append(outcomes=[Outcome("incomplete", now, name, reason=limit.reason)])
            run.tell(name, str(limit), RunLimit(**limit.amounts))
            if is_own:
                run.emit(LimitHit(name, limit.reason, limit.of, limit.budget, limit.spent))
            run.emit(PhaseEnded(name, "incomplete", "", limit.reason))
        case PersonNeeded() as needed:
            record.append(outcomes=[Outcome("waiting", now, name)])
            if isinstance(needed, Unsure):
                run.tell(name, str(needed), Waits(needed.place, needed.tools))
            elif isinstance(needed, AnswerNeeded):  # who watches was told of the question
                record_question(record, name, needed)
            run.emit(PhaseEnded(name, "waiting", ""))
        case _:
            failed = Outcome("failed", now, name, error=str(error))
            record.append([record.failure(name, error)], outcomes=[failed])


# ---- what is taken from an output ------------------------------------------------------------


async def extract_state(run: CascadeRun, phase: Phase, output: Item | None) -> list[StateChange]:
    """Return the state that a phase takes from its output. Raises PhaseFailed."""
    extraction = phase.output_extraction
    if extraction is None:
        return []
    text = output.message.text if output else ""
    try:
        value, why = await asyncio.to_thread(find_value, extraction, text)
    except TimeoutError as error:
        raise PhaseFailed(f"phase {phase.name!r}: output_extraction: {error}") from error
    if why is None:
        return [StateChange(phase.name, extraction.store_as, value)]
    if extraction.required:
        raise PhaseFailed(f"phase {phase.name!r}: {why}")
    run.tell(phase.name, why, Remark("extraction"))
    return []


_FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def find_value(extraction: OutputExtraction, text: str) -> tuple[Any, str | None]:
    """Return the value found, and None; or None, and why there is none.

    `format: json` parses what the pattern's group holds, `code` takes away a fence. Raises
    TimeoutError with a sentence where the search was stopped.
    """
    pattern = extraction.pattern
    hit = search(pattern, text, re.DOTALL)
    if hit is None:
        return None, f"the output has no match for the pattern {pattern!r}"
    value = hit[1]
    if value is None:
        return (
            None,
            f"the group of the pattern {pattern!r} matches nothing in the output",
        )
    match extraction.format:
        case "text":
            return value.strip(), None
        case "code":
            fenced = _FENCE.match(value)
            return (fenced[1] if fenced else value.strip("\n")), None
        case "json":
            try:
                return parse_json(value), None
            except ValueError as error:
                return None, f"what {pattern!r} found is not JSON: {error}"
