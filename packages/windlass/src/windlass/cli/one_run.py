"""What the commands that run one cascade or task share: progress, results, how they end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from windlass.caching.rates import override
from windlass.cli.answers import TypedLines, person_at_terminal
from windlass.cli.cost_tables import print_costs
from windlass.cli.ending import run_interruptibly
from windlass.cli.named_store import open_reporting_losses
from windlass.cli.output import out, printed_as_json, progress, shorten, to_plain
from windlass.cli.progress import Progress
from windlass.cli.untrusted import retry_with_trust
from windlass.engine.result import Result
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
from windlass.report.costs import session_cost
from windlass.settings.settings import Settings

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
    """The error for a run that neither failed nor completed; the command `again` goes on with it.

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
