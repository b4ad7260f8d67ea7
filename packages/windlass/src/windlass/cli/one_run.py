"""What the commands that run one cascade or task share: progress, results, how they end.

What a run of a task in XML comes to, as `windlass evaluate` prints it.

`windlass run --dry-run`: the first request and the largest cost, with nothing sent.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from windlass.api.loading import ReadingOptions, load_cascade
from windlass.api.opening import open_store
from windlass.caching.rates import many, money, override
from windlass.cli.answers import TypedLines, person_at_terminal
from windlass.cli.ending import run_interruptibly
from windlass.cli.named_store import open_reporting_losses
from windlass.cli.output import note, out, printed_as_json, progress, shorten, to_plain
from windlass.cli.printed_tables import part_cell, price_text, print_costs, print_table
from windlass.cli.progress import Progress, models_with_places
from windlass.cli.run_input import read_input
from windlass.cli.untrusted import (
    list_unchecked,
    print_unchecked,
    retry_with_trust,
    strip_untrusted_family,
)
from windlass.engine.cascade_run import Access
from windlass.engine.opening import open_session
from windlass.engine.result import Result
from windlass.engine.setup import check_models, prepare
from windlass.engine.turn.forecast import Forecast, forecast_cost
from windlass.errors import (
    AnswerNeeded,
    Interrupted,
    RunLimitReached,
    Unfinished,
    Unsure,
    WindlassError,
    person_needed,
)
from windlass.history.base import Reason, in_words
from windlass.providers.at_hand import Providers
from windlass.report.costs import TaskCost, session_cost, task_costs
from windlass.settings.settings import Settings
from windlass.settings.trust import is_trusted
from windlass.text.cell_tables import Columns, table_of

_BECAUSE: Final[Mapping[Reason, str]] = {
    "turns": "turns or attempts were used up",
    "length": "a reply was cut before its end",
    "empty": "the model said nothing",
    "refusal": "the model refused to answer",
    "filter": "the provider held the answer back",
    "money": "the money was used up",
    "tokens": "the tokens were used up",
    "time": "the time was up",
}


def resume_command(command: str, file: Path | None) -> str:
    """Return the command that resumes a session, with `{}` in place of the session.

    A file that the user named is named again: modules are not loaded from the record alone.
    """
    named = f"{shlex.quote(str(file))} " if file is not None else ""
    return f"windlass {command} {named.replace('{', '{{').replace('}', '}}')}--resume {{}}"


def finish_run(
    work: Callable[..., Coroutine[Any, Any, Result]],
    settings: Settings,
    *,
    again: str,
    output_only: bool = False,
    show: Callable[[Result, Settings, str], None] | None = None,
) -> None:
    """Wait for a run, show its result, and raise what stopped it, with its session.

    `output_only`: only the output is shown, unchanged, and nothing where the run was stopped.
    `again` is the command that resumes it, with `{}` in place of the session. `show` prints the
    result (default: `print_run`).
    """
    progress.quiet = progress.quiet or out.as_json or output_only
    watcher = Progress(progress, settings.addresses(), verbose=progress.verbose)
    try:
        result = retry_with_trust(
            lambda: run_interruptibly(
                work(on_event=watcher, on_question=person_at_terminal(TypedLines()))
            )
        )
    except WindlassError as error:
        error.session_id = watcher.session_id
        if error.session_id:
            go_on = again.format(error.session_id)
            if isinstance(error, Interrupted):
                error.args = (f"{error}; what was answered is kept: {go_on}",)
            else:
                error.again = go_on
        raise
    finally:
        watcher.end()
    go_on = again.format(result.session_id)
    try:
        if not output_only:
            with override(settings.prices):
                (show or print_run)(result, settings, go_on)
        elif result.error is None and result.output:
            out.print(result.output)
    except BrokenPipeError:
        if result.error is None:
            raise
    if result.status == "completed":
        return
    ended = result.error or describe_unfinished(result, again)
    if (output_only or out.as_json) and go_on not in str(ended):  # else the tables' end told it
        ended.again = go_on
    raise ended


def describe_unfinished(result: Result, again: str, *, resumes: bool = True) -> Unfinished:
    """Return the error for a run that neither failed nor completed.

    The command `again` goes on with it.

    `resumes`: it takes up what waits, instead of adding to the conversation.
    """
    go_on = again.format(result.session_id)
    because = f": {_BECAUSE[result.reason]}" if result.reason else ""
    if amounts := result.notes.get("budget"):
        because = f": {RunLimitReached(**amounts)}; go on from there: {go_on}"
    needed = person_needed(result.notes)
    if isinstance(needed, AnswerNeeded):
        because = f": {needed}; {_how_to_answer(needed, go_on, resumes=resumes)}"
    elif isinstance(needed, Unsure):
        because = f": {needed}: {go_on} {needed.again}"
    ended = Unfinished(f"the run is {in_words(result.status, result.reason)}{because}")
    ended.session_id = result.session_id
    return ended


def _how_to_answer(needed: AnswerNeeded, go_on: str, *, resumes: bool) -> str:
    """Return how to give what a run waits for."""
    if needed.tool is not None:
        named = shlex.quote(needed.call if resumes and needed.call else needed.tool)
        return f"let it run: {go_on} --approve {named}, or refuse it: {go_on} --deny {named}"
    return f"answer it: {go_on} --answer TEXT" if resumes else f"answer it at a terminal: {go_on}"


def print_run(result: Result, settings: Settings, again: str) -> None:
    """Print the output of a run of a cascade and what each phase sent; `again` goes on with it."""
    with open_reporting_losses(settings) as store:
        costs = session_cost(store, result.session_id, settings.price_as)
    if printed_as_json({**to_plain(result), "phases": costs}):
        return
    print_output(result)
    out.print()
    print_costs(costs)
    print_next_steps(
        result, again, f"what each call saw: windlass show {result.session_id} --call 1"
    )


def print_output(result: Result) -> None:
    """Print the output of the run."""
    if result.output:
        out.print()
        out.print(shorten(result.output, 4_000))


def print_next_steps(result: Result, again: str, look: str) -> None:
    """Print how to go on with a run that is not completed, and how to look into it."""
    if result.status != "completed":
        out.hint(f"\ngo on from there: {again}")
    out.hint(f"\n{look}")


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


def _warn(text: str) -> None:
    (progress.print if text.startswith("warning: ") else note)(text)


def show_forecast(
    cascade: Path,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    how: ReadingOptions,
    *,
    auto: bool,
) -> None:
    """Show the first request, its tokens and price, and the largest possible cost.

    Nothing that the folder holds is run or started unless the user trusts it; a note lists what
    the request lacks for that.
    """
    values, trust = read_input(given or ()), bool(how.trust)
    settings = Settings.read(flags, trust=trust)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Settings.read({**flags, "store": folder}, trust=trust)
        ready = load_cascade(cascade, settings, auto=auto, how=how, input=values, warn=_warn)
        trusts = trust or is_trusted(cascade.resolve().parent)
        family = list(ready.walk())
        servers = () if trusts else [each.cascade for each in family]
        left_out = list_unchecked(settings, *(each.registry for each in family), left_out=servers)
        if left_out:
            ready = strip_untrusted_family(ready, settings)
        providers = Providers({}, settings, warn=_warn, keys=None)
        for each in ready.walk():
            check_models(each.cascade, settings, providers.resolve)
        try:
            with (
                open_store(scratch) as store,
                open_session(store) as session,
                override(settings.prices),
            ):
                access = Access(providers.resolve)
                prepared = prepare(ready, values, session, settings=settings, access=access)
                forecast = run_interruptibly(forecast_cost(prepared, settings.price_as))
        finally:
            run_interruptibly(providers.close())
    if printed_as_json({**to_plain(forecast), **({"unchecked": left_out} if left_out else {})}):
        return
    print_unchecked(left_out, settings)
    with override(settings.prices):
        _print_forecast(forecast, settings.addresses())


def _print_forecast(forecast: Forecast, addresses: Mapping[str, str]) -> None:
    out.print(f"models that would see content: {models_with_places(forecast.models, addresses)}")
    out.print(
        f"first request: phase {forecast.phase}, {forecast.tokens:,} input tokens,"
        f" {money(forecast.dollars)}"
    )
    for message in forecast.messages:
        out.print(f"\n{message.role}:", style="bold")
        out.print(shorten(message.text, 2_000))
    if forecast.tools:
        out.print(f"\ntools: {', '.join(forecast.tools)}")
    out.print(
        f"\nat most {many(forecast.most_calls, 'call')} and {money(forecast.most_dollars)},"
        " if every call filled its window and no cache held any of it"
        f"\nprices: {price_text(forecast.priced_as)}"
    )
    if forecast.search is not None:
        out.print(f"not counted there: searches of the web by {forecast.search}")
