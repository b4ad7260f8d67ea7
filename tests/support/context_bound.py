"""What tests of context bound build their cases of; others use it, too."""

from __future__ import annotations

import json
from typing import Any


def lookup(number: int, content: str | None = None) -> list[dict[str, Any]]:
    """A call and its result."""
    function = {"name": "lookup", "arguments": f'{{"order": "#W{number}"}}'}
    text = content or "\n".join(f"line {at} of order {number}" for at in range(200))
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def loop(turns: int) -> list[dict[str, Any]]:
    """A conversation in which results are long."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Compare the orders."}]
    for number in range(turns):
        said += lookup(number)
    return said


def bytes_of(window: Any) -> str:
    return json.dumps(window.messages)
