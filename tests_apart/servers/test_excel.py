"""excel-mcp-server, a server that others wrote, over both transports: workbooks without Excel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.harness import House, Ran, call, calls, cascade, phase

from windlass.declared import McpServer
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.tools.mcp import Servers

ENVIRONMENT = Path(__file__).parent.parent.parent / ".venv-servers"
PROGRAM = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "excel-mcp-server"
STARTED_S = 30.0
ROWS = [["city", "sales"], ["Oslo", 3], ["Bergen", 4]]


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """The only folder in which the server may open workbooks; it stands in its command line."""
    folder = tmp_path / "books"
    folder.mkdir()
    return folder


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def running(books: Path) -> list[str]:
    """The command lines of processes that serve the folder."""
    listed = subprocess.run(
        ["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if str(books) in line]


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, books: Path) -> Iterator[dict[str, Any]]:
    """How a cascade declares the server: as a command, and as the address of one that runs."""
    if request.param == "stdio":
        yield {"command": [str(PROGRAM), "stdio", "--allow-dir", str(books)]}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--allow-dir", str(books), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen([str(PROGRAM), "streamable-http", *options])
    try:
        until = time.monotonic() + STARTED_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.1)
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
        assert process.poll() is None, "a run ended a server that it had not started"
    finally:
        process.kill()
        process.wait()


def results(ran: Ran) -> list[tuple[bool, str]]:
    """What the record holds of each tool result: whether it failed, and its text."""
    rows = [stored.row for stored in ran.rows(NodeType.TOOL_RESULT)]
    return [(json_of(row)["error"], row.message.text) for row in rows if row.message]


async def test_its_tools_are_listed(server: dict[str, Any]) -> None:
    servers = Servers({"excel": McpServer(**server)})
    try:
        tools = {tool.spec.name: tool.spec for tool in await servers.start()}
    finally:
        await servers.stop()
    assert {"excel.create_workbook", "excel.write_range", "excel.read_range"} <= tools.keys()
    assert tools["excel.read_range"].parameters["required"] == ["path", "sheet"]
    assert tools["excel.read_range"].description.startswith("Read cell values")


async def test_a_phase_writes_and_reads_a_workbook(
    server: dict[str, Any], house: House, books: Path
) -> None:
    made = json.dumps({"path": "sales.xlsx"})
    written = json.dumps({"path": "sales.xlsx", "sheet": "Sheet1", "at": "A1", "rows": ROWS})
    read = json.dumps({"path": "sales.xlsx", "sheet": "Sheet1", "range": "A1:B3"})
    alive: list[int] = []
    ran = await house.run(
        cascade(
            phase("a", tackle=["excel.*"]),
            phase("b", context={"from": [{"phase": "a", "include": ["messages"]}]}),
            mcp_servers={"excel": server},
        ),
        {
            "a": [
                calls(call("excel__create_workbook", made)),
                calls(call("excel__write_range", written)),
                calls(call("excel__read_range", read)),
                "Bergen sold most.",
            ]
        },
        before={"b": lambda: alive.append(len(running(books)))},
    )
    assert (ran.result.status, ran.result.error) == ("completed", None)
    assert (books / "sales.xlsx").is_file()
    *_, (failed, told) = results(ran)
    assert not failed
    assert json.loads(told)["values"] == ROWS, told
    assert any(message.text == told for message in ran.request("b").messages)
    assert ran.has_no_damage()
    # It lived as long as the run: to its end, and, where the run had started it, no longer.
    assert alive == [1]
    assert len(running(books)) == (0 if "command" in server else 1)


async def test_what_fails_is_a_result(server: dict[str, Any], house: House, books: Path) -> None:
    missing = json.dumps({"path": "missing.xlsx", "sheet": "Sheet1"})
    outside = json.dumps({"path": str(books.parent / "outside.xlsx")})
    ran = await house.run(
        cascade(
            phase("a", tackle=["excel.read_range", "excel.create_workbook"]),
            mcp_servers={"excel": server},
        ),
        {
            "a": [
                calls(
                    call("excel__read_range", missing),
                    call("excel__read_range", '{"path": 7}'),
                    call("excel__create_workbook", outside),
                ),
                "went on",
            ]
        },
    )
    assert ran.result.output == "went on"
    failed, told = zip(*results(ran), strict=True)
    assert failed == (True, True, True)
    assert "missing.xlsx" in told[0]
    assert all(told)
    assert not (books.parent / "outside.xlsx").exists()


async def test_one_of_the_settings_is_started_when_a_phase_names_it(
    house: House, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.folder / "windlass.toml").write_text(
        "[mcp_servers.excel]\n"
        f"command = {json.dumps([str(PROGRAM), 'stdio'])}\n"
        'env = {EXCEL_FILES_PATH = "${BOOKS}", EXCEL_MCP_READ_ONLY = "1"}\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(house.folder)
    monkeypatch.setenv("BOOKS", str(books))
    listed = call("excel__list_workbooks")
    ran = await house.run(
        cascade(phase("a", tackle=["excel.*"])), {"a": [calls(listed), "none there"]}, trust=True
    )
    assert ran.result.error is None
    assert [failed for failed, _ in results(ran)] == [False]
    names = [spec.name for spec in ran.request("a").tools]
    assert "excel__read_range" in names
    assert "excel__write_range" not in names  # the variable reached the server


def test_the_program_is_the_environments() -> None:
    assert PROGRAM.is_file(), "make servers installs it"
    assert Path(sys.prefix).resolve() != ENVIRONMENT.resolve()
