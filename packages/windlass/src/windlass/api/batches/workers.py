"""The workers of a batch: they run its rows side by side, within its limits."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from windlass.api.batches.inputs import BatchInput
from windlass.api.batches.results import AnsweredRows, ResultsFile, read_results
from windlass.api.options import BatchOptions
from windlass.engine.events import CallEnded, Event, Noted, SessionStarted, Waiting
from windlass.engine.result import Result
from windlass.errors import StoreError, UsageError, WindlassError, person_needed
from windlass.safety.fairness import wait_for_turn

BatchReason: TypeAlias = Literal["money", "tokens", "time", "runs"]
"""Which limit of a batch was reached."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch, as `BatchOptions` has them: money and tokens in all, others from now.

    Raises UsageError for one that is not above 0.
    """

    max_cost: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_runs: int | None = None

    @classmethod
    def of(cls, options: BatchOptions) -> Self:
        """Return the limits among the options of a batch."""
        limits: dict[str, Any] = {**options}
        return cls(**{each.name: limits.get(each.name) for each in fields(cls)})

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not 0 < value < float("inf"):
                unit = "US dollars" if name == "max_cost" else name.removeprefix("max_")
                raise UsageError(f"{name} {value!r} must be a number of {unit} above 0")


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """The first row of a batch begins; `models` are all that will see content.

    `kept` of its `rows` were answered before, and are not run again.
    """

    cascade_id: str
    models: tuple[str, ...]
    rows: int
    kept: int


@dataclass(frozen=True, slots=True)
class RowEnded:
    """A row of a batch is answered, or failed; `place` is its line in the file of inputs.

    `done` of all rows are by now; `cost` is in US dollars, the row's own (None: a call had no known
    price), and `batch_cost` that of the batch but for the `unpriced` rows (None: all are).
    """

    row: int
    place: str
    status: str
    reason: str | None
    session_id: str | None
    error: str | None
    cost: float | None
    done: int
    batch_cost: float | None
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class RowTrouble:
    """A row that did not complete, as its last line in the file of results says.

    `place` is its line in the file of inputs; the beginning of a long `error` is all there is.
    """

    row: int
    place: str
    status: str
    reason: str | None
    session_id: str | None
    error: str | None


BatchEvent: TypeAlias = Event | BatchStarted | RowEnded


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of a batch. The results themselves are in the file `out`: `read()` gives them.

    `rows` are all of the inputs; `completed`, `incomplete` and `failed` say how they ended, also
    those that ended before; `again` are run when the batch is resumed: those that failed, that a
    limit of the batch ended, and that were not begun. `cost` is in US dollars, of all runs but the
    `unpriced` ones, in which a model without a known price took part (None: in all of them).
    `reason` is the limit that was reached. `troubles` are the rows that did not complete.
    """

    out: Path
    rows: int
    completed: int
    incomplete: int
    failed: int
    again: int
    cost: float | None
    tokens_in: int
    tokens_out: int
    reason: BatchReason | None
    troubles: tuple[RowTrouble, ...]
    unpriced: int = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Return each row's result, in the order of the inputs."""
        return read_results(self.out)


_Emit: TypeAlias = Callable[[BatchEvent], None]

RunRow: TypeAlias = Callable[[BatchInput, Callable[[Event], None]], Awaitable[dict[str, Any]]]
"""Runs the cascade on one row and gives its line (`line_of`); the callable is told the events."""


@dataclass(slots=True)
class BatchWork:
    """A batch that is running."""

    inputs: Sequence[BatchInput]
    results: ResultsFile
    run: RunRow
    limits: BatchLimits
    emit: _Emit
    raised: Sequence[Exception] = ()
    """What `emit` has raised. It ends the batch, even if a run took it for its own failure."""
    _todo: deque[BatchInput] = field(init=False, default_factory=deque[BatchInput])
    _began: float = field(init=False, default_factory=time.monotonic)
    _started: int = field(init=False, default=0)
    _ended: int = field(init=False, default=0)
    _longest: float = field(init=False, default=0.0)
    _kept: int = field(init=False, default=0)
    _start_told: bool = field(init=False, default=False)
    _money_reached: bool = field(init=False, default=False)
    _reason: BatchReason | None = field(init=False, default=None)

    @property
    def answered(self) -> AnsweredRows:
        """Return what the file holds so far."""
        return self.results.answered

    async def finish(self, workers: int) -> None:
        """Run the rows that are not answered, `workers` at a time. Raises StoreError."""
        kept = self.answered.kept
        self._todo.extend(each for each in self.inputs if each.row not in kept)
        self._kept = len(kept)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(workers, len(self._todo))):
                    group.create_task(self._work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _work(self) -> None:
        """Run one row after another, until there are none or a limit could be passed."""
        while self._todo:
            if (reason := self._limit()) is not None:
                self._reason = reason
                return
            self._started += 1
            await self._row(self._todo.popleft())
            self._ended += 1

    def _limit(self) -> BatchReason | None:
        """The limit that another run could pass if it used as much as the largest one so far."""
        limits, now = self.limits, time.monotonic() - self._began
        if limits.max_runs is not None and self._started >= limits.max_runs:
            return "runs"
        if limits.max_seconds is not None and now + self._longest > limits.max_seconds:
            return "time"
        answered, more = self.answered, self._started - self._ended + 1
        if limits.max_tokens is not None:
            spent = answered.tokens_in + answered.tokens_out
            if spent >= limits.max_tokens or spent + more * answered.largest > limits.max_tokens:
                return "tokens"
        if limits.max_cost is not None:
            dollars = answered.cost or 0.0
            over = dollars >= limits.max_cost or dollars + more * answered.dearest > limits.max_cost
            if over or self._money_reached:
                return "money"
        return None

    async def _row(self, given: BatchInput) -> None:
        await wait_for_turn()
        began = time.monotonic()
        watcher = _RowWatcher(given.name, self._tell_start, self.emit)
        try:
            line = await self.run(given, watcher)
        except StoreError:  # what is answered from now on would be lost
            raise
        except Exception as failure:  # noqa: BLE001 - one row's, and the others go on
            line = _failed_line(watcher, failure)
        if self.raised:
            raise self.raised[0]
        self._longest = max(self._longest, time.monotonic() - began)
        self._money_reached = self._money_reached or (
            line["again"] and line["status"] == "incomplete"
        )
        self.results.append(given, line)
        self._tell_end(given, line)

    def _tell_start(self, event: SessionStarted) -> None:
        if not self._start_told:
            self._start_told = True
            self.emit(BatchStarted(event.cascade_id, event.models, len(self.inputs), self._kept))

    def _tell_end(self, given: BatchInput, line: dict[str, Any]) -> None:
        answered = self.answered
        ended = RowEnded(
            row=given.row,
            place=given.name,
            status=line["status"],
            reason=line["reason"],
            session_id=line["session_id"],
            error=line["error"],
            cost=line["cost"],
            done=self._kept + self._ended + 1,
            batch_cost=answered.cost,
            unpriced=answered.unpriced,
        )
        self.emit(ended)

    def result(self, out: Path) -> BatchResult:
        """Return the result of the batch, by what the file holds."""
        # What one worker left for a limit, others may have run.
        reason = (self._reason if self._todo else None) or (
            "money" if self._money_reached else None
        )
        answered, troubles = self.answered, sorted(self.answered.troubles.items())
        ended = [line["status"] for _, line in troubles]
        return BatchResult(
            out=out,
            rows=len(self.inputs),
            completed=len(answered.completed),
            incomplete=len(ended) - ended.count("failed"),
            failed=ended.count("failed"),
            again=len(self.inputs) - len(answered.kept),
            cost=answered.cost,
            tokens_in=answered.tokens_in,
            tokens_out=answered.tokens_out,
            reason=reason,
            troubles=tuple(
                RowTrouble(row, self.inputs[row - 1].name, **line) for row, line in troubles
            ),
            unpriced=answered.unpriced,
        )


def line_of(result: Result) -> dict[str, Any]:
    """Return the line of a run in the file of results.

    The row is run again if the run failed, or if a limit of the batch ended it.
    """
    stop = result.error or person_needed(result.notes)
    amounts = result.notes.get("budget")
    stopped = amounts is not None and amounts["of"] == "the batch"
    usage = result.usage
    return {
        "status": result.status,
        "reason": result.reason,
        "again": result.status == "failed" or stopped,
        "output": result.output,
        "outputs": dict(result.outputs),
        "state": dict(result.state),
        "session_id": result.session_id,
        "cost": result.cost,
        "tokens": {
            "in": usage.tokens_in,
            "out": usage.tokens_out,
            "cached": usage.tokens_cached,
        },
        "error": None if stop is None else str(stop),
    }


def _failed_line(watcher: _RowWatcher, failure: Exception) -> dict[str, Any]:
    """Return the line of a run that raised instead of giving a result."""
    kind = "" if isinstance(failure, WindlassError) else f"{type(failure).__name__}: "
    return {
        "status": "failed",
        "reason": None,
        "again": True,
        "output": None,
        "outputs": {},
        "state": {},
        "session_id": watcher.session_id,
        "cost": watcher.cost,
        "tokens": watcher.tokens,
        "error": f"{kind}{failure}",
    }


class _RowWatcher:
    """Gathers from the events of a run its session, and what it was billed so far.

    What is noted of it is passed on with the name of its row.
    """

    def __init__(self, name: str, begin: Callable[[SessionStarted], None], emit: _Emit) -> None:
        self._name = name
        self.session_id: str | None = None
        self.cost: float | None = 0.0
        self.tokens = {"in": 0, "out": 0, "cached": 0}
        self._begin = begin
        self._emit = emit

    def __call__(self, event: Event) -> None:
        match event:
            case SessionStarted(parent_id=None):
                self.session_id = event.session_id
                self._begin(event)
            case CallEnded():
                if self.cost is not None:
                    self.cost = None if event.cost is None else self.cost + event.cost
                self.tokens["in"] += event.tokens_in
                self.tokens["out"] += event.tokens_out
                self.tokens["cached"] += event.tokens_cached
            case Noted(phase, text, detail):
                self._emit(Noted(phase, f"{self._name}: {text}", detail))
            case Waiting():
                self._emit(event)
