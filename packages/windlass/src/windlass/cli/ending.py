"""How the command line ends: signals are interruptions, and nothing that was started is left.

SIGTERM and SIGHUP mean the same as Ctrl-C, unless whoever started the program ignores them (nohup
does). Each of them, and a pipe whose reader goes away, cancels the work, which records that it was
interrupted and stops what it started. A second signal waits for nothing more.

Only the command line does any of this: a library does not take over its host's signals.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from windlass.cli.output import Screen, out, progress
from windlass.cli.signals import end_by_signals, ending_signals
from windlass.cli.standard_streams import silence_stream
from windlass.errors import Interrupted

_Answer = TypeVar("_Answer")

_GRACE_S = 1.0
"""Seconds that threads have to end by themselves."""
_POLL_S = 0.02
_CANCELS = 2
"""How often the work is cancelled: once more when it takes long to record that."""
_SETTLE_S = 5.0
"""Seconds that tasks which the work left behind have to end; after a second signal a fifth."""


def exit_process(code: int, threads: frozenset[threading.Thread]) -> NoReturn:
    """Exit with `code`, without waiting for what a tool has left running.

    `threads` are those that were there before the command. The interpreter would wait for ever
    for one that is not a daemon and does not end.
    """
    end_by_signals()
    atexit.unregister(end_by_signals)
    atexit.register(end_by_signals)  # the last one that is registered is called first
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence_stream(number)
    until = time.monotonic() + _GRACE_S
    while left := [
        each for each in threading.enumerate() if not each.daemon and each not in threads
    ]:
        if time.monotonic() > until:
            atexit._run_exitfuncs()  # what a tool registered, and the local model's own end  # noqa: SLF001
            os._exit(code)
        left[0].join(_POLL_S)
    sys.exit(code)


# ---- work on an event loop ----------------------------------------------------------


def run_interruptibly(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run the work on an event loop of its own, and return its result.

    Raises Interrupted where a signal or a closed pipe ended it. Nothing that it started is waited
    for without a limit, as `asyncio.run` would: a tool may swallow its cancellation, or block a
    thread.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    times = 0

    def cancel() -> None:
        nonlocal times
        times += 1
        if times <= _CANCELS:
            task.cancel()

    with _signals_call(cancel, loop):
        try:
            return loop.run_until_complete(task)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raise Interrupted("interrupted") from error
        finally:
            if _cancel_tasks(loop, _SETTLE_S if times <= 1 else _SETTLE_S / 5):
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()
            else:  # given up with the process; Python would tell of each when it is collected
                loop.set_exception_handler(lambda *_: None)


@contextmanager
def _signals_call(ending: Callable[[], None], loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """In this context signals and closed pipes call `ending`, from the event loop.

    The loop's own handlers also wake the loop. With others, a signal that comes in the moment
    before it goes to sleep is noticed only at its next event.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in ending_signals()}
    for number in handlers:
        loop.add_signal_handler(number, ending)
    for console in (out, progress):
        # A pipe that is written to has nothing to read: it wakes the loop when nobody reads it.
        with suppress(OSError, ValueError):
            pipe = console.file.fileno()
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                loop.add_reader(pipe, partial(_hung_up, loop, pipe, console, ending))
    progress.on_closed = ending
    try:
        yield
    finally:
        progress.on_closed = None
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _hung_up(
    loop: asyncio.AbstractEventLoop, number: int, console: Screen, ending: Callable[[], None]
) -> None:
    loop.remove_reader(number)
    silence_stream(number)
    if console is progress:
        progress.quiet = True
    ending()


def _cancel_tasks(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    """Cancel all tasks of the loop; whether they have ended within so many seconds."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if not tasks:
        return True
    _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
    return not left
