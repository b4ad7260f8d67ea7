"""An MCP server over stdio with one tool, `records`, whose result is long."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

TOOL = {
    "name": "records",
    "description": "The records of a table, as JSON.",
    "inputSchema": {
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "required": ["count"],
    },
}
CITIES = ("Oslo", "Bergen", "Lima", "Quito", "Turin")


def records(count: int) -> str:
    """The records as the tool gives them."""
    rows = [
        {
            "id": number,
            "city": CITIES[number % len(CITIES)],
            "state": "open" if number % 7 else "failed",
            "amount": number * 37 % 1_000,
        }
        for number in range(count)
    ]
    return json.dumps(rows, indent=1)


def answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "table", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            text = records(params["arguments"]["count"])
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params") or {})
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
