"""What Windlass prints reaches the terminal or the pipe; what anything else prints goes aside.

Libraries print, warn and log, from Python and from C, and so do tools and the processes that
they start. One such line in the output of `--json` makes it something that is no JSON.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from rich.console import Console

from windlass.cli import output
from windlass.errors import WindlassError

_ENDED: Final[set[int]] = set()
"""Streams that lead to the terminal again because a command is over."""


@contextmanager
def own_streams() -> Iterator[None]:
    """Let only `out` and `progress` reach standard output and standard error.

    What anything else wrote there is in a file afterwards, which a line on `progress` names.
    """
    aside = _aside()
    begin = os.fstat(aside.fileno()).st_size
    with ExitStack() as undo:
        undo.callback(_tell, begin)
        _keep(output.out, "stdout", 1, aside, undo)
        _keep(output.progress, "stderr", 2, aside, undo)
        yield


@cache
def _aside() -> TextIO:
    """Where the others write. Open to the end of the process: loggers keep what they print to."""
    lenient: Any = {"encoding": "utf-8", "errors": "backslashreplace", "buffering": 1}
    aside: TextIO
    try:
        aside = tempfile.TemporaryFile("a+", **lenient)  # noqa: SIM115
    except OSError:  # no folder for such files: it is lost, and nothing else
        aside = Path(os.devnull).open("a+", **lenient)  # noqa: SIM115
    return aside


@atexit.register  # before `leave`, and so after it when the process ends
def _close() -> None:
    if _aside.cache_info().currsize:
        _aside().close()


def _keep(console: Console, name: str, number: int, aside: TextIO, undo: ExitStack) -> None:
    stream: TextIO = getattr(sys, name)
    own = stream
    if _is_at(stream, number):
        stream.flush()
        if stream.isatty():
            console.width = console.width  # it is asked of the streams that now lead elsewhere
        own = _Own(
            os.fdopen(os.dup(number), "wb"),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.isatty(),
        )
        undo.callback(_lead, number, os.dup(number))
        undo.callback(own.close)
        os.dup2(aside.fileno(), number)
    console.file = own
    setattr(sys, name, aside)
    undo.callback(setattr, console, "file", None)  # that is: where `sys` says, from then on
    undo.callback(setattr, sys, name, stream)


class _Own(io.TextIOWrapper):
    """The terminal or a pipe. Raises WindlassError where what is printed cannot be written."""

    def write(self, text: str, /) -> int:
        with _written():
            return super().write(text)

    def flush(self) -> None:
        with _written():
            super().flush()

    def close(self) -> None:
        with _written():
            super().close()


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # who read it went away
        raise
    except OSError as error:
        raise WindlassError(f"the output could not be written: {error.strerror}") from error


def _is_at(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):  # a test's, or a notebook's, that is no file of the system
        return False


def _lead(number: int, back: int) -> None:
    os.dup2(back, number)
    os.close(back)
    _ENDED.add(number)


@atexit.register
def leave() -> None:
    """Let nothing reach the terminal any more: when a process ends, libraries print, too."""
    while _ENDED:
        number = _ENDED.pop()
        try:
            (sys.stdout if number == 1 else sys.stderr).flush()
        except (OSError, ValueError):  # a full disk, a closed pipe: the interpreter tells of it
            continue
        os.dup2(_aside().fileno(), number)


def _tell(begin: int) -> None:
    """Name the file with what others wrote from `begin` on, where they did."""
    aside = _aside()
    aside.flush()
    if output.progress.quiet or os.fstat(aside.fileno()).st_size == begin:
        return
    try:
        number, name = tempfile.mkstemp(prefix="windlass-", suffix=".log")
    except OSError:
        return
    with os.fdopen(number, "wb") as kept:
        aside.buffer.seek(begin)
        shutil.copyfileobj(aside.buffer, kept)
    output.progress.print(
        f"note: what tools and libraries printed is in {name}", style="dim", markup=False
    )
