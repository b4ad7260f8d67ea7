"""The tools that run only when a person says so: those that `rules.approve` of a phase means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.cascade.model import Cascade, Phase
from windlass.errors import UsageError, did_you_mean
from windlass.tools.base import Tool
from windlass.tools.registry import Registry


def tools_to_approve(
    registry: Registry, phase: Phase, tools: Iterable[Tool]
) -> Mapping[str, tuple[str, ...]]:
    """Return the tools among these that need approval, by name, each with what its phase calls it.

    A tool is meant by its name, by its dotted path, by `server.*`, and under any other name that
    the same function has. Raises UsageError for a name that means none.
    """
    tools = tuple(tools)
    found: dict[str, tuple[str, ...]] = {}
    for written in phase.rules.approve:
        meant = _meant(registry, written)
        if not meant:
            raise UsageError(
                f"phase {phase.name!r}: rules.approve names {written!r}, which is no tool;"
                f" {did_you_mean(written, registry.names())}"
            )
        names = {each.spec.name for each in meant}
        for tool in tools:
            same = any(tool.function is each.function for each in meant)
            if same or tool.spec.name in names:
                found[tool.spec.name] = (*found.get(tool.spec.name, ()), written)
    return found


def approvable(cascade: Cascade, registry: Registry) -> set[str]:
    """Return the names of a cascade's tools that need approval, `server.*` among them."""
    written = {name for phase in cascade.phases for name in phase.rules.approve}
    dotted = {name for name in written if ":" in name and name not in registry.names()}
    return written | {registry.resolve(name).spec.name for name in dotted}


def _meant(registry: Registry, written: str) -> list[Tool]:
    """Return the tools that a name stands for; those of a server are known once it has started."""
    if ":" in written and written not in registry.names():
        return [registry.resolve(written)]
    every = written.removesuffix("*") if written.endswith(".*") else None
    known = registry.names()
    return [
        registry.get(name)
        for name in known
        if name == written or (every is not None and name.startswith(every))
    ]
