"""What a tool call read and wrote, by the arguments that its tool declares for that."""

from __future__ import annotations

from typing import Final

from windlass.messages import ToolCall
from windlass.tools.base import Tool

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
