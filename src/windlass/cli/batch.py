"""`windlass batch`: progress over all rows, what failed and where, the line that goes on."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.live import Live
from rich.text import Text

from windlass.api.batches.workers import (
    BatchEvent,
    BatchReason,
    BatchResult,
    BatchStarted,
    RowEnded,
    RowTrouble,
)
from windlass.api.functions import batch
from windlass.caching.rates import many, money
from windlass.cli.answers import approval_words
from windlass.cli.ending import finish
from windlass.cli.output import out, print_table, printed_as_json, progress, shorten
from windlass.cli.progress import Progress, at_places, is_watched
from windlass.cli.trust import settings_to_run
from windlass.errors import Unfinished, WindlassError
from windlass.history.base import in_words
from windlass.safety.escaping import escaped

_Answer = TypeVar("_Answer")

_LINES: Final = 20
"""About so many lines show how far a batch is where nobody looks on, and so many what failed."""
_ERROR_CHARS: Final = 160

_LIMITS: Final[Mapping[BatchReason, str]] = {
    "money": "the next run could have cost more than --max-cost allows",
    "tokens": "the next run could have used more than --max-tokens allows",
    "time": "the next run could have taken longer than --max-seconds allows",
    "runs": "--max-runs were begun",
}


def run_batch(
    cascade: Path,
    inputs: Path,
    flags: Mapping[str, Any],
    *,
    given: Mapping[str, Any],
) -> None:
    """Run the rows, print what they came to, and raise Unfinished where not all completed.

    `flags` are those that are settings, `given` the other options of `windlass.batch`.
    """
    words, options = ["batch", str(cascade), str(inputs)], {**flags, **given}
    result = run_rows(batch, (cascade, inputs), words, flags, given)
    if not printed_as_json(result):
        _print(result)
    if result.completed == result.rows:
        return
    begun = result.completed + result.incomplete + result.failed
    counts = {
        "failed": result.failed,
        "incomplete": result.incomplete,
        "not begun": result.rows - begun,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    text = f"of {many(result.rows, 'row')} {told}"
    spent = {"money": result.cost or 0.0, "tokens": result.tokens_in + result.tokens_out}
    raise Unfinished(ending(text, words, options, result.reason, spent, again=result.again))


def run_rows(
    door: Callable[..., Coroutine[Any, Any, _Answer]],
    places: tuple[Any, ...],
    words: Sequence[str],
    flags: Mapping[str, Any],
    given: Mapping[str, Any],
) -> _Answer:
    """What a door of the library for many rows comes to, with its progress.

    `words` begin the command that goes on, which errors name once a row was begun.
    """
    settings = settings_to_run(flags, trusted=given["trust"])
    progress.quiet = progress.quiet or out.as_json
    watcher = _Rows(settings.addresses())
    try:
        return finish(door(*places, on_event=watcher, **flags, **given))
    except WindlassError as error:
        if watcher.begun:
            go_on = _command(words, {**flags, **given, "resume": True})
            error.args = (f"{error}; what was answered is kept: {go_on}",)
        raise
    finally:
        watcher.end()


def ending(
    text: str,
    words: Sequence[str],
    options: Mapping[str, Any],
    reason: BatchReason | None,
    spent: Mapping[str, float],
    *,
    again: int,
) -> str:
    """What is said at the end of rows that are not all done: `text`, and the line that goes on.

    `spent` is what was spent of the limits that hold for the whole: as much again is allowed.
    """
    if reason is not None:
        text += f" ({_LIMITS[reason]})"
    if not again:
        return text
    if reason is not None and reason in spent:
        name = "max_cost" if reason == "money" else "max_tokens"
        options = {**options, name: round(spent[reason] + options[name], 6)}
    return f"{text}; run {_rows(again)}: {_command(words, {**options, 'resume': True})}"


def _rows(count: int) -> str:
    return "the one that is left" if count == 1 else f"the {count:,} that are left"


def _command(words: Sequence[str], options: Mapping[str, Any]) -> str:
    """The command line with these options: None and False are left out."""
    line = ["windlass", *words]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "approve":
            line += approval_words(value)
        elif value is True:
            line.append(flag)
        elif value is not None and value is not False:
            shown = str(value)
            line += [flag, shown.removesuffix(".0") if isinstance(value, float) else shown]
    return shlex.join(line)


def _print(result: BatchResult) -> None:
    print_troubles(result.troubles)
    out.print(
        f"\n{result.completed:,} of {many(result.rows, 'row')} completed, {money(result.cost)},"
        f" {result.tokens_in:,} tokens in, {result.tokens_out:,} out; results: {result.out}"
    )


def print_troubles(troubles: Sequence[RowTrouble]) -> None:
    """Print the rows that did not complete."""
    if troubles:
        out.print()
        print_table(
            ["row", "place", "ended", "session", "why"],
            [
                [
                    f"{each.row:,}",
                    each.place,
                    in_words(each.status, each.reason),
                    each.session_id or "",
                    shorten(each.error or "", _ERROR_CHARS),
                ]
                for each in troubles[:_LINES]
            ],
            right=[0],
        )
        if len(troubles) > _LINES:
            out.print(f"and {len(troubles) - _LINES:,} more (--json prints all)")


class _Rows:
    """Prints what becomes of a batch. On a terminal one line says how far it is."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.begun = False
        self._addresses = addresses
        self._notes = Progress(progress, addresses, verbose=progress.verbose)
        self._live: Live | None = None
        self._line = ""
        self._rows = self._kept = self._failed = 0
        self._start = time.monotonic()

    def __call__(self, event: BatchEvent) -> None:
        """Print one event."""
        match event:
            case BatchStarted(cascade, models, rows, kept):
                self.begun = True
                self._rows, self._kept, self._start = rows, kept, time.monotonic()
                before = f", {kept:,} of them answered before" if kept else ""
                names = at_places(models, self._addresses)
                progress.print(f"cascade {cascade}; models that will see content: {names}")
                progress.print(f"{many(rows, 'row')}{before}", style="dim")
                self._show()
            case RowEnded():
                self._end_row(event)
            case _:
                self._notes(event)

    def _end_row(self, event: RowEnded) -> None:
        if event.status == "failed":
            self._failed += 1
            if self._failed <= _LINES:
                why = shorten(event.error or "", _ERROR_CHARS)
                progress.print(f"  row {event.row:,} ({event.place}) failed: {why}", style="red")
        self._line = self._far(event)
        todo = self._rows - self._kept
        now = event.done - self._kept
        if self._live is None and (now % max(1, todo // _LINES) == 0 or now == todo):
            progress.print(f"  {self._line}", style="green")

    def _far(self, event: RowEnded) -> str:
        """How far the batch is: rows, rate, cost, time left."""
        seconds = time.monotonic() - self._start
        rate = (event.done - self._kept) / max(seconds, 1e-3)
        failed = f" ({self._failed:,} failed)" if self._failed else ""
        pace = f"{rate:,.1f} a second" if rate >= 1 else f"{rate * 60:,.1f} a minute"
        left = (
            f", {_time((self._rows - event.done) / rate)} left" if event.done < self._rows else ""
        )
        cost = money(event.batch_cost)
        return f"{event.done:,} of {many(self._rows, 'row')}{failed}, {pace}, {cost} so far{left}"

    def _show(self) -> None:
        if is_watched(progress):
            self._live = Live(
                console=progress,
                get_renderable=lambda: Text(escaped(self._line)[: progress.width - 1]),
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def end(self) -> None:
        """End the line: the batch is over."""
        self._notes.end()
        if self._live is not None:
            self._live.stop()
            self._live = None
            progress.print(f"  {self._line}", style="green")


def _time(seconds: float) -> str:
    """A time for people, in one unit."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
