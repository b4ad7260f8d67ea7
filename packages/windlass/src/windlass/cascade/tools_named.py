"""What a cascade names of the world around it: tools, MCP servers, memory banks, judges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from windlass.cascade.deterministic import SQL
from windlass.cascade.memory_banks import REMEMBER, SEARCH, MemoryBanks, as_banks
from windlass.cascade.model import Cascade, Phase, own_tackle, tool_names
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.validators import PLACES, Place, Ward

RUN_SQL: Final = "run_sql"
"""The tool that asks queries of the data files."""


def all_soundings(cascade: Cascade) -> dict[tuple[str | int, ...], Soundings]:
    """Return the soundings that a cascade declares, by their place."""
    found = {("phases", at, "soundings"): each.soundings for at, each in enumerate(cascade.phases)}
    whole: dict[tuple[str | int, ...], Soundings | None] = {("soundings",): cascade.soundings}
    return {at: each for at, each in (whole | found).items() if each is not None}


def asking_phases(cascade: Cascade) -> list[Phase]:
    """Return the phases that ask a model."""
    return [phase for phase in cascade.phases if phase.tool is None]


def tools_of(phase: Phase) -> tuple[str, ...]:
    """Return the tools that a phase names: those that its model may call, or the one that it runs.

    With a manifest they are not known before.
    """
    if phase.tool is not None:
        return (RUN_SQL,) if phase.tool.startswith(SQL) else (phase.tool,)
    return () if phase.tackle == "manifest" else tuple(own_tackle(phase))


def chooses_tools(phase: Phase) -> bool:
    """Return whether a model chooses the phase's tools when it begins."""
    return phase.tool is None and phase.tackle == "manifest"


def judges_of(cascade: Cascade) -> list[str]:
    """Return the tools and functions that judge outputs."""
    return [name for _, name in judges_at(cascade)]


def judges_at(cascade: Cascade) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the tools and functions that judge outputs, each with the place that names it."""
    for place, soundings in all_soundings(cascade).items():
        for key, name in soundings.judges.items():
            yield (*place, *key.split(".")), name
    for index, phase in enumerate(cascade.phases):
        if phase.rules.loop_until is not None:
            yield ("phases", index, "rules", "loop_until"), phase.rules.loop_until
        for where, at, ward in wards_of(phase):
            yield ("phases", index, "wards", where, at), ward.validator


def wards_of(phase: Phase) -> list[tuple[Place, int, Ward]]:
    """Return the wards of a phase, each with its place and its position there."""
    if phase.wards is None:
        return []
    return [(place, at, ward) for place in PLACES for at, ward in enumerate(phase.wards.at(place))]


def tools_named(cascade: Cascade, every: Iterable[str]) -> list[str]:
    """Return the tools that phases call or run, and those that judge.

    A manifest may choose `every`.
    """
    names = judges_of(cascade)
    for phase in cascade.phases:
        names += every if chooses_tools(phase) else tool_names(tools_of(phase))
    return list(dict.fromkeys(names))


def place_of_tool(cascade: Cascade, name: str) -> tuple[str | int, ...]:
    """Return where a cascade names a tool or a judge first."""
    for at, phase in enumerate(cascade.phases):
        if name in tool_names(tools_of(phase)):
            return "phases", at, "tool" if phase.tool is not None else "tackle"
        if name == phase.rules.loop_until:
            return "phases", at, "rules", "loop_until"
        if any(name == ward.validator for _, _, ward in wards_of(phase)):
            return "phases", at, "wards"
    whole = all_soundings(cascade).items()
    return next((place for place, each in whole if name in each.judges.values()), ())


def servers_named(cascade: Cascade, elsewhere: Collection[str] = ()) -> list[str]:
    """Return the MCP servers that some phase needs: named in a tackle or as its validator.

    A manifest may choose any tool, so it needs all that the cascade declares; of those that
    are declared `elsewhere`, in the settings, only those that are named are needed.
    """
    every = any(map(chooses_tools, cascade.phases))
    names = judges_of(cascade)
    names += [name for phase in cascade.phases for name in tools_of(phase)]
    named = {name.partition(".")[0] for name in names if "." in name and ":" not in name}
    own = [name for name in cascade.mcp_servers if every or name in named]
    return own + [name for name in elsewhere if name in named and name not in own]


def has_tool(cascade: Cascade, name: str) -> bool:
    """Return whether some phase may call the tool `name`, or has it as its validator.

    A manifest may choose any tool.
    """
    if name in tool_names(judges_of(cascade)):
        return True
    return any(
        chooses_tools(phase) or name in tool_names(tools_of(phase)) for phase in cascade.phases
    )


def memory_of(cascade: Cascade, phase: Phase) -> MemoryBanks | None:
    """Return the banks of `phase`: its own, else the cascade's; None: it has none."""
    banks = cascade.memory if phase.memory is None else phase.memory
    return None if banks is None else as_banks(banks)


def missing_bank(memory: MemoryBanks | None, tool: str) -> str | None:
    """Return why a phase can do nothing with `tool`.

    None where it can, or where it is another tool.
    """
    if tool == REMEMBER and not (memory and memory.write):
        return f"{tool!r} needs a bank to write; say which: 'memory': {{'write': ['notes']}}"
    if tool == SEARCH and not (memory and memory.read):
        return f"{tool!r} needs a bank to read; say which: 'memory': {{'read': ['notes']}}"
    return None


def banks_as_tools(cascade: Cascade) -> list[str]:
    """Return the banks that a tackle lists by their own names."""
    names: dict[str, None] = {}
    for phase in cascade.phases:
        banks = None if phase.tackle == "manifest" else memory_of(cascade, phase)
        names |= dict.fromkeys(each for each in phase.tackle if banks and each in banks.read)
    return list(names)
