"""Which keys of the state a phase may set, as far as that is known before a run."""

from __future__ import annotations

from typing import Final

from windlass.cascade.decision_points import DECISION_OF, HumanInput
from windlass.cascade.deterministic import SQL
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.tools_named import chooses_tools, tools_of
from windlass.errors import WindlassError
from windlass.text.templates import LAST_ERROR
from windlass.tools.registry import Registry

VALIDATED: Final = "validated_output"
"""The state key under which an output that its schema accepts stands as a value."""

_OURS: Final = "windlass."
_SETS_ANY: Final = "set_state"
_PLANS: Final = frozenset({"plan", "todo"})
_ASKS: Final = frozenset({"ask_human", "ask_human_custom", "request_decision"})


def sure_keys(cascade: Cascade, phase: Phase) -> frozenset[str]:
    """Return the keys that a phase sets whenever it ends well."""
    keys = set[str]()
    if phase.output_extraction is not None and phase.output_extraction.required:
        keys.add(phase.output_extraction.store_as)
    if cascade.settings_for(phase).output_schema is not None:
        keys.add(VALIDATED)
    asked = phase.human_input
    if isinstance(asked, HumanInput) and not (asked.condition or asked.timeout_seconds):
        keys.add(phase.name)
    key = phase.inputs.get("key") if phase.tool == _SETS_ANY else None
    return frozenset({*keys, key} if isinstance(key, str) else keys)


def keys_set(cascade: Cascade, phase: Phase, tools: Registry) -> frozenset[str] | None:
    """Return the keys that a phase may set itself (None: perhaps any)."""
    keys = {*sure_keys(cascade, phase)}
    if phase.output_extraction is not None:
        keys.add(phase.output_extraction.store_as)
    if phase.decision_points or phase.human_input:
        keys |= {phase.name, f"{DECISION_OF}{phase.name}"}
    if phase.on_error is not None:
        keys.add(LAST_ERROR)
    if chooses_tools(phase):
        return None
    for name in tools_of(phase):
        if name in _ASKS:
            keys.add(phase.name)
        elif name in _PLANS:
            keys.add("plan")
        elif _may_set_any(name, tools):
            return None
    return frozenset(keys)


def _may_set_any(name: str, tools: Registry) -> bool:
    """Whether a tool may set any key: it has the state, and is none of ours that leave it alone."""
    if name == _SETS_ANY:
        return True
    try:
        tool = tools.get(name)
    except WindlassError:  # not known here: of a server, which has no state, or not trusted
        return ":" in name or "." not in name
    if tool.cascade or name.startswith(SQL):
        return False
    return tool.context_parameter is not None and not tool.origin.startswith(_OURS)
