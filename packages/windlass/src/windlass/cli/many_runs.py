"""What `windlass batch` and `compare` share: progress, what failed, the line that goes on."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rich.live import Live
from rich.text import Text

from windlass.api.batches.workers import (
    BatchEvent,
    BatchReason,
    BatchStarted,
    RowEnded,
    RowTrouble,
)
from windlass.caching.rates import many, money_but_for
from windlass.cli.answers import approval_words
from windlass.cli.ending import run_interruptibly
from windlass.cli.output import out, progress, shorten
from windlass.cli.printed_tables import print_table
from windlass.cli.progress import Progress, is_watched, live_line, models_with_places
from windlass.errors import Unfinished, WindlassError
from windlass.history.base import in_words
from windlass.safety.escaping import escaped
from windlass.settings.settings import Settings
from windlass.text.cell_tables import Columns, table_of

_Answer = TypeVar("_Answer")

_LINES: Final = 20
"""About how many lines show progress where nobody watches, and how many list what failed."""
_ERROR_CHARS: Final = 160

_LIMITS: Final[Mapping[BatchReason, str]] = {
    "money": "the next run could have cost more than --max-cost allows",
    "tokens": "the next run could have used more than --max-tokens allows",
    "time": "the next run could have taken longer than --max-seconds allows",
    "runs": "--max-runs were started",
}


@dataclass(frozen=True)
class WrittenCommand:
    """A command line: its first words, and its options by name."""

    words: Sequence[str]
    options: Mapping[str, Any]

    def resumed(self, changed: Mapping[str, float] | None = None) -> str:
        """The command line with `--resume` and the changed options; None and False are left out."""
        line = ["windlass", *self.words]
        for name, value in {**self.options, **(changed or {}), "resume": True}.items():
            flag = f"--{name.replace('_', '-')}"
            if name == "approve":
                line += approval_words(value)
            elif value is True:
                line.append(flag)
            elif value is not None and value is not False:
                shown = str(value)
                line += [flag, shown.removesuffix(".0") if isinstance(value, float) else shown]
        return shlex.join(line)


def run_rows(
    work: Callable[..., Coroutine[Any, Any, _Answer]], settings: Settings, line: WrittenCommand
) -> _Answer:
    """Run a function of the library for many rows with its progress, and return its result.

    Errors name the `line` that goes on, once a row was started.
    """
    progress.quiet = progress.quiet or out.as_json
    watcher = _Rows(settings.addresses())
    try:
        return run_interruptibly(work(on_event=watcher))
    except WindlassError as error:
        if watcher.begun:
            error.args = (f"{error}; what was answered is kept: {line.resumed()}",)
        raise
    finally:
        watcher.end()


def describe_unfinished(
    text: str,
    line: WrittenCommand,
    reason: BatchReason | None,
    spent: Mapping[str, float],
    *,
    again: int,
) -> Unfinished:
    """The error where rows are left: `text`, and the line that runs the `again` rows that are left.

    `spent` is what all runs together spent of their limits: the line allows as much again.
    """
    if reason is not None:
        text += f" ({_LIMITS[reason]})"
    if not again:
        return Unfinished(text)
    changed: dict[str, float] = {}
    if reason is not None and reason in spent:
        name = "max_cost" if reason == "money" else "max_tokens"
        changed[name] = round(spent[reason] + line.options[name], 6)
    left = "the one that is left" if again == 1 else f"the {again:,} that are left"
    return Unfinished(f"{text}; run {left}: {line.resumed(changed)}")


def print_troubles(troubles: Sequence[RowTrouble]) -> None:
    """Print the rows that did not complete."""
    if troubles:
        out.print()
        columns: Columns[RowTrouble] = {
            "row": lambda each: each.row,
            "place": lambda each: each.place,
            "ended": lambda each: in_words(each.status, each.reason),
            "session": lambda each: each.session_id or "",
            "why": lambda each: shorten(each.error or "", _ERROR_CHARS),
        }
        print_table(table_of(troubles[:_LINES], columns))
        if len(troubles) > _LINES:
            out.print(f"and {len(troubles) - _LINES:,} more (--json prints all)")


class _Rows:
    """Prints the progress of a batch, on a terminal in one line."""

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
                names = models_with_places(models, self._addresses)
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
        self._line = self._progress_text(event)
        todo = self._rows - self._kept
        now = event.done - self._kept
        if self._live is None and (now % max(1, todo // _LINES) == 0 or now == todo):
            progress.print(f"  {self._line}", style="green")

    def _progress_text(self, event: RowEnded) -> str:
        """Return the progress of the batch: rows, rate, cost, time left."""
        seconds = time.monotonic() - self._start
        rate = (event.done - self._kept) / max(seconds, 1e-3)
        failed = f" ({self._failed:,} failed)" if self._failed else ""
        pace = f"{rate:,.1f} a second" if rate >= 1 else f"{rate * 60:,.1f} a minute"
        left = (
            f", {_duration_text((self._rows - event.done) / rate)} left"
            if event.done < self._rows
            else ""
        )
        cost = money_but_for(event.batch_cost, event.unpriced, "run")
        return f"{event.done:,} of {many(self._rows, 'row')}{failed}, {pace}, {cost} so far{left}"

    def _show(self) -> None:
        if is_watched(progress):
            self._live = live_line(
                progress, lambda: Text(escaped(self._line)[: progress.width - 1]), 4
            )

    def end(self) -> None:
        """End the line: the batch is over."""
        self._notes.end()
        if self._live is not None:
            self._live.stop()
            self._live = None
            progress.print(f"  {self._line}", style="green")


def _duration_text(seconds: float) -> str:
    """Return a duration for people, in one unit."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
