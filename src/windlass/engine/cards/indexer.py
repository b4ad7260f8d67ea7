"""Cards made beside a run: a task on its event loop that works while the run waits for a reply.

Nothing of a turn waits for it. It ends no run: what fails is told and tried again, and what is
left when a run ends is made by the next run in the store, or by `windlass cards SESSION --make`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from windlass.engine.cards.maker import CardBatch, CardMaker, Failure, Summariser
from windlass.engine.events import Noted
from windlass.errors import StoreError, UsageError
from windlass.history.base import BANK, Batch, NodeType, Row, SessionInfo, Store, StoredRow
from windlass.history.card_rows import CardMarks, item_of, mark_cards
from windlass.history.decisions import CardsLack, Remark, SwitchedOff
from windlass.history.row_details import told
from windlass.messages import Message
from windlass.safety.fairness import fair
from windlass.selection.card import BY_RULE, Card
from windlass.selection.kept import NONE, WORDLLAMA, CardOptions
from windlass.selection.making import wants_card
from windlass.settings.settings import Settings
from windlass.text.tokens import FamilyCounter
from windlass.tools.base import Spent
from windlass.window.entries import Item

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.engine.cascade_run import CascadeRun
    from windlass.providers.base import Resolve
    from windlass.selection.vectors import Embedder

FLAG: Final = "auto_context_cards_enabled"
"""The feature flag without which no cards are made, whatever a cascade says."""
DRAIN_S: Final = 2.0
"""Seconds that the end of a run waits for its last cards."""

LINGER_S: Final = 0.25
"""Seconds that what arrives is let gather, so that a batch is fuller and written less often."""
_POLL_S: Final = 1.0
"""Seconds after which the queue is looked at although nobody said that there is more."""
_RETRY_S: Final = (2.0, 10.0, 30.0, 60.0)
"""Seconds before a store that failed is asked again; the last one is repeated."""
_AGAIN_S: Final = 31.0
"""Seconds before a card that lacks something is made again: its model rests for 30."""
_TRIES: Final = 3
"""How often that is done within a run."""
_OTHERS: Final = 10
"""Newest sessions whose left-over cards a run makes."""
_QUIET_S: Final = 600.0
"""Seconds after which a session that did not end is nobody's any more."""


def wants_cards(cascade: Mapping[str, Any], settings: Settings) -> bool:
    """Whether cards are made of the sessions of a cascade, given as its JSON.

    They are where a phase may choose its context, or where the user said how they are made.
    """
    if settings.cards.model_fields_set or cascade.get("auto_context") not in (None, False):
        return True
    contexts = [phase.get("context") for phase in cascade.get("phases", ())]
    return any(isinstance(each, Mapping) and each.get("mode") == "auto" for each in contexts)


def options_of(settings: Settings, cascade: Mapping[str, Any]) -> CardOptions:
    """How cards of a cascade's sessions (its JSON) are made.

    Where no summariser is named, the helper model is it: the cascade's, else the user's.
    """
    options = settings.cards
    if options.summariser is None:
        auto = cascade.get("auto_context")
        helper = auto.get("helper_model") if isinstance(auto, Mapping) else None
        options = options.model_copy(update={"summariser": helper or settings.helper_model})
    none = options.summariser == NONE
    return options.model_copy(update={"summariser": None}) if none else options


def card_models(settings: Settings, cascade: Mapping[str, Any]) -> tuple[str, ...]:
    """The models that see what is said, to make cards of it."""
    options = options_of(settings, cascade)
    hosted = None if options.embedder in (NONE, WORDLLAMA) else options.embedder
    return tuple(name for name in (options.summariser, hosted) if name is not None)


def _wanting(cascade: Cascade, settings: Settings) -> dict[str, Any] | None:
    """The cascade as JSON where cards of its sessions are made; None: they are not."""
    data = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return data if wants_cards(data, settings) else None


def models_beside(cascade: Cascade, settings: Settings) -> tuple[str, ...]:
    """The same of a run; none where it makes no cards."""
    data = _wanting(cascade, settings)
    return card_models(settings, data) if data and settings.auto_context_cards_enabled else ()


def check_cards(cascade: Cascade, settings: Settings, resolve: Resolve) -> None:
    """Raise UsageError for a model of cards that is not there, before anything is paid for."""
    data = _wanting(cascade, settings)
    if data and settings.auto_context_cards_enabled:
        maker_of(settings, resolve, data)


def maker_of(settings: Settings, resolve: Resolve, cascade: Mapping[str, Any]) -> CardMaker:
    """What makes cards of a cascade's sessions. Raises UsageError: a model is not there."""
    options = options_of(settings, cascade)
    summariser = None
    if options.summariser is not None:
        summariser = Summariser(options.summariser, *resolve(options.summariser))
    return CardMaker(
        options,
        summariser=summariser,
        embedder=embedder_of(settings),
        now=time.time,
        clock=time.monotonic,
    )


def embedder_of(settings: Settings) -> Callable[[], Embedder] | None:
    """Makes the embedding model that the user's cards have their vectors of; None: they have none.

    To make it may take a while. Raises UsageError for one that is not there.
    """
    from windlass.selection.wordllama import MISSING, WordLlamaEmbedder, installed

    match settings.cards.embedder:
        case "none":
            return None
        case None:
            return WordLlamaEmbedder if installed() else None
        case "wordllama":
            if installed():
                return WordLlamaEmbedder
            raise UsageError(f"cards.embedder is 'wordllama': {MISSING}")
        case name:
            from windlass.providers.embeddings import hosted_embedder

            hosted = hosted_embedder(name, settings.providers)
            return lambda: hosted


def queue_of(store: Store, session_id: str) -> Queue:
    """The queue of a session that no run of this process has. Raises UsageError: unknown."""
    model = store.start(session_id).model.partition(", ")[0]
    marks = CardMarks.of(store.rows(session_id))
    return Queue(
        session_id,
        count=FamilyCounter(model).message,
        marks=lambda: marks,
        record=lambda rows: store.append(Batch(session_id, rows=rows)),
    )


class CardIndexer:
    """The cards of a run, made while it waits: `start`, `wake`, `drain`, `stop`."""

    def __init__(self, run: CascadeRun, maker: CardMaker) -> None:
        record = run.record
        self._run = run
        self._maker = maker
        self._store = record.store
        self._worker = CardWorker(
            self._store, maker, lambda metadata: record.row(NodeType.DECISION, metadata=metadata)
        )
        first = run.cascade.settings_for(run.cascade.phases[0]).model
        _, info = run.resolve(run.settings.model_for(first))
        self._queue = Queue(
            record.session_id,
            count=info.counter.message,
            marks=lambda: CardMarks(dict(run.progress.callouts), {}),
            record=record.append,
            charge=run.charge_tool,
        )
        self._marked: dict[str, str] = {}
        self._tries = 0
        self._again_at = 0.0
        self._caught_up = asyncio.Event()
        self._at_its_end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._others: Iterator[Queue] | None = None
        self._noted: set[str] = set()

    def start(self) -> None:
        """Begin; from now on each append wakes it."""
        self._run.record.said = self._queue.arrived.set
        self._task = asyncio.create_task(self._work())

    async def drain(self) -> None:
        """Wait a short time for the cards that are left; say how many wait after it."""
        if self._task is None or self._task.done():
            return
        self._at_its_end.set()
        self._caught_up.clear()
        self._queue.arrived.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._caught_up.wait()
        if self._caught_up.is_set():
            return
        session = self._queue.session_id
        self._note(
            f"the cards of this session are not all made; the next run in this store makes them, "
            f"or: windlass cards {session} --make"
        )

    async def stop(self) -> None:
        """End it at once; what it had in hand waits in the history."""
        self._run.record.said = lambda: None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._maker.close()

    async def _work(self) -> None:
        failures = 0
        while True:
            self._queue.arrived.clear()
            await fair()
            try:
                await self._worker.work_off(self._queue)
                await self._follow_marks()
                await self._make_again()
                failures = 0
                self._caught_up.set()
                if not self._queue.arrived.is_set() and not self._at_its_end.is_set():
                    await self._serve_others()
            except StoreError as error:
                self._note(f"cards wait: {error}")
                await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1
                continue
            except Exception as bug:  # noqa: BLE001 - nobody foresaw it; the run goes on
                self._note(f"no more cards are made: {type(bug).__name__}: {bug}")
                return
            # Not wait_for: it loses a cancellation that meets the end of what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._queue.arrived.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await self._at_its_end.wait()

    async def _follow_marks(self) -> None:
        """Bring the cards up to what was called out since they were made."""
        now = dict(self._run.progress.callouts)
        changed = {id_ for id_, name in now.items() if self._marked.get(id_) != name}
        if not changed:
            return
        marks = CardMarks(now, {})
        kept = self._queue.kept
        if changed <= kept.keys():
            at = int(self._run.record.clock())
            behind = [
                replace(marked, generated_at=at)
                for id_ in changed
                if (marked := marks.on(kept[id_])) is not kept[id_]
            ]
            if behind:
                await self._worker.put(self._queue, behind)
                kept.update((card.id, card) for card in behind)
        else:
            session, clock = self._queue.session_id, self._run.record.clock
            await asyncio.to_thread(mark_cards, self._store, session, clock())
        self._marked = now

    async def _make_again(self) -> None:
        """Make cards again that lack something, some time after their model failed."""
        lacking = list(self._queue.lacking.values())
        if not lacking:
            self._tries = 0
            self._again_at = 0.0
            return
        now = time.monotonic()
        if not self._again_at:
            self._again_at = now + _AGAIN_S
        if self._at_its_end.is_set() or self._tries >= _TRIES or now < self._again_at:
            return
        self._tries += 1
        self._again_at = now + _AGAIN_S
        await self._worker.remake(self._queue, lacking)

    async def _serve_others(self) -> None:
        """Make the cards that earlier runs left over, one session at a time."""
        if self._others is None:
            self._others = iter(await self._worker.ask(self._left_over))
        queue = next(self._others, None)
        if queue is not None:
            work = asyncio.create_task(self._worker.work_off(queue))
            waking = asyncio.create_task(self._queue.arrived.wait())
            try:
                await asyncio.wait({work, waking}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    self._queue.arrived.set()  # and go on with the next one
                else:
                    self._others = iter([queue, *self._others])
            finally:
                for task in (work, waking):
                    task.cancel()
                await asyncio.gather(work, waking, return_exceptions=True)

    def _left_over(self) -> list[Queue]:
        sessions = self._store.sessions(limit=_OTHERS)
        return [queue for info in sessions if (queue := self._left(info))]

    def _left(self, info: SessionInfo) -> Queue | None:
        """The queue of an earlier session whose cards nobody makes any more."""
        name = info.session_id
        if name.startswith(BANK) or name == self._queue.session_id:
            return None
        waiting = self._store.without_cards(name, limit=1)
        if not waiting or not wants_cards(self._store.start(name).cascade, self._run.settings):
            return None
        last = waiting[0].row.timestamp
        if info.ended is None and self._run.record.clock() - last < _QUIET_S:
            return None
        return queue_of(self._store, name)

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._run.emit(Noted("", text))


def start_cards(run: CascadeRun) -> CardIndexer | None:
    """Make cards beside the run from now on, where it wants them; a switch is told."""
    data = _wanting(run.cascade, run.settings)
    if data is None:
        return None
    if not run.settings.auto_context_cards_enabled:
        origin = run.settings[FLAG].origin
        text = f"no context cards are made, because {origin} switches them off"
        run.record.decide(None, text, SwitchedOff(FLAG, origin))
        run.emit(Noted("", text))
        return None
    cards = CardIndexer(run, maker_of(run.settings, run.resolve, data))
    cards.start()
    return cards


async def make_cards(
    store: Store,
    session_id: str,
    maker: CardMaker,
    new_row: Callable[[Mapping[str, Any]], Row],
    *,
    again: Sequence[str] | None = (),
    on_progress: Callable[[int], None] | None = None,
) -> CardFailures:
    """Make the cards that wait in a session, and again those of the messages `again` (None: all).

    Raises UsageError for an unknown session, StoreError where they cannot be kept.
    """
    worker = CardWorker(store, maker, new_row, on_progress=on_progress)
    queue = queue_of(store, session_id)
    try:
        if again is None or again:
            ids = None if again is None else frozenset(again)
            rows = [row for row in store.rows(session_id) if ids is None or row.id in ids]
            await worker.remake(queue, items_for_cards(rows))
        return await worker.work_off(queue)
    finally:
        await maker.close()


# ---- the cards of a session ------------------------------------------------------------------
#
# The queue is the history itself: each message without a card waits for one. So nothing is lost
# when the process is killed. What waits is made in batches, kept, and told in the record.

SPENT: Final = "cards"
"""The kind of the decision that tells what models took for cards."""
_KEPT: Final = 5_000
"""Cards of a session that are remembered, to be marked later."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class CardFailures:
    """What became of a queue: cards made, those of them that lack something, and what it took."""

    made: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])
    spent: list[Spent] = field(default_factory=list[Spent])


@dataclass(slots=True)
class Queue:
    """The cards of one session. `after` is the number of the last row that was taken.

    `count` gives the tokens of a message, `marks` what was marked so far, `record` takes rows
    for the session, `charge` answers what something cost in US dollars. `arrived` is set when there
    may be more. `kept` are cards that were made, `lacking` messages whose card lacks something,
    both by id; `outcome` is what became of all.
    """

    session_id: str
    count: Callable[[Message], int]
    marks: Callable[[], CardMarks]
    record: Callable[[Sequence[Row]], object]
    charge: Callable[[Spent], float | None] = attrgetter("dollars")
    after: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    kept: dict[str, Card] = field(default_factory=dict[str, Card])
    lacking: dict[str, Item] = field(default_factory=dict[str, Item])
    outcome: CardFailures = field(default_factory=CardFailures)

    def take(self, items: Sequence[Item], batch: CardBatch) -> None:
        """Remember a batch that was kept."""
        failed = {id_ for failure in batch.failures for id_ in failure.ids}
        for item, card in zip(items, batch.cards, strict=True):
            self.kept[card.id] = card
            self.lacking.pop(item.id, None)
            if item.id in failed and len(self.lacking) < _KEPT:
                self.lacking[item.id] = item
        while len(self.kept) > _KEPT:
            del self.kept[next(iter(self.kept))]
        self.outcome.made += len(batch.cards)
        self.outcome.failures += batch.failures
        self.outcome.spent += batch.spent


class CardWorker:
    """Makes the cards that wait, in batches, `workers` of them at once.

    A store behind a network is asked from a thread; a local one at once, since its answer
    takes less than handing over would.
    """

    def __init__(
        self,
        store: Store,
        maker: CardMaker,
        new_row: Callable[[Mapping[str, Any]], Row],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._maker = maker
        self._new_row = new_row
        self._progress = on_progress

    async def work_off(self, queue: Queue) -> CardFailures:
        """Make every card that waits in a queue. Raises StoreError where they cannot be kept.

        What was taken then waits again: it has no card.
        """
        most = self._maker.options.workers
        running: set[asyncio.Task[Any]] = set()
        try:
            while True:
                queue.arrived.clear()
                while len(running) < most and (rows := await self._next(queue)):
                    work = self.remake(queue, items_for_cards(rows))
                    running.add(asyncio.create_task(work))
                if not running:
                    return queue.outcome
                arrival = asyncio.create_task(queue.arrived.wait())
                waited = running if len(running) == most else {*running, arrival}
                try:
                    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    arrival.cancel()
                running -= done
                for task in done - {arrival}:
                    task.result()
        except BaseException:
            queue.after = 0
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise

    async def _next(self, queue: Queue) -> Sequence[StoredRow]:
        """The next rows of the queue, as many as a batch has; they are taken."""
        rows = await self.ask(
            partial(
                self._store.without_cards,
                queue.session_id,
                after=queue.after,
                limit=self._maker.options.batch_size,
            )
        )
        queue.after = rows[-1].seq if rows else queue.after
        return rows

    async def remake(self, queue: Queue, items: Sequence[Item]) -> None:
        """Make the cards of these messages and keep them."""
        size = self._maker.options.batch_size
        for at in range(0, len(items), size):
            piece = items[at : at + size]
            batch = await self._maker.make(piece, queue.count, queue.marks())
            await self.put(queue, batch.cards)
            queue.take(piece, batch)
            rows = [self._failed(failure) for failure in batch.failures]
            models = dict.fromkeys(spent.model for spent in batch.spent)
            rows += [self._spent(queue, name, batch.spent) for name in models]
            if rows:
                queue.record(rows)
            if self._progress is not None:
                self._progress(queue.outcome.made)

    async def put(self, queue: Queue, cards: Sequence[Card]) -> None:
        """Keep cards of the session. Raises StoreError."""
        await self.ask(partial(self._store.put_cards, queue.session_id, cards))

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """What the store answers, without holding the loop up."""
        if self._store.remote:
            return await asyncio.to_thread(question)
        return question()

    def _failed(self, failure: Failure) -> Row:
        lack = CardsLack(failure.lacks, list(failure.ids), failure.model, failure.why)
        return self._new_row(told(failure.text, lack))

    def _spent(self, queue: Queue, name: str, spent: Sequence[Spent]) -> Row:
        """The row that tells what one model took for a batch."""
        own = [each for each in spent if each.model == name]
        dollars = [queue.charge(each) for each in own]
        return replace(
            self._new_row(told(f"answers of a model for cards: {len(own)}", Remark("cards"))),
            model=name,
            tokens_in=sum(each.usage.tokens_in for each in own),
            tokens_out=sum(each.usage.tokens_out for each in own),
            tokens_cached=sum(each.usage.tokens_cached for each in own),
            cost=None if None in dollars else sum(each for each in dollars if each is not None),
        )


def items_for_cards(rows: Sequence[StoredRow]) -> list[Item]:
    """The messages of rows that want a card."""
    items = [item_of(stored) for stored in rows]
    return [item for item in items if item is not None and wants_card(item)]


def failed_of(rows: Sequence[StoredRow], cards: Mapping[str, Card]) -> dict[str, str]:
    """Of a session's messages those whose card still lacks something, and why, by id."""
    failed: dict[str, str] = {}
    for stored in rows:
        if (lack := CardsLack.read(stored.row)) is None:
            continue
        for id_ in lack.failed:
            card = cards.get(id_)
            if card is None:
                continue
            lacks = card.generator_model == BY_RULE
            if lack.lacks == "vector":
                lacks = not card.embedding
            if lacks:
                failed[id_] = lack.error
    return failed
