"""Who picks among soundings in a cascade file, and what counts: a person, a judge, the cost."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, Strict, model_validator

from windlass.declared import Count, Model, Text, YesNo, refuse

SHORTENED_TO: Final = 3
"""How many attempts a model leaves for a person, where a cascade says no number."""

Wait: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Weight: TypeAlias = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
OnTimeout: TypeAlias = Literal["llm_fallback", "random", "first", "abort"]
Normalization: TypeAlias = Literal["min_max", "z_score", "log_scale"]


class HumanEval(Model):
    """How a person picks among soundings. Keys of a page's layout are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    timeout_seconds: Wait | None = None
    """Seconds since the question was first asked after which `on_timeout` picks (default: the
    question waits)."""

    on_timeout: OnTimeout = "llm_fallback"
    """Who picks when nobody answered in time: a model, a draw, the first attempt, or nobody, and
    the phase fails (abort)."""

    allow_reject_all: YesNo = True
    """Whether the person may take none of them, and so fail the phase."""

    llm_prefilter: Count | None = None
    """To how many attempts a model shortens the list first (default: the person sees all)."""


class Evaluator(Model):
    """Who picks among soundings: one of model, function, validator and human."""

    model: Text | None = None
    """A model that reads all outputs, as provider/name. Beside `human`: the one that shortens the
    list, and picks after `timeout_seconds`."""

    function: Text | None = None
    """A tool or `module:function` that is given the list `outputs` and answers the place of the
    best in it, from 0."""

    validator: Text | None = None
    """A validator as in `loop_until`: the first output that it accepts wins."""

    human: HumanEval | None = None
    """A person picks, asked as by `ask_human`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Evaluator:
        judges = (self.function, self.validator, self.human or self.model)
        if sum(each is not None for each in judges) != 1:
            raise refuse(
                "an evaluator is one of 'model', 'function', 'validator' and 'human'; write one"
            )
        return self


class CostAware(Model):
    """What whoever picks among soundings is told of their cost."""

    enabled: YesNo = True
    """Whether they are told."""

    show_costs_to_evaluator: YesNo = True
    """Another spelling of `enabled`."""

    quality_weight: Weight = 0.7
    """How much quality counts, beside the other weight."""

    cost_weight: Weight = 0.3
    """How much the cost counts."""

    cost_normalization: Normalization = "min_max"
    """How costs are made comparable: min_max (0 for the cheapest, 1 for the dearest), z_score
    (deviations from the mean) or log_scale (min_max of their logarithms)."""
