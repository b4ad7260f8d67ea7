"""Running the tools a reply asked for: every call gets its result, and what it touched is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from windlass.cascade.handoffs import ROUTE_TO
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import PlanChanged, ToolStarted
from windlass.engine.people.asking import answers_to
from windlass.engine.phase.callouts import mark_matches
from windlass.engine.phase.tools import result_row, tell_result
from windlass.engine.resume.journal import TurnRecord
from windlass.history.base import NodeType, Row
from windlass.history.decisions import PlanKept
from windlass.history.marks import ResultReused
from windlass.history.row_details import INTERRUPTED_TEXT, ToolsStarted
from windlass.injectors.base import FailedCall
from windlass.injectors.reminders import plan_in, update_failures
from windlass.messages import Message, Text, ToolCall, tool
from windlass.text.prompts import NOT_RUN_TEXT
from windlass.tools.base import ToolOutput
from windlass.tools.runner import names_touched, run_tools


async def answer_calls(run: CascadeRun, phase_run: PhaseRun, reply: Message, parent: str) -> None:
    """Run the calls of `reply` together and record their results as one batch.

    `parent` is the trace of the reply. When the user stops the run meanwhile, each
    call is recorded as interrupted first: a call without a result would make the
    history unusable for every provider.

    Raises RunLimitReached before any of them runs, where the time is up, and AnswerNeeded where
    a person is asked and nobody answers.
    """
    name = phase_run.phase.name
    now, tools = phase_run.now, phase_run.tools
    turn, answers = run.step_of(phase_run), dict[int, ToolOutput]()
    recorded = run.journal.tools_at(turn, reply.tool_calls)
    if recorded is not None:
        outputs, started = await _outputs_of_record(phase_run, reply, recorded), run.record.clock()
        state = recorded.state
    else:
        run.check_time()
        run.record.set_time(None)
        started, before = run.record.clock(), dict(now.state.snapshot())
        try:
            # A person is asked before anything is done: without an answer nothing of it is.
            answers = await answers_to(run, phase_run, turn, reply.tool_calls)
            answers |= _kept_for(run, phase_run, reply.tool_calls, answers)
            calls = [call for at, call in enumerate(reply.tool_calls) if at not in answers]
            for call in calls:
                run.emit(ToolStarted(name, call.name, call.arguments))
            named = [call.name for call in calls if call.name in tools.by_name]
            if lasting := [each for each in named if tools.by_name[each].effects == "external"]:
                run.record.decide(
                    name, f"{turn}: {', '.join(lasting)} run", ToolsStarted(turn, lasting)
                )
            ran = iter(await run_tools(calls, tools.by_name, tools.context))
            outputs = [answers.get(at) or next(ran) for at in range(len(reply.tool_calls))]
        except asyncio.CancelledError:
            stopped = [(call, _INTERRUPTED) for call in reply.tool_calls]
            _record_results(run, phase_run, parent, stopped, started)
            raise
        state = now.state.changed_since(before)
    answered = list(zip(reply.tool_calls, outputs, strict=True))
    _record_results(run, phase_run, parent, answered, started, state)
    note_results(run, phase_run, answered)
    fresh = [each for at, each in enumerate(answered) if at not in answers]
    run.kept_results.note(fresh, tools.by_name, at=run.record.clock(), turn=str(turn))
    for call, output in answered if recorded is None else ():
        tell_result(run, name, call, output)


async def _outputs_of_record(
    phase_run: PhaseRun, reply: Message, recorded: TurnRecord
) -> list[ToolOutput]:
    """Return the results that are in the record, and bring back what they changed.

    Tools that act on the run itself run again; they cost nothing and touch nothing outside.
    Cascades do from their own records, so that what they took is counted.
    """
    tools = phase_run.tools
    inner = [
        call
        for call, each in zip(reply.tool_calls, recorded.results, strict=True)
        if (tool := tools.by_name.get(call.name)) and not each.failed
        if call.name in _INNER or tool.cascade
    ]
    if inner:
        await run_tools(inner, tools.by_name, tools.context)
    phase_run.now.state.update(recorded.state)
    return [ToolOutput(each.text, each.pictures, each.failed) for each in recorded.results]


def _kept_for(
    run: CascadeRun,
    phase_run: PhaseRun,
    calls: Sequence[ToolCall],
    answers: Mapping[int, ToolOutput],
) -> dict[int, ToolOutput]:
    """The results that stand for calls, by their position; each is told with its first turn."""
    reused: dict[int, ToolOutput] = {}
    for at, call in enumerate(calls):
        tool = phase_run.tools.by_name.get(call.name)
        if at in answers or not (kept := run.kept_results.find(tool, call, run.record.clock())):
            continue
        reused[at] = kept.output
        text = f"{call.name} did not run: the result of {kept.turn} is used again"
        run.tell(phase_run.phase.name, text, ResultReused(call.name, kept.turn), detail=True)
    return reused


async def refuse_calls(run: CascadeRun, phase_run: PhaseRun, reply: Message, parent: str) -> None:
    """Record that the calls of `reply` were not run: it was to answer without tools.

    A call without a result would make the history unusable for every provider.
    """
    refused = ToolOutput(NOT_RUN_TEXT, error=True)
    now = run.record.clock()
    _record_results(run, phase_run, parent, [(call, refused) for call in reply.tool_calls], now)


def _record_results(  # noqa: PLR0917
    run: CascadeRun,
    phase_run: PhaseRun,
    parent: str,
    answered: list[tuple[ToolCall, ToolOutput]],
    started: float,
    state: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    milliseconds = (run.record.clock() - started) * 1_000
    tools = phase_run.tools.by_name
    rows = list[Row]()
    for at, (call, output) in enumerate(answered):
        message = tool(call, Text(output.text), *output.pictures, failed=output.error)
        row = phase_run.row(NodeType.TOOL_RESULT, message)
        row = replace(row, parent_id=parent, duration_ms=milliseconds)
        of_row = state if at == 0 else {}
        cut = output is _INTERRUPTED
        tool_of = tools.get(call.name)
        rows.append(result_row(run, row, tool_of, call, output, state=of_row, interrupted=cut))
    results = run.record.append(rows)
    phase_run.messages.own += results
    mark_matches(run, phase_run, results)
    forced = phase_run.generation.tool_choice
    phase_run.now.forced_done |= any(forced in ("required", call.name) for call, _ in answered)


_INTERRUPTED: Final = ToolOutput(INTERRUPTED_TEXT, error=True)
"""The result of a tool that was running when the user stopped the run."""

_INNER: Final = frozenset({"callout", "describe_picture", "look_again", ROUTE_TO, "use_skill"})
"""Tools that act on the run itself beside its state."""

_PLANNING = frozenset({"plan", "todo"})


def note_results(
    run: CascadeRun, phase_run: PhaseRun, answered: Sequence[tuple[ToolCall, ToolOutput]]
) -> None:
    """Take note of the results of a turn's calls, in their order."""
    state = run.injected
    for call, output in answered:
        names = names_touched(phase_run.tools.by_name.get(call.name), call)
        about = frozenset(f"{call.name} {name}" for group in names.values() for name in group)
        result = FailedCall(call.name, call.arguments, output.text.strip().partition("\n")[0])
        mended: list[FailedCall] = []
        if output.error:
            state.touched[result] = about
        else:
            mended = [each for each in state.failures if state.touched.get(each, about) & about]
            state.files += [name for name in names.get("writes", ()) if name not in state.files]
        state.failures = update_failures(state.failures, result, failed=output.error, mended=mended)
    if any(call.name in _PLANNING and not output.error for call, output in answered):
        _tell_plan(run, phase_run)


def _tell_plan(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Show the plan as it is now, and put it into the record."""
    plan = plan_in(phase_run.now.state)
    if plan is None:
        return
    steps = tuple((step.status, step.text, step.conclusion) for step in plan.steps)
    name, kept = phase_run.phase.name, PlanKept(phase_run.now.turn, plan.as_state())
    run.emit(PlanChanged(name, plan.goal, plan.done, len(plan.steps), plan.next, steps))
    run.record.decide(name, plan.in_line(), kept)
