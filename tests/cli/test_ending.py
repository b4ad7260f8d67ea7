"""Signals and closed pipes, for real: a run ends in order, whoever ends it and whenever."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import cascade, phase
from tests.providers.exchanges import openai_stream
from tests.providers.server import Answer, Server, serving, streamed
from tests.tasks.making import atomic
from tests.tools.mcp_running import PLAIN, PLAIN_PROGRAM, ROOT, is_alive
from windlass.history.base import Store
from windlass.history.sqlite import SqliteStore
from windlass.settings.trust import trust
from windlass.wire.openai import check_sequence

TOOLS = '''
from pathlib import Path
from windlass.tools.registry import tool

@tool
async def swallow() -> str:
    """Wait, whoever says stop."""
    import asyncio
    Path("began").write_text("0")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@tool
def start_thread() -> str:
    """Leave a thread behind, and wait."""
    import threading, time
    threading.Thread(target=time.sleep, args=[600]).start()
    time.sleep(600)

@tool
async def block() -> str:
    """Wait in a thread that asyncio waits for."""
    import asyncio, time
    Path("began").write_text("0")
    await asyncio.to_thread(time.sleep, 600)
    return "late"
'''
STUBBORN = (
    "import signal, runpy, sys, time, atexit;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "atexit.register(time.sleep, 600);"
    "sys.argv = sys.argv[:1];"
    f"runpy.run_module({PLAIN_PROGRAM[1]!r}, run_name='__main__')"
)
SERVER = {"env": {"PID_FILE": "${MCP_PID_FILE}", "PYTHONPATH": "${TESTS_ROOT}"}}
HANG = Answer(hang=True)


def call_of(name: str) -> Answer:
    """A reply that calls a tool."""
    function = {"name": name, "arguments": "{}"}
    delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    return streamed(openai_stream([delta], "tool_calls"))


@dataclass
class Running:
    """A command that runs, its ends of the pipes, and what it has printed so far."""

    folder: Path
    process: asyncio.subprocess.Process
    server: Server
    err: str = ""
    started: float = field(default_factory=time.monotonic)

    async def asked(self) -> None:
        """Wait until it waits for its model."""
        ended = asyncio.ensure_future(self.process.wait())
        asked = asyncio.ensure_future(self.server.busy.wait())
        await asyncio.wait({ended, asked}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        assert asked.done(), await self.ended()

    async def until(self, path: str) -> int:
        """The number that a process of the run writes into a file."""
        file = self.folder / path
        async with asyncio.timeout(60):
            while not (file.exists() and file.read_text()):
                assert self.process.returncode is None, await self.ended()
                await asyncio.sleep(0.02)
        return int(file.read_text())

    async def ended(self) -> tuple[str, str]:
        """What it printed on standard output and standard error by its end."""
        out, err = await asyncio.wait_for(self.process.communicate(), 60)
        return out.decode(), err.decode()

    def open_store(self) -> SqliteStore:
        return SqliteStore.open_existing(self.folder / ".windlass")


@dataclass
class Site:
    """A folder with a model of its own, a cascade and a task that have an MCP server."""

    folder: Path
    server: Server

    def write(self, name: str, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        (self.folder / name).write_text(text)

    async def start(self, *arguments: str, tool_timeout_s: str = "", **more: Any) -> Running:
        environ = {
            **os.environ,
            **({"WINDLASS_TOOL_TIMEOUT_S": tool_timeout_s} if tool_timeout_s else {}),
            "MCP_PID_FILE": str(self.folder / "server"),
            "TESTS_ROOT": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-c", "from windlass.cli import main; main()", *arguments],
            cwd=self.folder,
            env=environ,
            **{**pipes, **more},
        )
        return Running(self.folder, process, self.server)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(HANG) as server:
        made = Site(tmp_path, server)
        toml = f'model = "own/x"\n[providers.own]\nbase_url = "{server.url}"\nwindow = 20000\n'
        declared = "\n[mcp_servers.demo]\ncommand = " + json.dumps(PLAIN)
        declared += '\nenv = {PID_FILE = "${MCP_PID_FILE}", PYTHONPATH = "${TESTS_ROOT}"}\n'
        made.write("windlass.toml", toml + declared)
        trust(tmp_path)
        made.write("my_tools.py", TOOLS)
        names = ["demo.echo", "swallow", "block"]
        made.write("c.json", cascade(phase("a", tackle=names), tools=["my_tools"]))
        made.write("task.xml", atomic(inside="<tools><tool>demo.echo</tool></tools>"))
        yield made


def status(store: Store, session: str = "s1") -> list[str]:
    return [str(outcome.status) for outcome in store.outcomes(session)]


def is_sound(store: SqliteStore) -> bool:
    check_sequence([one.row.message for one in store.rows("s1") if one.row.message])
    return not [found for found in store.verify() if found.severity == "damage"]


@pytest.mark.parametrize(
    ("door", "how"),
    [("run", "SIGINT"), ("run", "SIGHUP"), ("evaluate", "SIGTERM")],
)
async def test_a_signal_ends_a_run_in_order(site: Site, door: str, how: str) -> None:
    file = {"run": "c.json", "evaluate": "task.xml"}[door]
    running = await site.start(door, file, "--session", "s1")
    await running.asked()
    server = await running.until("server")
    running.process.send_signal(getattr(signal, how))
    out, err = await running.ended()
    assert running.process.returncode == 130, err
    assert "Traceback" not in out + err
    assert "windlass: interrupted" in err
    assert err.endswith("what was recorded: windlass show s1\n")
    assert f"windlass {door} {file} --resume s1" in err
    assert not is_alive(server)
    with running.open_store() as store:
        assert status(store)[-1] == "interrupted"
        assert is_sound(store)


@pytest.mark.parametrize("tool", ["swallow", "block"])
async def test_a_tool_that_does_not_end_leaves_nothing_behind(site: Site, tool: str) -> None:
    site.server.script[:] = [call_of(tool)]
    running = await site.start("run", "c.json", "--session", "s1")
    await running.until("began")
    server = await running.until("server")
    running.process.terminate()
    before = time.monotonic()
    out, err = await running.ended()
    assert running.process.returncode == 130, err
    assert time.monotonic() - before < 30
    assert "Traceback" not in out + err
    assert "never retrieved" not in err
    assert err.endswith("what was recorded: windlass show s1\n")
    assert not is_alive(server)
    with running.open_store() as store:
        assert status(store) == ["interrupted"]
        assert is_sound(store)


@pytest.mark.parametrize("tool", ["swallow", "block", "start_thread"])
async def test_a_tool_beyond_its_time_does_not_hold_up_the_end(site: Site, tool: str) -> None:
    site.server.script[:] = [call_of(tool), streamed(openai_stream([{"content": "ok"}], "stop"))]
    site.write("one.json", cascade(phase("a", tackle=[tool]), tools=["my_tools"]))
    running = await site.start("run", "one.json", "--session", "s1", tool_timeout_s="0.5")
    _, err = await running.ended()
    assert running.process.returncode == 0, err
    assert "within its time limit of 0.5 s" in err
    assert "Traceback" not in err
    assert "Task" not in err


async def test_a_second_signal_waits_for_nothing_and_loses_nothing(site: Site) -> None:
    declared = json.loads(json.dumps(cascade(phase("a", tackle=["slow.echo"]))))
    command = [sys.executable, "-c", STUBBORN]
    declared["mcp_servers"] = {"slow": {"command": command, **SERVER}}
    site.write("slow.json", declared)
    running = await site.start("run", "slow.json", "--session", "s1")
    await running.asked()
    server = await running.until("server")
    for _ in range(3):
        running.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
    out, err = await running.ended()
    assert running.process.returncode == 130, err
    assert "Traceback" not in out + err
    assert err.endswith("what was recorded: windlass show s1\n")
    os.kill(server, signal.SIGKILL)  # it ends by nothing else
    with running.open_store() as store:
        assert status(store) == ["interrupted"]
        assert is_sound(store)


@pytest.mark.parametrize("closed", ["stdout", "both"])
async def test_a_pipe_that_nobody_reads_ends_a_run_in_order(site: Site, closed: str) -> None:
    reading, writing = os.pipe()
    ends = {"stdout": ["stdout"], "both": ["stdout", "stderr"]}[closed]
    given: dict[str, Any] = dict.fromkeys(ends, writing)
    running = await site.start("run", "c.json", "--session", "s1", **given)
    os.close(writing)
    await running.asked()
    server = await running.until("server")
    os.close(reading)
    out, err = await asyncio.wait_for(running.process.communicate(), 60)
    assert running.process.returncode == 130, err
    assert b"Traceback" not in (out or b"") + (err or b"")
    if closed == "stdout":
        assert err.endswith(b"what was recorded: windlass show s1\n")
    assert not is_alive(server)
    with running.open_store() as store:
        assert status(store) == ["interrupted"]
        assert is_sound(store)


async def test_a_run_whose_output_only_nobody_reads_has_completed(site: Site) -> None:
    site.server.script[:] = [streamed(openai_stream([{"content": "line\n" * 50_000}], "stop"))]
    site.write("plain.json", cascade(phase("a")))
    reading, writing = os.pipe()
    running = await site.start("run", "plain.json", "--session", "s1", "--json", stdout=writing)
    os.close(writing)
    await asyncio.to_thread(
        os.read, reading, 1
    )  # as `head -c 1` does: the output has begun, so the run is over
    os.close(reading)
    _, err = await asyncio.wait_for(running.process.communicate(), 60)
    assert (running.process.returncode, b"Broken" in err) == (0, False), err
    with running.open_store() as store:
        assert status(store)[-1] == "completed"


async def test_signals_that_are_ignored_on_purpose_end_nothing(site: Site) -> None:
    site.server.script[:] = [HANG]
    running = await site.start(
        "run", "c.json", "--session", "s1",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # as nohup does
    )  # fmt: skip
    await running.asked()
    running.process.send_signal(signal.SIGHUP)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(running.process.wait()), 1)
    running.process.terminate()
    await running.ended()
    assert running.process.returncode == 130


async def test_closed_streams_are_no_files_of_the_store(site: Site) -> None:
    site.server.script[:] = [streamed(openai_stream([{"content": "x" * 10_000}], "stop"))]
    site.write("plain.json", cascade(phase("a")))

    def close() -> None:
        for number in (0, 1, 2):
            os.close(number)

    running = await site.start("run", "plain.json", "--session", "s1", preexec_fn=close)
    await asyncio.wait_for(running.process.communicate(), 60)
    assert running.process.returncode == 0
    with running.open_store() as store:
        assert status(store)[-1] == "completed"
        assert is_sound(store)


async def test_one_line_of_a_list_is_enough(site: Site) -> None:
    reading, writing = os.pipe()
    running = await site.start("models", stdout=writing)
    os.close(writing)
    os.close(reading)
    _, err = await asyncio.wait_for(running.process.communicate(), 60)
    assert (running.process.returncode, err) == (0, b"")
