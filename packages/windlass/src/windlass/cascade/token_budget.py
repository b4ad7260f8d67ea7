"""Limits for the tokens of a request: of one phase, and `token_budget`, which limits all of them.

What is held is the limit of each phase; `token_budget` is written out into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, Strict, ValidationError

from windlass.declared import Count, Model, Short, Text, YesNo
from windlass.window.policies.budget import SUMMARY_TOKENS, OnExceed

Strategy: TypeAlias = Literal["sliding_window", "prune_oldest", "summarize", "warn", "fail"]

_ON_EXCEED: Final[Mapping[Strategy, OnExceed]] = {
    "sliding_window": "prune",
    "prune_oldest": "prune",
    "summarize": "summarise",
    "warn": "warn",
    "fail": "fail",
}
_SHARE: Final = 0.8


class MaxInputTokens(Model):
    """A limit for the tokens of one request of the phase, and what to do about it."""

    limit: Count
    """The most input tokens a request of this phase should have."""

    warn: Annotated[float, Strict(), Field(gt=0, le=1)] = 0.8
    """The share of the limit from which on a warning is given."""

    on_exceed: OnExceed = "prune"
    """What a request over the limit does: prune leaves the oldest turns out, summarise puts a
    summary in their place, warn goes on, fail ends the phase."""

    summary_tokens: Count = SUMMARY_TOKENS
    """With `on_exceed: summarise`: the most tokens of the summary."""


class Summarizer(Model):
    """What writes the summary of older messages."""

    model: Text | None = None
    """Not taken: the model of the phase writes it; a warning says so."""

    target_size: Count = 2_000
    """The most tokens of the summary."""


class PhaseBudget(Model):
    """What one phase has in place of the `token_budget` of its cascade."""

    max_total: Count | None = None
    """The tokens of a request and its reply."""

    reserve_for_output: Annotated[int, Strict(), Field(ge=0)] | None = None
    """The tokens of it that are left for the reply: the `max_output_tokens` where none is set."""

    warning_threshold: Annotated[float, Strict(), Field(gt=0, le=1)] | None = None
    """The share of the input's limit from which on a warning is given."""

    strategy: Strategy | None = None
    """What is done with a request above the limit: sliding_window and prune_oldest leave the oldest
    turns out, summarize puts a summary in their place, warn goes on, fail ends the phase."""

    summarizer: Summarizer | None = None
    """With `summarize`: how long the summary is."""


class CascadeBudget(PhaseBudget):
    """Limits for the tokens of every phase."""

    max_total: Count = 100_000
    reserve_for_output: Annotated[int, Strict(), Field(ge=0)] = 4_000
    warning_threshold: Annotated[float, Strict(), Field(gt=0, le=1)] = _SHARE
    strategy: Strategy = "sliding_window"

    enabled: YesNo = True
    """Whether it holds."""

    phase_overrides: dict[str, Annotated[PhaseBudget, Short("max_total", Count)]] = Field(
        default_factory=dict
    )
    """What phases have in place of it, by their names: a number (`max_total`), or an object."""


def with_token_budget(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give each phase with the limits that `token_budget` gives it; what is written goes before."""
    written = data.get("token_budget")
    if written is None:
        return data
    try:
        budget = CascadeBudget.model_validate(written)
    except ValidationError:
        return data
    held = {key: value for key, value in data.items() if key != "token_budget"}
    if not budget.enabled:
        return held
    reserve = budget.reserve_for_output
    if reserve and held.get("max_output_tokens") is None:
        held["max_output_tokens"] = reserve
    held["phases"] = [_phase_with_budget(phase, budget) for phase in data["phases"]]
    return held


def _phase_with_budget(phase: Any, budget: CascadeBudget) -> Any:
    if not isinstance(phase, Mapping):
        return phase
    own = budget.phase_overrides.get(str(phase.get("name"))) or PhaseBudget()
    overrides = {key: value for key, value in dict(own).items() if value is not None}
    merged = budget.model_copy(update=overrides)
    limits: dict[str, Any] = {}
    if merged.max_total > merged.reserve_for_output:
        summary = merged.summarizer or Summarizer()
        limits["max_input_tokens"] = {
            "limit": merged.max_total - merged.reserve_for_output,
            "warn": merged.warning_threshold,
            "on_exceed": _ON_EXCEED[merged.strategy],
            **({"summary_tokens": summary.target_size} if merged.strategy == "summarize" else {}),
        }
    if own.reserve_for_output:
        limits["max_output_tokens"] = own.reserve_for_output
    return {**limits, **{key: value for key, value in phase.items() if value is not None}}
