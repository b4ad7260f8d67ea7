"""What the command line prints: texts and JSON.

`out` and `progress` alone print while a command runs (`standard_streams.py`).
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Literal, TypedDict, Unpack

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.style import Style

from windlass.cli.next_commands import with_store
from windlass.messages import Message, to_dict
from windlass.safety.escaping import escaped, escaped_json

PIPE_WIDTH: Final = None if sys.stdout is not None and sys.stdout.isatty() else 200
"""The width where standard output is a pipe: a table that needs more is wider, and loses nothing.

None at a terminal, which has a width of its own.
"""


class PrintOptions(TypedDict, total=False):
    """How rich prints texts and tables."""

    sep: str
    end: str
    style: str | Style | None
    justify: JustifyMethod | None
    overflow: OverflowMethod | None
    no_wrap: bool | None
    emoji: bool | None
    markup: bool | None
    highlight: bool | None
    width: int | None
    height: int | None
    crop: bool
    soft_wrap: bool | None
    new_line_start: bool


class Screen(Console):
    """A console for texts by anybody: only the styles that we give act on the terminal.

    Hand it plain texts: rich drops some control characters of its own `Text` unseen. `as_json`:
    the command's answer is printed as JSON, and nothing else.
    """

    as_json = False

    def __init__(
        self,
        *,
        stderr: bool = False,
        width: int | None = None,
        file: IO[str] | None = None,
        force_terminal: bool | None = None,
        color_system: Literal["auto", "standard"] = "auto",
    ) -> None:
        super().__init__(
            stderr=stderr,
            width=width,
            file=file,
            force_terminal=force_terminal,
            color_system=color_system,
            soft_wrap=True,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def show_cursor(self, show: bool = True) -> bool:
        """Leave the cursor alone: a process that is killed could not show it again."""
        del show
        return False

    def on_broken_pipe(self) -> None:
        """Raise it again: the caller knows what it means, and rich would end the program."""
        raise  # noqa: PLE0704 - called where it is handled

    def print(self, *objects: Any, **options: Unpack[PrintOptions]) -> None:
        """Print texts, escaped, and tables."""
        parts = (escaped(each) if isinstance(each, str) else each for each in objects)
        super().print(*parts, **options)

    def hint(self, text: str, **options: Unpack[PrintOptions]) -> None:
        """Print what can be done next, in the store that this command was given."""
        self.print(with_store(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what rich makes of anything, escaped: nothing gets past this."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


class _Progress(Screen):
    """A console that falls silent once it cannot print any more, so that the work goes on.

    `on_closed` is called when that is because its reader went away.
    """

    on_closed: Callable[[], None] | None = None
    verbose = False
    """Whether each request is reported too, and how its context was made."""

    def print(self, *objects: Any, **options: Unpack[PrintOptions]) -> None:
        """Print, if that can be."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            self.quiet = True
            if self.on_closed is not None and isinstance(error, BrokenPipeError):
                self.on_closed()


out = Screen(width=PIPE_WIDTH)
progress = _Progress(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented; dataclasses become objects, messages their stored form."""
    text = json.dumps(to_plain(value), indent=2, ensure_ascii=False)
    print(escaped_json(text), file=out.file)


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as CSV under the names of their columns; nothing where there are none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([list(row) for row in rows[:1]])
    writer.writerows([row.values() for row in rows])
    print(escaped(text.getvalue()), end="", file=out.file)


def printed_as_json(value: Any) -> bool:
    """Print a value as JSON if the user asked for that (`--json`), and say whether they did."""
    if out.as_json:
        print_json(value)
    return out.as_json


def to_plain(value: Any) -> Any:
    """Return the value, made of what JSON can write."""
    if isinstance(value, Message):
        return {"content_hash": value.content_hash, **to_dict(value)}
    if hasattr(value, "as_json"):
        return to_plain(value.as_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.repr
        }
    if hasattr(value, "model_dump"):  # a part of a cascade
        return to_plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Path | BaseException):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Iterable):
        return [to_plain(item) for item in value]
    return str(value)


def note(text: str) -> None:
    """Print a note on standard error."""
    progress.hint(f"note: {text}")


def indent(text: str) -> str:
    """Return the text with each of its lines indented."""
    return "\n".join(f"    {line}" for line in text.removesuffix("\n").split("\n"))


def shorten(text: str, limit: int) -> str:
    """Return the text, or its beginning and how much is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... [{len(text) - limit:,} more characters]"
