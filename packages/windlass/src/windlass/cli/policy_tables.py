"""What policies come to, as `windlass compare` and `windlass replay` print it.

Success and cost of each, and how sure the differences are; what others would have cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from windlass.api.comparing.comparison import Comparison, PolicyFigures
from windlass.caching.rates import many, money, money_but_for
from windlass.cli.many_runs import print_troubles
from windlass.cli.output import out
from windlass.cli.printed_tables import dollar_cell, print_table
from windlass.replays.outcomes import (
    RecordingReplay,
    Replay,
    describe_replay,
    list_notes,
    only_one,
    sessions_table,
    totals_table,
)
from windlass.replays.pricing import OWN
from windlass.text.cell_tables import Cell, CellTable, Columns, NumberCell, table_of


def print_comparison(result: Comparison) -> None:
    """Print each policy, and how it differs from the first."""
    print_troubles(result.troubles)
    out.print()
    print_table(_policies_table(result.policies), whole=["95 %"])
    if result.differences:
        out.print()
        print_table(_differences_table(result), whole=["95 %"])
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
    cost = money_but_for(result.cost, result.unpriced, "run")
    out.print(f"{judge}; cost of all runs: {cost}; results: {result.out}")


def _is_counted(policies: Sequence[PolicyFigures]) -> bool:
    """Return whether the judge says yes or no, so that successes are counted."""
    return all(each.successes is not None for each in policies)


def _policies_table(policies: Sequence[PolicyFigures]) -> CellTable:
    def form(each: PolicyFigures) -> str:
        return ".3f" if each.successes is None else ".0%"

    columns: Columns[PolicyFigures] = {
        "policy": lambda each: each.policy,
        "runs": lambda each: each.runs,
        "success" if _is_counted(policies) else "score": lambda each: NumberCell(
            format(each.rate, form(each))
        ),
        "95 %": lambda each: _span(each.low, each.high, form(each)),
        "cost a run": lambda each: dollar_cell(each.cost),
        "tokens in": lambda each: round(each.tokens_in),
    }
    return table_of(policies, columns)


def _differences_table(result: Comparison) -> CellTable:
    form = "+.0%" if _is_counted(result.policies) else "+.3f"
    heads = ["inputs", "better", "worse", "difference", "95 %", "p (Holm)", "cost", "95 %"]
    rows: list[list[Cell]] = [
        [
            each.policy,
            each.inputs,
            each.better,
            each.worse,
            NumberCell(format(each.difference, form)),
            _span(each.low, each.high, form),
            NumberCell(f"{each.p_holm:.4f}" if each.p_holm >= 0.0001 else "<0.0001"),  # noqa: PLR2004
            NumberCell("" if each.cost_change is None else f"{each.cost_change:+.0%}"),
            _span(each.cost_low, each.cost_high, "+.0%"),
            each.verdict,
        ]
        for each in result.differences
    ]
    return CellTable([f"against {result.differences[0].baseline}", *heads, "verdict"], rows)


def _span(low: float | None, high: float | None, form: str) -> str:
    """From where to where a figure lies; empty where that is not known."""
    return "" if low is None or high is None else f"{format(low, form)} to {format(high, form)}"


_BARS = " ▁▂▃▄▅▆▇█"
_FEWEST = 3
"""Calls that are plotted at least."""
_PLOT = 64
"""Columns of a plot."""


def print_replay(replayed: Replay) -> None:
    """Print the totals, and each session or, of only one, what was spent call by call."""
    for line in describe_replay(replayed):
        out.print(line)
    out.print()
    print_table(totals_table(replayed))
    if (one := only_one(replayed)) is not None:
        _plot(one)
    else:
        out.print()
        print_table(sessions_table(replayed))
    out.print()
    for line in list_notes(replayed):
        out.print(line)


def _plot(one: RecordingReplay) -> None:
    """Print what was spent by then under each policy, from the first call to the last."""
    prices = one.outlays[0].prices
    outlays = [each for each in one.outlays if each.prices == prices]
    if one.call_count < _FEWEST:
        return
    names = max(len(each.policy) for each in outlays)
    width = max(8, min(_PLOT, out.width - names - 2, one.call_count))
    columns = [_spent([call.cost for call in each.calls], width) for each in outlays]
    most = max(map(max, columns)) or 1.0
    at = "" if prices == OWN else f" at {prices}"
    out.print(f"\nwhat was spent by then{at}, from call 1 to call {one.call_count:,}")
    for each, costs in zip(outlays, columns, strict=True):
        bars = "".join(_BARS[max(1, round(cost / most * 8)) if cost else 0] for cost in costs)
        out.print(f"{each.policy:{names}}  {bars}")


def _spent(costs: Sequence[float], width: int) -> list[float]:
    """Return the sums of the costs up to `width` places, the last of which is the end."""
    sums = list(accumulate(costs))
    return [sums[round((at + 1) * len(sums) / width) - 1] for at in range(width)]
