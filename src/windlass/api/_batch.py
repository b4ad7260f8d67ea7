"""A batch as both of its doors begin it: read, checked, with its file of results, and run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.api._recorded import unedited
from windlass.api.loading import Tools, checked_family
from windlass.api.opening import Resources, limited, opened, shared_store
from windlass.errors import CascadeError, StepDiffers, UsageError
from windlass.safety.outputs import check_place

if TYPE_CHECKING:
    from windlass.api.batches.inputs import BatchInput
    from windlass.api.batches.results import ResultsFile
    from windlass.api.batches.workers import BatchEvent, BatchLimits, BatchResult, RunRow
    from windlass.cascade.children import ReadyCascade
    from windlass.cascade.model import Cascade
    from windlass.engine.cascade_run import CascadeRun
    from windlass.engine.events import Event
    from windlass.engine.people.questions import AnswerSource, Approvals
    from windlass.engine.result import Result
    from windlass.errors import Mistake
    from windlass.history.base import Store
    from windlass.providers.base import Resolve
    from windlass.providers.spending import Allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """What is to be run: the arguments of `windlass.batch`, `limits` as `BatchLimits` has them."""

    cascade: Cascade | Mapping[str, Any] | str | Path
    inputs: str | Path | Iterable[Mapping[str, Any]]
    out: Path
    workers: int
    resume: bool
    limits: tuple[float | None, int | None, float | None, int | None]
    flags: Mapping[str, Any]
    tools: Tools
    providers: Mapping[str, Any] | None
    on_event: Callable[[BatchEvent], None] | None
    auto: bool
    budget: float | None
    trust: bool
    approve: Approvals = ()


@asynccontextmanager
async def begun(order: BatchOrder) -> AsyncIterator[BegunBatch]:
    """The cascade and its inputs, read and checked; nothing is written or sent yet."""
    if order.workers < 1:
        raise UsageError(f"workers {order.workers!r} must be a number above 0")
    raised: list[Exception] = []

    def tell(event: BatchEvent) -> None:
        try:
            if order.on_event is not None:
                order.on_event(event)
        except Exception as failure:
            raised.append(failure)
            raise

    watch = order.on_event and tell
    async with opened(order.flags, order.providers, watch, trust=order.trust) as resources:
        from windlass.api.batches.inputs import read_inputs
        from windlass.api.batches.workers import BatchLimits
        from windlass.cascade.children import family_needs, make_ready, sources_without_parent

        limits = BatchLimits(*order.limits)
        family, warnings = checked_family(order.cascade, resources.settings, order.tools)
        if mistakes := sources_without_parent(family.loaded):
            raise CascadeError(mistakes)
        rows = await asyncio.to_thread(read_inputs, order.inputs, family_needs(family))
        cascade = make_ready(family, auto=order.auto)
        written = [each.loaded for each in family.walk()]
        yield BegunBatch(
            order,
            resources,
            limits,
            cascade,
            [_written(loaded.cascade) for loaded in written],
            rows,
            warnings,
            tell,
            raised,
        )


@dataclass(slots=True)
class BegunBatch:
    """A batch that was begun: `open_results`, then `finish`.

    `written` are the cascade and its sub-cascades as their files have them.
    """

    order: BatchOrder
    resources: Resources
    limits: BatchLimits
    cascade: ReadyCascade
    written: Sequence[Mapping[str, Any]]
    inputs: list[BatchInput]
    warnings: Sequence[Mistake]
    tell: Callable[[BatchEvent], None]
    raised: Sequence[Exception]
    _rows: Sequence[BatchInput] = field(init=False, default=())
    _results: ResultsFile = field(init=False)
    _allowance: Allowance = field(init=False)
    _store: Store = field(init=False)
    _person: AnswerSource = field(init=False)
    _key: str = field(init=False, default="")
    _under_way: dict[str, str] = field(init=False, default_factory=dict[str, str])

    def open_results(
        self, rows: Sequence[BatchInput], cascades: Sequence[ReadyCascade]
    ) -> ResultsFile:
        """The file of the results of these rows, which are runs of these cascades.

        Raises UsageError where one of them cannot be run, or the file is another's.
        """
        from windlass.api.batches.inputs import hash_of
        from windlass.api.batches.results import open_results
        from windlass.engine.cards.card_models import check_cards
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.setup import check_models
        from windlass.engine.turn.approving import approvable
        from windlass.providers.spending import Allowance

        order, (settings, at_hand, closing) = self.order, self.resources
        read = (given for given in (order.cascade, order.inputs) if isinstance(given, str | Path))
        check_place(order.out, map(Path, read))
        self._person = AnswerSource(approve=order.approve)
        family = [one for cascade in cascades for one in cascade.walk()]
        self._person.check(*(approvable(each.cascade, each.registry) for each in family))
        for each in family:
            each.registry.modules.protect(order.out)
            for dollars in (order.limits[0], order.budget):
                check_models(each.cascade, settings, limited(at_hand, (), budget=dollars)[0])
            check_cards(each.cascade, settings, at_hand.resolve)
        opening = open_results(order.out, hash_of(self.written), rows, resume=order.resume)
        self._rows, self._results = rows, closing.enter_context(opening)
        self._allowance = Allowance("the batch", budget=order.limits[0])
        self._allowance.spent["money"] = self._results.answered.cost or 0.0
        self._store = closing.enter_context(shared_store(settings))
        self._key = hash_of([hash_of(self.written), str(order.out.resolve())])
        for cascade in cascades:  # a mistake that all rows would make is told before the first
            self._prepared(cascade, rows[0])
        if order.resume:
            self._find_under_way()
        return self._results

    def _find_under_way(self) -> None:
        """Find the sessions of rows that were under way when the batch was killed."""
        from windlass.history.base import SessionFilter

        for status in ("running", "interrupted"):
            for info in self._store.sessions(SessionFilter(status=status, banks=False, under=())):
                self._under_way.setdefault(info.session_id.rpartition("-")[2], info.session_id)

    @property
    def resolve(self) -> Resolve:
        """How models are found; what they are asked counts against the limits of the batch."""
        return self._allowance.resolving(self.resources.providers.resolve)

    async def run(
        self, cascade: ReadyCascade, given: BatchInput, emit: Callable[[Event], None]
    ) -> Result:
        """Run a cascade on a row: what was answered when the batch was killed is not sent again."""
        from windlass.engine.cascade import run_cascade

        try:
            return await run_cascade(self._prepared(cascade, given, emit))
        except StepDiffers:  # what its requests depend on has changed since
            return await run_cascade(self._prepared(cascade, given, emit))

    def _prepared(
        self,
        cascade: ReadyCascade,
        given: BatchInput,
        emit: Callable[[Event], None] | None = None,
    ) -> CascadeRun:
        from windlass.api.batches.inputs import hash_of
        from windlass.engine.resume.resuming import definition_of, resume_run
        from windlass.engine.setup import new_session_id, prepare

        own = cascade.copy_for_run()
        name = f"{hash_of([self._key, given.hash])[:8]}.{given.tag}"
        session = self._under_way.pop(name, None)
        if session is not None:
            unedited(self._store, session)
        resolve, within = limited(
            self.resources.providers, (self._allowance,), budget=self.order.budget
        )
        run = prepare(
            own,
            given.values,
            settings=self.resources.settings,
            store=self._store,
            resolve=resolve,
            on_event=emit,
            session_id=session or f"{new_session_id()}-{name}",
            resumed=session is not None,
        )
        if session is not None:
            run = resume_run(run, definition_of(own.cascade), ())
        return replace(run, allowances=within, answers=self._person)

    async def finish(self, run_row: RunRow) -> BatchResult:
        """Run the rows that are not answered, each by `run_row`, and tell what they came to."""
        from windlass.api.batches.workers import BatchWork
        from windlass.engine.events import Noted

        for warning in self.warnings:
            self.tell(Noted("", f"warning: {warning}"))
        work = BatchWork(self._rows, self._results, run_row, self.limits, self.tell, self.raised)
        await work.finish(self.order.workers)
        return work.result(self.order.out)


def _written(cascade: Cascade) -> dict[str, Any]:
    """A cascade as it was written, with nothing of what goes without saying."""
    return cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
