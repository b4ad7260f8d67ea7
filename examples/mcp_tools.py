"""A phase with the tools of an MCP server: this file is the server, and the run that starts it.

python examples/mcp_tools.py            runs the cascade with the model on this machine
python examples/mcp_tools.py serve      is the server, over stdio, for any MCP client
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import windlass
from windlass.errors import WindlassError

METRES = {"fathom": 1.8288, "cable": 185.2, "nautical mile": 1852.0}

CASCADE: dict[str, Any] = {
    "cascade_id": "mcp_tools",
    "description": "The first phase has a tool of an MCP server, the second sees its result.",
    "mcp_servers": {"sea": {"command": [sys.executable, str(Path(__file__).resolve()), "serve"]}},
    "phases": [
        {
            "name": "convert",
            "instructions": 'Call sea.to_metres with amount {{ input.amount }} and unit "fathom".'
            " Then say the result.",
            "tackle": ["sea.*"],
            "tool_choice": "sea.to_metres",
        },
        {
            "name": "report",
            "instructions": "Say in one sentence how deep the water is.",
            "context": {"from": [{"phase": "convert", "include": ["messages"]}]},
        },
    ],
}


def serve() -> None:
    """Be the server."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("sea")

    @server.tool()
    def to_metres(amount: float, unit: str) -> str:
        """Convert a length at sea to metres. Units: fathom, cable, nautical mile."""
        return f"{amount:g} {unit} = {amount * METRES[unit]:g} metres"

    server.run("stdio")


def main() -> None:
    """Run the cascade, or be the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["run", "serve"], default="run")
    parser.add_argument("--model", default="local/smollm2", help="as provider/name")
    parser.add_argument("--store", default=".windlass", help="folder of the history")
    given = parser.parse_args()
    if given.what == "serve":
        serve()
        return
    try:
        result = windlass.run_sync(CASCADE, {"amount": 12}, model=given.model, store=given.store)
    except WindlassError as error:
        print(f"windlass: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if result.error is not None:
        print(result.error, file=sys.stderr)
        sys.exit(result.error.exit_code)
    for phase, text in result.outputs.items():
        print(f"{phase}: {text}")
    print(f"\nwindlass show {result.session_id} --call 2 --store {given.store}")


if __name__ == "__main__":
    main()
