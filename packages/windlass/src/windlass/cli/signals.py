"""Signals that end a command, from its first moment on. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

TYPE_CHECKING = False  # typing's own: a signal may come while that is imported
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a command in order; not those that are ignored on purpose."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    known = [signal.Signals[name] for name in names if hasattr(signal, name)]
    return [each for each in known if signal.getsignal(each) != signal.SIG_IGN]


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """In this context every signal that ends a command raises KeyboardInterrupt, as Ctrl-C does.

    During an import it ends the process: nothing runs yet that had to be ended in order, and
    Python prints what is raised in the midst of an import instead of passing it on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in ending_signals()}
    try:
        for number in handlers:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number
    if _importing(frame):
        os.write(2, b"windlass: interrupted\n")
        os._exit(130)
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != "windlass.cli":
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def end_by_signals() -> None:
    """From now on let signals end the process at once: the command is over."""
    if threading.current_thread() is threading.main_thread():
        for number in ending_signals():
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    os._exit(130)
