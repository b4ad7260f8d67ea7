"""Waiting on the command line for work on an event loop: what ends it, ends it in order.

Ctrl-C, SIGTERM, SIGHUP and a pipe whose reader goes away cancel the work, which records that it
was interrupted and stops what it started. A second signal waits for nothing more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from windlass.cli.ending import end_children, ending_signals, silence
from windlass.cli.output import Screen, out, progress
from windlass.cli.progress import Progress
from windlass.engine.result import Result
from windlass.errors import Interrupted, WindlassError

_Answer = TypeVar("_Answer")

_SETTLE_S = 5.0
"""Seconds that tasks which the work left behind have to end; after a second signal a fifth."""


def wait_for(work: Coroutine[Any, Any, Result], watcher: Progress, then: str = "") -> Result:
    """The result of a run that `watcher` shows.

    Raises what the run raises, with its session; Interrupted after a signal, which says `then` too,
    with the session in place of `{}`.
    """
    try:
        return finish(work)
    except Interrupted as stopped:
        session = watcher.session_id
        told = then.format(session) if session else ""
        stopped = Interrupted(f"{stopped}{told}")
        stopped.session_id = session
        raise stopped from None
    except WindlassError as error:
        error.session_id = watcher.session_id
        raise
    finally:
        watcher.end_text()


def finish(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """What the work comes to on an event loop of its own.

    Raises Interrupted where a signal or a closed pipe ended it. Nothing that it started is waited
    for without a limit.
    """
    loop = asyncio.new_event_loop()
    ending = _Ending()
    with _watched(loop, ending):
        try:
            return loop.run_until_complete(ending.cancellable(work))
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raise Interrupted("interrupted") from error
        finally:
            # Not asyncio.run: it waits without a limit, also for threads.
            if _settled(loop, _SETTLE_S if ending.times <= 1 else _SETTLE_S / 5):
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()
            else:  # given up with the process; Python would tell of each when it is collected
                loop.set_exception_handler(lambda *_: None)
            if ending.times:
                end_children()


class _Ending:
    """Cancels the work when it is called: the first time, and once more when that takes long."""

    def __init__(self) -> None:
        self.times = 0
        self._task: asyncio.Task[Any] | None = None

    async def cancellable(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        self._task = asyncio.current_task()
        if self.times:  # a signal came before the work began
            work.close()
            raise asyncio.CancelledError
        return await work

    def __call__(self) -> None:
        self.times += 1
        if self._task is not None and self.times <= 2:  # noqa: PLR2004 - see above
            self._task.cancel()


@contextmanager
def _watched(loop: asyncio.AbstractEventLoop, ending: Callable[[], None]) -> Iterator[None]:
    """Meanwhile signals and closed pipes call `ending`, from the event loop.

    The loop's own handlers also wake the loop. With others, a signal that comes in the moment
    before it goes to sleep is noticed only at its next event.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in ending_signals()}
    for one in before:
        loop.add_signal_handler(one, ending)
    for console in (out, progress):
        # A pipe that is written to has nothing to read: it wakes the loop when nobody reads it.
        with suppress(OSError, ValueError):
            number = console.file.fileno()
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                loop.add_reader(number, partial(_hung_up, loop, number, console, ending))
    progress.on_closed = ending
    try:
        yield
    finally:
        progress.on_closed = None
        for one, handler in before.items():
            signal.signal(one, handler)


def _hung_up(
    loop: asyncio.AbstractEventLoop, number: int, console: Screen, ending: Callable[[], None]
) -> None:
    loop.remove_reader(number)
    silence(number)
    if console is progress:
        progress.quiet = True
    ending()


def _settled(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    """Whether all tasks of the loop have ended after they were cancelled."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if not tasks:
        return True
    _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
    return not left
