"""From a table to series of numbers: which columns, what kind, summed where x repeats.

What the caller left open is chosen here, and every choice is a note that the tool's
answer repeats, so that nobody takes a guess for a fact.
"""

from __future__ import annotations

import csv
import re
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from windlass.public import ToolContext, ToolError, did_you_mean, parse_json
from windlass_data import _data_files as files

Kind: TypeAlias = Literal["date", "number", "text"]
_INLINE: Final = "the given rows"
_MONTH: Final = re.compile(r"\d{4}-\d{2}")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


class Column(NamedTuple):
    """A column whose values are all dates, all numbers (floats) or all text; None where missing."""

    name: str
    kind: Kind
    values: list[Any]


class Series(NamedTuple):
    """What is drawn: for each x one value of each column; `notes` are the choices made."""

    x: Column
    ys: list[Column]
    origin: str
    notes: list[str]

    @property
    def labels(self) -> list[str]:
        """Return the x values as text; first days of months as months."""
        monthly = self.x.kind == "date" and all(_is_month(each) for each in self.x.values)
        return [label(each)[:7] if monthly else label(each) for each in self.x.values]


def series(
    context: ToolContext,
    file: str,
    x: str,
    y: str,
    *,
    summed: bool = True,
) -> Series:
    """Return the series that `x` and `y` (several with commas) name in a file or in its text.

    With `summed`, rows of equal x are one point, and points with a date or number as x
    are sorted.
    """
    notes: list[str] = []
    table = _table(context, file, notes)
    if not table.rows:
        raise ToolError(f"{table.origin} has no rows")
    columns = [
        _column(name, [row[at] for row in table.rows]) for at, name in enumerate(table.columns)
    ]
    across, drawn = _choose(columns, x, y, notes)
    result = Series(across, drawn, table.origin, notes)
    return _summed(result) if summed else _complete(result)


def label(value: Any) -> str:
    """Return one x value as short text."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "minutes")
    text = value.isoformat() if isinstance(value, date) else " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"  # noqa: PLR2004 - what fits beside a bar


def number(value: float) -> str:
    """Return a number as a person writes it: no exponent where six digits do, no trailing zeros."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"  # noqa: PLR2004


def order(value: Any) -> Any:
    """Return what x values are sorted by; a column may hold dates beside times of day."""
    return value if isinstance(value, float) else value.isoformat()


# ---- the table ----------------------------------------------------------------------


def _table(context: ToolContext, file: str, notes: list[str]) -> files.Table:
    """Return a file's table, or the rows that were written where a file's name could stand."""
    text = file.strip()
    if text.startswith("["):
        return _from_json(text)
    if "\n" in text:
        return _from_csv(text)
    if text:
        return files.read(context, text)
    found = files.sources(context)
    if len(found) != 1:
        raise ToolError(f"no data: name a file; {files.known_tables(found)}")
    notes.append(f"no file was named; {found[0].label} is the only one there")
    return files.read(context, found[0].label)


def _from_csv(text: str) -> files.Table:
    header = text.partition("\n")[0]
    delimiter = max(",;\t|", key=header.count)
    columns, *rows = csv.reader(text.splitlines(), delimiter=delimiter, skipinitialspace=True)
    width = len(columns)
    whole = [tuple((row + [""] * width)[:width]) for row in rows if any(row)]
    return files.Table(tuple(columns), whole, _INLINE)


def _from_json(text: str) -> files.Table:
    try:
        records = parse_json(text)
    except ValueError as problem:
        raise ToolError(f"the given rows are not JSON ({problem})") from problem
    if not all(isinstance(record, dict) for record in records):
        raise ToolError("the given rows must be JSON objects, one for each row")
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [tuple(record.get(name) for name in names) for record in records]
    return files.Table(tuple(names), rows, _INLINE)


def _column(name: str, values: list[Any]) -> Column:
    given = [value for value in values if value is not None and value != ""]
    for kind, convert in (("number", _as_number), ("date", _as_date)):
        converted = [convert(value) for value in given]
        if given and None not in converted:
            stream = iter(converted)
            filled = [None if value in (None, "") else next(stream) for value in values]
            return Column(name, "number" if kind == "number" else "date", filled)
    return Column(name, "text", [None if value in (None, "") else str(value) for value in values])


def _as_number(value: Any) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    result = float(value)
    return result if abs(result) != float("inf") and result == result else None  # noqa: PLR0124 - not NaN


def _as_date(value: Any) -> date | None:
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        return value.date() if midnight else value.replace(tzinfo=None)
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or "-" not in value:
        return None
    text = value.strip()
    try:
        return _as_date(datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text))
    except ValueError:
        return None


def _is_month(value: date) -> bool:
    return value.day == 1 and not isinstance(value, datetime)


# ---- the choice of columns ----------------------------------------------------------


def _choose(columns: list[Column], x: str, y: str, notes: list[str]) -> tuple[Column, list[Column]]:
    numeric = [column for column in columns if column.kind == "number"]
    if not numeric:
        names = ", ".join(column.name for column in columns)
        raise ToolError(f"there is no column of numbers to use as y; columns: {names}")
    others = [column for column in columns if column.kind != "number"]
    across = _named(columns, x, "x", others, notes) if x else None
    if y:
        # A name with a comma in it is a name before it is a list.
        wanted = [y] if any(column.name == y for column in columns) else y.split(",")
        free = [column for column in numeric if column is not across]
        drawn = [_named(columns, each.strip(), "y", free, notes) for each in wanted if each.strip()]
    else:
        fitting = [column for column in numeric if column is not across]
        if across is None and not others and len(numeric) > 1:
            fitting = numeric[1:]
        drawn = fitting[:1]
        if len(fitting) > 1 or across is None:
            notes.append(f"y was not given; {drawn[0].name!r} was chosen")
    for column in drawn:
        if column.kind != "number":
            listed = ", ".join(each.name for each in numeric)
            raise ToolError(
                f"y column {column.name!r} is {column.kind}; columns of numbers: {listed}"
            )
    if not drawn:
        raise ToolError(f"x is the only column of numbers ({across.name if across else x!r})")
    if across is None:
        spare = [*others, *(column for column in numeric if column not in drawn)]
        across = spare[0] if spare else Column("row", "number", _rows(columns))
        notes.append(
            f"x was not given; {across.name!r} was chosen"
            if spare
            else "x was not given; it is the number of the row"
        )
    return across, list({column.name: column for column in drawn}.values())


def _rows(columns: list[Column]) -> list[Any]:
    return [float(at) for at in range(1, len(columns[0].values) + 1)]


def _named(
    columns: list[Column], name: str, role: str, fitting: list[Column], notes: list[str]
) -> Column:
    """Return the column called `name`, or so nearly so that no other can be meant."""
    plain = {_plain(column.name): column for column in columns}
    for column in columns:
        if column.name == name:
            return column
    near = get_close_matches(_plain(name), plain, n=1, cutoff=0.85)
    found = plain[near[0]] if near else fitting[0] if len(fitting) == 1 else None
    if found is None:
        names = [column.name for column in columns]
        raise ToolError(f"there is no column {name!r} for {role}; {did_you_mean(name, names)}")
    if found.name.casefold() != name.casefold():
        notes.append(f"there is no column {name!r}; {found.name!r} was used for {role}")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


# ---- points -------------------------------------------------------------------------


def _complete(found: Series) -> Series:
    """Return rows that have x and at least one y."""
    keep = [
        at
        for at, x in enumerate(found.x.values)
        if x is not None and any(column.values[at] is not None for column in found.ys)
    ]
    missing = len(found.x.values) - len(keep)
    if not keep:
        raise ToolError(f"no row of {found.origin} has both x and y")
    notes = list(found.notes)
    if missing:
        notes.append(f"rows without x or y, left out: {missing}")
    return Series(
        _at(found.x, keep), [_at(column, keep) for column in found.ys], found.origin, notes
    )


def _at(column: Column, keep: list[int]) -> Column:
    return column._replace(values=[column.values[at] for at in keep])


def _summed(given: Series) -> Series:
    found = _complete(given)
    groups: dict[Any, list[int]] = {}
    for at, x in enumerate(found.x.values):
        groups.setdefault(x, []).append(at)
    xs = list(groups) if found.x.kind == "text" else sorted(groups, key=order)
    notes = list(found.notes)
    if len(groups) < len(found.x.values):
        notes.append(
            f"{found.x.name!r} repeats: {len(found.x.values)} rows were summed to {len(xs)} points"
        )
    ys = [
        column._replace(values=[_total([column.values[at] for at in groups[x]]) for x in xs])
        for column in found.ys
    ]
    return Series(found.x._replace(values=xs), ys, found.origin, notes)


def _total(values: list[Any]) -> float | None:
    given = [value for value in values if value is not None]
    return sum(given) if given else None
