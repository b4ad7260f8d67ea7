"""Injectors by name, tier and priority, to blocks under their caps.

Caps apply to the rendered text, as counted for the model that will read it. A STABLE block is never
cut: whoever declared it sees its size. Others leave out whole items. A user's own injectors are
found by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.errors import ContextError, UsageError, WindlassError, did_you_mean
from windlass.history.details import BlockDetails
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier
from windlass.injectors.head import SystemRole, ToolDefinitions, Values
from windlass.injectors.matched import Knowledge, Playbooks, UserMemory
from windlass.injectors.reminders import ErrorRetention, PlanStatus, Scratchpad, TodoRewriter
from windlass.injectors.skills import Skills
from windlass.memory.matching import fitting
from windlass.settings.modules import Modules
from windlass.settings.plugins import INJECTORS, announced, load_announced

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

    details: BlockDetails
    """What a record says of it: the cap that applied, what did not fit, and its row once it has
    one."""
    text: str
    items: tuple[BlockItem, ...] = ()
    """The items that are shown."""

    @property
    def over(self) -> bool:
        """Whether it is longer than its cap, as only a STABLE block can be."""
        return self.details.tokens > self.details.cap


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
    head, items, cut = rendered.head, list(rendered.items), list[BlockItem]()
    if not stable:
        items, cut = fitting(items, lambda some: count(_text(head, some)) <= cap)
    text = _text(head, items) if items else ""
    details = BlockDetails(
        injector=injector.name,
        version=injector.version,
        tier=str(placed.tier),
        priority=placed.priority,
        cap=cap,
        full_cap=placed.cap,
        tokens=count(text) if text else 0,
        cut=(*rendered.left_out, *(item.name for item in cut)),
    )
    return Block(details, text, tuple(items))


def _rendered(injector: Injector, seen: Situation) -> Rendered | str | None:
    try:
        return injector.render(seen) if injector.guard(seen) else None
    except WindlassError:
        raise
    except Exception as problem:  # a user's own code runs here and may raise anything
        raise ContextError(
            f"injector {injector.name!r} failed: {type(problem).__name__}: {problem}"
        ) from problem


def _text(head: str, items: Sequence[BlockItem]) -> str:
    return "\n".join([*([head] if head else []), *(item.text for item in items)])


"""The entry point group in which a package announces its injectors."""

BUILTIN: Final[Mapping[str, type[Injector]]] = {
    kind.name: kind
    for kind in (
        SystemRole,
        ToolDefinitions,
        Skills,
        UserMemory,
        Knowledge,
        Playbooks,
        Values,
        PlanStatus,
        ErrorRetention,
        Scratchpad,
        TodoRewriter,
    )
}
"""The injectors that come with Windlass, by name, in the order of their tiers."""


@dataclass(frozen=True, slots=True)
class InjectorSpec:
    """An injector of a phase: its name, cap, priority and options.

    If `cap` or `priority` is None, that of its class applies.
    """

    use: str
    cap: int | None = None
    priority: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def injector_class(use: str, modules: Modules) -> type[Injector]:
    """Return the class for a name: a builtin, `package.module:Class`, or an entry point.

    Raises UsageError if there is none, or if it is not an injector.
    """
    if use in BUILTIN:
        return BUILTIN[use]
    kind = modules.member(use) if ":" in use else _announced(use)
    if not (isinstance(kind, type) and issubclass(kind, Injector)):
        raise UsageError(f"{use!r} is not an injector: expected a class that derives from Injector")
    if not kind.name or not isinstance(kind.tier, Tier):
        raise UsageError(f"injector {use!r} must say its 'name' and its 'tier' (a Tier)")
    if kind.name in BUILTIN:
        raise UsageError(f"injector {use!r}: the name {kind.name!r} is taken; give it another")
    return kind


def make_injector(spec: InjectorSpec, modules: Modules) -> Placed:
    """Make an injector with its options; a user's own class comes from `modules`.

    Raises UsageError for unknown options.
    """
    kind = injector_class(spec.use, modules)
    try:
        injector = kind(**spec.options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"injector {spec.use!r} does not take its options: {error}") from error
    cap = injector.cap if spec.cap is None else spec.cap
    return Placed(injector, cap, injector.priority if spec.priority is None else spec.priority)


def _announced(name: str) -> Any:
    entries = {entry.name: entry for entry in announced(INJECTORS)}
    if name not in entries:
        near = did_you_mean(name, [*BUILTIN, *entries])
        raise UsageError(
            f"there is no injector {name!r}; {near}. Your own is named 'package.module:Class'"
        )
    return load_announced(entries[name], "injector")
