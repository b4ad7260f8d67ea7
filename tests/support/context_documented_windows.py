"""What tests of context documented windows build their cases of; others use it, too."""

from __future__ import annotations

import json
from typing import Any


def asked(number: int, name: str = "run", text: str = "", **arguments: Any) -> dict[str, Any]:
    """An assistant's message with one call."""
    function = {"name": name, "arguments": json.dumps(arguments or {"number": number})}
    tool_call = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": text or None, "tool_calls": [tool_call]}


def result(number: int, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content}


def idle(turns: int, start: int = 50) -> list[dict[str, Any]]:
    """Turns in which nothing of note happens."""
    numbers = range(start, start + turns)
    return [said for number in numbers for said in (asked(number), result(number, "ok"))]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}
