"""Standard output and standard error, and what of a command reaches them at all.

A terminal acts on no text, whoever wrote it: `main` puts `Escaping` around both streams, and the
consoles escape what they print and add colours of their own afterwards.

Only `out` and `progress` print while a command runs. Libraries, tools and the processes that they
start print, warn and log too, from Python and from C; one such line would break the output of
`--json`, so it goes to a file.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from rich.console import Console

from windlass.cli.output import out, progress
from windlass.errors import WindlassError
from windlass.safety.escaping import escaped


def open_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise the next file that is opened takes its number, and what is meant for the terminal is
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


def silence_stream(stream: int) -> None:
    """Discard what is still written to a standard stream: its reader went away."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream)
        os.close(null)


class Escaping:
    """A stream that escapes what it writes to the one beneath it; all else is passed on."""

    buffer = None  # whoever writes bytes would get past it

    def __init__(self, beneath: TextIO) -> None:
        self.rich_proxied_file = beneath  # where consoles of rich write, colours and all

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        with _write_errors():
            self.rich_proxied_file.write(escaped(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream beneath."""
        with _write_errors():
            self.rich_proxied_file.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


_RESTORED: Final[set[int]] = set()
"""Streams that lead to the terminal again because a command is over."""


@contextmanager
def divert_other_output() -> Iterator[None]:
    """Let only `out` and `progress` reach standard output and standard error.

    What anything else wrote there is in a file afterwards, which a line on `progress` names.
    """
    log = _log_file()
    begin = os.fstat(log.fileno()).st_size
    with ExitStack() as undo:
        undo.callback(_name_log, begin)
        _divert(out, "stdout", 1, log, undo)
        _divert(progress, "stderr", 2, log, undo)
        yield


@cache
def _log_file() -> TextIO:
    """Where the others write. Open to the end of the process: loggers keep what they print to."""
    lenient: Any = {"encoding": "utf-8", "errors": "backslashreplace", "buffering": 1}
    log: TextIO
    try:
        log = tempfile.TemporaryFile("a+", **lenient)  # noqa: SIM115
    except OSError:  # no folder for such files: it is lost, and nothing else
        log = Path(os.devnull).open("a+", **lenient)  # noqa: SIM115
    return log


@atexit.register  # before `silence_streams`, and so after it when the process ends
def _close() -> None:
    if _log_file.cache_info().currsize:
        _log_file().close()


def _divert(console: Console, name: str, number: int, log: TextIO, undo: ExitStack) -> None:
    stream: TextIO = getattr(sys, name)
    own = stream
    if _is_at(stream, number):
        stream.flush()
        if stream.isatty():
            console.width = console.width  # it is asked of the streams that now lead elsewhere
        own = _OwnStream(
            os.fdopen(os.dup(number), "wb"),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.isatty(),
        )
        undo.callback(_restore, number, os.dup(number))
        undo.callback(own.close)
        os.dup2(log.fileno(), number)
    console.file = own
    setattr(sys, name, log)
    undo.callback(setattr, console, "file", None)  # that is: where `sys` says, from then on
    undo.callback(setattr, sys, name, stream)


class _OwnStream(io.TextIOWrapper):
    """The terminal or a pipe. Raises WindlassError where what is printed cannot be written."""

    def write(self, text: str, /) -> int:
        with _write_errors():
            return super().write(text)

    def flush(self) -> None:
        with _write_errors():
            super().flush()

    def close(self) -> None:
        with _write_errors():
            super().close()


@contextmanager
def _write_errors() -> Iterator[None]:
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


def _restore(number: int, back: int) -> None:
    os.dup2(back, number)
    os.close(back)
    _RESTORED.add(number)


@atexit.register
def silence_streams() -> None:
    """Let nothing reach the terminal any more: when a process ends, libraries print, too."""
    while _RESTORED:
        number = _RESTORED.pop()
        try:
            (sys.stdout if number == 1 else sys.stderr).flush()
        except (OSError, ValueError):  # a full disk, a closed pipe: the interpreter tells of it
            continue
        os.dup2(_log_file().fileno(), number)


def _name_log(begin: int) -> None:
    """Name the file with what others wrote from `begin` on, where they did."""
    log = _log_file()
    log.flush()
    if progress.quiet or os.fstat(log.fileno()).st_size == begin:
        return
    try:
        number, name = tempfile.mkstemp(prefix="windlass-", suffix=".log")
    except OSError:
        return
    with os.fdopen(number, "wb") as kept:
        log.buffer.seek(begin)
        shutil.copyfileobj(log.buffer, kept)
    progress.print(f"note: what tools and libraries printed is in {name}", style="dim")
