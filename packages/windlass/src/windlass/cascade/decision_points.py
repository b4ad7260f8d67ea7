"""What a person is asked after a phase: a decision that its output asks for, or a word on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, Tag

from windlass.cascade.evaluators import Wait
from windlass.declared import Count, Model, Short, Text, YesNo, by_form

GOES_ON: Final = frozenset({"_continue", "continue", "next", "_next"})
ABORTS: Final = frozenset({"_abort", "abort"})
AGAIN: Final = frozenset({"_retry", "retry", "self", "_self"})
"""What a decision may lead to besides a phase: the run goes on, it ends as failed, or the phase
runs again."""

CUSTOM: Final = "custom"
"""What stands for the id of an option where a person answers in other words."""

DECISION_OF: Final = "_decision_"
"""What stands before a phase's name in the key of the state that holds the whole decision."""

ACTIONS: Final = ("_continue", "_abort", "_retry", "self", "next")
"""These words as they are usually written."""


class DecisionPoints(Model):
    """A `<decision>` block of JSON in the phase's output asks a person, and the answer routes."""

    enabled: YesNo = True
    """Whether such a block asks."""

    trigger: Literal["output", "error", "both"] = "output"
    """What asks: only the output does."""

    routing: Mapping[Text, Text] = Field(default_factory=dict[str, str])
    """Where the choice of an option leads, by its id: a phase, `_continue` (the default), `_retry`
    or `self` (the phase runs again), `_abort` (the run fails). `custom` is any other answer."""

    timeout_seconds: Wait | None = None
    """Seconds after which the run goes on without an answer (default: it waits)."""

    ui: Any = None
    """How a page looks that asks; Windlass asks in text, and warns."""


class AnswerOption(Model):
    """An answer to choose from. Keys of a page are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    label: Text
    """What the person sees."""

    value: Text | None = Field(default=None, validation_alias=AliasChoices("value", "id"))
    """What the state gets (default: the label)."""

    description: str = ""
    """What is said of it."""


class HumanInput(Model):
    """A person is asked something after the phase; the answer is in the state by its name.

    Keys of a page are passed over.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    type: Text | None = None
    """`confirmation` is answered yes or no, `rating` by a number up to `max_rating`, all others by
    one of the `options` or by any text."""

    question: Text | None = Field(default=None, validation_alias=AliasChoices("question", "prompt"))
    """The question (default: what there is to say to the output)."""

    options: Annotated[
        Sequence[Annotated[AnswerOption, Short("label")]], AfterValidator(tuple)
    ] = ()
    """The answers to choose from: texts, or objects with `label` and `value` (default: any)."""

    max_rating: Count = 5
    """The best of a `rating`."""

    condition: Text | None = None
    """A template, or an expression such as `'x' in output`: where it does not hold, nobody is
    asked."""

    timeout_seconds: Wait | None = None
    """Seconds after which `on_timeout` holds (default: the question waits)."""

    on_timeout: Text = "continue"
    """What follows then: `continue` (without an answer), `default` (`default_value` is the answer),
    or `abort` (the phase fails)."""

    default_value: Text | None = None
    """The answer where nobody gave one, with `on_timeout: default`."""

    @property
    def choices(self) -> tuple[AnswerOption, ...]:
        """Return the answers to choose from; none: any."""
        if self.options:
            return tuple(self.options)
        labels = ["yes", "no"] if self.type == "confirmation" else list[str]()
        if self.type == "rating":
            labels = [str(number) for number in range(1, self.max_rating + 1)]
        return tuple(AnswerOption(label=each) for each in labels)

    @property
    def asks_if(self) -> str | None:
        """Return the condition as a template."""
        if self.condition is None or "{" in self.condition:
            return self.condition
        return f"{{{{ {self.condition} }}}}"


def _if_enabled(value: DecisionPoints) -> DecisionPoints | None:
    return value if value.enabled else None


def _as_input(value: bool | str | HumanInput) -> HumanInput | None:
    if isinstance(value, HumanInput):
        return value
    if isinstance(value, str):
        return HumanInput(question=value)
    return HumanInput() if value else None


Points: TypeAlias = Annotated[DecisionPoints, Short("enabled", YesNo), AfterValidator(_if_enabled)]
"""True, or an object with options."""

AskedAfter: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")]
    | Annotated[Text, Tag("<word>")]
    | Annotated[HumanInput, Tag("<object>")],
    by_form("<yes>", "<word>", "<object>"),
    AfterValidator(_as_input),
]
"""True, the question, or an object with options."""


def asked_ways(name: str, points: DecisionPoints | None) -> tuple[str, ...]:
    """Return the phases to which a decision after the phase of that name may lead by `routing`."""
    if points is None:
        return ()
    leads = [each for each in points.routing.values() if each not in GOES_ON | ABORTS]
    return tuple(dict.fromkeys(name if each in AGAIN else each for each in leads))
