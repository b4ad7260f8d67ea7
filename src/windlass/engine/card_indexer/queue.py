"""The cards of a session: what waits is made in batches, kept, and told in the record.

The queue is the history itself: each message without a card waits for one. So nothing is lost
when the process is killed. Who does it, beside a run or by a command, stands elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from windlass.engine.card_indexer.maker import CardBatch, CardMaker, Failure
from windlass.history.base import NodeType, Row, Store, StoredRow
from windlass.history.cards import FAILED, CardMarks, item_of
from windlass.messages import Message
from windlass.selection.card import BY_RULE, Card
from windlass.selection.making import wants_card
from windlass.tools.base import Spent
from windlass.window.entries import Item

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


def _own_price(spent: Spent) -> float | None:
    return spent.dollars


@dataclass(slots=True)
class Queue:
    """The cards of one session. `after` is the number of the last row that was taken.

    `count` gives the tokens of a message, `marks` what was marked so far, `record` takes rows
    for the session, `charge` answers what something cost in US dollars. `arrived` is set when there
    may be more. `kept` are cards that
    were made, `lacking` messages whose card lacks something, both by id.
    """

    session_id: str
    count: Callable[[Message], int]
    marks: Callable[[], CardMarks]
    record: Callable[[Sequence[Row]], object]
    charge: Callable[[Spent], float | None] = _own_price
    after: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    kept: dict[str, Card] = field(default_factory=dict[str, Card])
    lacking: dict[str, Item] = field(default_factory=dict[str, Item])

    def take(self, items: Sequence[Item], made: CardBatch) -> None:
        """Remember a batch that was kept."""
        failed = {id_ for failure in made.failures for id_ in failure.ids}
        for item, card in zip(items, made.cards, strict=True):
            self.kept[card.id] = card
            self.lacking.pop(item.id, None)
            if item.id in failed and len(self.lacking) < _KEPT:
                self.lacking[item.id] = item
        while len(self.kept) > _KEPT:
            del self.kept[next(iter(self.kept))]


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

    async def work_off(self, queue: Queue, told: CardFailures | None = None) -> CardFailures:
        """Make every card that waits in a queue. Raises StoreError where they cannot be kept.

        What was taken then waits again: it has no card.
        """
        told = told or CardFailures()
        most = self._maker.options.workers
        running: set[asyncio.Task[Any]] = set()
        try:
            while True:
                queue.arrived.clear()
                while len(running) < most and (rows := await self._next(queue)):
                    work = self.remake(queue, wanted(rows), told)
                    running.add(asyncio.create_task(work))
                if not running:
                    return told
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

    async def remake(self, queue: Queue, items: Sequence[Item], told: CardFailures) -> None:
        """Make the cards of these messages and keep them."""
        if not items:
            return
        made = await self._maker.make(items, queue.count, queue.marks())
        await self.put(queue, made.cards)
        queue.take(items, made)
        rows = [self._failed(failure) for failure in made.failures]
        rows += [
            self._spent(queue, name, made.spent)
            for name in dict.fromkeys(one.model for one in made.spent)
        ]
        if rows:
            queue.record(rows)
        told.made += len(made.cards)
        told.failures += made.failures
        told.spent += made.spent
        if self._progress is not None:
            self._progress(told.made)

    async def put(self, queue: Queue, cards: Sequence[Card]) -> None:
        """Keep cards of the session. Raises StoreError."""
        await self.ask(partial(self._store.put_cards, queue.session_id, cards))

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """What the store answers, without holding the loop up."""
        if self._store.remote:
            return await asyncio.to_thread(question)
        return question()

    def _failed(self, failure: Failure) -> Row:
        return self._new_row(
            {
                "kind": FAILED,
                "text": failure.text,
                "lacks": failure.lacks,
                "failed": list(failure.ids),
                "model": failure.model,
                "error": failure.why,
            }
        )

    def _spent(self, queue: Queue, name: str, spent: Sequence[Spent]) -> Row:
        """The row that tells what one model took for a batch."""
        own = [one for one in spent if one.model == name]
        dollars = [queue.charge(one) for one in own]
        return replace(
            self._new_row({"kind": SPENT, "text": f"answers of a model for cards: {len(own)}"}),
            model=name,
            tokens_in=sum(one.usage.tokens_in for one in own),
            tokens_out=sum(one.usage.tokens_out for one in own),
            tokens_cached=sum(one.usage.tokens_cached for one in own),
            cost=None if None in dollars else sum(one for one in dollars if one is not None),
        )


def wanted(rows: Sequence[StoredRow]) -> list[Item]:
    """The messages of rows that want a card."""
    items = [item_of(stored) for stored in rows]
    return [item for item in items if item is not None and wants_card(item)]


def failed_of(rows: Sequence[StoredRow], cards: Mapping[str, Card]) -> dict[str, str]:
    """Of a session's messages those whose card still lacks something, and why, by id."""
    found: dict[str, str] = {}
    for stored in rows:
        told = stored.row.metadata
        if stored.row.node_type != NodeType.DECISION or told.get("kind") != FAILED:
            continue
        for id_ in told["failed"]:
            card = cards.get(id_)
            if card is None:
                continue
            lacks = card.generator_model == BY_RULE
            if told["lacks"] == "vector":
                lacks = not card.embedding
            if lacks:
                found[id_] = str(told["error"])
    return found
