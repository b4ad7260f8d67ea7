"""Running the tools a reply asked for, so that every call gets its result."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.engine.callouts import mark_matches
from windlass.engine.events import ToolEnded, ToolStarted
from windlass.engine.injecting.lessons import note_results
from windlass.engine.state import PhaseRun, Run
from windlass.engine.touched import touched
from windlass.history.base import NodeType
from windlass.messages import Message, Text, ToolCall, tool
from windlass.tools.base import ToolOutput
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
