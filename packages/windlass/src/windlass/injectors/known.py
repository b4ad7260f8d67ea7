"""The available injectors: those that come with Windlass, and a user's own by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.errors import UsageError, did_you_mean
from windlass.injectors.base import Injector, Tier
from windlass.injectors.matched import Knowledge, Playbooks, UserMemory
from windlass.injectors.orchestrate import Placed
from windlass.injectors.retained_errors import ErrorRetention
from windlass.injectors.roles import SystemRole, ToolDefinitions
from windlass.injectors.scratchpad import Scratchpad
from windlass.injectors.skills import Skills
from windlass.injectors.todo import PlanStatus, TodoRewriter
from windlass.injectors.volatile import Values
from windlass.settings.modules import Modules
from windlass.settings.plugins import INJECTORS, announced, load_announced

GROUP: Final = "windlass.injectors"
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
