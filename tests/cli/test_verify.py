"""`windlass verify` counts on a terminal what it reads, and prints nothing more elsewhere."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.cli.terminal import read_terminal
from tests.engine.harness import House, cascade, phase
from windlass.history.sqlite import SqliteStore

VERIFY = [sys.executable, "-c", "from windlass.cli import main; main()", "verify", "--store"]


def run_once(folder: Path) -> str:
    """A store in which a run is recorded."""
    house = House(folder)
    asyncio.run(house.run(cascade(phase("a"), phase("b", context={"from": ["a"]}))))
    house.close()
    return str(house.store)


def test_a_terminal_counts_and_a_pipe_is_quiet(tmp_path: Path) -> None:
    store = run_once(tmp_path)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    running = subprocess.Popen([*VERIFY, store], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    printed = read_terminal(ours)
    assert running.wait(60) == 0
    os.close(ours)
    assert "verifying" in printed
    assert "1 of 1 sessions" in printed
    done = subprocess.run([*VERIFY, store], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"the store {store!r} is sound\n", "")


def test_messages_and_sessions_are_counted_to_their_number(tmp_path: Path) -> None:
    counted: dict[str, tuple[int, int]] = {}

    def count(what: str, number: int, total: int) -> None:
        assert number == counted.get(what, (0, total))[0] + 1
        counted[what] = number, total

    with closing(SqliteStore.open_existing(Path(run_once(tmp_path)))) as store:
        assert list(store.verify(count)) == []
    assert {"messages", "sessions"} <= set(counted)
    assert all(number == total for number, total in counted.values())
