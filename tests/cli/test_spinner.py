"""At a terminal a spinner says what the run waits for; anywhere else nothing is drawn."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.terminal import read_terminal
from tests.engine.harness import cascade, phase

MAIN = """
import time
from windlass.cli import main
from windlass.messages import Message, ToolCall
import windlass_local as local
from windlass.providers.scripted import Scripted

async def wait(request):
    import asyncio
    await asyncio.sleep(1.2)
    if any(message.role == "tool" for message in request.messages):
        return "all is said"
    return Message("assistant", tool_calls=(ToolCall("1", "search", '{"text": "it"}'),))

local.LocalProvider = lambda: Scripted(wait)
main()
"""
TOOLS = """
import sys, time

def search(text: str) -> str:
    "Search for a text."
    print("LOUD")
    print("LOUD", file=sys.stderr)
    time.sleep(1.2)
    return "found " + text
"""
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    (tmp_path / "c.json").write_text(json.dumps(cascade(phase("a", tackle=["my_tools:search"]))))
    return tmp_path


def start(folder: Path, *options: str, **environment: str) -> tuple[subprocess.Popen[bytes], int]:
    """A run of which standard error is a terminal, and the other end of that."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", "c.json", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "COLUMNS": "100", **environment},
    )
    os.close(theirs)
    return running, ours


def test_it_names_what_is_waited_for_and_leaves_nothing(folder: Path) -> None:
    running, ours = start(folder)
    drawn = read_terminal(ours)
    assert running.wait(60) == 0
    os.close(ours)
    assert "\x1b[?25l" not in drawn
    drawn = re.sub(r"\x1b\[\d*m", "", drawn.replace("\r\n", "\n"))
    for waited in ("model 0 s", "model 1 s", "tool search 0 s", "tool search 1 s"):
        assert any(f"{frame} {waited}" in drawn for frame in FRAMES), drawn
    assert "LOUD" not in drawn
    # What stays on the screen: a line that is drawn again is erased first.
    left = re.sub(r"[^\n]*\n?\r?(\x1b\[1A)?\x1b\[2K", "", drawn)
    assert "tool search: found it" in left
    assert not any(frame in left for frame in FRAMES)


@pytest.mark.parametrize("quiet", ["--json", "--output-only", "CI"])
def test_where_nobody_looks_on_nothing_is_drawn(folder: Path, quiet: str) -> None:
    options = [quiet] if quiet.startswith("--") else []
    running, ours = start(folder, *options, **({} if options else {quiet: "true"}))
    drawn = read_terminal(ours)
    assert running.wait(60) == 0
    os.close(ours)
    assert ("tool search" in drawn) is (not options)
    assert not any(frame in drawn for frame in FRAMES)


def test_nor_in_a_pipe_that_wants_colours(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MAIN, "run", "c.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1"},
        check=True,
    )
    assert "tool search" in ended.stderr
    assert not any(frame in ended.stderr for frame in FRAMES)


def test_ctrl_c_ends_it(folder: Path) -> None:
    running, ours = start(folder)
    before = read_terminal(ours, "model 1 s")
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    after = read_terminal(ours)
    assert running.wait(60) == 130
    os.close(ours)
    assert "model 1 s" in before
    assert "windlass: interrupted" in after
    assert not any(frame in after.rpartition("\x1b[2K")[2] for frame in FRAMES)
