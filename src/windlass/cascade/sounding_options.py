"""Soundings in a cascade file: several attempts side by side, and who picks among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field, Strict, Tag, model_validator

from windlass.declared import (
    Count,
    Model,
    Names,
    Switchable,
    Text,
    WordOr,
    YesNo,
    by_form,
    refuse,
)

MOST_SOUNDINGS: Final = 32
"""The most attempts that one round of soundings makes side by side."""

Attempts: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=MOST_SOUNDINGS)]

Variations: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[Names, Tag("<list>")], by_form("<yes>", "<list>")
]
"""Whether attempts vary, or the texts by which they do."""


class Evaluator(Model):
    """Who picks among soundings: one of the three."""

    model: Text | None = None
    """A model that reads all outputs, as provider/name."""

    function: Text | None = None
    """A tool or `module:function` that is given the list `outputs` and answers the place of the
    best in it, from 0."""

    validator: Text | None = None
    """A validator as in `loop_until`: the first output that it accepts wins."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Evaluator:
        if sum(name is not None for name in (self.model, self.function, self.validator)) != 1:
            raise refuse("an evaluator is one of 'model', 'function' and 'validator'; write one")
        return self


def _as_evaluator(value: str | Evaluator) -> Evaluator:
    if isinstance(value, Evaluator):
        return value
    if "/" in value:
        return Evaluator(model=value)
    if value in ("human", "hybrid"):
        raise refuse(f"{value!r}: no person picks among soundings; name a model or a function")
    return Evaluator(function=value)


class Aggregate(Model):
    """How the outputs of soundings become one."""

    instructions: Text | None = None
    """What a model is asked to make of them; a template. Absent: they are joined under headings."""

    model: Text | None = None
    """The model that is asked, as provider/name (default: the phase's)."""


class Reforge(Model):
    """Rounds after the soundings in which the best so far is refined."""

    honing_prompt: Text
    """What each attempt is asked to do with the best output so far; a template."""

    steps: Annotated[int, Strict(), Field(ge=1, le=10)] = 1
    """Rounds."""

    factor_per_step: Attempts = 2
    """Attempts in each round."""

    mutate: Variations = False
    """Whether the attempts of a round vary, as in `soundings`."""

    evaluator_override: Text | None = None
    """What the evaluator looks for in these rounds, in place of `evaluator_instructions`."""

    threshold: Text | None = None
    """A validator: the rounds end when it accepts the best output so far."""


class Soundings(Model):
    """Several attempts at a phase side by side, of which the best is the phase's."""

    factor: Attempts = 1
    """How many attempts (32 at most)."""

    max_parallel: Count = 3
    """How many of them run at once."""

    evaluator: Annotated[WordOr[Evaluator], AfterValidator(_as_evaluator)] | None = None
    """Who picks: an object with model, function or validator; a word is a model if it has a
    slash, else a function. Absent: the phase's model, by `evaluator_instructions`."""

    evaluator_instructions: Text | None = None
    """What a model that picks looks for; a template."""

    validator: Text | None = None
    """A validator: outputs that it refuses do not compete, unless it refuses all."""

    mutate: Variations = False
    """Whether attempts vary: true (ways of thinking in turn) or a list of texts, each put behind
    the instructions. The first attempt keeps them as they are."""

    models: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """Models that are given to the attempts in turn, in place of the phase's."""

    aggregate: Switchable[Aggregate] = False
    """Join all outputs instead of picking one: true, or an object with instructions and model."""

    reforge: Reforge | None = None
    """Rounds that refine the best."""

    @model_validator(mode="after")
    def _consistent(self) -> Soundings:
        if self.aggregate is not False:
            for key in ("evaluator", "evaluator_instructions", "reforge"):
                if getattr(self, key) is not None:
                    raise refuse(
                        f"{key!r} cannot be combined with 'aggregate', which picks no winner"
                    )
        elif self.evaluator is None and self.evaluator_instructions is None:
            raise refuse(
                "nothing says which attempt wins; write 'evaluator_instructions', an 'evaluator',"
                " or 'aggregate': true"
            )
        if len(self.models) > self.factor:
            raise refuse(
                f"'models' lists {len(self.models)}, but 'factor' makes {self.factor} of them run"
            )
        return self

    @property
    def picks(self) -> Evaluator:
        """Who picks; one that names nothing stands for the phase's own model."""
        return (
            Evaluator.model_construct() if self.evaluator is None else _as_evaluator(self.evaluator)
        )

    @property
    def joins(self) -> Aggregate | None:
        """How outputs are joined (None: one of them wins)."""
        if isinstance(self.aggregate, Aggregate):
            return self.aggregate
        return Aggregate() if self.aggregate else None

    @property
    def rounds(self) -> tuple[int, ...]:
        """How many attempts each round makes, those of reforge behind the first."""
        refining = self.reforge
        return (self.factor, *(refining.steps * (refining.factor_per_step,) if refining else ()))

    @property
    def judges(self) -> dict[str, str]:
        """The tools and functions that judge, by their keys."""
        picks = self.picks
        found = {
            "validator": self.validator,
            "evaluator.function": picks.function,
            "evaluator.validator": picks.validator,
            "reforge.threshold": self.reforge.threshold if self.reforge else None,
        }
        return {key: name for key, name in found.items() if name is not None}

    @property
    def helpers(self) -> tuple[str, ...]:
        """The models that see content of the phase beside its own."""
        joins = self.joins
        others = (self.picks.model, joins.model if joins else None)
        return (*self.models, *(name for name in others if name is not None))

    @property
    def templates(self) -> dict[str, str]:
        """The templates in it, by their keys."""
        joins, reforge = self.joins, self.reforge
        found = {
            "evaluator_instructions": self.evaluator_instructions,
            "aggregate.instructions": joins.instructions if joins else None,
            "reforge.honing_prompt": reforge.honing_prompt if reforge else None,
            "reforge.evaluator_override": reforge.evaluator_override if reforge else None,
        }
        return {key: text for key, text in found.items() if text is not None}
