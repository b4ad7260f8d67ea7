"""Cards made beside a run: a task on its event loop that works while the run waits for a reply.

Nothing of a turn waits for it. It ends no run: what fails is told and tried again, and what is
left when a run ends is made by the next run in the store, or by `windlass cards SESSION --make`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from windlass.engine.cards.card_models import FLAG, maker_of, wanting_cards, wants_cards
from windlass.engine.cards.card_queue import CardWorker, Queue, queue_of
from windlass.engine.cards.maker import CardMaker
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.errors import StoreError
from windlass.history.base import BANK, SessionInfo
from windlass.history.card_rows import CardMarks, mark_cards
from windlass.history.decisions import SwitchedOff
from windlass.safety.fairness import wait_for_turn

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
    """The cards of a run, made while it waits: `start`, `wake`, `drain`, `stop`."""

    def __init__(self, run: CascadeRun, maker: CardMaker) -> None:
        record = run.record
        self._run = run
        self._maker = maker
        self._store = record.store
        self._worker = CardWorker(self._store, maker, record.stamp)
        first = run.cascade.settings_for(run.cascade.phases[0]).model
        _, info = run.resolve(run.settings.model_for(first))
        self._queue = Queue(
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
            await wait_for_turn()
            try:
                await self._worker.make_waiting(self._queue)
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
            work = asyncio.create_task(self._worker.make_waiting(queue))
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
        """Return the queue of an earlier session whose cards nobody makes any more."""
        name = info.session_id
        if name.startswith(BANK) or name == self._queue.session_id:
            return None
        waiting = self._store.without_cards(name, limit=1)
        if not waiting or not wants_cards(self._store.start(name).cascade, self._run.settings):
            return None
        if info.status in ("running", "unknown"):
            return None
        return queue_of(self._store, name)

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
