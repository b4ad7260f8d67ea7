"""User memory: what memory banks hold that is of use for the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier, option
from windlass.memory.banks import Memory
from windlass.memory.matching import best_matches

_HEAD: Final = "[User memory]"


@dataclass
class UserMemory(Injector):
    """The memories that match the task best, then the newest: preferences share few words."""

    banks: tuple[str, ...] = option((), "The memory banks; by default those the phase reads.")
    top: int = option(3, "The most memories that are shown.")

    name: ClassVar[str] = "user_memory"
    tier: ClassVar[Tier] = Tier.SESSION
    priority: ClassVar[int] = 10
    cap: ClassVar[int] = 500
    refreshes: ClassVar[bool] = True

    def guard(self, seen: Situation) -> bool:
        """Whether there is a bank to look into."""
        return bool(self.banks or seen.banks)

    def render(self, seen: Situation) -> Rendered:
        """The best memories, each with its key and version."""
        held = list(seen.memories(self.banks or seen.banks))
        newest = sorted(range(len(held)), key=lambda at: (-held[at].remembered, -at))
        matched = best_matches(seen.task, {at: f"{m.key}\n{m.text}" for at, m in enumerate(held)})
        order = [*matched, *(at for at in newest if at not in matched)][: self.top]
        return Rendered(_HEAD, tuple(_item(held[at]) for at in order))


def _item(memory: Memory) -> BlockItem:
    return BlockItem(f"- {memory.key} (version {memory.version}): {memory.text}", memory.reference)
