"""Starts the tests' MCP server: as a command for stdio, and as a process that speaks HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROGRAM = ["-m", "tests.tools.mcp_server"]
COMMAND = [sys.executable, *PROGRAM]
PLAIN_PROGRAM = ["-m", "tests.tools.mcp_plain"]
PLAIN = [sys.executable, *PLAIN_PROGRAM]
"""The server that has `echo` only, and starts at once."""


@contextmanager
def over_http(*, started_s: float = 60.0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of the server on loopback, and its process; ended with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*COMMAND, str(port)], cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + started_s
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
