"""Many runs on one event loop: one piece of work in each of its rounds, and no long one.

Planning a call takes milliseconds and does not wait for anything. Two hundred runs that are due at
once would keep the loop from everything else for as long as all of them take together, and so
would one text of millions of characters.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

LONG: Final = 100_000
"""Work on a text of at least so many characters leaves the event loop."""

T = TypeVar("T")

_Queue: TypeAlias = deque["asyncio.Future[None]"]

_QUEUES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]] = WeakKeyDictionary()


async def wait_for_turn() -> None:
    """Wait for a round of the event loop in which no other long piece of work starts.

    Await this before work of some milliseconds; those who wait are served in order.
    """
    loop = asyncio.get_running_loop()
    queue = _QUEUES.setdefault(loop, deque())
    place: asyncio.Future[None] = loop.create_future()
    queue.append(place)
    if len(queue) == 1:
        loop.call_soon(_serve, loop, queue)
    await place


def _serve(loop: asyncio.AbstractEventLoop, queue: _Queue) -> None:
    while queue:
        place = queue.popleft()
        if not place.done():  # else it was cancelled
            place.set_result(None)
            break
    if queue:
        loop.call_soon(_serve, loop, queue)


_DONE: Final[dict[Callable[[], None], Future[None]]] = {}
_LOCK: Final = threading.Lock()


async def run_in_thread(chars: int, work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs in a thread if its text has many `chars` (`LONG`).

    It must not touch what others use meanwhile. Whoever cancels waits until it has ended.
    """
    if chars < LONG:
        return work()
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread])
        with suppress(Exception):  # nobody waits for it any more
            thread.result()
        raise


async def preload(work: Callable[[], None]) -> None:
    """Do some work in a thread, once in this process, because its imports take seconds."""

    def prepare() -> None:
        with suppress(Exception):  # told where it is needed
            work()

    with _LOCK:
        if work not in _DONE:
            _DONE[work] = start_thread(prepare, "preparing")
    if not _DONE[work].done():
        await asyncio.wrap_future(_DONE[work])


def start_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start `work` in a daemon thread of that name; its result. Nobody can cancel it.

    No executor is used: the interpreter waits for an executor's threads when it exits.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as problem:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(problem)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
