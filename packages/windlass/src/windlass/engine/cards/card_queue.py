"""The cards that wait to be made: made in batches, kept, and told in the record.

The queue is the history itself: each message without a card waits for one. So nothing is lost
when the process is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar

from windlass.engine.cards.maker import CardBatch, CardMaker, Failure
from windlass.history.base import Batch, NodeType, Row, Store, StoredRow
from windlass.history.card_rows import CardMarks, item_of
from windlass.history.decisions import Remark
from windlass.history.marks import CardsLack
from windlass.messages import Message
from windlass.selection.card import BY_RULE, Card
from windlass.selection.making import wants_card
from windlass.text.tokens import FamilyCounter
from windlass.tools.base import Spent
from windlass.window.entries import Item

_KEPT: Final = 5_000
"""Cards of a session that are remembered, to be marked later."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class CardsMade:
    """How many cards were made of a queue, which of them lack something, and what that took."""

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
    outcome: CardsMade = field(default_factory=CardsMade)

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
        stamp: Callable[[Row], Row],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._maker = maker
        self._stamp = stamp
        self._progress = on_progress

    async def make_waiting(self, queue: Queue) -> CardsMade:
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
        """Return the next rows of the queue, as many as a batch has; they are taken."""
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
        """Return what the store answers, without holding the loop up."""
        if self._store.remote:
            return await asyncio.to_thread(question)
        return question()

    def _failed(self, failure: Failure) -> Row:
        lack = CardsLack(failure.lacks, list(failure.ids), failure.model, failure.why)
        return self._stamp(Row(NodeType.DECISION, text=failure.text, details=lack))

    def _spent(self, queue: Queue, name: str, spent: Sequence[Spent]) -> Row:
        """Return the row that tells what one model took for a batch."""
        own = [each for each in spent if each.model == name]
        dollars = [queue.charge(each) for each in own]
        text = f"answers of a model for cards: {len(own)}"
        row = Row(
            NodeType.DECISION,
            text=text,
            details=Remark("cards"),
            model=name,
            tokens_in=sum(each.usage.tokens_in for each in own),
            tokens_out=sum(each.usage.tokens_out for each in own),
            tokens_cached=sum(each.usage.tokens_cached for each in own),
            cost=None if None in dollars else sum(each for each in dollars if each is not None),
        )
        return self._stamp(row)


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


def queue_of(store: Store, session_id: str) -> Queue:
    """Return the queue of a session that no run of this process has. Raises UsageError: unknown."""
    model = store.start(session_id).model.partition(", ")[0]
    marks = CardMarks.of(store.rows(session_id))
    return Queue(
        session_id,
        count=FamilyCounter(model).message,
        marks=lambda: marks,
        record=lambda rows: store.append(Batch(session_id, rows=rows)),
    )


async def make_cards(
    store: Store,
    session_id: str,
    maker: CardMaker,
    stamp: Callable[[Row], Row],
    *,
    again: Sequence[str] | None = (),
    on_progress: Callable[[int], None] | None = None,
) -> CardsMade:
    """Make the cards that wait in a session, and again those of the messages `again` (None: all).

    Raises UsageError for an unknown session, StoreError where they cannot be kept.
    """
    worker = CardWorker(store, maker, stamp, on_progress=on_progress)
    queue = queue_of(store, session_id)
    try:
        if again is None or again:
            ids = None if again is None else frozenset(again)
            rows = [row for row in store.rows(session_id) if ids is None or row.id in ids]
            await worker.remake(queue, items_for_cards(rows))
        return await worker.make_waiting(queue)
    finally:
        await maker.close()
