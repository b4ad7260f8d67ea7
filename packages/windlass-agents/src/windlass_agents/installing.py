"""Hooks put into the files of an agent, and taken out of them again.

Only what is ours is added and taken away: every other character of a file stays. Nothing is written
through a link.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from windlass import __version__
from windlass.public import UsageError, WindlassError, own_files
from windlass_agents._json_edit import with_element, with_member, without
from windlass_agents.agents import EVENTS
from windlass_agents.options import HookOptions
from windlass_agents.shapes import SHAPES
from windlass_agents.shell_words import is_hook_run, is_mcp

Scope: TypeAlias = Literal["project", "user"]
"""For the current folder, or for all of the user's folders."""

_TIMEOUT_S: Final = 10
"""Seconds after which Claude Code gives up a hook; ours answers within two."""
_MCP: Final = "windlass"
_PLUGIN: Final = "windlass.js"
_HEAD: Final = "// Windlass for opencode: "
"""How our plugin for opencode begins, in every version."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a file is to hold; None: it is not there."""

    path: Path
    before: str | None
    after: str | None

    @property
    def difference(self) -> str:
        """Return the change as a unified diff."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def make(self) -> None:
        """Write the file, or remove it. Raises WindlassError where that cannot be."""
        try:
            if self.after is None:
                self.path.unlink()
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            own_files.replace(self.path, [self.after.encode()])
        except OSError as error:
            raise WindlassError(f"{str(self.path)!r} cannot be written: {error}") from error


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


def install(agent: str, scope: Scope, options: HookOptions, *, mcp: bool) -> list[FileChange]:
    """Return the changes that install a hook; none: it is installed so already.

    `mcp`: the MCP server, too. Raises UsageError where a file cannot be changed.
    """
    command = shlex.join([*hook_command(), "hook", "run", *options.arguments()])
    if agent == "opencode":
        path = opencode_plugin(scope)
        text = _read(path, scope)
        if text is not None and not text.startswith(_HEAD):
            raise UsageError(f"{str(path)!r} is no plugin of Windlass: move it away first")
        changes = [FileChange(path, text, _plugin_text(options))]
    else:
        path = claude_settings(scope)
        text = _read(path, scope)
        changes = [FileChange(path, text, _with_hooks(_without_hooks(text, path), command, path))]
    if mcp:
        path, key, entry = _mcp_entry(agent, scope, options)
        text = _read(path, scope)
        if _has_other_server(text, path, key):
            raise UsageError(
                f"{str(path)!r} has another MCP server named {_MCP!r}: give it another name first"
            )
        without_mcp = _without_mcp(text, path, key)
        new = _put(without_mcp or "{}\n", (), key, {}, path)
        changes.append(FileChange(path, text, with_member(new, (key,), _MCP, entry)))
    return [change for change in changes if change.before != change.after]


def uninstall(agent: str, scope: Scope) -> list[FileChange]:
    """Return the changes that take a hook away, and the MCP server; none: there is none.

    Raises UsageError where a file cannot be changed.
    """
    if agent == "opencode":
        path = opencode_plugin(scope)
        text = _read(path, scope)
        is_ours = text is not None and text.startswith(_HEAD)
        changes = [FileChange(path, text, None)] if is_ours else []
    else:
        path = claude_settings(scope)
        text = _read(path, scope)
        changes = [FileChange(path, text, _without_hooks(text, path))]
    path, key, _ = _mcp_entry(agent, scope, HookOptions(agent))
    text = _read(path, scope)
    changes.append(FileChange(path, text, _without_mcp(text, path, key)))
    return [change for change in changes if change.before != change.after]


def plugin_files(folder: Path, options: HookOptions, *, mcp: bool) -> list[FileChange]:
    """Return the files of a plugin for Claude Code, for those who share one.

    Raises UsageError where the folder holds another plugin.
    """
    words = ["windlass", "hook", "run", *map(shlex.quote, options.arguments())]
    about = {
        "name": "windlass",
        "version": __version__,
        "description": "Shortens the results of tools before the model sees them;"
        " the originals stay within reach.",
    }
    files: dict[str, object] = {
        ".claude-plugin/plugin.json": about,
        "hooks/hooks.json": {"hooks": _entries(" ".join(words))},
    }
    if mcp:
        files[".mcp.json"] = {"mcpServers": {_MCP: {"command": "windlass", "args": ["mcp"]}}}
    before = {name: _read(folder / name, "user") for name in files}
    manifest, *others = before
    there = before[manifest]
    name = "" if there is None else _parsed(there, folder / manifest).get("name")
    if name not in ("", about["name"]) or (there is None and any(before[each] for each in others)):
        raise UsageError(f"{str(folder)!r} holds another plugin: name an empty folder")
    return [
        FileChange(folder / name, before[name], f"{json.dumps(value, indent=2)}\n")
        for name, value in files.items()
    ]


def _entries(command: str) -> dict[str, list[dict[str, Any]]]:
    hook = {"type": "command", "command": command, "timeout": _TIMEOUT_S}
    return {
        event: [{"matcher": "*", "hooks": [hook]} if "Tool" in event else {"hooks": [hook]}]
        for event in EVENTS
    }


# ---- the files -----------------------------------------------------------------------


def claude_settings(scope: Scope) -> Path:
    """The file of settings of Claude Code; of a project that of one person, not the shared one."""
    if scope == "project":
        return Path.cwd() / ".claude" / "settings.local.json"
    return claude_folder() / "settings.json"


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


def _read(path: Path, scope: Scope) -> str | None:
    """Return the text of a file that can be changed (None: it is not there). Raises UsageError.

    A file of a project lies in it: others may have put a link there that leads elsewhere.
    """
    if path.is_symlink():
        raise UsageError(
            f"{str(path)!r} is a link to {str(path.readlink())!r}, and nothing is written through"
            " it: put a copy in its place, or add there what --dry-run shows with the copy"
        )
    real = path.parent.resolve()
    if scope == "project" and not real.is_relative_to(Path.cwd().resolve()):
        raise UsageError(
            f"{str(path.parent)!r} is a link that leads out of the project, to {str(real)!r}, and"
            " nothing is written through it: put a folder in its place, or use --user"
        )
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{str(path)!r} is read-only: make it writable, or choose another scope")
    return text


def _parsed(text: str, path: Path) -> Mapping[str, Any]:
    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(members)
        if len(value) < len(members):
            twice = next(
                name for name, count in Counter(name for name, _ in members).items() if count > 1
            )
            raise UsageError(
                f"{str(path)!r} has {twice!r} twice in one object, and which of them counts is not"
                " sure: mend it first; nothing was written"
            )
        return value

    try:
        value = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{str(path)!r} is no JSON ({error}): mend it first; nothing was written"
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"{str(path)!r} must be an object, not {type(value).__name__}")
    return value


def _put(text: str, above: Sequence[str], key: str, empty: object, path: Path) -> str:
    """Return the text with a value under a key, which is `empty` where there was none."""
    value: Any = _parsed(text, path)
    for step in above:
        value = value[step]
    if key not in value:
        return with_member(text, above, key, empty)
    if type(value[key]) is not type(empty):
        raise UsageError(f"{str(path)!r}: {key!r} must be {_KINDS[type(empty)]}; mend it first")
    return text


_KINDS: Final[Mapping[type, str]] = {dict: "an object", list: "a list"}


def _with_hooks(text: str | None, command: str, path: Path) -> str:
    """Return the text of the settings with our hook on each event."""
    text = _put(text or "{}\n", (), "hooks", {}, path)
    for event, [entry] in _entries(command).items():
        text = _put(text, ("hooks",), event, [], path)
        text = with_element(text, ("hooks", event), entry)
    return text


def _without_hooks(text: str | None, path: Path) -> str | None:
    """Return the text of the settings without our hook; None: nothing else was in it."""
    if text is None:
        return None
    removed = False
    while (at := _ours(_parsed(text, path))) is not None:
        text, removed = without(text, at), True
        for empty in (at[:-1], at[:-2], at[:-3]):
            if empty and not _at(_parsed(text, path), empty):
                text = without(text, empty)
    return None if removed and not _parsed(text, path) else text


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


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _without_mcp(text: str | None, path: Path, key: str) -> str | None:
    if text is None:
        return None
    servers = _parsed(text, path).get(key)
    if not isinstance(servers, dict) or not _is_our_server(servers.get(_MCP)):
        return text
    text = without(text, (key, _MCP))
    if not _parsed(text, path)[key]:
        text = without(text, (key,))
    return text if _parsed(text, path) else None


def _has_other_server(text: str | None, path: Path, key: str) -> bool:
    """Return whether somebody else's MCP server has our name."""
    servers = {} if text is None else _parsed(text, path).get(key)
    return isinstance(servers, dict) and _MCP in servers and not _is_our_server(servers[_MCP])


def _is_our_server(entry: object) -> bool:
    """Return whether an entry of a file of MCP servers starts ours."""
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args") or ()
    words = [*command] if isinstance(command, list) else [command, *arguments]
    return all(isinstance(word, str) for word in words) and is_mcp(words)


def _plugin_text(options: HookOptions) -> str:
    """Return the plugin for opencode, with the command that it runs."""
    source = resources.files("windlass_agents").joinpath("opencode.js").read_text("utf-8")
    command = [*hook_command(), "hook", "run", *options.arguments()]
    return source.replace('["windlass", "hook", "run", "opencode"]', json.dumps(command))


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


def installed_hooks() -> list[InstalledHook]:
    """Return the hooks that are installed here and for the user.

    A file that cannot be read has none.
    """
    found: list[InstalledHook] = []
    scopes: tuple[Scope, ...] = ("project", "user")
    for scope in scopes:
        for path in (claude_settings(scope), claude_settings(scope).with_name("settings.json")):
            if any(one.path == path for one in found):
                continue
            try:
                settings = _parsed(path.read_text(encoding="utf-8"), path)
            except (OSError, UnicodeError, UsageError):
                continue
            at = _ours(settings)
            if at is not None:
                hook = _at(settings, at)
                command = hook.get("command") or hook["hooks"][0]["command"]
                found.append(
                    InstalledHook("claude-code", scope, path, command, hooks_disabled(path))
                )
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


_PROGRAMS: Final[Mapping[str, str]] = {"claude-code": "claude", "opencode": "opencode"}
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
    return first if _numbers(version) < _numbers(first) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
