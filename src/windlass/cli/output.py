"""What the command line prints: texts, tables and JSON, and what reaches the terminal at all.

A terminal acts on no text, whoever wrote it: `main` puts `Escaping` around both standard streams,
and the consoles escape what they print and add colours of their own afterwards.

Only `out` and `progress` print while a command runs. Libraries, tools and the processes that they
start print, warn and log too, from Python and from C; one such line would break the output of
`--json`, so it goes to a file.
"""

from __future__ import annotations

import atexit
import csv
import dataclasses
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from windlass.errors import WindlassError
from windlass.messages import Message, to_dict

# ---- escaping -----------------------------------------------------------------------

_ACTING: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for newline and tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # marks that turn the order of characters
    "\u2028\u2029"  # ends of lines for some, not for others
    "\ufff9-\ufffb"  # hide what stands between them
    "\ud800-\udfff"  # halves of characters, as in names of files that are not UTF-8
    "]"
)


def escaped(text: str) -> str:
    r"""The text with what a terminal acts on written out: `\x1b`, `\u202e`."""
    return _ACTING.sub(_python, text)


def escaped_json(text: str) -> str:
    """JSON that says the same, with what a terminal acts on written out.

    Such characters stand in texts only, where JSON has its own way to write them.
    """
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _python(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


class Escaping:
    """A stream that writes to the one beneath it, escaped; all else is that one's."""

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


# ---- printing -----------------------------------------------------------------------

# A pipe has no width: its tables are as wide as they need to be.
_WIDE = None if sys.stdout is not None and sys.stdout.isatty() else 200


class Screen(Console):
    """A console for texts by anybody: only the styles that we give act on the terminal.

    Hand it plain texts: rich drops some control characters of its own `Text` unseen. `as_json`:
    the command's answer is printed as JSON, and nothing else.
    """

    as_json = False

    def __init__(self, *, stderr: bool = False, width: int | None = None, **options: Any) -> None:
        plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
        super().__init__(stderr=stderr, width=width, soft_wrap=True, **plain, **options)

    def on_broken_pipe(self) -> None:
        """Raise it again: the caller knows what it means, and rich would end the program."""
        raise  # noqa: PLE0704 - called where it is handled

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, escaped, and tables."""
        parts = (escaped(each) if isinstance(each, str) else each for each in objects)
        super().print(*parts, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What rich makes of anything, escaped: nothing gets past this."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


class _Progress(Screen):
    """A console that falls silent where it cannot print any more: what is done goes on.

    `on_closed` is called when that is because nobody reads it.
    """

    on_closed: Callable[[], None] | None = None

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, if that can be."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            self.quiet = True
            if self.on_closed is not None and isinstance(error, BrokenPipeError):
                self.on_closed()


out = Screen(width=_WIDE)
progress = _Progress(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented; dataclasses become objects, messages their stored form."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    print(escaped_json(text), file=out.file)


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as CSV under the names of their columns; nothing where there are none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([list(row) for row in rows[:1]])
    writer.writerows([row.values() for row in rows])
    print(escaped(text.getvalue()), end="", file=out.file)


def printed_as_json(value: Any) -> bool:
    """Print a value as JSON where the user asked for that (`--json`); whether it was."""
    if out.as_json:
        print_json(value)
    return out.as_json


def plain(value: Any) -> Any:
    """The value as JSON values."""
    if isinstance(value, Message):
        return {"content_hash": value.content_hash, **to_dict(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if hasattr(value, "model_dump"):  # a part of a cascade
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Path | BaseException):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Container[int] = (),
    whole: Container[int] = (),
) -> None:
    """Print a table; `right` are the columns of numbers, `whole` those that are never folded.

    Rich measures the columns and prints their heads. It takes milliseconds for a row, and a
    session has thousands, so rows that need no folding are put together here.
    """
    cells = [[escaped(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells, whole)
    is_narrow = 0 in widths  # a terminal with no room for some of the columns
    table = _table(columns, right, whole, [None] * len(columns) if is_narrow else widths)
    table.title = title
    for row in cells if is_narrow else ():
        table.add_row(*map(Text, row))
    out.print(table, soft_wrap=False)
    if is_narrow:
        return
    lines = []
    for row in cells:
        folded = [
            _fold(cell, width, right=at in right, whole=at in whole)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for line in range(max(map(len, folded))):
            parts = zip(folded, widths, strict=True)
            lines.append(
                "  ".join(cell[line] if line < len(cell) else " " * width for cell, width in parts)
            )
    if lines:
        out.print("\n".join(lines))


def _table(
    columns: Sequence[str],
    right: Container[int],
    whole: Container[int],
    widths: Sequence[int | None],
) -> Table:
    table = Table(title_justify="left", pad_edge=False, box=None)
    for index, column in enumerate(columns):
        table.add_column(
            escaped(column),
            justify="right" if index in right else "left",
            overflow="fold",
            no_wrap=index in whole,
            width=widths[index],
        )
    return table


def _widths(
    columns: Sequence[str], cells: Sequence[Sequence[str]], whole: Container[int]
) -> list[int]:
    """The width of each column, as rich divides the room that there is."""
    table = _table(columns, (), whole, [None] * len(columns))
    measures = [_Measure(row[at] for row in cells) for at in range(len(columns))]
    table.add_row(*measures)
    out.render_lines(table)
    return [measure.width for measure in measures]


class _Measure:
    """Stands for the cells of a column: as wide as the widest; `width` is what it is given."""

    width = 0

    def __init__(self, cells: Iterable[str]) -> None:
        lines = (line for cell in cells for line in cell.split("\n"))
        self._widest = max(map(cell_len, lines), default=0)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console, options
        return Measurement(self._widest, self._widest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[str]:
        del console
        self.width = options.max_width
        return ()


def _fold(cell: str, width: int, *, right: bool, whole: bool) -> list[str]:
    """The lines of a cell, each as wide as its column."""
    if cell.isascii() and len(cell) <= width and cell.isprintable():
        return [cell.rstrip().rjust(width) if right else cell.ljust(width)]
    lines = Text(cell).wrap(
        out, width, justify="right" if right else "left", overflow="fold", no_wrap=whole
    )
    return [set_cell_size(line.plain, width) for line in lines]


def note(text: str) -> None:
    """Print a note on standard error."""
    progress.print(f"note: {text}")


def indented(text: str) -> str:
    """The text with each of its lines moved in."""
    return "\n".join(f"    {line}" for line in text.removesuffix("\n").split("\n"))


def money(dollars: float | None) -> str:
    """US dollars with the digits that matter; `no price` where none is known."""
    if dollars is None:
        return "no price"
    if dollars == 0:
        return "$0"
    return f"${dollars:.4f}" if abs(dollars) < 1 else f"${dollars:,.2f}"


def shorten(text: str, limit: int) -> str:
    """The text, or its beginning and how much is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... [{len(text) - limit:,} more characters]"


# ---- streams ------------------------------------------------------------------------

_RESTORED: Final[set[int]] = set()
"""Streams that lead to the terminal again because a command is over."""


@contextmanager
def own_streams() -> Iterator[None]:
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
        own = _Own(
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


class _Own(io.TextIOWrapper):
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
