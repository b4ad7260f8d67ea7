"""Trust: looking executes nothing, and a folder's settings direct nothing without it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.terminal import read_terminal
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.support.cli_trust import TOOL, code, server
from windlass.settings.trust import trusted_folders

TASK = """<task type="atomic"><description>Do it.</description>
<tools><tool>{module}:look</tool></tools></task>"""


@pytest.fixture(autouse=True)
def _own_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))


class TestLooking:
    def test_executes_nothing_and_says_what_it_left(self, windlass: CommandLine) -> None:
        markers = [code(windlass, f"look_code{n}") for n in range(5)]
        started = windlass.folder / "server.ran"
        windlass.write(
            "c.json",
            cascade(
                phase("a", tackle=["look_code0:look", "look", "excel.*", "set_state"]),
                phase("b", rules={"loop_until": "look_code1:look"}),
                tools=["look_code2"],
                injectors={"own": ["look_code3:Own"]},
                mcp_servers={"excel": server(started)},
            ),
        )
        windlass.write("windlass.toml", 'tools = ["look_code4"]\n')
        windlass.write("t.xml", TASK.format(module="look_code0"))
        for command in (["check", "c.json"], ["run", "c.json", "--dry-run"], ["check", "t.xml"]):
            said = windlass(*command)
            assert said.code == 0, said.err
            assert "left unchecked" in said.err
            assert "look_code0" in said.err
            also = windlass(*command, "--json").json["unchecked"]
            assert "module look_code0" in also
            if command[-1] == "--dry-run":
                assert "MCP server excel" in also
                assert "set_state" in said.out
                assert "look" not in windlass(*command, "--json").json["tools"]
            if command[1] == "c.json":
                assert {f"module look_code{n}" for n in range(4)} <= {*also}
                assert any(one.startswith("tools of ") for one in also)
        assert not any(each.exists() for each in (*markers, started))
        said = windlass("check", "c.json", "--trust")
        assert "module 'look_code4' has no function marked with @tool" in said.complaint
        assert markers[4].exists()

    def test_a_trusted_folder_is_looked_at_whole(self, windlass: CommandLine) -> None:
        marker = code(windlass, "look_marked")
        started = windlass.folder / "server.ran"
        own = {"excel": server(started)}
        made = cascade(phase("a", tackle=["look_marked:look", "excel.*"]), mcp_servers=own)
        windlass.write("c.json", made)
        assert windlass("trust", ".").code == 0
        said = windlass("check", "c.json")
        assert (said.code, "unchecked" in said.err) == (0, False)
        assert marker.exists()
        dry = windlass("run", "c.json", "--dry-run")
        assert started.exists(), dry.err
        assert windlass("trust", ".", "--remove").code == 0
        assert "left unchecked" in windlass("check", "c.json").err

    @pytest.mark.req("CI-50")
    def test_a_sub_cascade_needs_the_same_trust(self, windlass: CommandLine) -> None:
        marker, started = code(windlass, "look_child"), windlass.folder / "server.ran"
        tackle = ["look_child:look", "excel.*", "set_state"]
        made = cascade(phase("in", tackle=tackle), mcp_servers={"excel": server(started)})
        windlass.write("child.json", made)
        windlass.write("c.json", cascade(phase("a", sub_cascades=[{"ref": "child.json"}])))
        for command in (["check", "c.json"], ["run", "c.json", "--dry-run"]):
            said = windlass(*command)
            assert said.code == 0, said.err
            also = windlass(*command, "--json").json["unchecked"]
            assert "module look_child" in also
        assert also == ["module look_child", "MCP server excel"]
        assert not marker.exists()
        assert not started.exists()
        trusted = windlass("run", "c.json", "--dry-run", "--trust")
        assert marker.exists()
        assert started.exists(), trusted.err

    def test_other_mistakes_are_still_told(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a", tackle=["nope"])))
        assert "there is no tool 'nope'" in windlass("check", "c.json").err


class TestRunning:
    def test_naming_a_cascade_trusts_its_modules(self, windlass: CommandLine) -> None:
        marker = code(windlass, "look_named")
        windlass.script = by_phase({"a": [calls(call("look", "{}")), "done"]})  # type: ignore[assignment]
        windlass.write("c.json", cascade(phase("a", tackle=["look_named:look"])))
        assert windlass("run", "c.json").code == 0
        assert marker.exists()
        assert "it looked" in windlass.requests[-1].messages[-1].text

    @pytest.mark.req("CI-50")
    def test_naming_a_cascade_trusts_those_that_it_names(self, windlass: CommandLine) -> None:
        marker = code(windlass, "look_below")
        windlass.script = by_phase({"in": [calls(call("look", "{}")), "done"]})  # type: ignore[assignment]
        windlass.write("child.json", cascade(phase("in", tackle=["look_below:look"])))
        windlass.write("c.json", cascade(phase("a", sub_cascades=[{"ref": "child.json"}])))
        assert windlass("run", "c.json").code == 0
        assert marker.exists()

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ('tools = ["look_toml"]', "tools (look_toml)"),
            ('[mcp_servers.x]\ncommand = ["true"]', "mcp_servers (x)"),
            ('[providers.openai]\nbase_url = "http://127.0.0.1:1/v1"', "providers (openai)"),
            ('[providers.litellm]\nbase_url = "http://127.0.0.1:1/v1"', "providers (litellm)"),
            ('[providers.openai]\nkey = "HOME"', "providers (openai)"),
            (
                '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "OPENAI_API_KEY"',
                "providers (mine)",
            ),
            ('root = "/"', "root (/)"),
            ('store = "clickhouse://127.0.0.1:1/x"', "store (clickhouse://127.0.0.1:1/x)"),
        ],
    )
    def test_what_the_folders_settings_direct_is_refused(
        self, windlass: CommandLine, text: str, what: str
    ) -> None:
        marker = code(windlass, "look_toml")
        windlass.write("c.json", cascade(phase("a")))
        windlass.write("t.xml", '<task type="atomic"><description>Do it.</description></task>')
        windlass.write("windlass.toml", text)
        for command in (["run", "c.json"], ["evaluate", "t.xml"]):
            said = windlass(*command)
            assert said.code == 2
            assert what in said.complaint
            assert "windlass.toml:1: " in said.complaint
            assert f"windlass trust {windlass.folder}" in said.complaint
            assert "--trust" in said.complaint
        assert not marker.exists()
        assert windlass.requests == []

    def test_what_directs_nothing_needs_no_trust(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a")))
        windlass.write(
            "windlass.toml",
            'store = "here"\n[providers.openai]\nwindow = 9000\n'
            '[providers.vllm]\nbase_url = "http://127.0.0.1:1/v1"\n',
        )
        assert windlass("run", "c.json").code == 0

    def test_the_users_own_file_needs_no_trust(self, windlass: CommandLine) -> None:
        marker = code(windlass, "look_own")
        user = windlass.folder / "user" / "windlass"
        user.mkdir(parents=True)
        (user / "windlass.toml").write_text('tools = ["look_own:look"]')
        windlass.write("c.json", cascade(phase("a", tackle=["look"])))
        assert windlass("run", "c.json").code == 0
        assert marker.exists()

    def test_the_flag_trusts_once_and_a_mark_for_good(self, windlass: CommandLine) -> None:
        code(windlass, "look_toml")
        windlass.write("c.json", cascade(phase("a", tackle=["look"])))
        windlass.write("windlass.toml", 'tools = ["look_toml:look"]')
        assert windlass("run", "c.json", "--trust").code == 0
        assert windlass("run", "c.json").code == 2
        assert windlass("trust").out.startswith("no folder is trusted")
        assert windlass("trust", ".").code == 0
        assert windlass("run", "c.json").code == 0
        assert windlass("trust").out.splitlines() == [str(windlass.folder.resolve())]
        assert windlass("trust", "--json").json == {"trusted": [str(windlass.folder.resolve())]}
        assert windlass("trust", ".", "--remove").code == 0
        assert windlass("run", "c.json").code == 2
        assert "is not marked as trusted itself" in windlass("trust", ".", "--remove").complaint

    def test_a_mark_covers_what_lies_below_and_not_what_lies_above(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code(windlass, "look_toml")
        windlass.write("windlass.toml", 'tools = ["look_toml:look"]')
        below = windlass.folder / "below"
        below.mkdir()
        for name in ("windlass.toml", "look_toml.py"):
            (below / name).write_text((windlass.folder / name).read_text())
        windlass.write("c.json", cascade(phase("a", tackle=["look"])))
        assert windlass("trust", "below").code == 0
        assert windlass("run", "c.json").code == 2
        assert windlass("trust", ".").code == 0
        assert windlass("trust", "below", "--remove").code == 0
        monkeypatch.chdir(below)
        assert windlass("run", "../c.json").code == 0

    def test_config_shows_it_and_says_that_it_is_not_trusted(self, windlass: CommandLine) -> None:
        windlass.write("windlass.toml", 'tools = ["look_toml"]')
        rows = {row["name"]: row for row in windlass("config", "--json").json}
        assert rows["tools"]["value"] == ["look_toml"]
        assert rows["tools"]["origin"].endswith("windlass.toml:1 (not trusted)")


def test_at_a_terminal_the_user_is_asked_once(tmp_path: Path) -> None:
    """A real terminal: no, then yes, then no question."""
    (tmp_path / "windlass.toml").write_text('tools = ["asked_tools:look"]')
    (tmp_path / "asked_tools.py").write_text(TOOL)
    (tmp_path / "c.json").write_text(json.dumps(cascade(phase("a", tackle=["nothing_so_called"]))))
    answers = [ask(tmp_path, "n\n"), ask(tmp_path, "y\n"), ask(tmp_path, "")]
    assert "Trust this folder from now on?" in answers[0]
    assert "needs your trust" in answers[0]
    assert "there is no tool 'nothing_so_called'" not in answers[0]
    assert "there is no tool 'nothing_so_called'" in answers[1]
    assert "Trust this folder" not in answers[2]
    assert "there is no tool 'nothing_so_called'" in answers[2]
    assert trusted_folders(tmp_path / "user" / "windlass") == (tmp_path.resolve(),)


def ask(folder: Path, answer: str) -> str:
    """What `windlass run c.json` prints at a terminal where the user types `answer`."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "user"), "COLUMNS": "400"}
    running = subprocess.Popen(
        [sys.executable, "-c", "from windlass.cli import main; main()", "run", "c.json"],
        cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer.encode())
    drawn = read_terminal(ours)
    running.wait(30)
    os.close(ours)
    return drawn
