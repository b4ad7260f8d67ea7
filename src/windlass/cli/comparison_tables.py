"""Success and cost of each policy, and how sure the differences are, as `compare` prints them."""

from __future__ import annotations

from windlass.api.comparing.comparison import Comparison, PolicyDifference, PolicyFigures
from windlass.caching.rates import many, money
from windlass.cli.many_runs import print_troubles
from windlass.cli.output import out
from windlass.cli.printed_tables import Cell, NumberCell, dollar_cell, print_table


def print_comparison(result: Comparison) -> None:
    """Print each policy, and how it differs from the first."""
    print_troubles(result.troubles)
    out.print()
    counted = all(each.successes is not None for each in result.policies)
    print_table(
        ["policy", "runs", "success" if counted else "score", "95 %", "cost a run", "tokens in"],
        [_figures(each) for each in result.policies],
        whole=[3],
    )
    if result.differences:
        out.print()
        print_table(
            [
                f"against {result.differences[0].baseline}",
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


def _figures(figures: PolicyFigures) -> list[Cell]:
    if figures.successes is None:
        rate = f"{figures.rate:.3f}"
        span = f"{figures.low:.3f} to {figures.high:.3f}"
    else:
        rate = f"{figures.rate:.0%}"
        span = f"{figures.low:.0%} to {figures.high:.0%}"
    return [
        figures.policy,
        figures.runs,
        NumberCell(rate),
        span,
        dollar_cell(figures.cost),
        round(figures.tokens_in),
    ]


def _difference(each: PolicyDifference, *, counted: bool) -> list[Cell]:
    form = "+.0%" if counted else "+.3f"
    change, span = "", ""
    if each.cost_change is not None:
        change = f"{each.cost_change:+.0%}"
        span = f"{each.cost_low:+.0%} to {each.cost_high:+.0%}"
    return [
        each.policy,
        each.inputs,
        each.better,
        each.worse,
        NumberCell(format(each.difference, form)),
        f"{format(each.low, form)} to {format(each.high, form)}",
        NumberCell(f"{each.p_holm:.4f}" if each.p_holm >= 0.0001 else "<0.0001"),  # noqa: PLR2004
        NumberCell(change),
        span,
        each.verdict,
    ]
