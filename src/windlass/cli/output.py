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
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from windlass.errors import WindlassError
from windlass.messages import Message, to_dict
from windlass.safety.escaping import escaped, escaped_json

# ---- escaping -----------------------------------------------------------------------

_ID: Final = re.compile(r"(?<![^\W_])[0-9a-f]{8,}(?![^\W_])")
"""What messages, hashes and windows are called by."""
_WHOLE_ID: Final = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]+)*")
_TIMED_ID: Final = re.compile(r"\d{8}-\d{6}-")
_SHORT_ID: Final = 15
"""Characters of the day and the time with which names of sessions begin."""
_LONGEST_ID: Final = 72
_FEWEST: Final = 20
"""Characters up to which a text of a table is not folded."""


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

# A pipe has no width: its tables are as wide as they need to be, and lose nothing.
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

    def show_cursor(self, show: bool = True) -> bool:
        """Leave the cursor alone: a process that is killed could not show it again."""
        del show
        return False

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
    verbose = False
    """Whether each request and how its context was made are told, too."""

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
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.repr
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

    Numbers and ids are not folded either. Where they do not fit side by side on a terminal, ids
    are shortened to beginnings that tell them apart, then the columns that matter least are left
    out, and named below. Rich prints the heads. It takes milliseconds for a row, and a session has
    thousands, so rows that need no folding are put together here.
    """
    heads, cells = list(columns), [[escaped(cell) for cell in row] for row in rows]
    kept, left_out = list(range(len(heads))), list[str]()
    numbers, firm = right, whole
    widths = _widths(heads, cells, right, whole)
    if widths is None:
        cells = _with_short_ids(cells)
        widths = _widths(heads, cells, right, whole)
    while widths is None and len(kept) > 1:
        at = _least(heads)
        left_out.append(heads.pop(at))
        kept.pop(at)
        cells = [[*row[:at], *row[at + 1 :]] for row in cells]
        right = {new for new, old in enumerate(kept) if old in numbers}
        whole = {new for new, old in enumerate(kept) if old in firm}
        widths = _widths(heads, cells, right, whole)
    widths = widths or [out.width]
    if title is not None:
        out.print(title, style="table.title")
    table = Table(pad_edge=False, box=None)
    for index, column in enumerate(heads):
        justify: JustifyMethod = "right" if index in right else "left"
        width = widths[index]
        if index == len(heads) - 1 and justify == "left":  # no blanks at the end of the line
            width = min(width, max(1, cell_len(column)))
        table.add_column(escaped(column), justify=justify, overflow="fold", width=width)
    out.print(table, soft_wrap=False)
    lines = []
    for row in cells:
        folded = [
            _fold(cell, width, right=at in right, whole=at in whole)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for line in range(max(map(len, folded))):
            parts = zip(folded, widths, strict=True)
            texts = (cell[line] if line < len(cell) else " " * width for cell, width in parts)
            lines.append("  ".join(texts).rstrip())
    if lines:
        out.print("\n".join(lines))
    if left_out:
        told = ", ".join(name for name in columns if name in left_out)
        out.print(f"no room for: {told} (--json has all)", style="dim")


def _widths(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Container[int],
    whole: Container[int],
) -> list[int] | None:
    """The width of each column, the widest ones folded to fit; None where they cannot.

    A pipe has room for all that cannot be folded.
    """
    widths, least = [], []
    for at, column in enumerate(columns):
        words = {word for row in cells for word in row[at].split()}
        lines = (line for row in cells for line in row[at].split("\n"))
        widest = max(map(cell_len, lines), default=0)
        head = max(map(cell_len, column.split()), default=0)
        ids = (len(word) for word in words if len(word) <= _LONGEST_ID and _ID.search(word))
        text = max([min(widest, _FEWEST), *ids])
        widths.append(max(widest, cell_len(column)))
        least.append(max(head, widest if at in right or at in whole else text))
    while sum(widths) + 2 * (len(widths) - 1) > out.width:
        over = [at for at, width in enumerate(widths) if width > least[at]]
        if not over:
            return widths if out.width == _WIDE else None
        widths[max(over, key=widths.__getitem__)] -= 1
    return widths


_SPARE: Final = (
    *("cached", "reported cached", "read", "written", "try", "turn", "kind", "messages"),
    *("fetched again", "first differs", "dearest call", "lines", "trace", "cap", "out"),
    *("tokens in", "tokens sent", "fresh", "characters", "growth", "cascade", "model"),
)
"""Columns that are left out first where a table has no room, the first of them first of all.

Then the last ones go, from the right; a first column and a cost go last.
"""


def _least(columns: Sequence[str]) -> int:
    """The place of the column that matters least; of the first only where it is alone."""
    spare = (columns.index(name) for name in _SPARE if name in columns[1:])
    others = (at for at in range(len(columns) - 1, 0, -1) if "cost" not in columns[at])
    return next(spare, None) or next(others, None) or len(columns) - 1


def _with_short_ids(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells, in columns of ids each cut to a beginning that tells it from the others."""
    turned = [list(column) for column in zip(*cells, strict=True)]
    for column in turned:
        ids = {cell.strip() for cell in column} - {"", "-"}
        if not ids or not all(len(each) > _SHORT_ID and _WHOLE_ID.fullmatch(each) for each in ids):
            continue
        short = {each: _beginning(each, ids) for each in ids}
        for at, cell in enumerate(column):
            name = cell.strip()
            column[at] = cell.replace(name, short.get(name, name)) if name else cell
    return [list(row) for row in zip(*turned, strict=True)]


def _beginning(name: str, names: Collection[str]) -> str:
    """The beginning of an id that no other has: its time of day, or eight digits of a hash."""
    length = _SHORT_ID if _TIMED_ID.match(name) else 8
    while length < len(name) and sum(other.startswith(name[:length]) for other in names) > 1:
        length += 1
    return name[:length]


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
