"""How the command line ends: open standard streams, signals as interruptions, no leftovers.

SIGTERM and SIGHUP mean the same as Ctrl-C, unless whoever started the program ignores them (nohup
does). Only the command line does any of this: a library does not take over its host's signals.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_GRACE_S = 1.0
"""Seconds that threads and child processes have to end by themselves."""
_POLL_S = 0.02


def open_streams() -> None:
    """Open the null device where a standard stream is closed.

    Else the next file that is opened takes its number, and what is meant for the terminal is
    written into the store.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no failure


def silence(stream: int) -> None:
    """Let what is still written to a standard stream go nowhere: its reader went away."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream)
        os.close(null)


def ending_signals() -> list[signal.Signals]:
    """The signals that end a command in order; not those that are ignored on purpose."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    there = [signal.Signals[name] for name in names if hasattr(signal, name)]
    return [one for one in there if signal.getsignal(one) != signal.SIG_IGN]


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Meanwhile every signal that ends a command raises KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in ending_signals()}
    try:
        for one in before:
            signal.signal(one, _interrupt)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def leave(code: int, threads: frozenset[threading.Thread]) -> NoReturn:
    """Exit with `code`. What a tool has left running does not hold it up.

    `threads` are those that were there before the command. The interpreter would wait for ever
    for one that is not a daemon and does not end.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(number)
    until = time.monotonic() + _GRACE_S
    while left := [one for one in threading.enumerate() if not one.daemon and one not in threads]:
        if time.monotonic() > until:
            import atexit

            atexit._run_exitfuncs()  # what a tool registered, and the local model's own end  # noqa: SLF001
            os._exit(code)
        left[0].join(_POLL_S)
    sys.exit(code)


def end_children() -> None:
    """End the child processes that tools have started, and the children of those.

    They are asked to (SIGTERM), then killed. To be called when the run is over.
    """
    if os.name == "nt":
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + _GRACE_S
        for pid in _descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while _descendants():
            if time.monotonic() > until:
                break
            time.sleep(_POLL_S)


def _descendants() -> list[int]:
    """The child processes of this one that have not ended, and theirs."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(os.getpid(), ()))
    for pid in found:  # it grows
        found += children.get(pid, ())
    return found


def _processes() -> Iterator[tuple[int, int]]:
    """(Process, its parent) for all that run; those that have ended and wait for us are not."""
    if not Path("/proc/self/stat").is_file():
        import subprocess

        listed = subprocess.run(
            ["/bin/ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
        )
        for line in listed.stdout.splitlines():
            pid, parent, state = line.split()[:3]
            if not state.startswith("Z"):
                yield int(pid), int(parent)
        return
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            told = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        state, parent = told.rpartition(")")[2].split()[:2]
        if state != "Z":
            yield int(entry.name), int(parent)
