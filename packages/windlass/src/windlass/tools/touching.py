"""What a call of a tool reads and writes, by name."""

from __future__ import annotations

from typing import Final

from windlass.messages import ToolCall
from windlass.tools.base import Tool

LONGEST_NAME: Final = 500
"""Characters of an argument that is taken for the name of what was read or written."""


def names_touched(tool: Tool | None, call: ToolCall) -> dict[str, list[str]]:
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
    properties = tool.spec.parameters["properties"]
    touched: dict[str, list[str]] = {}
    for key, names in (("reads", tool.reads), ("writes", tool.writes)):
        values = [given.get(name, properties[name].get("default")) for name in names]
        flat = [
            each for value in values for each in (value if isinstance(value, list) else [value])
        ]
        if named := [v for v in flat if isinstance(v, str) and 0 < len(v) <= LONGEST_NAME]:
            touched[key] = named
    return touched
