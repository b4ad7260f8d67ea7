"""What a run of a task in XML comes to, as `windlass evaluate` prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.cli.cost_tables import part_cell
from windlass.cli.named_store import open_reporting_losses
from windlass.cli.one_run import print_next_steps, print_output
from windlass.cli.output import out, printed_as_json, shorten, to_plain
from windlass.cli.printed_tables import print_table
from windlass.engine.result import Result
from windlass.report.costs import TaskCost, task_costs
from windlass.settings.settings import Settings
from windlass.text.cell_tables import Columns, table_of

_PARTIAL = 20
"""Partial results that are listed where a task failed; `--json` has all."""


def print_task(result: Result, settings: Settings, again: str) -> None:
    """Print the output of a run of a task and what each task sent; `again` goes on with it."""
    with open_reporting_losses(settings) as store:
        lines, total = task_costs(store, result.session_id, settings.price_as)
    if printed_as_json({**to_plain(result), "tasks": lines}):
        return
    print_output(result)
    _print_partial(result.notes.get("partialResults", ()))
    out.print()
    columns: Columns[TaskCost] = {
        "task": lambda line: line.task,
        "runs": lambda line: line.runs,
        "calls": lambda line: line.calls,
        "tokens sent": lambda line: line.tokens_in,
        "reported cached": lambda line: line.tokens_cached,
        "out": lambda line: line.tokens_out,
        "cost": lambda line: part_cell(line, line.dollars),
    }
    print_table(table_of([*lines, total], columns))
    out.print(f"calls of a free model are priced as {settings.price_as}")
    why = f"why each call saw what it saw: windlass explain {result.session_id} 1"
    print_next_steps(result, again, why)


def _print_partial(results: Sequence[Mapping[str, Any]]) -> None:
    if not results:
        return
    out.print(f"\nfinished before it failed ({len(results):,}):")
    for result in results[:_PARTIAL]:
        name = result.get("step") or result.get("input")
        output = json.dumps(shorten(str(result["output"]), 160), ensure_ascii=False)
        out.print(f"  {result['index']} {name}: {output}")
    if len(results) > _PARTIAL:
        out.print(f"  and {len(results) - _PARTIAL:,} more (--json prints all)")
