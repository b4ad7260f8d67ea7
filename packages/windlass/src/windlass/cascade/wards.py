"""Wards: validators that guard what goes into a phase and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator

from windlass.declared import Count, Model, Short, Text

Place: TypeAlias = Literal["pre", "post", "turn"]
PLACES: Final[tuple[Place, ...]] = get_args(Place)


class Ward(Model):
    """A validator that guards, and what follows where it refuses."""

    validator: Text
    """The validator: one of the cascade's, a tool, `module:function`, or one that comes with
    Windlass."""

    mode: Literal["blocking", "advisory", "retry"] = "blocking"
    """What a refusal does: the phase fails, it is only noted, or the model tries again."""

    max_attempts: Count = 3
    """With mode retry, how often the ward is asked: what it refuses the last time passes, and that
    is noted."""


WardList: TypeAlias = Annotated[
    Sequence[Annotated[Ward, Short("validator")]], AfterValidator(tuple)
]
"""Wards, each an object or the name of its validator."""


class Wards(Model):
    """What guards a phase."""

    pre: WardList = ()
    """Asked before the phase begins, about the input of the cascade as JSON. Here `retry` is as
    `advisory`: there is nothing to try again."""

    post: WardList = ()
    """Asked about each output that the phase would end with; all of them are, and all that they
    say is told at once."""

    turn: WardList = ()
    """Asked about the text of each reply."""

    def at(self, place: Place) -> tuple[Ward, ...]:
        """Return the wards of one place, in the order in which they are asked."""
        return tuple({"pre": self.pre, "post": self.post, "turn": self.turn}[place])
