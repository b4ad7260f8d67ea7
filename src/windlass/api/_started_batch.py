"""A batch from its start: its cascade and inputs read and checked, its file opened, its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from windlass.api._run_setup import RunSetup
from windlass.api.batches.inputs import BatchInput, hash_of, read_inputs
from windlass.api.batches.results import ResultsFile, open_results
from windlass.api.batches.workers import BatchEvent, BatchLimits, BatchResult, BatchWork, RunRow
from windlass.api.loading import ReadingOptions, load_family
from windlass.api.opening import EngineBase, EngineCall, OnEvent
from windlass.api.options import BatchOptions, CascadeSource
from windlass.cascade.children import ReadyCascade, family_needs, make_ready, sources_without_parent
from windlass.engine.cascade import run_cascade
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.engine.opening import OpenSession, new_session_id, open_session
from windlass.engine.result import Result
from windlass.engine.resume.resuming import definition_of, resume_run
from windlass.engine.setup import check_input
from windlass.errors import CascadeError, Mistake, StepDiffers, UsageError
from windlass.history.base import SessionFilter, Store
from windlass.providers.spending import Allowance
from windlass.safety.outputs import check_place


class EventTeller:
    """Tells a user's function the events of a batch; `raised` is what that raised: it ends it."""

    def __init__(self, on_event: OnEvent | None) -> None:
        # A function that takes events of runs is told those of batches, too.
        self._on_event = cast("Callable[[BatchEvent], None] | None", on_event)
        self.raised: list[Exception] = []

    def __call__(self, event: BatchEvent) -> None:
        """Tell one event."""
        try:
            if self._on_event is not None:
                self._on_event(event)
        except Exception as failure:
            self.raised.append(failure)
            raise


@asynccontextmanager
async def start_batch(
    engine: EngineBase,
    cascade: CascadeSource,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    out: Path,
    options: BatchOptions,
    *,
    auto: bool,
) -> AsyncIterator[StartedBatch]:
    """Read and check the cascade and its inputs; nothing is written or sent yet.

    `auto`: a cascade that says nothing of `auto_context` gets it with its defaults.
    """
    workers = options.get("workers", 8)
    if workers < 1:
        raise UsageError(f"workers {workers!r} must be a number above 0")
    tell = EventTeller(engine.options["on_event"])
    watch = None if engine.options["on_event"] is None else tell
    async with engine.open_call(watch) as call:
        limits = BatchLimits.of(options)
        tools, how = engine.options["tools"], ReadingOptions(lenient=engine.options["lenient"])
        with call.in_force():
            family, warnings = load_family(cascade, call.settings, tools, how)
            if mistakes := sources_without_parent(family.loaded):
                raise CascadeError(mistakes)
            rows = await asyncio.to_thread(read_inputs, inputs, family_needs(family))
            yield StartedBatch(
                call,
                make_ready(family, call.settings, auto=auto),
                [definition_of(each.loaded.cascade) for each in family.walk()],
                rows,
                out,
                options,
                limits,
                tell,
                warnings,
                [Path(given) for given in (cascade, inputs) if isinstance(given, str | Path)],
            )


@dataclass(frozen=True, slots=True)
class StartedBatch:
    """A batch that was read: `open_results` comes next.

    `definitions` are the cascade and its sub-cascades as their files have them, `out` is the file
    of results, and `read` are the files that nothing may replace.
    """

    call: EngineCall
    cascade: ReadyCascade
    definitions: Sequence[Mapping[str, Any]]
    inputs: Sequence[BatchInput]
    out: Path
    options: BatchOptions
    limits: BatchLimits
    tell: EventTeller
    warnings: Sequence[Mistake]
    read: Sequence[Path]

    @property
    def workers(self) -> int:
        """Return how many runs go on side by side."""
        return self.options.get("workers", 8)

    def open_results(
        self, rows: Sequence[BatchInput], cascades: Sequence[ReadyCascade]
    ) -> OpenBatch:
        """Return the file of the results of these rows, which are runs of these cascades.

        Raises UsageError where one of them cannot be run, or the file is another's.
        """
        check_place(self.out, self.read)
        resume = self.options.get("resume", False)
        whole = Allowance("the batch", budget=self.limits.max_cost)
        setup = RunSetup.of_batch(self.call, whole)
        family = [one for cascade in cascades for one in cascade.walk()]
        for each in family:
            each.registry.modules.protect(self.out)
        setup.check(family)
        key = hash_of(self.definitions)
        opening = open_results(self.out, key, rows, resume=resume)
        results = self.call.closing.enter_context(opening)
        whole.spent["money"] = results.answered.cost or 0.0
        store, key = self.call.resources.store(), hash_of([key, str(self.out.resolve())])
        opened = OpenBatch(self, rows, results, store, setup, key)
        for cascade in cascades:  # a mistake that all rows would make is told before the first
            check_input(cascade.cascade, rows[0].values, setup.settings)
        if resume:
            opened.find_begun({each.cascade.cascade_id for each in cascades})
        return opened


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch whose file of results is open: each of its rows can be run.

    `key` begins the names of its sessions, and `begun` are the newest sessions of rows that an
    earlier process ran, by how their names end.
    """

    started: StartedBatch
    rows: Sequence[BatchInput]
    results: ResultsFile
    store: Store
    setup: RunSetup
    key: str
    begun: dict[str, str] = field(default_factory=dict[str, str])

    def find_begun(self, cascade_ids: Iterable[str]) -> None:
        """Find the sessions of rows that were run before, and whose lines may be missing."""
        for name in cascade_ids:
            for info in self.store.sessions(SessionFilter(cascade=name, banks=False, under=())):
                self.begun.setdefault(info.session_id.rpartition("-")[2], info.session_id)

    async def run(self, cascade: ReadyCascade, given: BatchInput, emit: OnEvent) -> Result:
        """Run a cascade on a row: what was answered when the batch was killed is not sent again.

        Raises SessionHeld where somebody goes on with the session of that row.
        """
        name = f"{hash_of([self.key, given.hash])[:8]}.{given.tag}"
        if (session := self.begun.pop(name, None)) is not None:
            with open_session(self.store, session, begun=True) as opened:
                if self._is_to_go_on(given, session):
                    with suppress(StepDiffers):  # what its requests depend on has changed since
                        run = self._prepare(cascade, given, opened, emit)
                        return await run_cascade(resume_run(run, definition_of(run.cascade), ()))
        with open_session(self.store, f"{new_session_id()}-{name}") as opened:
            return await run_cascade(self._prepare(cascade, given, opened, emit))

    def _is_to_go_on(self, given: BatchInput, session: str) -> bool:
        """Return whether a session of a row is gone on with.

        One that its line tells of is run anew.

        What completed since is taken from the record.
        """
        told = self.results.answered.troubles.get(given.row, {}).get("session_id")
        return told != session or self.store.session_status(session).status == "completed"

    def _prepare(
        self, cascade: ReadyCascade, given: BatchInput, opened: OpenSession, emit: OnEvent
    ) -> CascadeRun:
        """Return a run of a row, with limits of its own."""
        setup = self.setup.for_row(emit)
        return setup.prepare(cascade.copy_for_run(), given.values, opened)

    async def finish(self, run_row: RunRow) -> BatchResult:
        """Run the rows that are not answered, each by `run_row`, and tell what they came to."""
        started = self.started
        for warning in started.warnings:
            started.tell(Noted("", f"warning: {warning}"))
        work = BatchWork(
            self.rows, self.results, run_row, started.limits, started.tell, started.tell.raised
        )
        await work.finish(started.workers)
        return work.result(started.out)
