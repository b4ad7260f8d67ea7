"""What cascades of other runners hold that Windlass has no part in: keys and tools by name.

A key that only other products act on is left out with a warning. A key that would change what a
run says, and a tool that is not there, are mistakes; with `--lenient` they are left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.cascade.source import ParsedText, Path, value_at
from windlass.errors import Mistake

NOT_OURS: Final = frozenset({"audibles", "narrator", "research_db", "triggers", "ui_mode"})
"""Keys of a cascade or a phase that are for schedulers, pages and speech beside a run."""

_CHARTS: Final = "'create_chart' draws charts here"
_SEARCH: Final = "'run_sql' lists tables with SHOW TABLES"
_ASKING: Final = "'ask_human' asks a person"

_TOOLS: Final[Mapping[str, str]] = {
    "await_signal": "",
    "browser": "",
    "create_artifact": "",
    "create_plotly": _CHARTS,
    "create_vega_lite": _CHARTS,
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
    """What is said of a tool that another product has; None: none is known to have it."""
    if name.startswith("shell:"):
        near = ""
    elif name in _TOOLS:
        near = _TOOLS[name]
    else:
        return None
    ways = "write a tool of your own ('tools'), or name one of an MCP server ('mcp_servers')"
    return f"{name!r} is no tool of Windlass: {ways}" + (f"; {near}" if near else "")


def foreign_name(name: str) -> str | None:
    """What is said of a template's name that another product fills in."""
    return _CHECKPOINT if name == "checkpoint_id" else None


def without_foreign_keys(data: Any) -> Any:
    """The data of a cascade without the keys that only other products act on."""
    if not isinstance(data, Mapping):
        return data
    kept = {key: value for key, value in data.items() if key not in NOT_OURS}
    phases = kept.get("phases")
    if isinstance(phases, list):
        kept["phases"] = [
            {key: value for key, value in phase.items() if key not in NOT_OURS}
            if isinstance(phase, Mapping)
            else phase
            for phase in phases
        ]
    return kept


def foreign_keys(reading: ParsedText) -> Iterator[Mistake]:
    """A warning for each key that is left out, once, at its first place."""
    seen: set[str] = set()
    phases = value_at(reading.data, ("phases",))
    places: list[Path] = [()]
    places += [("phases", at) for at in range(len(phases) if isinstance(phases, list) else 0)]
    for place in places:
        held = value_at(reading.data, place)
        for key in held if isinstance(held, Mapping) else ():
            if key in NOT_OURS and key not in seen:
                seen.add(key)
                text = f"{key!r} is not part of Windlass, and is left out"
                yield Mistake(reading.file, reading.line((*place, key)), text)
