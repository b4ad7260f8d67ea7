"""A real MCP server for tests: over stdio, or over HTTP when it is given a port."""

from __future__ import annotations

import base64
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.types import AudioContent, CallToolResult, ImageContent, TextContent

server = MCPServer("tests")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return f"said: {text}"


@server.tool()
def draw(color: str = "red") -> Image:
    """Draw a picture."""
    from tests.strategies import png  # hypothesis takes half a second, and few draw

    return Image(data=png(), format="png")


@server.tool()
def measure() -> CallToolResult:
    """Answer with structured content only."""
    return CallToolResult(content=[], structured_content={"length": 7})


@server.tool()
def mixed() -> CallToolResult:
    """Answer with text, a sound, and a picture that is none."""
    sound = base64.b64encode(b"RIFF").decode()
    return CallToolResult(
        content=[
            TextContent(text="one"),
            AudioContent(data=sound, mime_type="audio/wav"),
            ImageContent(data="%%%", mime_type="image/png"),
        ],
        structured_content={"not": "shown"},
    )


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool(name="dotted.name")
def dotted() -> str:
    """Have a dot in the name."""
    return "dotted"


@server.tool()
def slow(seconds: float) -> str:
    """Take a while."""
    time.sleep(seconds)
    return "late"


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


@server.tool()
def variable(name: str) -> str:
    """Say what an environment variable holds."""
    return os.environ.get(name, "not set")


@server.tool()
def variable_length(name: str) -> int:
    """Say how long the value of an environment variable is."""
    return len(os.environ.get(name, ""))


@server.tool()
def judge(output: str) -> dict[str, Any]:
    """Judge an output."""
    return {"valid": "good" in output, "reason": "it must be good"}


if __name__ == "__main__":
    if "PID_FILE" in os.environ:
        Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
