"""The runs of a comparison, and the figures computed from their lines in the file of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

from windlass.api.batches.inputs import BatchInput, ComparedLine, ResultLine, hash_of
from windlass.api.batches.workers import BatchReason, BatchResult, RowTrouble
from windlass.cascade.policies import NamedPolicy
from windlass.engine.turn.record import SEED
from windlass.ledger.charges import Charge, total_of
from windlass.text.intervals import (
    ALPHA,
    Interval,
    bootstrap,
    holm,
    inputs_for_no_worse,
    inputs_needed,
    paired_rates,
    sign_test,
    wilson,
)

MARGIN: Final = 0.05
"""The smallest difference of rates or scores that matters, by default."""
FEWEST: Final = 30
"""Inputs below which a bootstrap is too narrow to show that answers are no worse."""

Verdict: TypeAlias = Literal["better", "worse", "no worse", "too few to tell"]


@dataclass(frozen=True, slots=True)
class ComparedRun(BatchInput):
    """A run of an input under a policy; `number` is the input's, `take` counts its repeats."""

    policy: NamedPolicy
    number: int
    take: int
    parts: ClassVar[str] = "inputs, policies or repeats"
    line: ClassVar[type[ResultLine]] = ComparedLine

    @property
    def hash(self) -> str:
        """Identifies the run."""
        return hash_of([self.values, self.policy.auto_context, self.take])

    @property
    def name(self) -> str:
        """Return its name in messages."""
        return f"{self.place} with {self.policy.name}"

    @property
    def tag(self) -> str:
        """Return the end of its session's name; the seed in it is the same under every policy."""
        return f"{self.row}{SEED}{self.number}.{self.take}"

    @property
    def about(self) -> Mapping[str, Any]:
        """Return what its line in the file of results also says."""
        return {"policy": self.policy.name, "input": self.number, "take": self.take}


def compared_runs(
    inputs: Iterable[BatchInput], policies: Sequence[NamedPolicy], repeat: int
) -> list[ComparedRun]:
    """Return every input under every policy, `repeat` times, input by input.

    The policy that comes first changes, because the others find its prompts in the provider's
    cache.
    """
    runs: list[ComparedRun] = []
    for number, each in enumerate(inputs, start=1):
        for take in range(1, repeat + 1):
            first = (number + take) % len(policies)
            for policy in (*policies[first:], *policies[:first]):
                row = len(runs) + 1
                runs.append(ComparedRun(row, each.place, each.values, policy, number, take))
    return runs


# ---- lines of the file ---------------------------------------------------------------


def is_judged(line: Mapping[str, Any], judge: str) -> bool:
    """Return whether this judge has judged the run of a line, or it is not to be judged."""
    if line["again"] or line["status"] == "waiting":
        return True
    return line.get("judge") == judge and line.get("score") is not None


# ---- their figures -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """The figures of one policy.

    `runs` were measured. `rate` is the share that succeeded where the judge says yes or no, else
    the mean score, and lies between `low` and `high`; `successes` are None for scores. `cost` is
    in US dollars, of a run (None: no price is known); `tokens_in` and `tokens_out` are of a run.
    """

    policy: str
    runs: int
    successes: int | None
    rate: float
    low: float
    high: float
    cost: float | None
    tokens_in: float
    tokens_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """A test of pairs: so many of `inputs` went `better` or `worse`.

    `p` is the p-value of `test`, `p_holm` the same raised for the number of policies.
    """

    inputs: int
    better: int
    worse: int
    test: Literal["McNemar", "sign"]
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDifference(PairedTest):
    """One policy compared with the first, the baseline, on the same inputs.

    `difference` of the rates or scores lies between `low` and
    `high`. `cost_change` is a share of what the baseline cost (None: no price is known, or it was
    free). Where too few inputs are there to tell, `inputs_needed` would do.
    """

    policy: str
    baseline: str
    difference: float
    low: float
    high: float
    cost_change: float | None
    cost_low: float | None
    cost_high: float | None
    verdict: Verdict
    inputs_needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonCost:
    """What a comparison used.

    `cost` is that of the runs that count, but for the `unpriced` ones, and `judge_cost` that of the
    judge, in US dollars; `spent` is all that was spent, with runs that count no more, and `tokens`
    all that were used, in and out (None: no price is known).
    """

    cost: float | None
    judge_cost: float | None
    spent: float | None
    tokens: int
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(ComparisonCost):
    """The outcome of a comparison; `out` is the file with every run.

    `runs` are all that belong to it; `again` are run when it is resumed, `unjudged` judged, and
    `waiting` wait for a person. `reason` is the limit that was reached; `troubles` are the runs
    that did not complete.
    """

    out: Path
    judge: str
    margin: float
    inputs: int
    runs: int
    again: int
    unjudged: int
    waiting: int
    reason: BatchReason | None
    policies: tuple[PolicyFigures, ...]
    differences: tuple[PolicyDifference, ...]
    troubles: tuple[RowTrouble, ...]


@dataclass(frozen=True, slots=True)
class _Measured:
    """A run that counts."""

    score: float
    binary: bool
    charge: Charge


_Runs: TypeAlias = Mapping[tuple[int, int], _Measured]
"""The runs of a policy, by input and take."""


def compare_runs(
    result: BatchResult,
    lines: Iterable[Mapping[str, Any]],
    policies: Sequence[str],
    judge: str,
    margin: float,
) -> Comparison:
    """Return what the lines of the file say of these policies; the first is the baseline."""
    runs: dict[str, dict[tuple[int, int], _Measured]] = {name: {} for name in policies}
    inputs, unjudged, waiting = set[int](), 0, 0
    judged: list[Charge] = []
    for line in lines:
        inputs.add(line["input"])
        if "judge_cost" in line:
            judged.append(_charge(line["judge_cost"]))
        if line["again"]:
            continue
        if line["status"] == "waiting":
            waiting += 1
        elif not is_judged(line, judge):
            unjudged += 1
        else:
            runs[line["policy"]][line["input"], line["take"]] = _measured(line)

    every = [each for of_policy in runs.values() for each in of_policy.values()]
    binary, total = all(each.binary for each in every), total_of(each.charge for each in every)
    baseline, *others = policies
    found = [_Pairs.of(runs[baseline], runs[name], binary=binary) for name in others]
    raised = holm([each.p for each in found])
    return Comparison(
        out=result.out,
        judge=judge,
        margin=margin,
        inputs=len(inputs),
        runs=result.rows,
        again=result.again,
        unjudged=unjudged,
        waiting=waiting,
        cost=total.dollars,
        judge_cost=total_of(judged).dollars,
        unpriced=total.unpriced,
        spent=result.cost,
        tokens=result.tokens_in + result.tokens_out,
        reason=result.reason,
        policies=tuple(
            _figures(name, runs[name], binary=binary) for name in policies if runs[name]
        ),
        differences=tuple(
            pairs.difference(name, baseline, p, margin, len(others))
            for name, pairs, p in zip(others, found, raised, strict=True)
            if pairs.inputs
        ),
        troubles=result.troubles,
    )


def _measured(line: Mapping[str, Any]) -> _Measured:
    score, tokens = line["score"], line["run"]["tokens"]
    charge = _charge(line["run"]["cost"], tokens_in=tokens["in"], tokens_out=tokens["out"])
    return _Measured(float(score), isinstance(score, bool), charge)


def _charge(dollars: float | None, **tokens: int) -> Charge:
    return Charge(calls=1, dollars=dollars, unpriced=int(dollars is None), **tokens)


def _by_input(runs: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Return the mean of the takes of each input."""
    takes: dict[int, list[float]] = {}
    for (number, _), value in runs.items():
        takes.setdefault(number, []).append(value)
    return {number: sum(values) / len(values) for number, values in sorted(takes.items())}


def _figures(name: str, runs: _Runs, *, binary: bool) -> PolicyFigures:
    means = _by_input({key: each.score for key, each in runs.items()})
    n, score = len(runs), sum(each.score for each in runs.values())
    total = total_of(each.charge for each in runs.values())
    # Takes of one input are no cases of their own.
    alone = binary and len(means) == n
    low, high = wilson(round(score), n) if alone else bootstrap(list(means.values()))
    return PolicyFigures(
        policy=name,
        runs=n,
        successes=round(score) if binary else None,
        rate=score / n,
        low=low,
        high=high,
        cost=None if total.dollars is None or total.unpriced else total.dollars / n,
        tokens_in=total.tokens_in / n,
        tokens_out=total.tokens_out / n,
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The same inputs under two policies: differences of scores, and costs of both, by input.

    `binary`: each input has one take, and the judge said yes or no.
    """

    scores: Sequence[float]
    costs: Sequence[float] | None
    before: Sequence[float] | None
    binary: bool

    @classmethod
    def of(cls, base: _Runs, other: _Runs, *, binary: bool) -> _Pairs:
        both = sorted(base.keys() & other.keys())
        scores = _by_input({key: other[key].score - base[key].score for key in both})
        costs: list[float] | None = None
        before: list[float] | None = None
        if both and not any(runs[key].charge.unpriced for runs in (base, other) for key in both):
            costs, before = (
                list(_by_input({key: runs[key].charge.dollars or 0.0 for key in both}).values())
                for runs in (other, base)
            )
        alone = len(scores) == len(both)
        return cls(list(scores.values()), costs, before, binary and alone)

    @property
    def inputs(self) -> int:
        return len(self.scores)

    @property
    def better(self) -> int:
        return sum(each > _ROUNDING for each in self.scores)

    @property
    def worse(self) -> int:
        return sum(each < -_ROUNDING for each in self.scores)

    @property
    def p(self) -> float:
        return sign_test(self.better, self.worse)

    def difference(
        self, name: str, baseline: str, p_holm: float, margin: float, tests: int
    ) -> PolicyDifference:
        better, worse, n = self.better, self.worse, self.inputs
        span = paired_rates(better, worse, n) if self.binary else bootstrap(self.scores)
        enough = self.binary or n >= FEWEST
        verdict: Verdict = "too few to tell"
        needed: int | None = None
        if p_holm < ALPHA:
            verdict = "better" if better > worse else "worse"
        elif span.low > -margin and enough:
            verdict = "no worse"
        else:
            least = margin if self.binary else MARGIN
            needed = inputs_needed(better, worse, n, least=least, tests=tests)
            if self.binary:
                needed = inputs_for_no_worse(better, worse, n, margin=margin, most=needed)
            else:
                needed = FEWEST if span.low > -margin else max(FEWEST, needed)
        change, money = self._change()
        return PolicyDifference(
            policy=name,
            baseline=baseline,
            inputs=n,
            better=better,
            worse=worse,
            test="McNemar" if self.binary else "sign",
            p=self.p,
            p_holm=p_holm,
            difference=sum(self.scores) / n,
            low=span.low,
            high=span.high,
            cost_change=change,
            cost_low=money and money.low,
            cost_high=money and money.high,
            verdict=verdict,
            inputs_needed=needed,
        )

    def _change(self) -> tuple[float | None, Interval | None]:
        """Return how much more it cost than the baseline, as a share of that."""
        if self.costs is None or self.before is None or sum(self.before) <= 0:
            return None, None
        return sum(self.costs) / sum(self.before) - 1, bootstrap(self.costs, self.before)


_ROUNDING: Final = 1e-12
"""The largest difference that is only rounding."""
