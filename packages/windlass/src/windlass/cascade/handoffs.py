"""Where a phase goes on: the phases that it names, and the word for the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

from windlass.declared import Model, Name, Short, refuse

END: Final = "end"
"""The target that ends the run; in a graph no phase may be called so."""

ROUTE_TO: Final = "route_to"
"""The tool by which a model says which of several phases comes next."""


class Handoff(Model):
    """A phase that may come next."""

    target: Name
    """The phase, or `end`."""

    description: str | None = None
    """When it is the one to go on with; the model that chooses reads this."""


def _each_once(handoffs: Sequence[Handoff]) -> tuple[Handoff, ...]:
    targets = targets_of(handoffs)
    for target in targets:
        if targets.count(target) > 1:
            raise refuse(f"{target!r} is listed twice")
    return tuple(handoffs)


Handoffs: TypeAlias = Annotated[
    Sequence[Annotated[Handoff, Short("target")]], AfterValidator(_each_once)
]


def targets_of(handoffs: Sequence[Handoff]) -> list[str]:
    """Return the phases that handoffs name, in their order."""
    return [each.target for each in handoffs]


def are_chosen(handoffs: Sequence[Handoff]) -> bool:
    """Return whether a model chooses among them: there are several, or one that is described."""
    return len(handoffs) > 1 or any(each.description for each in handoffs)
