"""The mod put into Claude Code, and taken out again.

The user's settings say where the folder of the mod is, and those of the scope that it is loaded:
Claude Code reads it from there, and asks nothing.
"""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from windlass_agents import client, installing
from windlass_agents._json_edit import with_member, without
from windlass_agents.agent_files import FileChange, Scope, parsed, put, read_text
from windlass_agents.installing import (
    InstalledHook,
    claude_settings,
    is_before,
    run_command,
    without_hooks,
)
from windlass_agents.mod_files import (
    MARKETPLACE,
    NAME,
    SINCE,
    OptionsByFolder,
    installed_options,
    mod_files,
)
from windlass_agents.options import HookOptions

_PLACE: Final = "extraKnownMarketplaces", MARKETPLACE
"""The key under which settings say where the mod is."""
_SWITCH: Final = "enabledPlugins", NAME
"""The key under which they say that it is loaded."""


def why_no_mod(version: str | None) -> str:
    """Return why a version of Claude Code gets the hook and not the mod (empty: it gets the mod).

    `version`: None where Claude Code is not found, or does not say.
    """
    if not hasattr(socket, "AF_UNIX"):
        return "the mod needs sockets that are files, which this system does not have"
    if version is None:
        return f"no Claude Code was found that says its version: mods load from {SINCE} on"
    if is_before(version, SINCE):
        return f"mods load from {SINCE} on"
    try:
        mod_folder()
    except OSError as error:
        return str(error)
    return ""


def mod_folder() -> Path:
    """Return the folder of the mod of this user. Raises OSError where there can be none."""
    return Path(client.own_folder()) / "claude-code"


def install(scope: Scope, options: HookOptions) -> list[FileChange]:
    """Return the changes that install the mod in the place of a hook; none: it is so already.

    Raises UsageError where a file cannot be changed, and OSError without a folder of the user's
    own.
    """
    folder = mod_folder()
    told = {**installed_options(folder), _key(scope): options.arguments()[1:]}
    changes = [*_own_files(folder, told)]
    values = {
        _PLACE: {"source": {"source": "directory", "path": str(folder)}},
        _SWITCH: True,
    }
    for path, wanted, where in _settings(scope):
        before = text = read_text(path, where)
        if path == claude_settings(scope):
            text = without_hooks(text, path)
        text = text or "{}\n"
        for key, name in wanted:
            text = put(text, (), key, {}, path)
            there, value = parsed(text, path)[key], values[key, name]
            if name not in there or there[name] != value:
                text = without(text, (key, name)) if name in there else text
                text = with_member(text, (key,), name, value)
        changes.append(FileChange(path, before, text))
    return [change for change in changes if change.before != change.after]


def install_hook(scope: Scope, options: HookOptions) -> list[FileChange]:
    """Return the changes that install the hook in the place of a mod. Raises as `install`."""
    hooked = installing.install("claude-code", scope, options, _without_switch)
    return [*hooked, *_leftovers(scope)]


def uninstall(scope: Scope) -> list[FileChange]:
    """Return the changes that take mod, hook and MCP server away; none: there is none of them.

    Raises UsageError where a file cannot be changed.
    """
    return [*installing.uninstall("claude-code", scope, _without_switch), *_leftovers(scope)]


def _without_switch(text: str | None, path: Path) -> str | None:
    """Return settings that do not load the mod (None: nothing else was in them).

    In the user's own nobody is told any more where it is, if no project has it either.
    """
    names = [_SWITCH]
    if path == claude_settings("user") and not _others("user"):
        names.append(_PLACE)
    return _without(text, path, names)


def _without(text: str | None, path: Path, names: Iterable[tuple[str, str]]) -> str | None:
    before = text
    for key, name in names:
        settings = {} if text is None else parsed(text, path)
        if text is not None and name in (settings.get(key) or ()):
            text = without(text, (key, name))
            if not parsed(text, path)[key]:
                text = without(text, (key,))
    return None if text is not None and text != before and not parsed(text, path) else text


def _others(scope: Scope) -> dict[str, list[str]]:
    """Return where else the mod is installed."""
    told = _installed()
    return {name: words for name, words in told.items() if name != _key(scope)}


def _leftovers(scope: Scope) -> Iterator[FileChange]:
    """Yield what else changes where the mod leaves a scope."""
    if _key(scope) not in _installed():
        return
    yield from _own_files(mod_folder(), _others(scope))
    user = claude_settings("user")
    if scope == "project" and not _others(scope):
        before = read_text(user, "user")
        change = FileChange(user, before, _without(before, user, [_PLACE]))
        if change.before != change.after:
            yield change


def _installed() -> dict[str, list[str]]:
    try:
        return installed_options(mod_folder())
    except OSError:
        return {}


def installed_mods() -> Iterator[InstalledHook]:
    """Yield where the mod is switched on, here and for the user."""
    scopes: tuple[Scope, ...] = ("project", "user")
    for scope in scopes:
        path = claude_settings(scope)
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
            is_on = settings[_SWITCH[0]][NAME] is True
            options = _installed().get(_key(scope), [])
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if is_on:
            command = run_command(HookOptions("claude-code"))
            off = settings.get("disableAllHooks") is True
            yield InstalledHook(
                "claude-code", scope, path, f"{command} {shlex.join(options)}".strip(), off, "mod"
            )


def _key(scope: Scope) -> str:
    return "" if scope == "user" else str(Path.cwd().resolve())


def _settings(scope: Scope) -> Iterator[tuple[Path, list[tuple[str, str]], Scope]]:
    """Yield the files of settings, with the keys that stand in each.

    Where the mod is stands in the user's own: those of a project are not asked for that.
    """
    if scope == "user":
        yield claude_settings("user"), [_PLACE, _SWITCH], "user"
    else:
        yield claude_settings("user"), [_PLACE], "user"
        yield claude_settings("project"), [_SWITCH], "project"


def _own_files(folder: Path, options: OptionsByFolder) -> Iterator[FileChange]:
    """Yield the files of the mod's folder; without options it goes."""
    command = run_command(HookOptions("claude-code"))
    files = mod_files(client.mod_socket(str(folder.parent)), command, options)
    for name, text in files.items():
        before = read_text(folder / name, "user")
        after = text if options else None
        if before != after:
            yield FileChange(folder / name, before, after, is_own=True)
