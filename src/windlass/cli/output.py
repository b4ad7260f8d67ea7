"""Printing: tables and JSON on standard output, progress and errors on standard error."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from windlass.cli.terminal import escaped, escaped_json
from windlass.messages import Message, to_dict

# A pipe has no width: its tables are as wide as they need to be.
_WIDE = None if sys.stdout.isatty() else 200


class Screen(Console):
    """A console for texts by anybody: only the styles that we give act on the terminal.

    Hand it plain texts: rich drops some control characters of its own `Text` unseen.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None, **options: Any) -> None:
        plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
        super().__init__(stderr=stderr, width=width, soft_wrap=True, **plain, **options)

    def on_broken_pipe(self) -> None:
        """Raise it again: the caller knows what it means, and rich would end the program."""
        raise  # noqa: PLE0704 - called where it is handled

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, escaped, and tables."""
        told = (escaped(each) if isinstance(each, str) else each for each in objects)
        super().print(*told, **options)

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
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    whole: Iterable[int] = (),
) -> None:
    """Print a table; `right` are the columns of numbers, `whole` those that are never folded."""
    table = Table(title=title or None, title_justify="left", pad_edge=False, box=None)
    numbers, unfolded = set(right), set(whole)
    for index, column in enumerate(columns):
        justify: Literal["right", "left"] = "right" if index in numbers else "left"
        table.add_column(
            escaped(column), justify=justify, overflow="fold", no_wrap=index in unfolded
        )
    for row in rows:
        table.add_row(*(Text(escaped(cell)) for cell in row))
    out.print(table, soft_wrap=False)


def note(text: str) -> None:
    """Tell something beside what was asked for."""
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
