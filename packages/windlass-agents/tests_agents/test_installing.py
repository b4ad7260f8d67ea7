"""A hook put into an agent's settings and taken out again; and settings that cannot be changed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, windlass

from windlass_agents import client, installing
from windlass_agents.agents import EVENTS
from windlass_agents.options import HookOptions, read_options

__all__ = ["windlass"]

OTHERS = """{
    "permissions": {"allow": ["Bash(make:*)"],   "deny": []},
    "hooks": {
        "PostToolUse": [
            {"matcher": "Edit", "hooks": [{"type": "command", "command": "prettier --write"}]}
        ]
    }, "model": "opus"
}"""


@pytest.fixture
def line(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder with a home of its own, where no agent is on the path."""
    home = windlass.folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client, "start", lambda: None)
    return windlass


def settings(line: CommandLine, text: str | None = None) -> Path:
    path = line.folder / ".claude" / "settings.local.json"
    if text is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_home_gets_settings_and_loses_them_again(line: CommandLine) -> None:
    said = line("hook", "install", "claude-code", "--user")
    assert said.code == 0
    path = line.folder / "home" / ".claude" / "settings.json"
    hooks = json.loads(path.read_text())["hooks"]
    assert tuple(hooks) == EVENTS
    [group] = hooks["PostToolUse"]
    command = group["hooks"][0]["command"]
    assert command.endswith("agent run claude-code")
    assert group["matcher"] == "*"
    assert f'+            "command": "{command}"' in said.out
    assert line("hook", "uninstall", "claude-code", "--user").code == 0
    assert not path.exists()


def test_what_is_installed_stands_beside_what_others_installed(line: CommandLine) -> None:
    path = settings(line, OTHERS)
    said = line("hook", "install", "claude-code", "--holdout", "10%", "--redact")
    assert "another hook answers after tools, too: prettier --write" in said.err
    changed = json.loads(path.read_text())
    assert changed["permissions"] == {"allow": ["Bash(make:*)"], "deny": []}
    first, second = changed["hooks"]["PostToolUse"]
    assert first["matcher"] == "Edit"
    assert second["hooks"][0]["command"].endswith("run claude-code --holdout 10% --redact")
    assert line("hook", "install", "claude-code", "--holdout", "10%", "--redact").out.startswith(
        "it is installed so already"
    )
    line("hook", "install", "claude-code", "--policy", "lean")  # other options replace the first
    assert path.read_text().count("agent run claude-code") == len(EVENTS)
    assert line("hook", "uninstall", "claude-code").code == 0
    assert path.read_text() == OTHERS


OTHER_COMMANDS = (
    "echo windlass hook run; important.sh",
    "windlass hook run claude-code; important.sh",
    "important.sh # windlass hook run claude-code",
    "important.sh && windlass hook run claude-code",
    "/opt/windlass-tools/bin/mine hook run",
    "sh -c 'windlass hook run claude-code'",
    "windlass hook runner",
)


@pytest.mark.parametrize("command", OTHER_COMMANDS)
def test_other_peoples_hooks_stay(line: CommandLine, command: str) -> None:
    hook = {"hooks": [{"type": "command", "command": command}]}
    text = json.dumps({"hooks": {"PostToolUse": [hook], "Stop": [hook]}}, indent=2)
    path = settings(line, text)
    said = line("hook", "install", "claude-code")
    assert "another hook answers after tools, too" in said.err
    assert json.loads(path.read_text())["hooks"]["PostToolUse"][0] == hook
    assert line("hook", "uninstall", "claude-code").code == 0
    assert path.read_text() == text


@pytest.mark.parametrize(
    "command",
    [
        "windlass hook run claude-code",
        "'/a b/windlass' hook run claude-code --store '/c d'",
        "/usr/bin/python3.12 -P /x/windlass/__main__.py hook run claude-code --redact",
        "python -m windlass hook run claude-code",
    ],
)
def test_ours_is_taken_away_however_it_was_written(line: CommandLine, command: str) -> None:
    hook = {"hooks": [{"type": "command", "command": command}]}
    path = settings(line, json.dumps({"hooks": {"PostToolUse": [hook]}}))
    line("hook", "uninstall", "claude-code")
    assert not path.exists()


def test_other_peoples_servers_and_plugins_stay(line: CommandLine) -> None:
    servers = '{"mcpServers": {"windlass": {"command": "windlass-of-ours", "args": ["mcp"]}}}'
    (line.folder / ".mcp.json").write_text(servers)
    said = line("hook", "install", "claude-code", "--mcp")
    assert (said.code, "another MCP server named 'windlass'" in said.complaint) == (2, True)
    plugin = line.folder / ".opencode" / "plugin" / "windlass.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("export const Mine = async () => ({})\n")
    said = line("hook", "install", "opencode")
    assert (said.code, "is no plugin of Windlass" in said.complaint) == (2, True)
    for agent in ("claude-code", "opencode"):
        assert line("hook", "uninstall", agent).code == 0
    assert (line.folder / ".mcp.json").read_text() == servers
    assert plugin.read_text().startswith("export const Mine")
    manifest = line.folder / "mine" / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"name": "mine"}')
    said = line("hook", "install", "claude-code", "--plugin", "mine")
    assert (said.code, "holds another plugin" in said.complaint) == (2, True)
    assert [path.name for path in (line.folder / "mine").rglob("*.json")] == ["plugin.json"]


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {}, "hooks": {"Stop": []}}',
        '{"hooks": {"Stop": [], "PostToolUse": [], "Stop": []}}',
        '{"permissions": {"allow": [], "allow": ["Bash"]}}',
    ],
)
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_key_that_stands_twice_is_refused(line: CommandLine, text: str, verb: str) -> None:
    path = settings(line, text)
    said = line("hook", verb, "claude-code")
    assert said.code == 2
    assert "twice in one object" in said.complaint
    assert path.read_text() == text


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_nothing_is_written_through_a_folder_that_leads_out(line: CommandLine, agent: str) -> None:
    outside = line.folder / "outside"
    project = line.folder / "project"
    (outside / "plugin").mkdir(parents=True)
    project.mkdir()
    for name in (".claude", ".opencode"):
        (project / name).symlink_to(outside)
    line.patch.chdir(project)
    for verb in ("install", "uninstall"):
        said = line("hook", verb, agent)
        assert said.code == 2
        assert "leads out of the project" in said.complaint
    assert [path.name for path in outside.rglob("*")] == ["plugin"]
    for name in (".claude", ".opencode"):
        (project / name).unlink()
        (project / "inside").mkdir(exist_ok=True)
        (project / name).symlink_to(project / "inside")
    assert line("hook", "install", agent).code == 0


def test_an_installation_starts_the_process_that_answers(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(client, "start", lambda: started.append("once"))
    line("hook", "install", "claude-code", "--dry-run")
    line("hook", "install", "claude-code", "--plugin", "shared")
    assert started == []
    line("hook", "install", "claude-code")
    assert started == ["once"]


def test_a_dry_run_shows_the_difference_and_writes_nothing(line: CommandLine) -> None:
    path = settings(line, OTHERS)
    said = line("hook", "install", "claude-code", "--mcp", "--dry-run")
    assert "agent run claude-code" in said.out
    assert '+    "windlass": {' in said.out
    assert path.read_text() == OTHERS
    assert not (line.folder / ".mcp.json").exists()


def test_the_mcp_server_is_installed_and_taken_away_with_the_hook(line: CommandLine) -> None:
    servers = line.folder / ".mcp.json"
    servers.write_text('{"mcpServers": {"mine": {"command": "x"}}}')
    line("hook", "install", "claude-code", "--mcp")
    entry = json.loads(servers.read_text())["mcpServers"]["windlass"]
    assert [entry["command"], *entry["args"]][-1] == "mcp"
    line("hook", "uninstall", "claude-code")
    assert servers.read_text() == '{"mcpServers": {"mine": {"command": "x"}}}'


def test_a_plugin_is_a_folder_to_share(line: CommandLine) -> None:
    line("hook", "install", "claude-code", "--plugin", "shared", "--mcp")
    about = json.loads((line.folder / "shared/.claude-plugin/plugin.json").read_text())
    hooks = json.loads((line.folder / "shared/hooks/hooks.json").read_text())["hooks"]
    servers = json.loads((line.folder / "shared/.mcp.json").read_text())["mcpServers"]
    assert about["name"] == "windlass"
    assert tuple(hooks) == EVENTS
    # Whoever gets it has another machine: the command is the bare name.
    assert hooks["PostToolUse"][0]["hooks"][0]["command"] == "windlass agent run claude-code"
    assert servers == {"windlass": {"command": "windlass", "args": ["mcp"]}}
    assert not settings(line).exists()


def test_opencode_gets_a_plugin_of_its_own(line: CommandLine) -> None:
    line("hook", "install", "opencode", "--user", "--policy", "lean")
    path = line.folder / "home/.config/opencode/plugin/windlass.js"
    text = path.read_text()
    assert '"agent", "run", "opencode", "--policy", "lean"]' in text
    assert "tool.execute.after" in text
    assert "installed for this user" in line("hook", "status").out
    assert line("hook", "uninstall", "opencode", "--user").code == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"hooks": {', "is no JSON"),
        ("// mine\n{}", "line 1 column 1"),
        ("[]", "must be an object"),
        ('{"hooks": []}', "'hooks' must be an object"),
        ('{"hooks": {"PostToolUse": {}}}', "'PostToolUse' must be a list"),
    ],
)
def test_broken_settings_stay_as_they_are(line: CommandLine, text: str, told: str) -> None:
    path = settings(line, text)
    said = line("hook", "install", "claude-code")
    assert said.code == 2
    assert told in said.complaint
    assert path.read_text() == text


def test_nothing_is_written_through_a_link(line: CommandLine) -> None:
    real = line.folder / "dotfiles.json"
    real.write_text("{}")
    path = settings(line)
    path.parent.mkdir()
    path.symlink_to(real)
    said = line("hook", "install", "claude-code")
    assert said.code == 2
    assert "is a link" in said.complaint
    assert real.read_text() == "{}"


def test_read_only_settings_are_told(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(line, "{}")
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = line("hook", "install", "claude-code")
    assert said.code == 2
    assert "is read-only" in said.complaint


def test_what_keeps_a_hook_from_running_is_told(line: CommandLine) -> None:
    settings(line, '{"disableAllHooks": true}')
    program = line.folder / "home" / "claude"
    program.write_text(f"#!{sys.executable}\nprint('2.1.99 (Claude Code)')\n")
    program.chmod(0o755)
    said = line("hook", "install", "claude-code")
    assert (
        "claude-code 2.1.99 ignores what hooks answer: it takes replacements from 2.1.121"
        in said.err
    )
    assert "disableAllHooks" in said.err
    told = line("hook", "status")
    assert "too old" in told.out
    assert "disableAllHooks is set" in told.out
    [agent] = line("hook", "status", "--json").json["agents"]
    assert agent["version"] == "2.1.99"
    program.write_text(f"#!{sys.executable}\nprint('2.1.121 (Claude Code)')\n")
    assert "too old" not in line("hook", "status").out


def test_mistakes_are_one_sentence(line: CommandLine) -> None:
    for words, told in (
        (("install", "claude"), "did you mean 'claude-code'"),
        (("install", "claude-code", "--project", "--user"), "give one of them"),
        (("install", "claude-code", "--holdout", "much"), "such as 10%"),
        (("install", "claude-code", "--policy", "thrifty"), "thrifty"),
        (("install", "claude-code", "--store", "clickhouse://h/db"), "a folder"),
        (("install", "opencode", "--plugin", "x"), "only Claude Code"),
        (("try", "nowhere"), "no file, folder or session"),
        (("try",), "no folder of Claude Code"),
    ):
        said = line("hook", *words)
        assert said.code == 2
        assert told in said.complaint


def test_there_is_nothing_to_take_away(line: CommandLine) -> None:
    said = line("hook", "uninstall", "claude-code")
    assert (said.code, said.out) == (0, "there is no hook of Windlass for this project\n")


def test_status_looks_where_the_hook_writes(line: CommandLine) -> None:
    line("hook", "install", "claude-code", "--store", "a b/runs")
    assert line("hook", "status", "--json").json["store"] == str(line.folder / "a b" / "runs")
    assert line("hook", "status", "--json", "--store", "x").json["store"] == str(line.folder / "x")
    assert line("hook", "report").out == "no session with a hook in that time\n"


def test_options_are_read_as_they_are_written() -> None:
    options = HookOptions("claude-code", "/a b/store", "lean", 0.125, redact=True)
    assert read_options(options.arguments()) == options
    assert installing.is_too_old("claude-code", "2.1.120") == "2.1.121"
    assert installing.is_too_old("claude-code", "2.2.0") == ""
