"""What cascades of other runners hold that Windlass has no part in, and files of other programs.

A key that only other products act on is left out with a warning. A key that would change what a
run says, and a tool that is not there, are mistakes; with `--lenient` they are left out, too.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from windlass.cascade.source import ParsedText, Path
from windlass.errors import ContextError, Mistake
from windlass.text.templates import render

_SHOWN_KEYS: Final = 4
_NOBODYS: Final = "x-"
"""What keys at the top begin with that hold parts for YAML's aliases, and mean nothing."""

NOT_OURS: Final = frozenset(
    {"audibles", "browser", "narrator", "research_db", "triggers", "ui_mode"}
)
"""Keys of a cascade or a phase that are for schedulers, pages and speech beside a run."""

_CHARTS: Final = "'create_chart' draws charts here"
_SEARCH: Final = "'run_sql' lists tables with SHOW TABLES"
_ASKING: Final = "'ask_human' asks a person"

_TOOLS: Final[Mapping[str, str]] = {
    "await_signal": "",
    "browser": "",
    "control_browser": "",
    "create_artifact": "",
    "create_plotly": _CHARTS,
    "create_vega_lite": _CHARTS,
    "extract_page_content": "",
    "fire_signal": "",
    "linux_shell": "",
    "list_sql_connections": _SEARCH,
    "rag_list": "",
    "rag_read_chunk": "",
    "rag_search": "",
    "research_execute": "",
    "research_query": "",
    "run_code": "",
    "say": "",
    "show_ui": _ASKING,
    "sql_rag_search": _SEARCH,
    "sql_search": _SEARCH,
    "web_navigator": "",
}
"""Tools that other products have, each with what comes near to it here."""

_CHECKPOINT: Final = (
    "'checkpoint_id' belongs to pages of another runner; ask with the tool 'ask_human' instead"
)


def foreign_tool(name: str) -> str | None:
    """Return what is said of a tool that another product has; None: none is known to have it."""
    if name.startswith("shell:"):
        near = ""
    elif name in _TOOLS:
        near = _TOOLS[name]
    else:
        return None
    ways = "write a tool of your own ('tools'), or name one of an MCP server ('mcp_servers')"
    return f"{name!r} is no tool of Windlass: {ways}" + (f"; {near}" if near else "")


def foreign_name(name: str) -> str | None:
    """Return what is said of a template's name that another product fills in."""
    return _CHECKPOINT if name == "checkpoint_id" else None


_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "agents of CrewAI": ("*.role", "*.goal"),
    "tasks of CrewAI": ("*.description", "*.expected_output"),
    "a crew of CrewAI": ("agents", "tasks"),
    "an app of Dify": ("app", "kind"),
    "a workflow of Dify": ("workflow.graph",),
    "a workflow of n8n": ("nodes", "connections"),
    "a flow of Node-RED": ("*.wires", "*.type"),
    "a flow of Flowise": ("nodes", "edges"),
    "a flow of Langflow": ("data.nodes", "data.edges"),
    "a flow of promptflow": ("nodes.*.source",),
    "a pipeline of Haystack": ("components", "connections"),
    "a component of AutoGen": ("provider", "component_type"),
    "a configuration of LangGraph": ("graphs",),
    "a prompt of LangChain": ("_type", "template"),
    "an object of LangChain": ("lc", "kwargs"),
    "a configuration of LiteLLM": ("model_list",),
    "a configuration of promptfoo": ("prompts", "providers"),
    "a workflow of GitHub Actions": ("jobs.*.steps",),
    "a playbook of Ansible": ("*.hosts", "*.tasks"),
    "a JSON Schema": ("$schema", "properties"),
    "a list of MCP servers": ("mcpServers",),
    "a tool of another runner": ("tool_id",),
    "a recorded conversation": ("messages",),
    "a list of messages": ("*.role", "*.content"),
}
"""What other programs' files are known by: keys that all of them have. `*` is each part of an
object or a list; the first that fits is told."""


def not_a_cascade(data: Any) -> str | None:
    """Return what is said of data that is no cascade at all.

    None where somebody may have meant one.
    """
    if isinstance(data, Mapping):
        meant = [key for key in ("cascade_id", "phases") if get_close_matches(key, map(str, data))]
        if meant or not data:
            return None
    for name, keys in _FILES.items():
        if all(_has(data, key.split(".")) for key in keys):
            return f"this is no cascade (it looks like {name})"
    if isinstance(data, Mapping):
        listed = ", ".join(repr(str(key)) for key in list(data)[:_SHOWN_KEYS])
        more = ", …" if len(data) > _SHOWN_KEYS else ""
        return f"this is no cascade: it has {listed}{more}, and neither 'cascade_id' nor 'phases'"
    return None


def _has(data: Any, keys: Sequence[str]) -> bool:
    """Return whether these keys lead to something in the data."""
    if not keys:
        return True
    if keys[0] != "*":
        return isinstance(data, Mapping) and keys[0] in data and _has(data[keys[0]], keys[1:])
    parts = list(data.values()) if isinstance(data, Mapping) else data
    return isinstance(parts, list) and bool(parts) and all(_has(each, keys[1:]) for each in parts)


def without_foreign_keys(reading: ParsedText) -> tuple[Any, list[Mistake]]:
    """Return the data of a cascade without the keys that only other products act on, or nobody.

    With it a warning for each such key, once, at its first place.
    """
    told: dict[str, Mistake] = {}

    def own(holder: Any, place: Path) -> Any:
        if not isinstance(holder, Mapping):
            return holder
        for key in holder:
            if key in NOT_OURS and key not in told:
                text = f"{key!r} is not part of Windlass, and is left out"
                told[key] = Mistake(reading.file, reading.line((*place, key)), text)
        parts = () if place else tuple(key for key in holder if str(key).startswith(_NOBODYS))
        return {key: holder[key] for key in holder if key not in NOT_OURS and key not in parts}

    data = own(reading.data, ())
    if isinstance(data, dict) and isinstance(phases := data.get("phases"), list):
        data["phases"] = [own(each, ("phases", at)) for at, each in enumerate(phases)]
    return data, list(told.values())


_BEST: Final = "Take the attempt that best does what was asked."
_PICKING: Final = ("evaluator", "evaluator_instructions", "aggregate", "human_eval", "mode")
_COUNTS: Final = ("max_turns", "max_attempts")


def lenient_values(data: Any) -> tuple[Any, list[tuple[Path, str]]]:
    """Return the data with what other runners allow of values that are none here; what was changed.

    A number of turns or attempts that is a template has what the template gives without an input,
    and soundings that nobody picks from are picked from by what was asked.
    """
    if not isinstance(data, Mapping):
        return data, []
    data, told = copy.deepcopy(dict(data)), list[tuple[Path, str]]()
    phases = data.get("phases")
    places: list[tuple[Path, Any]] = [((), data)]
    listed = phases if isinstance(phases, list) else []
    places += [(("phases", at), each) for at, each in enumerate(listed)]
    for place, holder in places:
        rules = holder.get("rules") if isinstance(holder, dict) else None
        rules = rules if isinstance(rules, dict) else {}
        for key in _COUNTS:
            written = rules.get(key)
            if isinstance(written, str) and (number := _without_input(written)) is not None:
                rules[key] = number
                text = f"{written!r} is read without the input: {number} holds"
                told.append(((*place, "rules", key), text))
            elif isinstance(written, str):
                del rules[key]
                text = f"{written!r} is no number; it is left out"
                told.append(((*place, "rules", key), text))
        soundings = holder.get("soundings") if isinstance(holder, dict) else None
        if isinstance(soundings, dict) and not any(soundings.get(key) for key in _PICKING):
            soundings["evaluator_instructions"] = _BEST
            text = "nothing says which attempt wins; the one that best does what was asked does"
            told.append(((*place, "soundings"), text))
    return data, told


def _without_input(template: str) -> int | None:
    """Return the number above 0 that a template gives where no input, state or output is there."""
    try:
        text = render(template, input={}, state={}, outputs={}, where="", is_lenient=True)
        return max(1, int(float(text)))
    except (ContextError, ValueError, OverflowError):
        return None
