"""A cascade that is ready to run: checked, with its tools and with those below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from windlass.cascade.model import Cascade
from windlass.safety.files import HERE, Folders
from windlass.tools.registry import Registry

Place: TypeAlias = tuple[int, int]
"""Where a sub-cascade is named: the phase's index, and its position in `sub_cascades`."""


class ReadyCascade(NamedTuple):
    """A checked cascade, the tools it may use, and its sub-cascades."""

    cascade: Cascade
    registry: Registry
    children: Mapping[Place, ReadyCascade]
    tool_cascades: Mapping[str, ReadyCascade] = MappingProxyType({})
    """The cascades that are tools of it or of one below, by their file; the top alone has them."""
    folders: Folders = HERE
    """Where the files must lie that it names."""

    def copy_for_run(self) -> ReadyCascade:
        """The same for a run of its own beside others: tools of its servers are not theirs."""
        children = {place: child.copy_for_run() for place, child in self.children.items()}
        tools = {file: each.copy_for_run() for file, each in self.tool_cascades.items()}
        own = self.registry.copy()
        return self._replace(registry=own, children=children, tool_cascades=tools)

    @property
    def sessions(self) -> int:
        """How many sessions it comes to: its own, and those of its sub-cascades."""
        return 1 + sum(child.sessions for child in self.children.values())

    def walk(self) -> Iterator[ReadyCascade]:
        """It, and all below it, in the order of the file; then the cascades that are tools."""
        yield self
        for child in (*self.children.values(), *self.tool_cascades.values()):
            yield from child.walk()


def output_names(child: Cascade) -> dict[str, str | None]:
    """What templates call the outputs of a sub-cascade, with the phase each is of (None: all)."""
    names: dict[str, str | None] = {phase.name: phase.name for phase in child.phases}
    names |= {f"{child.cascade_id}_{phase.name}": phase.name for phase in child.phases}
    return {**names, child.cascade_id: None}
