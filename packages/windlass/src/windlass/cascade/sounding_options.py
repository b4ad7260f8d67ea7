"""Soundings in a cascade file: several attempts side by side, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    Strict,
    Tag,
    model_validator,
)

from windlass.cascade.evaluators import CostAware, Evaluator, HumanEval, OnTimeout, Wait
from windlass.cascade.spellings import (
    MOST_SOUNDINGS,
    soundings_in_long_form,
    varied_in_long_form,
)
from windlass.cascade.validators import Ward
from windlass.declared import (
    Count,
    Model,
    Names,
    Short,
    Switchable,
    Text,
    YesNo,
    by_form,
    refuse,
)

Attempts: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=MOST_SOUNDINGS)]

MutationMode: TypeAlias = Literal["approach", "augment", "rewrite"]


# ---- how attempts differ ---------------------------------------------------------------------

_Switch: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[Names, Tag("<list>")], by_form("<yes>", "<list>")
]


class VariedOptions(Model):
    """How the attempts of a round are asked in different words; the first one never is."""

    mutate: _Switch = False
    """Whether attempts vary; a list stands for true with these `mutations`."""

    mutation_mode: MutationMode = "approach"
    """How: approach puts a text behind the instructions, augment one before them, rewrite has a
    model write them anew, which is one more call an attempt."""

    mutations: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """The texts, taken in turn; for rewrite what the model is told to do (default: eight built-in
    ones for each mode)."""

    @model_validator(mode="before")
    @classmethod
    def _varied(cls, written: Any) -> Any:
        return varied_in_long_form(written)


class AttemptSettings(Model):
    """How many attempts a model is given, and how it is asked."""

    factor: Attempts | None = None
    """How many attempts are its own (default: one, or by turns)."""

    temperature: Annotated[float, Strict(), Field(ge=0, le=2)] | None = None
    """How freely it chooses its words, from 0 to 2, in place of what the phase says."""

    max_output_tokens: Count | None = Field(
        default=None, validation_alias=AliasChoices("max_output_tokens", "max_tokens")
    )
    """The most tokens of one reply, in place of what the phase says."""

    @property
    def changes(self) -> dict[str, Any]:
        """Return what attempts with it have in place of the phase's own."""
        return self.model_dump(exclude_none=True, exclude={"factor"})


class AttemptModel(AttemptSettings):
    """A model that makes some of the attempts."""

    model: Text
    """The model, as provider/name."""


_OfModel: TypeAlias = Annotated[AttemptSettings, Short("factor", Attempts)]
"""What a mapping says of a model: its number of attempts, or an object."""


def _as_models(
    written: Sequence[AttemptModel] | Mapping[str, AttemptSettings | None],
) -> tuple[AttemptModel, ...]:
    """Return models as objects. Those of a mapping have their numbers of attempts."""
    if not isinstance(written, Mapping):
        return tuple(written)
    says = {
        name: each.model_dump(exclude_unset=True) if each else {} for name, each in written.items()
    }
    return tuple(AttemptModel(**{"factor": 1, **each}, model=name) for name, each in says.items())


_Models: TypeAlias = Annotated[
    Annotated[dict[Text, _OfModel | None], Tag("<object>")]
    | Annotated[Sequence[Annotated[AttemptModel, Short("model")]], Tag("<list>")],
    by_form("<list>", "<object>"),
    AfterValidator(_as_models),
]


# ---- what becomes of them --------------------------------------------------------------------


def _who_picks(word: str) -> str:
    return "model" if "/" in word else "function"


class Aggregate(Model):
    """How the outputs of soundings become one."""

    instructions: Text | None = None
    """What a model is asked to make of them; a template. Absent: they are joined under headings."""

    model: Text | None = None
    """The model that is asked, as provider/name (default: the phase's)."""


class Reforge(VariedOptions):
    """Rounds after the soundings in which the best so far is refined."""

    honing_prompt: Text
    """What each attempt is asked to do with the best output so far; a template."""

    steps: Annotated[int, Strict(), Field(ge=1, le=10)] = 1
    """Rounds."""

    factor_per_step: Attempts = 2
    """Attempts in each round."""

    evaluator_override: Text | None = None
    """What the evaluator looks for in these rounds, in place of `evaluator_instructions`."""

    threshold: Annotated[Ward, Short("validator")] | None = None
    """A validator, or an object with `validator`: the rounds end when it accepts the best output
    so far."""

    @property
    def good_enough(self) -> str | None:
        """Return the validator that ends the rounds (None: there is none)."""
        return None if self.threshold is None else self.threshold.validator


class Soundings(VariedOptions):
    """Several attempts at a phase side by side, of which the best is the phase's."""

    factor: Attempts = 1
    """How many attempts (32 at most); 1 is none but the phase itself. What `models` say of their
    own goes before it."""

    max_parallel: Count = 3
    """How many of them run at once."""

    evaluator: Annotated[Evaluator, Short(_who_picks)] | None = None
    """Who picks: an object with model, function, validator or human; a word is `human`, `hybrid`
    (a model shortens the list for a person), a model if it has a slash, else a function. Absent
    or `llm`: the phase's model, by `evaluator_instructions`."""

    evaluator_instructions: Text | None = None
    """What a model that picks looks for; a template. A person and `aggregate` need none."""

    validator: Text | None = None
    """A validator: outputs that it refuses do not compete, unless it refuses all."""

    models: _Models = ()
    """Models of the attempts, in place of the phase's: a list that is handed out by
    `model_strategy`, or an object that says how many attempts each makes, as in
    `{'openai/gpt-4o': {factor: 2}}`."""

    model_strategy: Literal["round_robin", "round-robin", "random"] = "round_robin"
    """How a list of `models` is handed out: in turn, or drawn by a seed of the session."""

    cost_aware_evaluation: Annotated[CostAware, Short("enabled", YesNo)] | None = None
    """Tells whoever picks what each attempt cost, and how much that counts: true, or an object
    with weights."""

    aggregate: Switchable[Aggregate] = False
    """Join all outputs instead of picking one: true, or an object with instructions and model."""

    reforge: Reforge | None = None
    """Rounds that refine the best."""

    mode: Literal["evaluate", "aggregate"] | None = None
    """Another spelling: `aggregate` is `aggregate: true`."""

    aggregator_instructions: Text | None = None
    """Another spelling of `aggregate.instructions`, with `mode: aggregate`."""

    aggregator_model: Text | None = None
    """Another spelling of `aggregate.model`, with `mode: aggregate`."""

    human_eval: HumanEval | None = None
    """Another spelling of `evaluator.human`."""

    llm_prefilter: Count | None = None
    """Another spelling of `evaluator.human.llm_prefilter`."""

    timeout_seconds: Wait | None = None
    """Another spelling of `evaluator.human.timeout_seconds`."""

    on_timeout: OnTimeout | None = None
    """Another spelling of `evaluator.human.on_timeout`."""

    @model_validator(mode="before")
    @classmethod
    def _in_long_form(cls, written: Any) -> Any:
        return soundings_in_long_form(written)

    @model_validator(mode="after")
    def _consistent(self) -> Soundings:
        picked = self.evaluator or self.evaluator_instructions or self.aggregate is not False
        if not picked and sum(self.rounds) > 1:
            raise refuse(
                "nothing says which attempt wins; write 'evaluator_instructions', an 'evaluator',"
                " or 'aggregate': true"
            )
        return self

    @property
    def are_several(self) -> bool:
        """Return whether there is more to do than to run the phase as it is."""
        return sum(self.rounds) > 1 or bool(self.models)

    @property
    def picks(self) -> Evaluator:
        """Return who picks; one that names nothing stands for the phase's own model."""
        return Evaluator.model_construct() if self.evaluator is None else self.evaluator

    @property
    def cost_counts(self) -> CostAware | None:
        """Return how much the cost counts (None: nothing)."""
        cost = self.cost_aware_evaluation
        return cost if cost and cost.enabled and cost.show_costs_to_evaluator else None

    @property
    def joins(self) -> Aggregate | None:
        """Return how outputs are joined (None: one of them wins)."""
        if isinstance(self.aggregate, Aggregate):
            return self.aggregate
        return Aggregate() if self.aggregate else None

    @property
    def rounds(self) -> tuple[int, ...]:
        """Return how many attempts each round makes, those of reforge behind the first."""
        refining = self.reforge
        if refining is None or self.joins is not None:
            return (self.factor,)
        return (self.factor, *refining.steps * (refining.factor_per_step,))

    @property
    def attempt_models(self) -> tuple[AttemptModel, ...]:
        """Return the models in the order in which a round takes them, each as often as it says."""
        models = _as_models(self.models)
        return tuple(each for each in models for _ in range(each.factor or 1))

    @property
    def judges(self) -> dict[str, str]:
        """Return the tools and functions that judge, by their keys."""
        picks = self.picks
        found = {
            "validator": self.validator,
            "evaluator.function": picks.function,
            "evaluator.validator": picks.validator,
            "reforge.threshold": self.reforge.good_enough if self.reforge else None,
        }
        return {key: name for key, name in found.items() if name is not None}

    @property
    def helpers(self) -> tuple[str, ...]:
        """Return the models that see content of the phase beside its own."""
        joins = self.joins
        others = (self.picks.model, joins.model if joins else None)
        named = (each.model for each in _as_models(self.models))
        return (*named, *(name for name in others if name is not None))

    @property
    def templates(self) -> dict[str, str]:
        """Return the templates in it, by their keys."""
        joins, reforge = self.joins, self.reforge
        found = {
            "evaluator_instructions": self.evaluator_instructions,
            "aggregate.instructions": joins.instructions if joins else None,
            "reforge.honing_prompt": reforge.honing_prompt if reforge else None,
            "reforge.evaluator_override": reforge.evaluator_override if reforge else None,
        }
        return {key: text for key, text in found.items() if text is not None}
