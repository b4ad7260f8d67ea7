"""The head of every request: the system role, and the definitions of tools.

Both are STABLE and never cut: one that exceeds its cap is reported with its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier
from windlass.messages import ToolSpec, canonical_json

_NAMED: Final = 5
"""How many tools a report names with their sizes."""


@dataclass
class SystemRole(Injector):
    """The system prompt of the cascade or of the phase."""

    name: ClassVar[str] = "system_role"
    tier: ClassVar[Tier] = Tier.STABLE
    priority: ClassVar[int] = 10
    cap: ClassVar[int] = 2_000

    def render(self, seen: Situation) -> str:
        """Return the system prompt as written."""
        return seen.system


@dataclass
class ToolDefinitions(Injector):
    """The definitions of the phase's tools, in the order of its tackle, keys sorted.

    They are sent as the request's tools, not as text of a message.
    """

    name: ClassVar[str] = "tools"
    tier: ClassVar[Tier] = Tier.STABLE
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 3_000

    def render(self, seen: Situation) -> Rendered:
        """Return one line of JSON for each tool."""
        return Rendered(
            items=tuple(BlockItem(definition(spec), spec.name) for spec in seen.definitions)
        )


def definition(spec: ToolSpec) -> str:
    """Return a tool's definition as canonical JSON."""
    return canonical_json(spec.to_openai())


def long_role_text(tokens: int, cap: int) -> str:
    """Return the report about a system role over its cap."""
    return (
        f"the system role has {tokens:,} tokens, more than its cap of {cap:,}; it is sent whole."
        " Shorten it, move parts into skills or knowledge, or raise injectors.system_role.cap"
    )


def long_tools_text(specs: Sequence[ToolSpec], count: Callable[[str], int], cap: int) -> str | None:
    """Return the report about tools over their cap, with the size of each; None if they fit."""
    sizes = {spec.name: count(definition(spec)) for spec in specs}
    total = sum(sizes.values())
    if total <= cap:
        return None
    largest = sorted(sizes.items(), key=lambda size: (-size[1], size[0]))
    listed = ", ".join(f"{name} {size:,}" for name, size in largest[:_NAMED])
    others = f" and {len(sizes) - _NAMED} others" if len(sizes) > _NAMED else ""
    return (
        f"the definitions of {len(sizes)} tools have {total:,} tokens, more than their cap of"
        f" {cap:,} ({listed}{others}); they are sent whole. Name fewer tools, let the phase choose"
        " with 'tackle': 'manifest', or raise injectors.tools.cap"
    )
