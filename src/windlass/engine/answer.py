"""Running the tools a reply asked for: every call gets its result, and what it touched is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from windlass.engine.callouts import mark_matches
from windlass.engine.events import PlanChanged, ToolEnded, ToolStarted
from windlass.engine.state import PhaseRun, Run
from windlass.history.base import NodeType
from windlass.injectors.base import FailedCall
from windlass.injectors.failures import with_result
from windlass.injectors.plan import plan_in
from windlass.messages import Message, Text, ToolCall, tool
from windlass.tools.base import Tool, ToolOutput
from windlass.tools.runner import run_tools


async def answer_calls(run: Run, phase_run: PhaseRun, asked: Message, parent: str) -> None:
    """Run the calls of `asked` together and record their results as one batch.

    `parent` is the trace of the reply. When the user stops the run meanwhile, each
    call is recorded as interrupted first: a call without a result would make the
    history unusable for every provider.
    """
    name = phase_run.phase.name
    for call in asked.tool_calls:
        run.emit(ToolStarted(name, call.name, call.arguments))
    started = run.record.clock()
    try:
        outputs = await run_tools(
            asked.tool_calls, phase_run.progress.tools, phase_run.progress.context
        )
    except asyncio.CancelledError:
        stopped = ToolOutput("[no result: the run was interrupted]", error=True)
        _record(run, phase_run, parent, [(call, stopped) for call in asked.tool_calls], started)
        raise
    _record(run, phase_run, parent, list(zip(asked.tool_calls, outputs, strict=True)), started)
    note_results(run, phase_run, list(zip(asked.tool_calls, outputs, strict=True)))
    for call, output in zip(asked.tool_calls, outputs, strict=True):
        names = tuple(picture.describe() for picture in output.pictures)
        summary = output.text.strip().partition("\n")[0]
        run.emit(ToolEnded(name, call.name, output.error, summary, names))


def _spent(run: Run, output: ToolOutput) -> dict[str, Any]:
    """The columns that say what a model took for the tool, which is added to the session's."""
    spent = output.spent
    if spent is None:
        return {}
    return {
        "model": spent.model,
        "tokens_in": spent.usage.tokens_in,
        "tokens_out": spent.usage.tokens_out,
        "tokens_cached": spent.usage.tokens_cached,
        "cost": run.charge_tool(spent),
    }


def _record(
    run: Run,
    phase_run: PhaseRun,
    parent: str,
    answered: list[tuple[ToolCall, ToolOutput]],
    started: float,
) -> None:
    milliseconds = (run.record.clock() - started) * 1_000
    rows = [
        run.record.row(
            NodeType.TOOL_RESULT,
            tool(call, Text(output.text), *output.pictures, failed=output.error),
            phase=phase_run.phase.name,
            turn=phase_run.progress.turn,
            attempt=phase_run.progress.attempt,
            parent_id=parent,
            keep_pictures=True,
            duration_ms=milliseconds,
            metadata={
                "error": output.error,
                "tool": call.name,
                **({} if output.error else touched(phase_run.progress.tools.get(call.name), call)),
                **({"searches": output.spent.searches} if output.spent else {}),
            },
            **_spent(run, output),
        )
        for call, output in answered
    ]
    results = run.record.append(rows)
    phase_run.progress.own += results
    mark_matches(run, phase_run, results)
    forced = phase_run.generation.tool_choice
    phase_run.progress.forced_done |= any(forced in ("required", call.name) for call, _ in answered)


_PLANNING = frozenset({"plan", "todo"})


def note_results(
    run: Run, phase_run: PhaseRun, answered: Sequence[tuple[ToolCall, ToolOutput]]
) -> None:
    """Take note of the results of a turn's calls, in their order."""
    state = run.injected
    for call, output in answered:
        names = touched(phase_run.progress.tools.get(call.name), call)
        about = frozenset(f"{call.name} {name}" for said in names.values() for name in said)
        now = FailedCall(call.name, call.arguments, output.text.strip().partition("\n")[0])
        if output.error:
            state.touched[now] = about
            mended: list[FailedCall] = []
        else:
            mended = [one for one in state.failures if state.touched.get(one, about) & about]
            state.files += [one for one in names.get("writes", ()) if one not in state.files]
        state.failures = with_result(state.failures, now, failed=output.error, mended=mended)
    if any(call.name in _PLANNING and not output.error for call, output in answered):
        _tell_plan(run, phase_run)


def _tell_plan(run: Run, phase_run: PhaseRun) -> None:
    """Show the plan as it is now, and put it into the record."""
    plan = plan_in(phase_run.progress.state)
    if plan is None:
        return
    steps = tuple((one.status, one.text, one.conclusion) for one in plan.steps)
    run.emit(
        PlanChanged(phase_run.phase.name, plan.goal, plan.done, len(plan.steps), plan.next, steps)
    )
    run.record.decide(
        phase_run.phase.name,
        plan.told(),
        kind="plan",
        turn=phase_run.progress.turn,
        plan=plan.as_state(),
    )


LONGEST_NAME: Final = 500
"""Characters of an argument that is taken for the name of what was read or written."""


def touched(tool: Tool | None, call: ToolCall) -> dict[str, list[str]]:
    """The names under `reads` and `writes`, as far as the tool declares any.

    An argument that was left out counts with its default; long text is no name of
    anything and is left out.
    """
    if tool is None or not (tool.reads or tool.writes):
        return {}
    try:
        given = call.parsed()
    except ValueError:
        return {}
    known = tool.spec.parameters["properties"]
    found: dict[str, list[str]] = {}
    for key, names in (("reads", tool.reads), ("writes", tool.writes)):
        said = [given.get(name, known[name].get("default")) for name in names]
        values = [each for one in said for each in (one if isinstance(one, list) else [one])]
        if named := [v for v in values if isinstance(v, str) and 0 < len(v) <= LONGEST_NAME]:
            found[key] = named
    return found
