"""Hooks put into the files of an agent, and taken out of them again.

Only what is ours is added and taken away: every other character of a file stays. Nothing is written
through a link.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass import __version__
from windlass.public import UsageError
from windlass_agents import client
from windlass_agents._json_edit import with_element, with_member, without
from windlass_agents.agent_events import Door
from windlass_agents.agent_files import FileChange, Scope, parsed, put, read_text, value_at
from windlass_agents.agents import CODEX_EVENTS, EVENTS
from windlass_agents.options import HookOptions
from windlass_agents.shapes import SHAPES
from windlass_agents.shell_words import is_hook_run, is_mcp

_TIMEOUT_S: Final = 10
"""Seconds after which Claude Code gives up a hook; ours answers within two."""
_MCP: Final = "windlass"
_EVENTS: Final[Mapping[str, Sequence[str]]] = {"claude-code": EVENTS, "codex": CODEX_EVENTS}
_PLUGIN: Final = "windlass.js"
_HEAD: Final = "// Windlass for opencode: "
"""How our plugin for opencode begins, in every version."""


# ---- what agents are told --------------------------------------------------------------


def windlass_command() -> str:
    """Return the command line's first word: its name, or its path where the name is not enough."""
    mine = Path(sys.executable).with_name("windlass")
    found = shutil.which("windlass")
    if found is not None and (not mine.exists() or Path(found).resolve() == mine.resolve()):
        return "windlass"
    if mine.exists():
        return shlex.quote(str(mine))
    return f"{shlex.quote(sys.executable)} -m windlass"


def hook_command() -> list[str]:
    """Get the words that run a hook on this machine: they start in two thirds of the script's time.

    The script of an installer imports what it needs for other names than ours, and the command
    line of the core looks for plugins first.
    """
    return [sys.executable, "-P", str(Path(__file__).with_name("__main__.py"))]


def run_command(options: HookOptions) -> str:
    """Return the command line of a hook on this machine."""
    return shlex.join([*hook_command(), "agent", "run", *options.arguments()])


Edit: TypeAlias = Callable[[str | None, Path], str | None]
"""What else is done to the text of a file of settings (None: there is none)."""


def _as_it_is(text: str | None, path: Path) -> str | None:
    del path
    return text


def install(
    agent: str, scope: Scope, options: HookOptions, edit: Edit = _as_it_is
) -> list[FileChange]:
    """Return the changes that install a hook; none: it is installed so already.

    `edit` comes first. Raises UsageError where a file cannot be changed.
    """
    command = run_command(options)
    if agent == "opencode":
        path = opencode_plugin(scope)
        text = read_text(path, scope)
        if text is not None and not text.startswith(_HEAD):
            raise UsageError(f"{str(path)!r} is no plugin of Windlass: move it away first")
        changes = [FileChange(path, text, _plugin_text(options))]
    else:
        path = hook_settings(agent, scope)
        text, events = read_text(path, scope), _EVENTS[agent]
        bare = without_hooks(edit(text, path), path)
        changes = [FileChange(path, text, _with_hooks(bare, command, path, events))]
    return [change for change in changes if change.before != change.after]


def install_mcp(agent: str, scope: Scope, options: HookOptions) -> list[FileChange]:
    """Return the changes that install the MCP server; none: it is installed so already.

    Raises UsageError where a file cannot be changed.
    """
    if agent == "codex":
        command = f"codex mcp add {_MCP} -- {windlass_command()} mcp"
        raise UsageError(f"--mcp: Codex adds servers itself: {command}")
    path, key, entry = _mcp_entry(agent, scope, options)
    text = read_text(path, scope)
    if _has_other_server(text, path, key):
        raise UsageError(
            f"{str(path)!r} has another MCP server named {_MCP!r}: give it another name first"
        )
    without_mcp = _without_mcp(text, path, key)
    new = put(without_mcp or "{}\n", (), key, {}, path)
    change = FileChange(path, text, with_member(new, (key,), _MCP, entry))
    return [change] if change.before != change.after else []


def uninstall(agent: str, scope: Scope, edit: Edit = _as_it_is) -> list[FileChange]:
    """Return the changes that take a hook away, and the MCP server; none: there is none.

    `edit` comes first. Raises UsageError where a file cannot be changed.
    """
    if agent == "opencode":
        path = opencode_plugin(scope)
        text = read_text(path, scope)
        is_ours = text is not None and text.startswith(_HEAD)
        changes = [FileChange(path, text, None)] if is_ours else []
    else:
        path = hook_settings(agent, scope)
        text = read_text(path, scope)
        changes = [FileChange(path, text, without_hooks(edit(text, path), path))]
    if agent == "codex":  # its servers are in a file of another form, which stays the user's
        return [change for change in changes if change.before != change.after]
    path, key, _ = _mcp_entry(agent, scope, HookOptions(agent))
    text = read_text(path, scope)
    changes.append(FileChange(path, text, _without_mcp(text, path, key)))
    return [change for change in changes if change.before != change.after]


def plugin_files(folder: Path, options: HookOptions, *, mcp: bool) -> list[FileChange]:
    """Return the files of a plugin for Claude Code, for those who share one.

    Raises UsageError where the folder holds another plugin.
    """
    words = ["windlass", "agent", "run", *map(shlex.quote, options.arguments())]
    about = {
        "name": "windlass",
        "version": __version__,
        "description": "Shortens the results of tools before the model sees them;"
        " the originals stay within reach.",
    }
    files: dict[str, object] = {
        ".claude-plugin/plugin.json": about,
        "hooks/hooks.json": {"hooks": _entries(" ".join(words), EVENTS)},
    }
    if mcp:
        files[".mcp.json"] = {"mcpServers": {_MCP: {"command": "windlass", "args": ["mcp"]}}}
    before = {name: read_text(folder / name, "user") for name in files}
    manifest, *others = before
    there = before[manifest]
    name = "" if there is None else parsed(there, folder / manifest).get("name")
    if name not in ("", about["name"]) or (there is None and any(before[each] for each in others)):
        raise UsageError(f"{str(folder)!r} holds another plugin: name an empty folder")
    return [
        FileChange(folder / name, before[name], f"{json.dumps(value, indent=2)}\n")
        for name, value in files.items()
    ]


def _entries(command: str, events: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    hook = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
    return {
        event: [{"matcher": "*", "hooks": [hook]} if "Tool" in event else {"hooks": [hook]}]
        for event in events
    }


# ---- the files -----------------------------------------------------------------------


def claude_settings(scope: Scope) -> Path:
    """The file of settings of Claude Code; of a project that of one person, not the shared one."""
    if scope == "project":
        return Path.cwd() / ".claude" / "settings.local.json"
    return claude_folder() / "settings.json"


def hook_settings(agent: str, scope: Scope) -> Path:
    """Return the file in which the hooks of an agent stand."""
    if agent != "codex":
        return claude_settings(scope)
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex").expanduser()
    return (home if scope == "user" else Path.cwd() / ".codex") / "hooks.json"


def claude_folder() -> Path:
    """Return the user's own folder of Claude Code."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude").expanduser()


def opencode_plugin(scope: Scope) -> Path:
    """Return the file of the plugin for opencode."""
    folder = Path.cwd() / ".opencode" if scope == "project" else opencode_folder()
    return folder / "plugin" / _PLUGIN


def opencode_folder() -> Path:
    """Return the user's own folder of opencode."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "opencode"


def _mcp_entry(agent: str, scope: Scope, options: HookOptions) -> tuple[Path, str, dict[str, Any]]:
    """Return the file that names MCP servers, the key in it, and our entry."""
    *python, _ = [*shlex.split(windlass_command()), ""]
    command = [*python, "mcp", *(["--store", options.store] if options.store else [])]
    if agent == "opencode":
        folder = Path.cwd() if scope == "project" else opencode_folder()
        return folder / "opencode.json", "mcp", {"type": "local", "command": command}
    entry = {"command": command[0], "args": command[1:]}
    if scope == "project":
        return Path.cwd() / ".mcp.json", "mcpServers", entry
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    folder = Path(named).expanduser() if named else Path.home()
    return folder / ".claude.json", "mcpServers", entry


def _with_hooks(text: str | None, command: str, path: Path, events: Sequence[str]) -> str:
    """Return the text of the settings with our hook on each event."""
    text = put(text or "{}\n", (), "hooks", {}, path)
    for event, [entry] in _entries(command, events).items():
        text = put(text, ("hooks",), event, [], path)
        text = with_element(text, ("hooks", event), entry)
    return text


def without_hooks(text: str | None, path: Path) -> str | None:
    """Return the text of the settings without our hook; None: nothing else was in it."""
    if text is None:
        return None
    removed = False
    while (at := _ours(parsed(text, path))) is not None:
        text, removed = without(text, at), True
        for empty in (at[:-1], at[:-2], at[:-3]):
            if empty and not value_at(parsed(text, path), empty):
                text = without(text, empty)
    return None if removed and not parsed(text, path) else text


def _ours(settings: Mapping[str, Any]) -> tuple[str | int, ...] | None:
    """Where a hook of ours stands (None: there is none)."""
    hooks = settings.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            listed = group.get("hooks") if isinstance(group, dict) else None
            for place, hook in enumerate(listed if isinstance(listed, list) else ()):
                if isinstance(hook, dict) and is_hook_run(str(hook.get("command"))):
                    if len(listed or ()) == 1:
                        return "hooks", event, number
                    return "hooks", event, number, "hooks", place
    return None


def _without_mcp(text: str | None, path: Path, key: str) -> str | None:
    if text is None:
        return None
    servers = parsed(text, path).get(key)
    if not isinstance(servers, dict) or not _is_our_server(servers.get(_MCP)):
        return text
    text = without(text, (key, _MCP))
    if not parsed(text, path)[key]:
        text = without(text, (key,))
    return text if parsed(text, path) else None


def _has_other_server(text: str | None, path: Path, key: str) -> bool:
    """Return whether somebody else's MCP server has our name."""
    servers = {} if text is None else parsed(text, path).get(key)
    return isinstance(servers, dict) and _MCP in servers and not _is_our_server(servers[_MCP])


def _is_our_server(entry: object) -> bool:
    """Return whether an entry of a file of MCP servers starts ours."""
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args") or ()
    words = [*command] if isinstance(command, list) else [command, *arguments]
    return all(isinstance(word, str) for word in words) and is_mcp(words)


def _plugin_text(options: HookOptions) -> str:
    """Return the plugin for opencode, with what it asks."""
    source = resources.files("windlass_agents").joinpath("opencode.js").read_text("utf-8")
    command = [*hook_command(), "agent", "run", *options.arguments()]
    source = source.replace('["windlass", "agent", "run", "opencode"]', json.dumps(command))
    if hasattr(socket, "AF_UNIX"):
        with suppress(OSError):  # without a folder of the user's own the command is run
            path = json.dumps(client.mod_socket(client.own_folder()))
            source = source.replace('const SOCKET = ""', f"const SOCKET = {path}")
    return source


# ---- what is there -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstalledHook:
    """A hook in a file of an agent."""

    agent: str
    scope: Scope
    path: Path
    command: str
    disabled: bool = False
    """Whether the settings switch all hooks off."""
    door: Door = "hook"


def installed_hooks() -> list[InstalledHook]:
    """Return the hooks that are installed here and for the user.

    A file that cannot be read has none.
    """
    found: list[InstalledHook] = []
    scopes: tuple[Scope, ...] = ("project", "user")
    for scope in scopes:
        shared = claude_settings(scope).with_name("settings.json")
        files = dict.fromkeys((claude_settings(scope), shared), "claude-code")
        for path, agent in {**files, hook_settings("codex", scope): "codex"}.items():
            if any(one.path == path for one in found):
                continue
            try:
                settings = parsed(path.read_text(encoding="utf-8"), path)
            except (OSError, UnicodeError, UsageError):
                continue
            at = _ours(settings)
            if at is not None:
                hook = value_at(settings, at)
                command = hook.get("command") or hook["hooks"][0]["command"]
                found.append(InstalledHook(agent, scope, path, command, hooks_disabled(path)))
        plugin = opencode_plugin(scope)
        if plugin.is_file():
            found.append(InstalledHook("opencode", scope, plugin, "plugin"))
    return found


def installed_store() -> str | None:
    """Return the folder of the history that an installed hook names.

    None: `.windlass` in the project.
    """
    for hook in installed_hooks():
        words = shlex.split(hook.command)
        if "--store" in words[:-1]:
            return words[words.index("--store") + 1]
    return None


def hooks_disabled(path: Path) -> bool:
    """Return whether a file of settings switches all hooks off."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        return settings.get("disableAllHooks") is True
    except (OSError, ValueError, AttributeError):
        return False


def other_hooks(path: Path, event: str = "PostToolUse") -> list[str]:
    """Return the commands of others on an event in a file of settings."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        groups = settings["hooks"][event]
        commands = [str(hook.get("command")) for group in groups for hook in group["hooks"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [command for command in commands if not is_hook_run(command)]


_PROGRAMS: Final[Mapping[str, str]] = {
    "claude-code": "claude",
    "codex": "codex",
    "opencode": "opencode",
}
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


def agent_version(agent: str) -> str | None:
    """Return the version of the agent that is installed.

    None: it is not found, or does not say.
    """
    program = shutil.which(_PROGRAMS.get(agent, agent))
    if program is None:
        return None
    try:
        told = subprocess.run(  # noqa: S603 - the user's own program
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(told.stdout)
    return match[0] if match else None


def is_too_old(agent: str, version: str) -> str:
    """Return the first version that takes replacements, where `version` does not; else empty."""
    known = [shape.since for shape in SHAPES if shape.agent == agent and shape.since]
    first = min(known, key=_numbers, default=version)
    return first if is_before(version, first) else ""


def is_before(version: str, other: str) -> bool:
    """Return whether a version is older than another."""
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
