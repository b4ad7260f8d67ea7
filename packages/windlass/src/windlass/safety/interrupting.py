"""Ending work in C code early: queries that know neither signals nor that nobody waits any more.

Knows threads, and nothing of databases: how its work is interrupted is what a caller hands in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Final, TypeVar

from windlass.safety.fairness import start_thread

_Answer = TypeVar("_Answer")

_AGAIN_S: Final = 0.02
"""Seconds after which work is interrupted once more: between two queries it does not notice."""
_PATIENCE_S: Final = 0.5
"""Seconds that interrupted work is waited for."""


class Cancellation:
    """Whether somebody still waits for a piece of work. Threads may share one."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._running: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Return whether the work was given up; that is for good."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Give the work up: what `interrupting` holds is interrupted until it ends."""
        with self._lock:
            if not self._cancelled.is_set():
                self._cancelled.set()
                self._start()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Have `interrupt` called, again and again, when the work is given up meanwhile."""
        with self._lock:
            self._running.append(interrupt)
            if self._cancelled.is_set():
                self._start()
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(interrupt)

    def _start(self) -> None:
        if self._running:
            threading.Thread(target=self._interrupt, name="interrupting", daemon=True).start()

    def _interrupt(self) -> None:
        while True:
            with self._lock:  # never after the block, when a connection may be closed
                if not self._running:
                    return
                for interrupt in self._running:
                    interrupt()
            time.sleep(_AGAIN_S)


def interruptible(
    work: Callable[[], _Answer], interrupt: Callable[[], None], abandon: Callable[[], None]
) -> _Answer:
    """Return what `work` returns, so that a signal (Ctrl-C) ends it.

    In the main thread it is done by another one, because C code lets no signal through: what a
    signal's handler raises is raised here, and the work interrupted. `abandon` is called where it
    does not even end then.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals do not come here
    done = start_thread(work, "query")
    try:
        wait([done])
    except BaseException:
        until = time.monotonic() + _PATIENCE_S
        interrupt()
        while not wait([done], _AGAIN_S).done and time.monotonic() < until:
            interrupt()
        if not done.done():
            abandon()
        raise
    return done.result()
