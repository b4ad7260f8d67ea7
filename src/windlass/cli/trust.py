"""Trust on the command line: the command `trust`, the question at a terminal, what was left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from windlass.cascade.children import ReadyCascade
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.tools_named import servers_named
from windlass.cli.output import out, printed_as_json, progress
from windlass.errors import TrustNeeded, UsageError, WindlassError
from windlass.settings.settings import Settings
from windlass.settings.trust import distrust, trust, trusted_folders
from windlass.tools.registry import Registry

_Answer = TypeVar("_Answer")


def mark_folder(folder: Path | None, *, remove: bool) -> None:
    """Mark a folder as trusted, take the mark away, or list the marks."""
    if folder is None:
        if remove:
            raise UsageError("say which folder: windlass trust FOLDER --remove")
        marks = [str(each) for each in trusted_folders()]
        if not printed_as_json({"trusted": marks}):
            out.print("\n".join(marks) or "no folder is trusted; mark one: windlass trust FOLDER")
        return
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is no folder")
    if remove:
        if not distrust(folder):
            raise UsageError(f"{str(folder.resolve())!r} has no mark of its own")
    else:
        trust(folder)
    if printed_as_json({"folder": str(folder.resolve()), "trusted": not remove}):
        return
    done = "no longer trusted" if remove else "trusted, with the folders below it"
    out.print(f"{folder.resolve()}: {done}")


def settings_to_run(flags: Mapping[str, Any], *, trusted: bool) -> Settings:
    """The settings of a command that imports, starts or sends what they name.

    At a terminal the user is asked whether to trust a folder that needs it; elsewhere, and where
    the answer is no, TrustNeeded says what the folder's file wants and how to allow it.
    """

    def read() -> Settings:
        settings = Settings.read(flags, trust=trusted)
        settings.check_trust()
        return settings

    return asking_for_trust(read)


def asking_for_trust(work: Callable[[], _Answer]) -> _Answer:
    """What `work` answers; at a terminal the user is asked for the trust that it needs.

    With a yes the folders are marked and the work begins again: whoever raises TrustNeeded has
    done nothing yet. Elsewhere, and where the answer is no, TrustNeeded goes on.
    """
    while True:
        try:
            return work()
        except TrustNeeded as refusal:
            if not (sys.stdin.isatty() and progress.file.isatty()):
                raise
            progress.print(str(refusal))
            which = "this folder" if len(refusal.folders) == 1 else "these folders"
            progress.print(f"Trust {which} from now on? [y/N] ", end="")
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise
            for folder in refusal.folders:
                trust(Path(folder))


def unchecked(
    settings: Settings, *registries: Registry, left_out: Iterable[Cascade] = ()
) -> list[str]:
    """The names of what was left unchecked because its folder is not trusted.

    `left_out`: the cascades whose own MCP servers were not started either.
    """
    names = [f"module {name}" for each in registries for name in each.modules.unchecked]
    names += [f"{name} of {setting.origin}" for name, setting in settings.untrusted.items()]
    names += [f"MCP server {name}" for each in left_out for name in servers_named(each)]
    return list(dict.fromkeys(names))


def print_unchecked(names: list[str]) -> None:
    """Print what was left unchecked, and how it is checked."""
    if names:
        progress.print(
            f"left unchecked, because the folder is not trusted: {', '.join(names)};"
            " --trust checks it, windlass trust FOLDER marks a folder",
        )


def all_without_untrusted(ready: ReadyCascade, settings: Settings) -> ReadyCascade:
    """The same of a cascade with its sub-cascades."""
    children = {at: all_without_untrusted(each, settings) for at, each in ready.children.items()}
    cascade = without_untrusted(ready.cascade, ready.registry, settings)
    return ReadyCascade(cascade, ready.registry, children)


def without_untrusted(cascade: Cascade, registry: Registry, settings: Settings) -> Cascade:
    """The cascade as far as it is known without running code or starting servers it names."""
    servers = {*settings.mcp_servers} - {*cascade.mcp_servers, *settings.untrusted_servers()}

    def known(name: str) -> bool:
        server, dot, _ = name.partition(".")
        if dot and ":" not in name:
            return server in servers
        try:
            registry.get(name)
        except WindlassError:
            return False
        return True

    def of_phase(phase: Phase) -> Phase:
        over: dict[str, Any] = {}
        if phase.tackle != "manifest":
            over["tackle"] = tuple(name for name in phase.tackle if known(name))
            if over["tackle"] != tuple(phase.tackle):
                over["tool_choice"] = None
        approve = tuple(name for name in phase.rules.approve if known(name))
        if approve != tuple(phase.rules.approve):
            over["rules"] = phase.rules.model_copy(update={"approve": approve})
        if isinstance(phase.injectors, Mapping) or hasattr(phase.injectors, "own"):
            over["injectors"] = _without_own(phase.injectors)
        return phase.model_copy(update=over)

    phases = tuple(of_phase(phase) for phase in cascade.phases)
    over = {"phases": phases, "mcp_servers": {}, "injectors": _without_own(cascade.injectors)}
    if any(phase != before for phase, before in zip(phases, cascade.phases, strict=True)):
        over["tool_choice"] = None
    return cascade.model_copy(update=over)


def _without_own(injectors: Any) -> Any:
    if isinstance(injectors, Mapping):
        return {key: value for key, value in injectors.items() if key != "own"}
    return injectors.model_copy(update={"own": ()}) if hasattr(injectors, "own") else injectors
