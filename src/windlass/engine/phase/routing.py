"""How a phase says what comes next: by the tool `route_to`, or by an output that is a name."""

from __future__ import annotations

from typing import Final

from windlass.cascade.flow import ways_on
from windlass.cascade.handoffs import ROUTE_TO, are_chosen, targets_of
from windlass.cascade.model import Phase
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import Route
from windlass.messages import ToolSpec
from windlass.text.prompts import handoffs_text
from windlass.tools.base import Tool
from windlass.window.entries import Item

_DESCRIPTION: Final = (
    "Say what comes next. It ends your work on this task: answer before, or with it."
)


def routes(phase: Phase) -> bool:
    """Return whether the model of a phase has the tool `route_to`."""
    return bool(phase.handoffs) and (are_chosen(phase.handoffs) or ROUTE_TO in phase.tackle)


def menu_of(phase: Phase) -> tuple[str, ...]:
    """Return what joins the instructions of a phase whose model chooses what comes next."""
    if not are_chosen(phase.handoffs):
        return ()
    return (handoffs_text({each.target: each.description or "" for each in phase.handoffs}),)


def route_tool(phase_run: PhaseRun) -> Tool:
    """Return the tool by which the model of a phase says what comes next; the last call counts."""

    def route_to(target: str) -> str:
        phase_run.now.route = target
        return f"{target} comes next"

    target = {"type": "string", "enum": targets_of(phase_run.phase.handoffs)}
    parameters = {
        "type": "object",
        "properties": {"target": target},
        "required": ["target"],
        "additionalProperties": False,
    }
    spec = ToolSpec(ROUTE_TO, _DESCRIPTION, parameters)
    return Tool(spec, route_to, effects="none")


def route_of(phase: Phase, phase_run: PhaseRun, output: Item | None) -> Route | None:
    """Return what a phase that ended chose to come next; None: nothing."""
    if phase_run.now.route is not None:
        return Route(phase_run.now.route, "model")
    output_text = output.message.text.strip() if output is not None else ""
    return Route(output_text, "output") if output_text in ways_on(phase) else None
