"""Which door is installed where: the mod of Claude Code, its hook, Codex; and what status says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, windlass

from windlass_agents import client
from windlass_agents.agents import CODEX_EVENTS
from windlass_agents.mod_files import MAIN, installed_options

__all__ = ["windlass"]

PLACE, SWITCH = "extraKnownMarketplaces", "enabledPlugins"
OTHERS = """{
  "model": "opus",   "enabledPlugins": {"other@place": true},
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
}
"""


class Desk:
    """A folder with a home of its own, and Claude Code in some version."""

    def __init__(self, line: CommandLine) -> None:
        self.line = line
        self.home = line.folder / "home"
        self.user = self.home / ".claude" / "settings.json"
        self.project = line.folder / ".claude" / "settings.local.json"
        self.mod = self.home / ".local/state/windlass/claude-code"

    def has(self, version: str, name: str = "claude") -> None:
        program = self.home / name
        program.write_text(f"#!{sys.executable}\nprint('{version} (an agent)')\n")
        program.chmod(0o755)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.mod)) for path in self.mod.rglob("*") if path.is_file()}

    def settings(self, path: Path) -> dict[str, Any]:
        return dict(json.loads(path.read_text())) if path.exists() else {}


@pytest.fixture
def desk(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Desk:
    home = windlass.folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client, "start", lambda: None)
    desk = Desk(windlass)
    desk.has("2.1.331")
    return desk


def test_the_mod_is_installed_and_leaves_nothing(desk: Desk) -> None:
    said = desk.line("agent", "install", "claude-code")
    assert said.code == 0
    where = desk.settings(desk.user)[PLACE]["windlass"]["source"]
    assert where == {"source": "directory", "path": str(desk.mod)}
    assert desk.settings(desk.project) == {SWITCH: {"windlass@windlass": True}}
    assert MAIN in desk.files()
    assert "windlass agent uninstall claude-code --project" in said.out
    main = (desk.mod / MAIN).read_text()
    assert f'const SOCKET = "{client.mod_socket(str(desk.mod.parent))}"' in main
    hooks = desk.settings(desk.mod / "windlass/hooks/hooks.json")
    command = hooks["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    assert command.endswith("agent run claude-code")
    told = desk.line("agent", "status").out
    assert f"claude-code (2.1.331): the mod is installed for this project, {desk.project}" in told
    assert desk.line("agent", "install", "claude-code").out.startswith("it is installed so already")
    assert desk.line("agent", "uninstall", "claude-code").code == 0
    assert (desk.files(), desk.user.exists(), desk.project.exists()) == (set(), False, False)
    assert "not installed" in desk.line("agent", "status").out


def test_what_others_wrote_stays_as_it_was(desk: Desk) -> None:
    for path in (desk.user, desk.project):
        path.parent.mkdir()
        path.write_text(OTHERS)
    for scope in ("--project", "--user"):
        desk.line("agent", "install", "claude-code", scope)
    assert desk.settings(desk.user)[SWITCH] == {"other@place": True, "windlass@windlass": True}
    for scope in ("--project", "--user"):
        desk.line("agent", "uninstall", "claude-code", scope)
    assert [desk.user.read_text(), desk.project.read_text()] == [OTHERS, OTHERS]


def test_one_door_takes_the_place_of_the_other(desk: Desk) -> None:
    desk.line("agent", "install", "claude-code", "--hook")
    assert "hooks" in desk.settings(desk.project)
    assert "puts the mod in its place" in desk.line("agent", "status").out
    desk.line("agent", "install", "claude-code")
    assert desk.settings(desk.project) == {SWITCH: {"windlass@windlass": True}}
    said = desk.line("agent", "install", "claude-code", "--hook")
    assert "the hook is installed: --hook" in said.err
    assert list(desk.settings(desk.project)) == ["hooks"]
    assert (desk.files(), desk.user.exists()) == (set(), False)


def test_each_scope_has_options_of_its_own(desk: Desk) -> None:
    desk.line("agent", "install", "claude-code", "--redact")
    desk.line("agent", "install", "claude-code", "--user", "--holdout", "10%")
    here = str(desk.line.folder.resolve())
    told = {here: ["--redact"], "": ["--holdout", "10%"]}
    assert installed_options(desk.mod) == told
    assert len(desk.line("agent", "status", "--json").json["agents"][0]["installed"]) == 2
    desk.line("agent", "uninstall", "claude-code", "--user")
    assert installed_options(desk.mod) == {here: ["--redact"]}
    assert PLACE in desk.settings(desk.user)
    desk.line("agent", "uninstall", "claude-code")
    assert not desk.user.exists()


def test_a_dry_run_names_the_files_and_writes_nothing(desk: Desk) -> None:
    said = desk.line("agent", "install", "claude-code", "--dry-run")
    assert f"to be written: {desk.mod / MAIN}" in said.out
    assert '+    "windlass@windlass": true' in said.out
    assert (desk.files(), desk.user.exists(), desk.project.exists()) == (set(), False, False)


def test_a_version_without_mods_gets_the_hook_and_status_says_why(desk: Desk) -> None:
    desk.line("agent", "install", "claude-code", "--user")
    desk.has("2.1.286")
    told = desk.line("agent", "status").out
    assert "no door is open: mods load from 2.1.287 on" in told
    said = desk.line("agent", "install", "claude-code", "--user")
    assert "the hook is installed: mods load from 2.1.287 on" in said.err
    assert list(desk.settings(desk.user)) == ["hooks"]
    assert "it is the hook, since mods load from 2.1.287 on" in desk.line("agent", "status").out


def test_both_doors_at_once_are_told(desk: Desk) -> None:
    desk.line("agent", "install", "claude-code", "--user")
    desk.line("agent", "install", "claude-code", "--hook")
    assert "where the mod is loaded it answers" in desk.line("agent", "status").out


def test_codex_gets_a_hook_and_the_step_of_trust_is_told(desk: Desk) -> None:
    desk.has("codex-cli 0.171.0", "codex")
    said = desk.line("agent", "install", "codex", "--user")
    path = desk.home / ".codex" / "hooks.json"
    hooks = desk.settings(path)["hooks"]
    assert tuple(hooks) == CODEX_EVENTS
    assert hooks["PostToolUse"][0]["hooks"][0]["command"].endswith("agent run codex")
    assert "`Trust all and continue`" in said.out
    told = desk.line("agent", "status").out
    assert f"codex (0.171.0): the hook is installed for this user, {path}" in told
    refused = desk.line("agent", "install", "codex", "--mcp")
    assert (refused.code, "codex mcp add windlass" in refused.complaint) == (2, True)
    assert desk.line("agent", "uninstall", "codex", "--user").code == 0
    assert not path.exists()


@pytest.mark.parametrize("agent", ["gemini-cli", "qwen-code", "cline", "openhands", "aider"])
def test_agents_without_a_door_are_told_so(desk: Desk, agent: str) -> None:
    said = desk.line("agent", "install", agent)
    assert said.code == 2
    assert "windlass mcp" in said.complaint or "nothing to install" in said.complaint


def test_the_former_name_is_the_same_command(desk: Desk) -> None:
    assert desk.line("hook", "install", "claude-code").code == 0
    assert desk.settings(desk.project) == {SWITCH: {"windlass@windlass": True}}
