"""The orchestrator: injectors by tier, priority and name, to blocks under their caps.

Caps apply to the rendered text, as counted for the model that will read it. A STABLE block is never
cut: whoever declared it sees its size. Others leave out whole items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.errors import ContextError, WindlassError
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier

ROOM: Final = 0.25
"""The share of a request's remaining room that SESSION and DYNAMIC blocks may take together."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An injector with the cap and the priority that apply in a phase."""

    injector: Injector
    cap: int
    priority: int

    @property
    def name(self) -> str:
        """The injector's name."""
        return self.injector.name

    @property
    def tier(self) -> Tier:
        """The injector's tier."""
        return self.injector.tier


@dataclass(frozen=True, slots=True)
class Block:
    """One rendered block."""

    injector: str
    version: str
    tier: Tier
    priority: int
    cap: int
    """The cap that applied at this call."""
    full_cap: int
    """The declared cap."""
    text: str
    tokens: int
    items: tuple[BlockItem, ...] = ()
    """The items that are shown."""
    cut: tuple[str, ...] = ()
    """The names of the items that did not fit."""

    @property
    def over(self) -> bool:
        """Whether it is longer than its cap, as only a STABLE block can be."""
        return self.tokens > self.cap


def sort_injectors(injectors: Sequence[Placed]) -> list[Placed]:
    """STABLE, SESSION, DYNAMIC; within a tier lower priorities first, ties by name."""
    tiers = list(Tier)
    return sorted(
        injectors, key=lambda placed: (tiers.index(placed.tier), placed.priority, placed.name)
    )


def share_of_caps(injectors: Sequence[Placed], left: int | None) -> float:
    """The share of their caps that SESSION and DYNAMIC blocks keep with `left` tokens of room.

    It is 1 unless the caps together would take more than `ROOM` of what is left.
    """
    caps = sum(placed.cap for placed in injectors if placed.tier is not Tier.STABLE)
    if left is None or not caps:
        return 1.0
    return min(1.0, max(0.0, ROOM * left / caps))


def render_blocks(
    injectors: Sequence[Placed],
    tier: Tier,
    seen: Situation,
    count: Callable[[str], int],
    share: float = 1.0,
) -> tuple[Block, ...]:
    """Return the blocks of one tier in order; injectors without content have none.

    `count` gives the tokens of a text; `share` is the share of the caps that is left (see
    `share_of_caps`). A block without a single fitting item has no text; its `cut` names the items.
    """
    of_tier = (placed for placed in sort_injectors(injectors) if placed.tier is tier)
    blocks = (_block(placed, seen, count, share) for placed in of_tier)
    return tuple(block for block in blocks if block is not None)


def _block(
    placed: Placed, seen: Situation, count: Callable[[str], int], share: float
) -> Block | None:
    injector = placed.injector
    rendered = _rendered(injector, seen)
    if isinstance(rendered, str):
        rendered = Rendered(items=(BlockItem(rendered),) if rendered.strip() else ())
    if rendered is None or not (rendered.items or rendered.left_out):
        return None
    stable = placed.tier is Tier.STABLE
    cap = placed.cap if stable else int(placed.cap * share)
    items, cut = (rendered.items, ()) if stable else _fitting(rendered, cap, count)
    text = _text(rendered.head, items) if items else ""
    return Block(
        injector=injector.name,
        version=injector.version,
        tier=placed.tier,
        priority=placed.priority,
        cap=cap,
        full_cap=placed.cap,
        text=text,
        tokens=count(text) if text else 0,
        items=items,
        cut=(*rendered.left_out, *cut),
    )


def _rendered(injector: Injector, seen: Situation) -> Rendered | str | None:
    try:
        return injector.render(seen) if injector.guard(seen) else None
    except WindlassError:
        raise
    except Exception as problem:  # a user's own code runs here and may raise anything
        raise ContextError(
            f"injector {injector.name!r} failed: {type(problem).__name__}: {problem}"
        ) from problem


def _fitting(
    rendered: Rendered, cap: int, count: Callable[[str], int]
) -> tuple[tuple[BlockItem, ...], tuple[str, ...]]:
    """Return the items that fit as a whole, in order, and the names of those that do not."""
    taken: tuple[BlockItem, ...] = ()
    cut: list[str] = []
    for item in rendered.items:
        longer = (*taken, item)
        if count(_text(rendered.head, longer)) <= cap:
            taken = longer
        else:
            cut.append(item.name)
    return taken, tuple(cut)


def _text(head: str, items: Sequence[BlockItem]) -> str:
    return "\n".join([*([head] if head else []), *(item.text for item in items)])
