"""What injectors learn from tool results: failures and what mends them, files, a changed plan."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.engine.events import PlanChanged
from windlass.engine.state import PhaseRun, Run
from windlass.engine.touched import touched
from windlass.injectors.base import FailedCall
from windlass.injectors.failures import with_result
from windlass.injectors.plan import plan_in
from windlass.messages import ToolCall
from windlass.tools.base import ToolOutput

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
