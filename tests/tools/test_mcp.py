"""Tools of MCP servers: a real server as a process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp_running import COMMAND, PROGRAM, is_alive, over_http
from windlass.declared import McpServer
from windlass.errors import ServerError, UsageError
from windlass.messages import ToolCall
from windlass.tools import mcp
from windlass.tools.base import Tool, ToolContext, ToolOutput
from windlass.tools.mcp import Servers
from windlass.tools.runner import run_tool


@asynccontextmanager
async def started(declared: dict[str, McpServer], **environ: str) -> AsyncIterator[dict[str, Tool]]:
    """The tools of these servers by name, while they run."""
    servers = Servers(declared, {**environ, "PATH": "/usr/bin"} if environ else None)
    try:
        yield {tool.spec.name: tool for tool in await servers.start()}
    finally:
        await servers.stop()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with over_http() as (address, _):
        yield address


@pytest.fixture(params=["stdio", "http"])
def declared(request: pytest.FixtureRequest) -> dict[str, McpServer]:
    if request.param == "stdio":
        return {"demo": McpServer(command=COMMAND)}
    return {"demo": McpServer(url=request.getfixturevalue("url"))}


async def ask(
    tools: dict[str, Tool], called: str, context: ToolContext, **given: Any
) -> ToolOutput:
    return await run_tool(tools[called], ToolCall("c", called, json.dumps(given)), context)


class TestBothTransports:
    async def test_tools_and_every_kind_of_result(
        self, declared: dict[str, McpServer], context: ToolContext
    ) -> None:
        async with started(declared) as tools:
            spec = tools["demo.echo"].spec
            assert spec.description == "Say it again."
            assert spec.parameters["properties"]["text"]["type"] == "string"
            assert spec.parameters["required"] == ["text"]
            assert await ask(tools, "demo.echo", context, text="ü") == ToolOutput("said: ü")
            drawn = await ask(tools, "demo.draw", context)
            assert [picture.name for picture in drawn.pictures] == ["draw.png"]
            assert drawn.pictures[0].data
            assert drawn.text == f"picture {drawn.pictures[0].describe()}"
            assert await ask(tools, "demo.measure", context) == ToolOutput('{"length": 7}')
            mixed = await ask(tools, "demo.mixed", context)
            assert mixed.text.splitlines() == [
                "one",
                "(mixed: audio/wav, 6 bytes, not shown)",
                "(mixed: image/png, 2 bytes, not shown)",
            ]
            assert mixed.pictures == ()
            assert (await ask(tools, "demo.dotted.name", context)).text == "dotted"

    async def test_failures_are_results(
        self, declared: dict[str, McpServer], context: ToolContext
    ) -> None:
        async with started(declared) as tools:
            failed = await ask(tools, "demo.fail", context, why="bad weather")
            assert failed.error
            assert "fail" in failed.text
            wrong = await ask(tools, "demo.echo", context, nothing=1)
            assert wrong.error
            assert "text" in wrong.text
            assert not (await ask(tools, "demo.echo", context, text="goes on")).error

    async def test_calls_run_side_by_side(
        self, declared: dict[str, McpServer], context: ToolContext
    ) -> None:
        async with started(declared) as tools:
            found = await asyncio.gather(
                *(ask(tools, "demo.echo", context, text=str(n)) for n in range(8))
            )
            assert [output.text for output in found] == [f"said: {n}" for n in range(8)]


class TestTrouble:
    async def test_a_server_that_dies_in_the_middle_says_so(self, context: ToolContext) -> None:
        async with started({"demo": McpServer(command=COMMAND)}) as tools:
            for name in ("demo.die", "demo.echo"):
                output = await ask(
                    tools, name, context, **({"text": "x"} if "echo" in name else {})
                )
                told = "the MCP server 'demo' has stopped, and its tools with it"
                assert output == ToolOutput(told, error=True)

    async def test_so_does_one_over_http(self, context: ToolContext) -> None:
        with over_http() as (url, process):
            async with started({"demo": McpServer(url=url)}) as tools:
                assert not (await ask(tools, "demo.echo", context, text="x")).error
                process.kill()
                process.wait()
                output = await ask(tools, "demo.echo", context, text="x")
                assert output.error
                assert "the MCP server 'demo'" in output.text

    async def test_the_runner_limits_its_time(self, context: ToolContext) -> None:
        async with started({"demo": McpServer(command=COMMAND)}) as tools:
            slow = tools["demo.slow"]
            hurried = Tool(slow.spec, slow.function, timeout_s=0.2, parse=slow.parse)
            given = ToolCall("c", "demo.slow", '{"seconds": 1}')
            output = await run_tool(hurried, given, context)
            assert "time limit of 0.2 s" in output.text
            assert (await ask(tools, "demo.echo", context, text="x")).text == "said: x"

    @pytest.mark.parametrize(
        ("command", "told"),
        [
            (["-c", "print('hi')"], "did not start"),
            (["-c", "import sys; sys.exit('no licence')"], "the last it said: no licence"),
            (["-m", "no_such_module_at_all"], "No module named"),
        ],
    )
    async def test_one_that_does_not_start_says_why(
        self, command: list[str], told: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(ServerError, match=told):
            async with started({"demo": McpServer(command=[sys.executable, *command])}):
                pass
        assert capfd.readouterr() == ("", "")  # neither its words nor a traceback

    async def test_nor_one_that_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mcp, "START_S", 0.3)
        idle = [sys.executable, "-c", "import time; time.sleep(60)"]
        with pytest.raises(ServerError, match=r"did not answer within 0\.3 s"):
            async with started({"demo": McpServer(command=idle)}):
                pass

    async def test_nor_one_that_is_not_there(self) -> None:
        with pytest.raises(ServerError, match="'demo' did not start"):
            async with started({"demo": McpServer(url="http://127.0.0.1:9/mcp")}):
                pass

    async def test_one_that_ignores_its_end_is_killed(self, tmp_path: Path) -> None:
        file = tmp_path / "pid"
        stubborn = (
            "import signal, runpy, sys, time, atexit;"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "atexit.register(time.sleep, 60);"
            f"sys.argv = ['x']; runpy.run_module({PROGRAM[1]!r}, run_name='__main__')"
        )
        declared = {
            "demo": McpServer(command=[sys.executable, "-c", stubborn], env={"PID_FILE": str(file)})
        }
        async with started(declared) as tools:
            assert "demo.echo" in tools
        assert not is_alive(int(file.read_text()))

    async def test_one_broken_server_stops_the_others(self, tmp_path: Path) -> None:
        file = tmp_path / "pid"
        good = {"good": McpServer(command=COMMAND, env={"PID_FILE": str(file)})}
        bad = {"bad": McpServer(command=[sys.executable, "-c", "pass"])}
        with pytest.raises(ServerError, match="'bad'"):
            async with started({**good, **bad}):
                pass
        assert not is_alive(int(file.read_text()))


class TestVariables:
    async def test_are_put_in_and_hidden_in_what_comes_back(self, context: ToolContext) -> None:
        declared = {"demo": McpServer(command=COMMAND, env={"A": "Bearer ${TOKEN}", "B": "plain"})}
        async with started(declared, TOKEN="secret-7f") as tools:
            said = await ask(tools, "demo.variable", context, name="A")
            assert said.text == "Bearer ${TOKEN}"
            assert (await ask(tools, "demo.variable", context, name="B")).text == "plain"
            # What is not declared is not handed on: no key of the user's by accident.
            assert (await ask(tools, "demo.variable", context, name="TOKEN")).text == "not set"
            found = await run_python_length(tools, context)
            assert found == len("Bearer secret-7f")

    async def test_are_hidden_in_what_a_server_says_when_it_does_not_start(self) -> None:
        words = "import os, sys; sys.exit('refused ' + os.environ['A'])"
        declared = {"demo": McpServer(command=[sys.executable, "-c", words], env={"A": "${TOKEN}"})}
        with pytest.raises(ServerError, match=r"refused \$\{TOKEN\}"):
            async with started(declared, TOKEN="secret-7f"):
                pass

    def test_that_are_not_set_are_told_before_anything_starts(self) -> None:
        with pytest.raises(UsageError, match="needs the environment variable 'NOPE', which is not"):
            Servers({"demo": McpServer(command=COMMAND, env={"A": "${NOPE}"})}, {})

    def test_so_is_a_program_that_is_not_there(self) -> None:
        with pytest.raises(UsageError, match=r"'no-such-program-7'.*PATH"):
            Servers({"demo": McpServer(command=["no-such-program-7"])})


async def run_python_length(tools: dict[str, Tool], context: ToolContext) -> int:
    """How long the variable is that the server really has."""
    output = await ask(tools, "demo.variable_length", context, name="A")
    return int(output.text)


class TestThePackage:
    def test_missing_says_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "mcp", None)
        with pytest.raises(UsageError, match=r"pip install 'windlass\[mcp\]'"):
            Servers({"demo": McpServer(command=COMMAND)})
        Servers({})  # whoever needs none needs no package

    def test_is_imported_only_when_needed(self) -> None:
        code = (
            "import sys, windlass.tools.mcp, windlass.engine.cascade;"
            "windlass.tools.mcp.Servers({}); print('mcp' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.strip() == "False"
