"""The tools that there are for a cascade, and what is wrong with those that it names.

A cascade that is read leniently leaves out tools and validators that are not there, with warnings.
A memory bank as a tool goes by the bank's name, and looks into that bank.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

from windlass.cascade.deterministic import SQL
from windlass.cascade.handoffs import ROUTE_TO
from windlass.cascade.load import LoadedCascade, PartialCascade
from windlass.cascade.model import Phase, can_choose, tool_names
from windlass.cascade.other_products import foreign_tool
from windlass.cascade.source import Path, without
from windlass.cascade.tool_cascades import is_path
from windlass.cascade.tools_named import (
    all_soundings,
    banks_as_tools,
    memory_of,
    missing_bank,
    tools_of,
    wards_of,
)
from windlass.cascade.validators import (
    GIVEN,
    PICKED_FROM,
    SHIPPED,
    arguments_of,
    near_validators,
)
from windlass.errors import Mistake, ToolError, UsageError, WindlassError, did_you_mean
from windlass.settings.modules import UntrustedError
from windlass.settings.plugins import EXTRAS, TOOLS, missing_plugin
from windlass.tools.base import Tool, ToolContext
from windlass.tools.old_names import tool_of_old_name
from windlass.tools.registry import Registry, make_tool

CHOICES: Final = ("auto", "none", "required")
_DOTTED: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Absent(NamedTuple):
    """A tool or a judge that is not there: its path in the cascade, its place in the file, why."""

    path: Path
    place: Path
    why: str


def _absent(path: Path, place: Path, why: str | None) -> Iterator[Absent]:
    if why:
        yield Absent(path, place, why)


class ToolsAtHand:
    """The tools of a registry and of MCP servers, as one cascade may name them.

    `tools` is None where tools are not looked at.
    """

    def __init__(
        self, partial: PartialCascade, tools: Registry | None, servers: Collection[str]
    ) -> None:
        self.partial = partial
        self.cascade = partial.cascade
        self.mistake, self.written = partial.mistake, partial.written
        self.tools = tools
        self.servers = servers

    def register_own(self) -> Iterator[Mistake]:
        """Registers the cascade's own tools, so that phases may name them."""
        if (tools := self.tools) is None:
            return
        for position, item in enumerate(self.cascade.tools):
            if is_path(item):
                continue  # who reads files has registered what is a tool in them
            try:
                tools.resolve(item) if ":" in item else tools.add_module(item)
            except UntrustedError:
                continue
            except WindlassError as error:
                yield self.mistake(("tools", position), str(error))

        banks = banks_as_tools(self.cascade)
        listed = (name for phase in self.cascade.phases for name in tools_of(phase))
        for name in dict.fromkeys(each for each in listed if each not in tools.names()):
            with suppress(UsageError):  # a bank may have a name that no tool can have
                tool = make_bank_tool(name) if name in banks else tool_of_old_name(name)
                if tool is not None:
                    tools.register(tool)

    def has_own(self, name: str) -> bool:
        """Return whether somebody's own tool has that name."""
        return self.tools is not None and name in self.tools.names()

    def unknown(self, name: str) -> str | None:
        """Return why there is no such tool.

        None where there is, or where tools are not looked at.
        """
        tools = self.tools
        if name.startswith("shell:"):
            return foreign_tool(name)
        if ":" in name:
            if not _DOTTED.fullmatch(name):
                return f"{name!r} is not a dotted path; write it as 'package.module:function'"
            try:
                if tools is not None:
                    tools.resolve(name)
            except UntrustedError:
                return None
            except WindlassError as error:
                return str(error)
            return None
        server, dot, _ = name.partition(".")
        if dot:
            declared = {*self.cascade.mcp_servers, *self.servers}
            if server in declared or self.server_is_wrong(server):
                return None
            return (
                f"{name!r} would be a tool of the MCP server {server!r}, which neither the"
                " cascade nor the settings declare in 'mcp_servers';"
                f" {did_you_mean(server, declared)}"
            )
        if tools is None or name in tools.names():
            return None
        if text := foreign_tool(name):
            return text
        if name in EXTRAS[TOOLS]:
            return str(missing_plugin(TOOLS, name))
        if tools.is_partial:
            return None
        return f"there is no tool {name!r}; {did_you_mean(name, tools.names())}"

    def missing(self, phase: Phase, name: str) -> str | None:
        """Return why the phase can do nothing with a tool that its tackle names.

        None where it can.
        """
        if name == ROUTE_TO and not self.has_own(name):
            return None  # its handoffs make it
        banks = memory_of(self.cascade, phase)
        return self.unknown(name) or missing_bank(banks, name)

    def absent(self) -> Iterator[Absent]:
        """Yield the tools and the judges that are not there, each where the cascade names it."""
        for place, soundings in all_soundings(self.cascade).items():
            for key, name in soundings.judges.items():
                is_picking = key == "evaluator.function"
                why = self.not_an_evaluator(name) if is_picking else self.not_a_validator(name)
                path: Path = (*place, *key.split("."))
                says = self.written(path) is not None  # else its holder is written as a word
                yield from _absent(path, path if says else path[: len(place) + 1], why)
        for index, phase in enumerate(self.cascade.phases):
            base: Path = ("phases", index)
            for at, name in enumerate(() if phase.tackle == "manifest" else phase.tackle):
                place = self.in_tackle(index, name)
                yield from _absent((*base, "tackle", at), place, self.missing(phase, name))
            if (judge := phase.rules.loop_until) is not None:
                path = (*base, "rules", "loop_until")
                yield from _absent(path, path, self.not_a_validator(judge))
            for where, at, ward in wards_of(phase):
                path = (*base, "wards", where, at)
                place = path if isinstance(self.written(path), str) else (*path, "validator")
                yield from _absent(path, place, self.not_a_validator(ward.validator))

    def in_tackle(self, index: int, name: str) -> Path:
        """Return where the tackle of a phase names a tool first."""
        base: Path = ("phases", index, "tackle")
        written, held = self.written(base), list(self.cascade.phases[index].tackle)
        as_in_file = isinstance(written, list) and base not in self.partial.kept
        return (*base, (written if as_in_file else held).index(name))

    def not_a_validator(self, name: str) -> str | None:
        """Return why there is no such validator.

        None where there is, or where tools are not looked at.
        """
        if name in self.cascade.validators or name in SHIPPED or self.has_wrong_validator(name):
            return None
        text = self.unknown(name)
        if text is None:
            return self._takes_no_text(name)
        if self.tools is None or "." in name or ":" in name:
            return text
        near = near_validators(self.cascade.validators, self.tools, name)
        return f"there is no validator {name!r}; {near}"

    def not_an_evaluator(self, name: str) -> str | None:
        """Return why there is no such function that picks one of several outputs.

        None where there is.
        """
        return self.unknown(name) or self._takes_no_text(name, PICKED_FROM, "outputs")

    def _takes_no_text(
        self, name: str, given: Collection[str] = GIVEN, judged: str = "output"
    ) -> str | None:
        """Return why a function cannot judge what it is given.

        None where it can, or is not known here.
        """
        tool = None
        with suppress(WindlassError):  # a server's tools are known in a run
            tool = self.tools.get(name) if self.tools is not None else None
        if tool is None or tool.cascade:
            return None
        try:
            arguments_of(tool, dict.fromkeys(given), judged)
        except UsageError as error:
            return str(error)
        return None

    def has_wrong_validator(self, name: str) -> bool:
        """Return whether the file declares such a validator, and wrongly.

        That is a mistake of its own.
        """
        declared = self.written(("validators",))
        return isinstance(declared, dict) and name in declared

    def server_is_wrong(self, name: str) -> bool:
        """Return whether the file declares such a server, and wrongly.

        That is a mistake of its own.
        """
        servers = self.written(("mcp_servers",))
        return isinstance(servers, dict) and name in servers

    def tackle_unknown(self, index: int) -> bool:
        """Whether something in the phase's tackle was no tool's name and is not in the partial."""
        written = self.written(("phases", index, "tackle"))
        held = self.cascade.phases[index].tackle
        return isinstance(written, list) and any(each not in held for each in written)

    def wrong_in_phase(self, index: int, phase: Phase) -> Iterator[Mistake]:
        """What is wrong with the choice among the tools of a phase, and with what is approved."""
        base: Path = ("phases", index)
        choice = phase.tool_choice
        if choice is not None and not can_choose(phase, choice) and not self.tackle_unknown(index):
            yield self.mistake((*base, "tool_choice"), _no_choice(phase, choice))
        for position, name in enumerate(phase.rules.approve):
            if text := self._not_approved(phase, name):
                yield self.mistake((*base, "rules", "approve", position), text)

    def _not_approved(self, phase: Phase, name: str) -> str | None:
        """Return what is wrong with a tool that `rules.approve` names.

        It must mean one that may run.
        """
        if phase.tackle == "manifest" and phase.tool is None:
            return self.unknown(name)
        if ":" in name and (text := self.unknown(name)):
            return text
        own = [self._registered(each) for each in tools_of(phase)]
        servers = tuple(each.removesuffix("*") for each in own if each.endswith(".*"))
        if self._registered(name) in own or (servers and name.startswith(servers)):
            return None
        if name.endswith(".*") and any(each.startswith(name.removesuffix("*")) for each in own):
            return None
        what = "in the tackle of" if phase.tool is None else "the tool of"
        return f"{name!r} is not {what} this phase; {did_you_mean(name, own)}"

    def _registered(self, name: str) -> str:
        """What a tool is called when it runs; by its dotted path where its code is not loaded."""
        if ":" in name and self.tools is not None and self.unknown(name) is None:
            with suppress(UntrustedError):
                return self.tools.resolve(name).spec.name
        return tool_names([name])[0]


def _no_choice(phase: Phase, choice: str) -> str:
    if phase.tackle == "manifest":
        return (
            f"{choice!r} may not be among the tools that 'manifest' chooses;"
            f" write one of {', '.join(CHOICES)}"
        )
    if choice == "required":
        return "'required' needs a tool to call, and the tackle of this phase is empty"
    near = did_you_mean(choice, [*CHOICES, *tool_names(phase.tackle)])
    return f"{choice!r} is not in the tackle of this phase; {near}"


def without_unknown_tools(
    loaded: LoadedCascade, tools: Registry, servers: Collection[str] = ()
) -> LoadedCascade:
    """Return what a text holds without the tools and validators that are not there, with warnings.

    A phase that runs such a tool stays, and fails when a run comes to it.
    """
    if loaded.partial is None:
        return loaded
    at_hand = ToolsAtHand(loaded.partial, tools, servers)
    list(at_hand.register_own())  # what is wrong with them is said by `check`
    cascade, warnings = loaded.partial.cascade, list(loaded.warnings)
    for index, phase in enumerate(cascade.phases):
        tool = phase.tool if phase.tool and not phase.tool.startswith(SQL) else None
        if tool is not None and (why := at_hand.missing(phase, tool)):
            text = f"{why}; a run that comes here fails"
            warnings.append(at_hand.mistake(("phases", index, "tool"), text))
    absent = [each for each in at_hand.absent() if "evaluator" not in each.path]
    warnings += [at_hand.mistake(each.place, f"{each.why}; it is left out") for each in absent]
    for each in reversed(absent):  # from the end, so that positions in lists still hold
        cascade = without(cascade, each.path)
    partial = replace(loaded.partial, cascade=cascade)
    return replace(loaded, partial=partial, warnings=tuple(warnings))


@cache
def make_bank_tool(bank: str) -> Tool:
    """Return the tool that finds what a bank holds.

    Raises UsageError for a name that no tool may have.
    """

    async def look(context: ToolContext, query: str, limit: int = 5) -> str:
        """Find what is kept in this memory bank.

        Args:
            context: What the run provides; not shown to the model.
            query: What to look for, in a few words.
            limit: How many memories to show.
        """
        if context.memory is None:
            raise ToolError("this phase has no memory banks: name some in the cascade's 'memory'")
        return context.memory.search(query, bank, limit)

    return replace(make_tool(look, name=bank), effects="none")
