"""Tools for tests of phases that run a tool."""

from __future__ import annotations

import time

from windlass.messages import ToolSpec
from windlass.tools.base import Tool, ToolContext
from windlass.tools.registry import tool

ran: list[str] = []
"""What ran, in order."""
failures: list[str] = []
"""What the next attempts fail by, the newest first."""


@tool
def read_orders(context: ToolContext, path: str, limit: int = 0) -> dict[str, object]:
    """Read orders.

    Args:
        context: What the run provides.
        path: The file.
        limit: At most so many; 0: all.
    """
    ran.append(path)
    if failures:
        raise OSError(failures.pop())
    context.state["read"] = path
    return {"status": "empty" if path == "none" else "read", "orders": [path] * (limit or 2)}


def long_text(lines: int) -> str:
    """Many lines.

    Args:
        lines: How many.
    """
    return "\n".join(f"row {number}: nothing to see here" for number in range(lines))


def slow() -> str:
    """Take a second."""
    time.sleep(1)
    return "done"


class GoneError(BaseException):
    """The process is gone."""


def dies() -> str:
    """End the process the first time."""
    ran.append("dies")
    if len(ran) == 1:
        raise GoneError
    return "done"


judged: list[str] = []
"""What validators were asked about, in order."""


def no_names(output: str) -> dict[str, object]:
    """It names nobody."""
    judged.append(output)
    return {"valid": "Ann" not in output, "reason": "it names Ann"}


def short(output: str) -> dict[str, object]:
    """It is short."""
    judged.append(output)
    return {"valid": len(output) < 20, "reason": "it is too long"}


def _twice(number: int) -> int:
    return 2 * number


twice = Tool(
    ToolSpec("twice", "Twice.", {"type": "object", "properties": {"number": {"type": "integer"}}}),
    _twice,
)
"""A tool that is handed its arguments as they are, as those of an MCP server are."""
