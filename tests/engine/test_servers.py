"""MCP servers in a run: named in a tackle, started and stopped with it, and in the record."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from tests.tools.mcp_running import COMMAND, PLAIN, ROOT, is_alive, over_http
from windlass.cascade.ready import ReadyCascade
from windlass.errors import CascadeError, ServerError, UsageError
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message, ToolSpec, assistant, tool, user
from windlass.providers.scripted import Scripted
from windlass.settings.trust import trust
from windlass.tools import mcp
from windlass.tools.base import ToolContext
from windlass.wire.base import Request

SAY = call("demo__echo", '{"text": "hello"}')


@pytest.fixture
def pid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server writes its process id, through a variable."""
    file = tmp_path / "pid"
    monkeypatch.setenv("MCP_PID_FILE", str(file))
    return file


def demo(**more: Any) -> dict[str, Any]:
    return {"demo": {"command": COMMAND, "env": {"PID_FILE": "${MCP_PID_FILE}"}, **more}}


def plain() -> dict[str, Any]:
    """The same for tests that only echo: a server that starts at once."""
    return demo(command=PLAIN)


def is_gone(file: Path) -> bool:
    return not is_alive(int(file.read_text()))


class TestOverStdio:
    async def test_a_phase_uses_its_tools_and_the_server_ends_with_the_run(
        self, house: House, pid_file: Path
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["demo.echo", "demo.draw"], tool_choice="demo.echo"),
                phase("b", context={"from": [{"phase": "a", "include": ["images", "messages"]}]}),
                mcp_servers=demo(),
            ),
            {"a": [calls(SAY), calls(call("demo__draw")), "done"]},
        )
        assert (ran.result.status, ran.result.error) == ("completed", None)
        assert is_gone(pid_file)
        # What is sent has names that providers take ...
        first, second = ran.request("a", 1), ran.request("a", 2)
        assert [spec.name for spec in first.tools] == ["demo__echo", "demo__draw"]
        assert first.tool_choice == "demo__echo"
        assert second.messages[-2].tool_calls == (SAY,)
        assert (second.messages[-1].name, second.messages[-1].text) == ("demo__echo", "said: hello")
        # ... and the record those of the cascade.
        results = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert [json_of(row)["tool"] for row in results] == ["demo.echo", "demo.draw"]
        assert [row.message.name for row in results if row.message] == ["demo.echo", "demo.draw"]
        (said,) = [s.row.message for s in ran.rows(NodeType.AGENT, phase="a")]
        assert said is not None
        assert said.tool_calls[0].name == "demo.echo"
        assert [spec["function"]["name"] for spec in ran.calls()[0].tools] == [
            "demo.echo",
            "demo.draw",
        ]
        assert results[1].message is not None
        assert results[1].message.pictures  # kept like any other
        assert any(message.pictures for message in ran.request("b").messages)
        assert ran.has_no_damage()

    async def test_a_star_stands_for_all_its_tools(self, house: House, pid_file: Path) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["demo.*", "set_state"], tool_choice="demo.dotted.name"),
                mcp_servers=demo(),
            ),
            {"a": [calls(call("demo__dotted__name")), "done"]},
        )
        names = [spec.name for spec in ran.request("a").tools]
        assert "demo__dotted__name" in names
        assert names[:-1] == sorted(names[:-1])
        assert names[-1] == "set_state"
        (row,) = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert row.message is not None
        assert row.message.text == "dotted"

    async def test_a_manifest_chooses_among_them(self, house: House, pid_file: Path) -> None:
        def script(request: Request) -> Any:
            if request.output_schema is not None:
                return json.dumps({"tools": ["demo.echo"]})
            return "done" if request.messages[-1].role == "tool" else calls(SAY)

        ran = await house.run(cascade(phase("a", tackle="manifest"), mcp_servers=demo()), script)
        assert "- demo.echo: Say it again." in ran.model.requests[0].messages[-1].text
        assert [json_of(s.row)["error"] for s in ran.rows(NodeType.TOOL_RESULT)] == [False]

    async def test_one_of_them_is_a_validator(self, house: House, pid_file: Path) -> None:
        ran = await house.run(
            cascade(phase("a", rules={"loop_until": "demo.judge"}), mcp_servers=demo()),
            {"a": ["bad", "good"]},
        )
        told = [json_of(stored.row)["valid"] for stored in ran.rows(NodeType.VALIDATION)]
        assert told == [False, True]
        assert is_gone(pid_file)

    async def test_a_server_that_dies_gives_a_result_and_the_run_goes_on(
        self, house: House, pid_file: Path
    ) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["demo.die", "demo.echo"]), mcp_servers=demo()),
            {"a": [calls(call("demo__die")), calls(SAY), "went on without"]},
        )
        assert ran.result.output == "went on without"
        results = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert [json_of(row)["error"] for row in results] == [True, True]
        assert all(row.message and "has stopped" in row.message.text for row in results)

    async def test_a_server_that_no_phase_names_is_not_started(
        self, house: House, pid_file: Path
    ) -> None:
        ran = await house.run(cascade(phase("a"), mcp_servers=demo()))
        assert ran.result.status == "completed"
        assert not pid_file.exists()


class TestOfTheSettings:
    @pytest.fixture(autouse=True)
    def _settings(self, house: House, pid_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(house.folder)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        env = '{PID_FILE = "${MCP_PID_FILE}", PYTHONPATH = "${PYTHONPATH}"}'
        (house.folder / "windlass.toml").write_text(
            f"http_allow = ['example.org']\n"
            f"[mcp_servers.demo]\ncommand = {json.dumps(PLAIN)}\nenv = {env}\n"
            "[mcp_servers.never]\ncommand = ['no-such-program']\n"
        )
        trust(house.folder)

    async def test_one_that_a_phase_names_is_started_and_stopped(
        self, house: House, pid_file: Path
    ) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["demo.echo"])), {"a": [calls(SAY), "done"]}
        )
        assert ran.result.error is None
        (row,) = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert row.message is not None
        assert row.message.text == "said: hello"
        assert is_gone(pid_file)

    @pytest.mark.parametrize("tackle", [["set_state"], "manifest"])
    async def test_one_that_none_names_is_not_started(
        self, tackle: Any, house: House, pid_file: Path
    ) -> None:
        def script(request: Request) -> str:
            assert "demo.echo" not in request.messages[-1].text
            return '{"tools": ["set_state"]}' if request.output_schema else "done"

        ran = await house.run(cascade(phase("a", tackle=tackle)), script)
        assert ran.result.error is None
        assert not pid_file.exists()

    async def test_a_cascades_own_of_the_same_name_goes_before_it(
        self, house: House, pid_file: Path
    ) -> None:
        own = {"demo": {"command": COMMAND, "env": {"WHO": "own", "PYTHONPATH": "${PYTHONPATH}"}}}
        ran = await house.run(
            cascade(phase("a", tackle=["demo.variable"]), mcp_servers=own),
            {"a": [calls(call("demo__variable", '{"name": "WHO"}')), "done"]},
        )
        (row,) = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert row.message is not None
        assert row.message.text == "own"
        assert not pid_file.exists()

    @pytest.mark.parametrize(
        ("listed", "allowed"),
        [([], ("example.org",)), (["h", "example.org"], ("h", "example.org"))],
    )
    async def test_hosts_of_the_settings_are_the_default_and_the_limit(
        self, listed: list[str], allowed: tuple[str, ...], house: House
    ) -> None:
        seen: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

        def look(context: ToolContext) -> str:
            """Look at the hosts."""
            seen.append((context.http_allow, context.http_limit))
            return "looked"

        await house.run(
            cascade(phase("a", tackle=["look"]), http_allow=listed),
            {"a": [calls(call("look")), "done"]},
            tools=[look],
        )
        assert seen == [(allowed, ("example.org",))]


async def test_over_http(house: House) -> None:
    with over_http() as (url, process):
        ran = await house.run(
            cascade(phase("a", tackle=["demo.*"]), mcp_servers={"demo": {"url": url}}),
            {"a": [calls(SAY, call("demo__draw")), "done"]},
        )
        assert ran.result.status == "completed"
        texts = [s.row.message.text for s in ran.rows(NodeType.TOOL_RESULT) if s.row.message]
        assert texts[0] == "said: hello"
        assert texts[1].startswith("picture draw.png")
        assert process.poll() is None  # it was there before the run, and is after it


class TestEnds:
    async def test_a_failed_run_stops_it(self, house: House, pid_file: Path) -> None:
        def script(request: Request) -> Any:
            raise OSError("gone")

        ran = await house.run(
            cascade(phase("a", tackle=["demo.echo"]), mcp_servers=plain()), script
        )
        assert ran.result.status == "failed"
        assert is_gone(pid_file)

    async def test_a_cancelled_run_stops_it_after_the_record_has_its_end(
        self, house: House, pid_file: Path
    ) -> None:
        waiting = asyncio.Event()

        async def script(request: Request) -> str:
            waiting.set()
            await asyncio.sleep(60)
            return "never"

        made = cascade(phase("a", tackle=["demo.echo"]), mcp_servers=plain())
        running = asyncio.create_task(house.run(made, script, session_id="s"))
        await asyncio.wait_for(waiting.wait(), 60)
        assert not is_gone(pid_file)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert is_gone(pid_file)
        ends = {o.phase: o.status for o in house.open_store().outcomes("s")}
        assert ends[None] == "interrupted"

    async def test_cancelled_in_the_middle_of_a_call(self, house: House, pid_file: Path) -> None:
        made = cascade(phase("a", tackle=["demo.slow"]), mcp_servers=demo())
        slow = call("demo__slow", '{"seconds": 3}')
        asked = asyncio.Event()

        def script(request: Request) -> Message:
            asked.set()
            return calls(slow)

        running = asyncio.create_task(house.run(made, script, session_id="s"))
        await asyncio.wait_for(asked.wait(), 60)
        await asyncio.sleep(0.5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert is_gone(pid_file)
        (row,) = [
            s for s in house.open_store().rows("s") if s.row.node_type == NodeType.TOOL_RESULT
        ]
        assert row.row.message is not None
        assert "interrupted" in row.row.message.text

    async def test_one_that_does_not_start_fails_the_run_with_its_reason(
        self, house: House
    ) -> None:
        broken = {"demo": {"command": [sys.executable, "-c", "import sys; sys.exit('no luck')"]}}
        ran = await house.run(cascade(phase("a", tackle=["demo.echo"]), mcp_servers=broken))
        assert isinstance(ran.result.error, ServerError)
        assert "no luck" in str(ran.result.error)
        assert ran.model.requests == []
        assert [json_of(stored.row)["error"] for stored in ran.rows(NodeType.ERROR)] == []
        assert {o.status for o in ran.store.outcomes(ran.session)} == {"failed"}

    async def test_a_tool_that_the_server_lacks_is_told_with_those_it_has(
        self, house: House, pid_file: Path
    ) -> None:
        ran = await house.run(cascade(phase("a", tackle=["demo.eco"]), mcp_servers=plain()))
        assert isinstance(ran.result.error, UsageError)
        assert "did you mean 'demo.echo'?" in str(ran.result.error)

    @pytest.mark.parametrize("what", ["variable", "package"])
    async def test_what_is_missing_is_told_before_the_session(
        self, what: str, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MCP_PID_FILE", raising=False)
        if what == "package":
            monkeypatch.setitem(sys.modules, "mcp", None)
        with pytest.raises(UsageError, match="MCP_PID_FILE" if what == "variable" else "pip"):
            await house.run(cascade(phase("a", tackle=["demo.echo"]), mcp_servers=plain()))
        assert house.open_store().sessions() == []


class TestKeys:
    async def test_never_reach_the_record(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DEMO_KEY", "secret-4711-aa")
        monkeypatch.setenv("MCP_PID_FILE", os.devnull)
        servers = demo(env={"API_KEY": "${DEMO_KEY}"})
        ran = await house.run(
            cascade(phase("a", tackle=["demo.variable"]), mcp_servers=servers),
            {"a": [calls(call("demo__variable", '{"name": "API_KEY"}')), "done"]},
        )
        (row,) = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert row.message is not None
        assert row.message.text == "${DEMO_KEY}"
        ran.store.close()
        stored = b"".join(f.read_bytes() for f in house.store.rglob("*") if f.is_file())
        assert b"${DEMO_KEY}" in stored
        assert b"secret-4711-aa" not in stored

    async def test_written_out_are_a_mistake(self, house: House) -> None:
        servers = demo(env={"API_KEY": "abc"})
        with pytest.raises(CascadeError, match="looks like a key"):
            await house.run(cascade(phase("a"), mcp_servers=servers))


async def test_names_that_would_be_sent_alike_are_refused(house: House, pid_file: Path) -> None:
    def demo__echo() -> str:
        """Be in the way."""
        return ""

    ran = await house.run(
        cascade(phase("a", tackle=["demo.echo"]), mcp_servers=plain()), tools=[demo__echo]
    )
    assert "would both be sent as 'demo__echo'" in str(ran.result.error)
    assert is_gone(pid_file)


async def test_a_scripted_provider_sees_the_same_message_when_nothing_is_renamed() -> None:
    from windlass.engine.turn.send import with_own_names, with_sent_names
    from windlass.wire.base import Reply, Usage

    plain = Request("m", (user("x"),), 1, tools=(ToolSpec("f", "", {}),))
    assert with_sent_names(plain) is plain
    pair: tuple[Message, ...] = (calls(call("s.f", id_="1")), tool("1", "y", name="s.f"))
    dotted = Request("m", (user("s.f"), *pair), 1, tools=(ToolSpec("s.f", "", {}),))
    sent = with_sent_names(dotted)
    assert [m.name for m in sent.messages] == [None, None, "s__f"]
    assert sent.messages[0] is dotted.messages[0]
    reply = Reply(calls(call("s__f"), call("other.x")), Usage(1, 1), "tool_calls", "m")
    back = with_own_names(reply, dotted).message
    assert [each.name for each in back.tool_calls] == ["s.f", "other.x"]
    assert (
        with_own_names(Reply(assistant("x"), Usage(1, 1), "stop", "m"), plain).message.text == "x"
    )


def test_a_dry_run_shows_the_tools_and_leaves_no_server(
    tmp_path: Path, pid_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.api.loading import load_cascade
    from windlass.engine.cascade_run import Access
    from windlass.engine.opening import open_session
    from windlass.engine.setup import prepare
    from windlass.engine.turn.forecast import forecast_cost
    from windlass.history.sqlite import SqliteStore
    from windlass.settings.settings import Settings

    settings = Settings.read({"model": "scripted/x"}, {}, tmp_path)
    made = cascade(phase("a", tackle=["demo.*"]), mcp_servers=demo())
    loaded, registry, *_ = load_cascade(made, settings)
    assert not pid_file.exists()  # a check starts nothing
    provider = Scripted(lambda request: "x")
    store = SqliteStore(tmp_path / "store")
    with store, open_session(store) as session:
        run = prepare(
            ReadyCascade(loaded, registry, {}),
            {},
            session,
            settings=settings,
            access=Access(lambda name: (provider, provider.model(name))),
            on_event=lambda event: None,
        )
        forecast = asyncio.run(forecast_cost(run, "openai/gpt-4o"))
    assert "demo.echo" in forecast.tools
    assert is_gone(pid_file)


INTERRUPTED = """
import signal, sys, time, threading, os
import windlass
from windlass.providers.scripted import Scripted
from tests.tools.mcp_running import PLAIN

def script(request):
    # As from the keyboard, or as by a machine that kills.
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(1)
    return "late"

servers = {"demo": {"command": PLAIN, "env": {"PID_FILE": "${MCP_PID_FILE}"}}}
phases = [{"name": "a", "instructions": "Do a.", "tackle": ["demo.echo"]}]
windlass.run_sync(
    {"cascade_id": "c", "mcp_servers": servers, "phases": phases},
    model="scripted/x", providers={"scripted": Scripted(script)}, store=sys.argv[2],
)
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_a_process_that_is_stopped_leaves_no_server(
    how: str, tmp_path: Path, pid_file: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, how, str(tmp_path / "store")],
        cwd=ROOT,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert done.returncode != 0
    until = time.monotonic() + 60
    while not is_gone(pid_file) and time.monotonic() < until:
        time.sleep(0.1)  # a killed process cannot wait; its server sees that nobody asks any more
    assert is_gone(pid_file)


def test_run_sync_ends_at_once_after_a_server(tmp_path: Path, pid_file: Path) -> None:
    scripted = Scripted(lambda request: "said")
    result = windlass.run_sync(
        cascade(phase("a", tackle=["demo.echo"]), mcp_servers=plain()),
        model="scripted/x",
        providers={"scripted": scripted},
        store=tmp_path / "store",
    )
    assert result.output == "said"
    assert is_gone(pid_file)
    assert mcp.STOP_S > 0
