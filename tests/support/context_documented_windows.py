"""What tests of context documented windows build their cases of; others use it, too."""

from __future__ import annotations

import json
from typing import Any


def asked(number: int, name: str = "run", text: str = "", **arguments: Any) -> dict[str, Any]:
    """An assistant's message with one call."""
    return called(number, name, arguments or {"number": number}, text)


def called(number: int, name: str, arguments: dict[str, Any], text: str = "") -> dict[str, Any]:
    """The same, whatever its arguments are named."""
    function = {"name": name, "arguments": json.dumps(arguments)}
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
