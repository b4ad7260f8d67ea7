"""The command `evaluate`: a task in XML with its input, progress, and the table at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.api import evaluate
from windlass.caching.rates import override
from windlass.cli.look import open_marked
from windlass.cli.output import money, out, plain, print_json, print_table, progress, shorten
from windlass.cli.progress import Progress
from windlass.cli.run import read_input
from windlass.cli.trusting import settings_to_run
from windlass.cli.waiting import wait_for
from windlass.engine.result import Result
from windlass.errors import UsageError
from windlass.report.tasks import task_costs
from windlass.settings import Settings

_SHOWN = 20
"""Partial results that are listed where a task failed; `--json` has all."""


def evaluate_command(
    task: Path | None,
    given: Sequence[str],
    flags: Mapping[str, Any],
    *,
    context: Path | None,
    resume: str | None,
    engine: str,
    session: str | None,
    auto: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Run, print the output and the table, and raise what stopped the run."""
    values = read_input(given)
    settings = settings_to_run(flags, trusted=trust)
    watcher = Progress(progress, settings.addresses())
    progress.quiet = progress.quiet or as_json
    work = evaluate(
        task,
        values,
        context=_read(context) if context is not None else "",
        resume=resume,
        engine=engine,
        auto=auto,
        model=flags.get("model"),
        store=flags.get("store"),
        root=flags.get("root"),
        search_folder=flags.get("search_folder"),
        on_event=watcher,
        session_id=session,
        trust=trust,
    )
    result = wait_for(work, watcher, "; what was finished is kept: windlass evaluate --resume {}")
    try:
        with override(settings.prices):
            _print(result, settings, as_json=as_json)
    except BrokenPipeError:
        if result.error is None:
            raise
    if result.error is not None:
        raise result.error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--context {str(path)!r} cannot be read as text: {error}") from error


def _print(result: Result, settings: Settings, *, as_json: bool) -> None:
    keeper = open_marked(settings)
    try:
        lines, total = task_costs(keeper, result.session_id, settings.price_as)
    finally:
        keeper.close()
    if as_json:
        print_json({**plain(result), "tasks": lines})
        return
    if result.output:
        out.print()
        out.print(shorten(result.output, 4_000), markup=False)
    _print_partial(result)
    out.print()
    columns = ["task", "runs", "calls", "tokens sent", "reported cached", "out", "cost"]
    rows = [
        [
            line.task,
            f"{line.runs:,}",
            f"{line.calls:,}",
            f"{line.tokens_in:,}",
            f"{line.tokens_cached:,}",
            f"{line.tokens_out:,}",
            money(line.dollars),
        ]
        for line in [*lines, total]
    ]
    print_table("", columns, rows, right=range(1, 7))
    out.print(f"calls of a free model are told at the prices of {settings.price_as}")
    if result.error is not None:
        told = f"go on from there: windlass evaluate --resume {result.session_id}"
        out.print(f"\n{told}", markup=False)
    out.print(f"\nwhy each call saw what it saw: windlass explain {result.session_id} 1")


def _print_partial(result: Result) -> None:
    kept = result.notes.get("partialResults", ())
    if not kept:
        return
    out.print(f"\nfinished before it failed ({len(kept):,}):", markup=False)
    for one in kept[:_SHOWN]:
        name = one.get("step") or one.get("input")
        said = json.dumps(shorten(str(one["output"]), 160), ensure_ascii=False)
        out.print(f"  {one['index']} {name}: {said}", markup=False)
    if len(kept) > _SHOWN:
        out.print(f"  and {len(kept) - _SHOWN:,} more (--json prints all)")
