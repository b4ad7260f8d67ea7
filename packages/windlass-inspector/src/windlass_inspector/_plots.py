"""Plots, drawn by the server as values: the pages make SVG of them, without styles of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from windlass_inspector._rendering import small_money

_BARS: Final = 240
"""Bars of a plot; more calls than that are drawn together."""
_WIDTH: Final = 1_000
_HEIGHT: Final = 160
_WIDEST: Final = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its place and size, the calls that it stands for, and its amount in words."""

    x: float
    y: float
    width: float
    height: float
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Amounts by call. `most` is the largest, in words."""

    bars: Sequence[Bar]
    most: str
    calls: int
    grouped: int
    """The calls of a bar."""


def bars_of(amounts: Sequence[float | None]) -> BarPlot:
    """Return the money of calls as bars; of many calls several share a bar."""
    grouped = max(1, -(-len(amounts) // _BARS))
    starts = range(0, len(amounts), grouped)
    sums = [sum(each or 0.0 for each in amounts[at : at + grouped]) for at in starts]
    most = max(sums, default=0.0)
    width = _WIDTH / max(1, len(sums))
    bars = [
        Bar(
            x=round(at * width, 2),
            y=round(_HEIGHT - _HEIGHT * amount / (most or 1), 2),
            width=round(min(_WIDEST, max(0.6, width * 0.86)), 2),
            height=round(_HEIGHT * amount / (most or 1), 2),
            first=at * grouped + 1,
            last=min(len(amounts), (at + 1) * grouped),
            text=small_money(amount),
        )
        for at, amount in enumerate(sums)
    ]
    return BarPlot(bars, small_money(most), len(amounts), grouped)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: what it is of, its points as SVG has them, and where it ends."""

    name: str
    points: str
    end: str


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Sums from call to call, a line for each name. `most` is the largest, in words."""

    lines: Sequence[Line]
    most: str
    calls: int


def sums_of(series: Sequence[tuple[str, Sequence[float]]], *, is_money: bool) -> LinePlot:
    """Return what calls came to, each with all before it."""
    summed = [(name, list(accumulate(amounts))) for name, amounts in series]
    most = max((amounts[-1] for _, amounts in summed if amounts), default=0.0)
    calls = max((len(amounts) for _, amounts in summed), default=0)

    def text(amount: float) -> str:
        return small_money(amount) if is_money else f"{amount:,.0f} tokens"

    return LinePlot(
        [
            Line(name, _points(amounts, most, calls), text(amounts[-1]))
            for name, amounts in summed
            if amounts
        ],
        text(most),
        calls,
    )


def _points(amounts: Sequence[float], most: float, calls: int) -> str:
    step = max(1, len(amounts) // (2 * _BARS))
    places = [*range(0, len(amounts), step), len(amounts) - 1]
    pairs = (
        (_WIDTH * at / max(1, calls - 1), _HEIGHT - _HEIGHT * amounts[at] / (most or 1))
        for at in dict.fromkeys(places)
    )
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)
