"""The mod for Claude Code as it is installed: the folder of the package, filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, TypeAlias

from windlass import __version__

MARKETPLACE: Final = "windlass"
NAME: Final = f"windlass@{MARKETPLACE}"
"""The mod, as Claude Code names it with its marketplace."""
SINCE: Final = "2.1.287"
"""The first version of Claude Code that loads mods."""
MAIN: Final = "windlass/hooks/main.js"
_FILES: Final = (
    ".claude-plugin/marketplace.json",
    "windlass/.claude-plugin/plugin.json",
    "windlass/README.md",
    "windlass/hooks/hooks.json",
    MAIN,
)
_OPTIONS: Final = re.compile(r"^const OPTIONS = (\{.*\})", re.MULTILINE)
_SOCKET: Final = 'const SOCKET = ""'
_COMMAND: Final = '"windlass agent run claude-code"'
_VERSION: Final = re.compile(r'"version": "[^"]+"')

OptionsByFolder: TypeAlias = Mapping[str, Sequence[str]]
"""The words that follow the agent's name in `windlass agent run`, by the folder for which the mod
is installed; empty: for all folders of the user."""


def mod_files(socket: str, command: str, options: OptionsByFolder) -> dict[str, str]:
    """Return the files of the marketplace folder, by their paths in it.

    Args:
        socket: The path at which the server is reached.
        command: The command line that tells the server of a session's beginning, and starts it.
        options: How results are shortened.
    """
    folder = resources.files("windlass_agents") / "mod"
    files = {name: folder.joinpath(name).read_text("utf-8") for name in _FILES}
    main = files[MAIN].replace(_SOCKET, f"const SOCKET = {json.dumps(socket)}")
    told = json.dumps({name: list(words) for name, words in options.items()})
    files[MAIN] = _OPTIONS.sub(lambda _: f"const OPTIONS = {told}", main)
    hooks = "windlass/hooks/hooks.json"
    files[hooks] = files[hooks].replace(_COMMAND, json.dumps(command))
    about = "windlass/.claude-plugin/plugin.json"
    files[about] = _VERSION.sub(f'"version": "{__version__}"', files[about])
    return files


def installed_options(folder: Path) -> dict[str, list[str]]:
    """Return the options with which the mod in a folder was filled in (nothing: there is none)."""
    try:
        match = _OPTIONS.search((folder / MAIN).read_text("utf-8"))
        told = {} if match is None else json.loads(match[1])
    except (OSError, ValueError):
        return {}
    return {str(name): list(map(str, words)) for name, words in told.items()}
