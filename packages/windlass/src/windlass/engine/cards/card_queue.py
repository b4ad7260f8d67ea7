"""The cards that wait to be made: made in batches beside a run, kept, and told in the record.

The queue is the history itself: each message without a card waits for one. So nothing is lost when
the process is killed. A task on the run's event loop works while the run waits for a reply; nothing
of a turn waits for it. It ends no run: what fails is told and tried again, and what is left when a
run ends is made by the next run in the store, or by `windlass cards SESSION --make`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar

from windlass.engine.cards.maker import (
    FLAG,
    CardMaker,
    maker_of,
    wanting_cards,
    wants_cards,
)
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.errors import StoreError
from windlass.history.base import BANK, Batch, NodeType, Row, Store, StoredRow
from windlass.history.card_rows import CardMarks, item_of, mark_cards
from windlass.history.decisions import Remark, SwitchedOff
from windlass.history.marks import CardsLack
from windlass.messages import Message
from windlass.safety.fairness import wait_for_turn
from windlass.selection.card import BY_RULE, Card
from windlass.selection.making import wants_card
from windlass.text.tokens import FamilyCounter
from windlass.tools.base import Spent
from windlass.window.entries import Item

_REMEMBERED: Final = 5_000
"""Messages of a session that are remembered since their card lacks something."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class CardsMade:
    """How many cards were made of a queue, which of them lack something, and what that took."""

    made: int = 0
    failures: list[CardsLack] = field(default_factory=list[CardsLack])
    spent: list[Spent] = field(default_factory=list[Spent])


@dataclass(slots=True)
class CardQueue:
    """The cards of one session that wait to be made.

    `count` gives the tokens of a message, `marks` what was marked so far, `record` takes rows
    for the session, `charge` answers what something cost in US dollars, `on_progress` is told how
    many were made. `after` is the number of the last row that was taken; `arrived` is set when
    there may be more. `lacking` are messages whose card lacks something, by id; `outcome` is what
    became of all.
    """

    store: Store
    maker: CardMaker
    session_id: str
    count: Callable[[Message], int]
    marks: Callable[[], CardMarks]
    record: Callable[[Sequence[Row]], object]
    charge: Callable[[Spent], float | None] = attrgetter("dollars")
    on_progress: Callable[[int], object] = lambda _: None
    after: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    lacking: dict[str, Item] = field(default_factory=dict[str, Item])
    outcome: CardsMade = field(default_factory=CardsMade)

    async def make_waiting(self) -> CardsMade:
        """Make every card that waits. Raises StoreError where they cannot be kept.

        `workers` batches are made at once. What was taken when it fails waits again: it has no
        card.
        """
        most = self.maker.options.workers
        running: set[asyncio.Task[Any]] = set()
        try:
            while True:
                self.arrived.clear()
                while len(running) < most and (rows := await self._next()):
                    work = self.remake(items_for_cards(rows))
                    running.add(asyncio.create_task(work))
                if not running:
                    return self.outcome
                arrival = asyncio.create_task(self.arrived.wait())
                waited = running if len(running) == most else {*running, arrival}
                try:
                    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    arrival.cancel()
                running -= done
                for task in done - {arrival}:
                    task.result()
        except BaseException:
            self.after = 0
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise

    async def _next(self) -> Sequence[StoredRow]:
        """Return the next rows of the queue, as many as a batch has; they are taken."""
        size = self.maker.options.batch_size
        waiting = partial(self.store.without_cards, self.session_id, after=self.after, limit=size)
        rows = await answer_of(self.store, waiting)
        self.after = rows[-1].seq if rows else self.after
        return rows

    async def remake(self, items: Sequence[Item]) -> None:
        """Make the cards of these messages and keep them. Raises StoreError."""
        size = self.maker.options.batch_size
        for at in range(0, len(items), size):
            piece = items[at : at + size]
            batch = await self.maker.make(piece, self.count, self.marks())
            keep = partial(self.store.put_cards, self.session_id, batch.cards)
            await answer_of(self.store, keep)
            lacks = batch.lacks
            failed = {id_ for lack in lacks for id_ in lack.failed}
            for item in piece:
                self.lacking.pop(item.id, None)
                if item.id in failed and len(self.lacking) < _REMEMBERED:
                    self.lacking[item.id] = item
            self.outcome.made += len(batch.cards)
            self.outcome.failures += lacks
            self.outcome.spent += batch.spent
            rows = [Row(NodeType.DECISION, text=lack.text, details=lack) for lack in lacks]
            models = dict.fromkeys(spent.model for spent in batch.spent)
            rows += [self._spent(name, batch.spent) for name in models]
            if rows:
                self.record(rows)
            self.on_progress(self.outcome.made)

    def _spent(self, name: str, spent: Sequence[Spent]) -> Row:
        """Return the row that tells what one model took for a batch."""
        own = [each for each in spent if each.model == name]
        dollars = [self.charge(each) for each in own]
        return Row(
            NodeType.DECISION,
            text=f"answers of a model for cards: {len(own)}",
            details=Remark("cards"),
            model=name,
            tokens_in=sum(each.usage.tokens_in for each in own),
            tokens_out=sum(each.usage.tokens_out for each in own),
            tokens_cached=sum(each.usage.tokens_cached for each in own),
            cost=None if None in dollars else sum(each for each in dollars if each is not None),
        )


async def answer_of(store: Store, question: Callable[[], _Answer]) -> _Answer:
    """Return what a store answers: one behind a network is asked from a thread.

    A local one is asked at once, since its answer takes less than handing over would.
    """
    return await asyncio.to_thread(question) if store.remote else question()


def items_for_cards(rows: Sequence[StoredRow]) -> list[Item]:
    """Return the messages of rows that want a card."""
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


def queue_of(
    store: Store, session_id: str, maker: CardMaker, stamp: Callable[[Row], Row]
) -> CardQueue:
    """Return the queue of a session that no run of this process has. Raises UsageError: unknown."""
    model = store.start(session_id).model.partition(", ")[0]
    marks = CardMarks.of(store.rows(session_id))
    return CardQueue(
        store,
        maker,
        session_id,
        count=FamilyCounter(model).message,
        marks=lambda: marks,
        record=lambda rows: store.append(Batch(session_id, rows=[*map(stamp, rows)])),
    )


async def make_cards(queue: CardQueue, *, again: Sequence[str] | None = ()) -> CardsMade:
    """Make the cards that wait in a session, and again those of the messages `again` (None: all).

    Raises StoreError where they cannot be kept.
    """
    try:
        if again is None or again:
            ids = None if again is None else frozenset(again)
            rows = queue.store.rows(queue.session_id)
            some = [row for row in rows if ids is None or row.id in ids]
            await queue.remake(items_for_cards(some))
        return await queue.make_waiting()
    finally:
        await queue.maker.close()


# ---- beside a run ------------------------------------------------------------------------


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


class CardIndexer:
    """The cards of a run, made while it waits: `start`, `drain`, `stop`."""

    def __init__(self, run: CascadeRun, maker: CardMaker) -> None:
        record = run.record
        self._run = run
        first = run.cascade.settings_for(run.cascade.phases[0]).model
        _, info = run.resolve(run.settings.model_for(first))
        self._queue = CardQueue(
            record.store,
            maker,
            record.session_id,
            count=info.counter.message,
            marks=lambda: CardMarks(dict(run.session.callouts), {}),
            record=record.append,
            charge=run.charge_tool,
        )
        self._marked: dict[str, str] = {}
        self._tries = 0
        self._again_at = 0.0
        self._caught_up = asyncio.Event()
        self._at_its_end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._others: Iterator[CardQueue] | None = None
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
        await self._queue.maker.close()

    async def _work(self) -> None:
        failures = 0
        while True:
            self._queue.arrived.clear()
            await wait_for_turn()
            try:
                await self._queue.make_waiting()
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
        now = dict(self._run.session.callouts)
        if any(self._marked.get(id_) != name for id_, name in now.items()):
            at, queue = self._run.record.clock(), self._queue
            await asyncio.to_thread(mark_cards, queue.store, queue.session_id, at)
            self._marked = now

    async def _make_again(self) -> None:
        """Make cards again that lack something, some time after their model failed."""
        lacking = list(self._queue.lacking.values())
        if not lacking:
            self._tries, self._again_at = 0, 0.0
            return
        now = time.monotonic()
        if not self._again_at:
            self._again_at = now + _AGAIN_S
        if self._at_its_end.is_set() or self._tries >= _TRIES or now < self._again_at:
            return
        self._tries += 1
        self._again_at = now + _AGAIN_S
        await self._queue.remake(lacking)

    async def _serve_others(self) -> None:
        """Make the cards that earlier runs left over, one session at a time."""
        if self._others is None:
            self._others = iter(await answer_of(self._queue.store, self._left_over))
        queue = next(self._others, None)
        if queue is not None:
            work = asyncio.create_task(queue.make_waiting())
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

    def _left_over(self) -> list[CardQueue]:
        """Return the queues of earlier sessions whose cards nobody makes any more."""
        queue, settings = self._queue, self._run.settings
        store, maker, stamp = queue.store, queue.maker, self._run.record.stamp
        return [
            queue_of(store, info.session_id, maker, stamp)
            for info in store.sessions(limit=_OTHERS)
            if not info.session_id.startswith(BANK)
            and info.session_id != queue.session_id
            and store.without_cards(info.session_id, limit=1)
            and wants_cards(store.start(info.session_id).cascade, settings)
            and info.status not in ("running", "unknown")
        ]

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._run.emit(Noted("", text))


def start_cards(run: CascadeRun) -> CardIndexer | None:
    """Make cards beside the run from now on, where it wants them; a switch is told."""
    data = wanting_cards(run.cascade, run.settings)
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
