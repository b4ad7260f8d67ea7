"""`forecast`: the next values of a series by plain arithmetic, with the error it would have had.

Four simple methods are tried on the last points, which they are not shown; the one
that was nearest makes the forecast, and the answer says how near it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import fmean, linear_regression
from typing import Any, Final, NamedTuple, TypeAlias

from windlass.public import ToolContext, ToolError, tool
from windlass_data._series import Series, number, series

Method: TypeAlias = Callable[[Sequence[float], int], list[float]]
"""From the known values to the next n."""

_MAX_PERIODS: Final = 120
_MIN_POINTS: Final = 6
_YEAR: Final = 12


class _Rhythm(NamedTuple):
    """How x goes on: months or days a step (0: neither), and the steps of one season."""

    months: int = 0
    days: int = 0
    season: int = 1


class _Trial(NamedTuple):
    name: str
    method: Method
    error: float


@tool(reads=("file",), effects="none")
def forecast(
    context: ToolContext,
    *,
    file: str,
    x: str = "",
    y: str = "",
    periods: int = 3,
) -> str:
    """Forecast the next values of a series from its trend and season.

    Args:
        context: What the run provides.
        file: The data file (CSV, Parquet, JSON or file.sqlite:table), or the rows themselves as
            CSV text with a header line.
        x: The column of dates; the first column of dates or text if left out.
        y: The column of numbers to forecast; the first one if left out.
        periods: How many steps to look ahead.
    """
    if not 1 <= periods <= _MAX_PERIODS:
        raise ToolError(f"periods must be 1 to {_MAX_PERIODS}, not {periods}")
    data = series(context, file, x, y)
    if data.x.kind == "text":
        raise ToolError(f"a forecast needs dates or numbers as x; {data.x.name!r} is text")
    column = data.ys[0]
    kept = [at for at, value in enumerate(column.values) if value is not None]
    values = [column.values[at] for at in kept]
    if len(values) < _MIN_POINTS:
        raise ToolError(f"a forecast needs at least {_MIN_POINTS} points, there are {len(values)}")
    rhythm = _rhythm([data.x.values[at] for at in kept])
    held = min(max(periods, rhythm.season, 3), len(values) // 4 or 1)
    trials = _trials(values, held, rhythm.season)
    best = min(trials, key=lambda trial: trial.error)
    names = _next(data, rhythm, periods)
    coming = list(zip(names, best.method(values, periods), strict=True))
    return _report(data, values, trials=trials, best=best, held=held, coming=coming)


# ---- methods ------------------------------------------------------------------------


def last_value(values: Sequence[float], ahead: int) -> list[float]:
    """Return the last value again: what every other method must beat."""
    return [values[-1]] * ahead


def linear_trend(values: Sequence[float], ahead: int) -> list[float]:
    """Return the least-squares line through all values, continued."""
    slope, level = linear_regression(range(len(values)), values)
    return [level + slope * (len(values) + step) for step in range(ahead)]


def seasonal_naive(season: int) -> Method:
    """Return the value of one season before."""

    def method(values: Sequence[float], ahead: int) -> list[float]:
        return [values[len(values) - season + step % season] for step in range(ahead)]

    return method


def seasonal_trend(season: int) -> Method:
    """A line plus the mean distance from it at this place of the season.

    The line is fitted to whole seasons only, or a season cut short would tilt it.
    """

    def method(values: Sequence[float], ahead: int) -> list[float]:
        start = len(values) % season
        whole = values[start:]
        slope, level = linear_regression(range(len(whole)), whole)
        distances = [value - level - slope * at for at, value in enumerate(whole)]
        offsets = [fmean(distances[place::season]) for place in range(season)]
        places = range(len(whole), len(whole) + ahead)
        return [level + slope * at + offsets[at % season] for at in places]

    return method


def _trials(values: Sequence[float], held: int, season: int) -> list[_Trial]:
    methods: list[tuple[str, Method]] = [("last value", last_value), ("linear trend", linear_trend)]
    known, hidden = values[:-held], values[-held:]
    if season > 1 and len(known) >= 2 * season:
        methods.append((f"same place of the season before ({season})", seasonal_naive(season)))
        methods.append((f"linear trend with seasonal offsets ({season})", seasonal_trend(season)))
    return [
        _Trial(
            name,
            method,
            fmean([abs(a - b) for a, b in zip(method(known, held), hidden, strict=True)]),
        )
        for name, method in methods
    ]


# ---- time ---------------------------------------------------------------------------


def _rhythm(xs: Sequence[Any]) -> _Rhythm:
    if not all(isinstance(x, date) and not isinstance(x, datetime) for x in xs):
        return _Rhythm()
    pairs = list(pairwise(xs))
    months = {(b.year - a.year) * 12 + b.month - a.month for a, b in pairs}
    if len(months) == 1 and months != {0} and len({x.day for x in xs}) == 1:
        step = months.pop()
        return _Rhythm(months=step, season=_YEAR // step if _YEAR % step == 0 else 1)
    days = {(b - a).days for a, b in pairs}
    if len(days) == 1:
        step = days.pop()
        return _Rhythm(days=step, season=7 if step == 1 else 1)
    return _Rhythm()


def _next(data: Series, rhythm: _Rhythm, periods: int) -> list[str]:
    """Return the x of the coming points, in the form of the known ones."""
    xs = list(data.x.values)
    last, known = xs[-1], len(xs)
    for step in range(1, periods + 1):
        if rhythm.months:
            month = last.month - 1 + rhythm.months * step
            xs.append(last.replace(year=last.year + month // 12, month=month % 12 + 1))
        elif rhythm.days:
            xs.append(last + timedelta(days=rhythm.days * step))
        elif data.x.kind == "number" and known > 1:
            xs.append(last + (xs[known - 1] - xs[known - 2]) * step)
        else:
            return [f"+{at}" for at in range(1, periods + 1)]
    return data._replace(x=data.x._replace(values=xs)).labels[known:]


# ---- words --------------------------------------------------------------------------


def _report(
    data: Series,
    values: Sequence[float],
    *,
    trials: Sequence[_Trial],
    best: _Trial,
    held: int,
    coming: Sequence[tuple[str, float]],
) -> str:
    labels = data.labels
    size = fmean([abs(value) for value in values[-held:]])
    share = f", {best.error / size:.1%} of their mean" if size else ""
    tried = ", ".join(f"{each.name} (off by {number(round(each.error, 2))})" for each in trials)
    head = (
        f"Forecast of {data.ys[0].name} by {data.x.name} from {data.origin} "
        f"({len(values)} points, {labels[0]} to {labels[-1]})."
    )
    method = (
        f"Method: {best.name}; on the last {held} points, which it was not shown, it was off by "
        f"{number(round(best.error, 2))} on average{share}."
    )
    lines = [head, method, *(f"{name}: {_rounded(value, values)}" for name, value in coming)]
    lines.append(f"Tried: {tried}.")
    if coming[0][0].startswith("+"):
        lines.append("Note: the dates are uneven; the points were taken as evenly spaced.")
    lines += [f"Note: {note}." for note in data.notes]
    return "\n".join(lines)


def _rounded(value: float, values: Sequence[float]) -> str:
    """Return whole where all known values are whole, else six digits."""
    whole = all(each == int(each) for each in values)
    return number(float(round(value))) if whole else number(value)
