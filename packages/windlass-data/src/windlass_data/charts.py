"""`create_chart`: from data to a PNG, with the figures in words for models that cannot see."""

from __future__ import annotations

import io
import math
import re
import textwrap
import threading
import warnings
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from windlass.public import (
    ToolContext,
    ToolError,
    ToolOutput,
    clean_text,
    logging_unchanged,
    picture,
    tool,
)
from windlass_data._data_files import INSTALL
from windlass_data._series import Column, Series, number, order, series

ChartKind: TypeAlias = Literal["bar", "line", "scatter", "pie", "area", "histogram"]

_SIZE: Final = (8.0, 5.0)
_DPI: Final = 100
_MAX_BARS: Final = 40
_MAX_SLICES: Final = 8
_MAX_TICKS: Final = 12
_LISTED: Final = 12
_EDGES: Final = 4
# matplotlib's fonts and settings are shared by all threads and guarded by nobody.
_DRAWING: Final = threading.Lock()


class _Words(NamedTuple):
    title: str
    x_label: str
    y_label: str


@tool(reads=("file",), effects="idempotent")
def create_chart(
    context: ToolContext,
    *,
    kind: ChartKind,
    title: str,
    file: str,
    x: str = "",
    y: str = "",
    x_label: str = "",
    y_label: str = "",
) -> ToolOutput:
    """Draw a chart from a data file or from given rows, as a picture with its figures in words.

    Rows with the same x are summed, except in scatter charts and histograms.

    Rows come in by `file` as well: a separate parameter for them is what small models,
    held to the schema, fill with rows that they make up.

    Args:
        context: What the run provides.
        kind: The form of the chart.
        title: The title above it.
        file: The data file (CSV, Parquet, JSON or file.sqlite:table), or the rows themselves as
            CSV text with a header line.
        x: The column along the x axis; the first column of dates or text if left out.
        y: The column of numbers to draw; several are separated by commas.
        x_label: The name of the x axis; the column's name if left out.
        y_label: The name of the y axis; the column's name if left out.
    """
    raw = kind in ("scatter", "histogram")
    data = series(context, file, x, y, summed=not raw)
    if kind == "histogram":
        data = data._replace(ys=data.ys[:1])
    elif kind == "pie":
        data = _slices(data)
    elif kind == "bar":
        data = _largest(data)
    names = ", ".join(column.name for column in data.ys)
    if kind == "histogram":
        words = _Words(title or f"Distribution of {names}", x_label or names, y_label or "rows")
    else:
        words = _Words(
            title or f"{names} by {data.x.name}", x_label or data.x.name, y_label or names
        )
    words = _Words(*(_printable(each) for each in words))
    image = picture(_draw(kind, data, words), name=f"{_slug(words.title)}.png")
    return ToolOutput(_figures(kind, data, words.title, image.describe()), (image,))


def _slices(data: Series) -> Series:
    """Return one column, without parts of nothing, the smallest parts as one."""
    column = data.ys[0]
    parts = [(x, y) for x, y in zip(data.labels, column.values, strict=True) if y]
    if not parts or any(y < 0 for _, y in parts):
        raise ToolError(f"a pie needs positive numbers; {column.name!r} has none or some below 0")
    notes = list(data.notes)
    if len(parts) > _MAX_SLICES:
        parts.sort(key=lambda part: -part[1])
        rest = parts[_MAX_SLICES - 1 :]
        parts = [*parts[: _MAX_SLICES - 1], ("other", sum(y for _, y in rest))]
        notes.append(f"the {len(rest)} smallest parts are drawn as 'other'")
    return Series(
        Column(data.x.name, "text", [x for x, _ in parts]),
        [column._replace(values=[y for _, y in parts])],
        data.origin,
        notes,
    )


def _largest(data: Series) -> Series:
    """Return a bar for every date; of many names only the largest, or none could be read."""
    count = len(data.x.values)
    if data.x.kind != "text" or count <= _MAX_BARS:
        return data
    first = data.ys[0].values
    ranked = sorted(range(count), key=lambda at: -(first[at] or 0))[:_MAX_BARS]
    note = f"the {_MAX_BARS} largest of {count} are drawn"
    return Series(
        data.x._replace(values=[data.x.values[at] for at in ranked]),
        [column._replace(values=[column.values[at] for at in ranked]) for column in data.ys],
        data.origin,
        [*data.notes, note],
    )


# ---- drawing ------------------------------------------------------------------------


def _draw(kind: ChartKind, data: Series, words: _Words) -> bytes:
    """The PNG; equal input gives equal bytes, because it carries neither time nor version."""
    try:
        with logging_unchanged("matplotlib"):
            import matplotlib as mpl
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
    except ModuleNotFoundError as problem:
        raise ToolError(f"create_chart needs matplotlib: {INSTALL}") from problem

    out = io.BytesIO()
    with _DRAWING, warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc would change the picture
        # A sign that the font lacks is drawn as a box; the words have it.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title("\n".join(textwrap.wrap(words.title, 70)[:3]))
        if kind == "pie":
            labels = [_printable(each) for each in data.labels]
            axes.pie(data.ys[0].values, labels=labels, autopct="%.0f%%", startangle=90)
        else:
            _plot(axes, kind, data)
            axes.set_xlabel(words.x_label)
            axes.set_ylabel(words.y_label)
            axes.grid(axis="y", alpha=0.3)
            axes.set_axisbelow(True)
            if len(data.ys) > 1:
                axes.legend()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _plot(axes: Any, kind: ChartKind, data: Series) -> None:
    if kind == "histogram":
        values = [value for value in data.ys[0].values if value is not None]
        axes.hist(values, bins=_bins(len(values)), edgecolor="white")
        return
    places = _places(axes, kind, data)
    missing = float("nan")
    for at, column in enumerate(data.ys):
        heights = [missing if value is None else value for value in column.values]
        name = _printable(column.name)
        match kind:
            case "bar":
                width = 0.8 / len(data.ys)
                shift = (at - (len(data.ys) - 1) / 2) * width
                axes.bar([place + shift for place in places], heights, width, label=name)
            case "area":
                axes.fill_between(places, heights, alpha=0.4, label=name)
                axes.plot(places, heights)
            case "scatter":
                axes.scatter(places, heights, s=18, alpha=0.7, label=name)
            case _:
                marker = "o" if len(places) <= _MAX_BARS else ""
                axes.plot(places, heights, marker=marker, markersize=4, label=name)


def _places(axes: Any, kind: ChartKind, data: Series) -> list[Any]:
    """Where the points stand: on the axis of dates or numbers, else one after the other."""
    if kind != "bar" and data.x.kind != "text":
        return data.x.values
    labels = [_printable(each) for each in data.labels]
    known: dict[str, int] = {}
    places = [known.setdefault(each, len(known)) for each in labels]
    step = 1 if data.x.kind == "text" and len(known) <= _MAX_BARS else -(-len(known) // _MAX_TICKS)
    shown = list(known)[::step]
    slanted = sum(len(each) for each in shown) > 70  # noqa: PLR2004 - characters in 800 pixels
    axes.set_xticks(
        range(0, len(known), step),
        shown,
        rotation=60 if slanted else 0,
        ha="right" if slanted else "center",
        fontsize=8 if len(shown) > _MAX_TICKS else 10,
    )
    return list(places)


def _bins(count: int) -> int:
    return max(5, min(30, math.isqrt(count)))


def _printable(text: str) -> str:
    """Return text that matplotlib draws as it stands: no control characters, no formulas."""
    flat = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", clean_text(text))
    return flat.replace("$", r"\$")


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "chart"


# ---- words --------------------------------------------------------------------------


def _figures(kind: ChartKind, data: Series, title: str, image: str) -> str:
    """Return what the picture shows, for a model that cannot see it."""
    labels = data.labels
    shown = title.replace(r"\$", "$")
    form = kind if kind == "histogram" else f"{kind} chart"
    lines = [f"Drew the {form} {shown!r}: {image}."]
    count = len(labels)
    extent = f"{count} points" if count > 1 else "1 point"
    if data.x.kind != "text" and kind != "histogram":
        # The points of a scatter chart stand in the order of the rows.
        ranked = sorted(range(count), key=lambda at: order(data.x.values[at]))
        extent += f" from {labels[ranked[0]]} to {labels[ranked[-1]]}"
    across = "" if kind == "histogram" else f", x = {data.x.name}"
    lines.append(f"Data: {data.origin}{across}, {extent}.")
    lines += [_facts(column, labels, by_x=kind != "histogram") for column in data.ys]
    lines += [f"Note: {note}." for note in data.notes]
    return "\n".join(lines)


def _facts(column: Column, labels: list[str], *, by_x: bool) -> str:
    pairs = [
        (name, value)
        for name, value in zip(labels, column.values, strict=True)
        if value is not None
    ]
    least, most = min(pairs, key=lambda pair: pair[1]), max(pairs, key=lambda pair: pair[1])
    total = sum(value for _, value in pairs)

    def text(pair: tuple[str, float]) -> str:
        return f"{number(pair[1])} ({pair[0]})" if by_x else number(pair[1])

    head = (
        f"{column.name}: min {text(least)}, max {text(most)}, "
        f"mean {number(total / len(pairs))}, sum {number(total)}."
    )
    if len(pairs) <= _LISTED:
        return f"{head} Values: {', '.join(map(text, pairs))}."
    first, last = pairs[:_EDGES], pairs[-_EDGES:]
    return f"{head} First: {', '.join(map(text, first))}. Last: {', '.join(map(text, last))}."
