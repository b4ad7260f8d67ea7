"""A small MCP server over stdio, for tests of what becomes of a server: it starts at once.

`mcp_server` is made with the library, which takes a second to import.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

TOOL = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def answer(method: str, params: dict[str, object]) -> dict[str, object]:
    """The result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "plain", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            arguments = params["arguments"]
            assert isinstance(arguments, dict)
            return {"content": [{"type": "text", "text": f"said: {arguments['text']}"}]}
        case _:
            return {}


if __name__ == "__main__":
    if "PID_FILE" in os.environ:
        Path(os.environ["PID_FILE"]).write_text(str(os.getpid()), encoding="utf-8")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params") or {})
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
