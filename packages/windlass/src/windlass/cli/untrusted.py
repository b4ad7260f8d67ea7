"""Folders that are not trusted: the question at a terminal, and what a check leaves out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from windlass.cascade.handoffs import ROUTE_TO
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.ready import ReadyCascade
from windlass.cascade.tools_named import servers_named
from windlass.cli.output import progress
from windlass.errors import TrustNeeded, WindlassError
from windlass.settings.settings import Settings
from windlass.settings.trust import trust
from windlass.tools.registry import Registry

_Answer = TypeVar("_Answer")


def read_trusted_settings(flags: Mapping[str, Any], *, trusted: bool) -> Settings:
    """Read the settings of a command that imports, starts or sends what they name.

    At a terminal the user is asked whether to trust a folder that needs it; elsewhere, and where
    the answer is no, TrustNeeded says what the folder's file wants and how to allow it.
    """

    def read() -> Settings:
        settings = Settings.read(flags, trust=trusted)
        settings.check_trust()
        return settings

    return retry_with_trust(read)


def retry_with_trust(work: Callable[[], _Answer]) -> _Answer:
    """Do the work; where it needs trust, ask for that at a terminal, and do it again.

    With a yes the folders are marked. Whoever raises TrustNeeded has done nothing yet. Elsewhere,
    and where the answer is no, TrustNeeded is raised.
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


def list_unchecked(
    settings: Settings, *registries: Registry, left_out: Iterable[Cascade] = ()
) -> list[str]:
    """Return what was left unchecked because its folder is not trusted, by name.

    `left_out`: the cascades whose own MCP servers were not started either.
    """
    names = [f"module {name}" for each in registries for name in each.modules.unchecked]
    names += [f"{name} of {setting.origin}" for name, setting in settings.untrusted.items()]
    names += [f"MCP server {name}" for each in left_out for name in servers_named(each)]
    return list(dict.fromkeys(names))


def print_unchecked(names: list[str], settings: Settings) -> None:
    """Print what was left unchecked, and how to have it checked."""
    if names:
        folder = "FOLDER"
        if settings.untrusted:
            folder = quote(str(settings.folder.resolve()))
        progress.print(
            f"left unchecked, because the folder is not trusted: {', '.join(names)};"
            f" --trust checks it, windlass trust {folder} marks the folder",
        )


def strip_untrusted_family(ready: ReadyCascade, settings: Settings) -> ReadyCascade:
    """Return a cascade and its sub-cascades without what `strip_untrusted` takes out."""
    children = {at: strip_untrusted_family(each, settings) for at, each in ready.children.items()}
    cascade = strip_untrusted(ready.cascade, ready.registry, settings)
    tools = {f: strip_untrusted_family(each, settings) for f, each in ready.tool_cascades.items()}
    return ready._replace(cascade=cascade, children=children, tool_cascades=tools)


def strip_untrusted(cascade: Cascade, registry: Registry, settings: Settings) -> Cascade:
    """The cascade without the tools and injectors that only its code or servers could provide."""
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
            made = {ROUTE_TO} if phase.handoffs else set[str]()
            over["tackle"] = tuple(name for name in phase.tackle if name in made or known(name))
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
