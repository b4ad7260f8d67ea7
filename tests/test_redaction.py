"""Credentials in the declarations of servers reach no record, event, setting or error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cascade.making import cascade, loaded
from tests.cli.conftest import CommandLine, windlass
from tests.engine.conftest import house
from tests.engine.harness import House, phase
from windlass.cascade.check import check
from windlass.declared import McpServer
from windlass.safety.redaction import credentials, redacted, redacted_command, redacted_url

__all__ = ["house", "windlass"]  # fixtures of other rooms

KEY = "Zq7secretXw93"
COMMANDS = (
    ["srv", "--api-key", KEY],
    ["srv", f"--token={KEY}"],
    ["srv", "--passphrase", KEY],
    ["env", f"GITHUB_TOKEN={KEY}", "srv"],
    ["docker", "run", "-e", f"API_KEY={KEY}", "image"],
    ["mcp-remote", "https://h/sse", "--header", f"Authorization: Bearer {KEY}"],
    ["mcp-remote", "https://h/sse", "--header", f"X-Api-Key:{KEY}"],
    ["mcp-remote", f"https://h/sse?k={KEY}"],
    ["srv", f"postgres://ann:{KEY}@db/x"],
    ["srv", "-u", f"ann:{KEY}"],
    ["sh", "-c", f"exec srv --port 8 --password '{KEY}'"],
    ["sh", "-c", f"cd /x && SECRET={KEY} srv"],
    ["srv", f"sk-{KEY}aaaaaaaaaaaaaaaa"],
)
URLS = (
    f"https://h.test/mcp?api_key={KEY}&mode=fast",
    f"https://ann:{KEY}@h.test/mcp",
    f"https://{KEY}@h.test/mcp",
    f"https://h.test/s/{KEY}{KEY}{KEY}/mcp",
)


class TestLooks:
    @pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
    def test_of_commands(self, command: list[str]) -> None:
        told = redacted_command(command)
        assert KEY not in " ".join(told)
        assert len(told) == len(command)
        assert any(KEY in one for one in credentials(command))

    @pytest.mark.parametrize("url", URLS)
    def test_of_addresses(self, url: str) -> None:
        assert KEY not in redacted_url(url)
        assert "h.test" in redacted_url(url)
        assert any(KEY in one for one in credentials(url=url))

    @pytest.mark.parametrize(
        "command",
        [
            ["npx", "-y", "@scope/server", "--port", "8080", "/srv/files"],
            ["srv", "--token", "${TOKEN}", "--api-key=${API_KEY}"],
            ["srv", "--author", "Ann", "--compass", "north"],
        ],
    )
    def test_other_arguments_stay(self, command: list[str]) -> None:
        assert redacted_command(command) == tuple(command)
        assert credentials(command) == ()

    @given(st.text(max_size=200))
    def test_texts_that_hold_none_stay(self, text: str) -> None:
        plain = "".join(char for char in text if char not in "/?&;@-_") + " max_tokens: 500"
        assert redacted(plain) == plain or "earer" in plain.lower() or "asic" in plain.lower()


def _everything(folder: Path) -> bytes:
    """The bytes of all files below a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class TestRuns:
    @pytest.fixture
    def complains(self, tmp_path: Path) -> list[str]:
        """A server that says its own arguments and ends."""
        script = tmp_path / "server.py"
        script.write_text("import sys; print('no:', *sys.argv[1:], file=sys.stderr); sys.exit(1)")
        return [sys.executable, str(script)]

    @pytest.mark.parametrize("said", COMMANDS[:8], ids=" ".join)
    async def test_of_a_server_that_does_not_start(
        self, house: House, complains: list[str], said: list[str]
    ) -> None:
        servers = {"demo": {"command": [*complains, *said]}}
        ran = await house.run(cascade(phase("a", tackle=["demo.x"]), mcp_servers=servers))
        assert ran.result.status == "failed"
        assert "did not start" in str(ran.result.error)
        assert KEY not in str(ran.result.error)
        assert KEY not in repr(ran.events)
        assert KEY.encode() not in _everything(house.store)
        (session,) = ran.store.sessions()
        recorded = ran.store.start(session.session_id).cascade["mcp_servers"]["demo"]
        assert "***" in json.dumps(recorded)

    async def test_of_a_server_at_an_address(self, house: House) -> None:
        servers = {
            "demo": {
                "url": f"http://127.0.0.1:9/{KEY}{KEY}{KEY}/mcp?api_key={KEY}",
                "headers": {"X-Org": f"Bearer {KEY}"},
            }
        }
        ran = await house.run(cascade(phase("a", tackle=["demo.x"]), mcp_servers=servers))
        assert ran.result.status == "failed"
        assert KEY not in str(ran.result.error)
        assert KEY not in repr(ran.events)
        assert KEY.encode() not in _everything(house.store)


class TestMistakes:
    @pytest.mark.parametrize(
        "server",
        [
            {"command": f"npx server --api-key {KEY}"},
            {"command": {"x": KEY}},
            {"command": ["x"], "env": {"TOKEN": [KEY]}},
            {"command": ["x"], "env": f"TOKEN={KEY}"},
            {"url": f"htp://ann:{KEY}@h/"},
            {"url": f"https://ann:{KEY}@h/"},
            {"url": [f"https://h/?key={KEY}"]},
        ],
    )
    def test_quote_none(self, server: dict[str, Any]) -> None:
        (told,) = check(loaded(cascade({"name": "a"}, mcp_servers={"demo": server})), tools=None)
        assert KEY not in told.text


class TestCommandLine:
    def test_settings_show_none(self, windlass: CommandLine) -> None:
        servers = "\n".join(
            f"[mcp_servers.c{at}]\ncommand = {json.dumps(command)}"
            for at, command in enumerate(COMMANDS)
        )
        long = KEY * 3
        windlass.write(
            "windlass.toml",
            f'[providers.own]\nbase_url = "http://127.0.0.1:9/{long}/v1"\n{servers}\n'
            f'[mcp_servers.u]\nurl = "{URLS[0]}"\n',
        )
        windlass.write("c.json", cascade({"name": "a"}, mcp_servers={"demo": {"url": URLS[0]}}))
        for arguments in (
            ("config",),
            ("config", "--json"),
            ("models",),
            ("models", "--json"),
            ("check", "c.json", "--explain-defaults"),
            ("check", "c.json", "--explain-defaults", "--json"),
            ("run", "c.json", "--model", "own/x"),
            ("run", "c.json", "--model", "own/x", "--dry-run"),
        ):
            said = windlass(*arguments)
            assert KEY not in said.out + said.err, arguments
        assert KEY.encode() not in _everything(windlass.folder / ".windlass")


def test_what_is_shown_of_a_server_can_be_read_again() -> None:
    for command in COMMANDS:
        McpServer.model_validate(McpServer(command=command).shown())
