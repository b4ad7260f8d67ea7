"""A replay as a gate: whether a policy costs too much, or keeps too little in view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.caching.rates import money
from windlass.cascade.policies import EVERYTHING
from windlass.errors import UsageError
from windlass.replays.outcomes import PolicyCost


@dataclass(frozen=True, slots=True)
class Gate:
    """What a policy may cost, and what it must keep in view (None: no limit).

    Raises UsageError for a number out of its range.
    """

    fail_over: float | None = None
    """The largest bill, as a share of sending everything. What is fetched again is part of it; of a
    range the upper bound counts."""
    min_recall: float | None = None
    """The least share of the needed values and lines that must be in view."""

    def __post_init__(self) -> None:
        if self.fail_over is not None and not 0 <= self.fail_over < math.inf:
            raise UsageError(f"fail_over {self.fail_over!r} must be a number from 0 up")
        if self.min_recall is not None and not 0 <= self.min_recall <= 1:
            raise UsageError(f"min_recall {self.min_recall!r} must be a number from 0 to 1")

    @property
    def is_set(self) -> bool:
        """Return whether there is a limit."""
        return self.fail_over is not None or self.min_recall is not None

    def failures(self, totals: Sequence[PolicyCost]) -> list[str]:
        """Return a sentence for each policy that fails; sending everything never fails."""
        failures: list[str] = []
        for cost in totals:
            where = f"{cost.policy} at prices '{cost.prices}'"
            if self._is_dear(cost):
                failures.append(
                    f"{where} costs {cost.ratio.high:.4g} of sending everything, over"
                    f" {self.fail_over:g}"
                )
            if self._is_blind(cost):
                failures.append(
                    f"{where} keeps {cost.recall:.4f} of what was needed in view, under"
                    f" {self.min_recall:g}"
                )
        return failures

    def markdown(self, totals: Sequence[PolicyCost]) -> Iterator[str]:
        """Yield the lines of a table for a pull request."""
        yield "| policy | prices | calls | cost | of everything | worst recording | in view | |"
        yield "|---|---|---:|---:|---:|---:|---:|---|"
        for cost in totals:
            words = ["too dear"] * self._is_dear(cost)
            words += ["too little in view"] * self._is_blind(cost)
            verdict = f"**{', '.join(words)}**" if words else "ok"
            yield (
                f"| {_cell(cost.policy)} | {_cell(cost.prices)} | {cost.call_count:,} |"
                f" {_dollars(cost)} | {cost.ratio.high:.1%} | {cost.worst:.1%} |"
                f" {cost.recall:.2%} | {verdict} |"
            )

    def _is_dear(self, cost: PolicyCost) -> bool:
        over = self.fail_over is not None and cost.ratio.high > self.fail_over
        return over and not _is_everything(cost)

    def _is_blind(self, cost: PolicyCost) -> bool:
        under = self.min_recall is not None and cost.recall < self.min_recall
        return under and not _is_everything(cost)


def _is_everything(cost: PolicyCost) -> bool:
    return cost.policy.partition(",")[0] == EVERYTHING


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _dollars(cost: PolicyCost) -> str:
    if cost.dollars is None:
        return "-"
    low, high = map(money, cost.dollars)
    return low if low == high else f"{low} - {high}"
