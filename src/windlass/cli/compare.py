"""`windlass compare`: success beside cost for each policy, and what can be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.api.comparing.comparison import Comparison, PolicyDifference, PolicyFigures
from windlass.api.functions import compare
from windlass.caching.rates import many, money
from windlass.cli.batch import ending, print_troubles, run_rows
from windlass.cli.output import out, print_table, printed_as_json
from windlass.errors import Unfinished


def run_comparison(
    cascade: Path,
    inputs: Path,
    policies: Sequence[str],
    flags: Mapping[str, Any],
    *,
    given: Mapping[str, Any],
) -> None:
    """Run what is to be compared, print what it came to, and raise Unfinished where runs are left.

    `flags` are those that are settings, `given` the other options of `windlass.compare`.
    """
    named = [word for name in policies for word in ("--policy", name)]
    words = ["compare", str(cascade), str(inputs), *named]
    result = run_rows(compare, (cascade, inputs, policies), words, flags, given)
    if not printed_as_json(result):
        _print(result)
    left = {"to be run": result.again, "to be judged": result.unjudged, "waiting": result.waiting}
    if not any(left.values()):
        return
    told = ", ".join(f"{count:,} are {name}" for name, count in left.items() if count)
    spent = {"money": result.spent or 0.0, "tokens": result.tokens}
    raise Unfinished(
        ending(
            f"of {many(result.runs, 'run')} {told}",
            words,
            {**flags, **given},
            result.reason,
            spent,
            again=result.again + result.unjudged,
        )
    )


def _print(result: Comparison) -> None:
    print_troubles(result.troubles)
    out.print()
    counted = all(each.successes is not None for each in result.policies)
    print_table(
        ["policy", "runs", "success" if counted else "score", "95 %", "cost a run", "tokens in"],
        [_figures(each) for each in result.policies],
        right=[1, 2, 4, 5],
        whole=[3],
    )
    if result.differences:
        out.print()
        print_table(
            [
                f"beside {result.differences[0].baseline}",
                "inputs",
                "better",
                "worse",
                "difference",
                "95 %",
                "p (Holm)",
                "cost",
                "95 %",
                "verdict",
            ],
            [_difference(each, counted=counted) for each in result.differences],
            right=[1, 2, 3, 4, 6, 7],
            whole=[5, 8],
        )
        out.print()
    for each in result.differences:
        if each.inputs_needed is not None:
            out.print(
                f"{each.policy}: too few to tell with {many(each.inputs, 'input')};"
                f" {each.inputs_needed:,} would do"
            )
    judge = f"judge: {result.judge}"
    if result.judge_cost != 0:
        judge += f", which cost {money(result.judge_cost)}"
    out.print(f"{judge}; cost of all runs: {money(result.cost)}; results: {result.out}")


def _figures(figures: PolicyFigures) -> list[str]:
    if figures.successes is None:
        rate = f"{figures.rate:.3f}"
        span = f"{figures.low:.3f} to {figures.high:.3f}"
    else:
        rate = f"{figures.rate:.0%}"
        span = f"{figures.low:.0%} to {figures.high:.0%}"
    return [
        figures.policy,
        f"{figures.runs:,}",
        rate,
        span,
        money(figures.cost),
        f"{figures.tokens_in:,.0f}",
    ]


def _difference(each: PolicyDifference, *, counted: bool) -> list[str]:
    form = "+.0%" if counted else "+.3f"
    change, span = "", ""
    if each.cost_change is not None:
        change = f"{each.cost_change:+.0%}"
        span = f"{each.cost_low:+.0%} to {each.cost_high:+.0%}"
    return [
        each.policy,
        f"{each.inputs:,}",
        f"{each.better:,}",
        f"{each.worse:,}",
        format(each.difference, form),
        f"{format(each.low, form)} to {format(each.high, form)}",
        f"{each.p_holm:.4f}" if each.p_holm >= 0.0001 else "<0.0001",  # noqa: PLR2004
        change,
        span,
        each.verdict,
    ]
