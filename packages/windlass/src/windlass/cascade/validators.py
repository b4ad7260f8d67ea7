"""Validators: those that a cascade brings itself, and those that come with Windlass.

Wherever a validator is named, the cascade's own go first, then tools (functions, and cascades that
are tools), then those that come with Windlass.

Wards: validators that guard what goes into a phase and what comes out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator

from windlass.declared import Count, Model, Short, Text
from windlass.errors import UsageError, did_you_mean
from windlass.text.prompts import CONTENT_SAFETY, GRAMMAR_CHECK, SATISFIED, SIMPLE_VALIDATOR
from windlass.tools.base import Tool
from windlass.tools.output_checks import CHECKS
from windlass.tools.registry import Registry, make_tool


class InlineValidator(Model):
    """A validator that asks a model, which answers {valid, reason} as JSON."""

    instructions: Text
    """What the model is asked; a template that names what is judged as `input.content`, `content`
    or `output`, and the cascade's input as `original_input`."""

    description: Text | None = None
    """What it asks for, in words for the phase that is judged."""

    model: Text | None = None
    """The model that judges, as provider/name (default: the phase's)."""

    max_turns: Count = 1
    """How often the model is asked until its answer holds a verdict; after that, the text of its
    answer is the reason why it is not valid."""


JUDGES: Final[Mapping[str, InlineValidator]] = {
    "content_safety": InlineValidator(
        instructions=CONTENT_SAFETY,
        description="it may be shown to anybody: no hate, threats, crime or private data.",
    ),
    "grammar_check": InlineValidator(
        instructions=GRAMMAR_CHECK,
        description="it is free of mistakes in grammar, spelling and punctuation.",
    ),
    "satisfied": InlineValidator(
        instructions=SATISFIED,
        description="it does all that is asked.",
    ),
    "simple_validator": InlineValidator(
        instructions=SIMPLE_VALIDATOR,
        description="it is a complete and sensible answer to what is asked.",
    ),
}
"""The validators that come with Windlass and ask the phase's model."""

GIVEN: Final = ("output", "content", "input", "original_input", "asked", "state")
"""What validators take by name: the judged text under two names, the cascade's input under two,
what the phase was asked, and the state."""

PICKED_FROM: Final = ("outputs", "costs", "state", "input")
"""What functions take by name that pick one of several outputs."""

SHIPPED: Final = tuple(sorted((*JUDGES, *CHECKS)))
"""All validators that come with Windlass."""


def find_validator(
    own: Mapping[str, InlineValidator], tools: Registry, name: str
) -> InlineValidator | Tool:
    """Return the validator of that name; `own` are those of the cascade. Raises UsageError."""
    if (asking := asking_validator(own, tools, name)) is not None:
        return asking
    if ":" in name or name in tools.names():
        return tools.get(name)
    if name in CHECKS:
        return make_tool(CHECKS[name])
    raise UsageError(f"there is no validator {name!r}; {near_validators(own, tools, name)}")


def asking_validator(
    own: Mapping[str, InlineValidator], tools: Registry, name: str
) -> InlineValidator | None:
    """Return the validator of that name where it asks a model; no module is loaded to know it."""
    return own.get(name) or (None if name in tools.names() else JUDGES.get(name))


def arguments_of(tool: Tool, given: Mapping[str, Any], judged: str = "output") -> dict[str, Any]:
    """Return the arguments of a function that judges: those `given` that it names.

    One with one parameter of another name receives in it what is `judged`. Raises UsageError for
    one that takes nothing that is judged, or needs something else.
    """
    schema, name = tool.spec.parameters, tool.spec.name
    parameters = list(schema.get("properties", {}))
    named = {each: given[each] for each in parameters if each in given}
    if parameters and not any(each in named for each in (judged, "content")):
        others = [each for each in schema.get("required", parameters) if each not in given]
        if len(others) == 1:
            return {**named, others[0]: given[judged]}
        takes = f"it takes {', '.join(parameters)}"
        raise UsageError(f"{name!r} must take what it judges in a parameter {judged!r}; {takes}")
    if lacking := [each for each in schema.get("required", ()) if each not in given]:
        what = ", ".join(map(repr, lacking))
        text = f"{name!r} needs {what}, and is given {', '.join(given)}; give it a default"
        raise UsageError(text)
    return named


def near_validators(own: Mapping[str, InlineValidator], tools: Registry, name: str) -> str:
    """Return what may be meant by a name that is no validator's."""
    return did_you_mean(name, sorted({*own, *tools.names(), *SHIPPED}))


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
