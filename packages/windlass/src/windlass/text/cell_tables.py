"""A table as a value: its heads, its cells, and which of its columns are numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

_Item = TypeVar("_Item")


class NumberCell(str):
    """A number as a table writes it: aligned to the right, and never folded."""

    __slots__ = ()


Cell: TypeAlias = str | int
"""What a table holds: a text, a `NumberCell`, or a count, which is written with commas."""


Columns: TypeAlias = dict[str, Callable[[_Item], Cell]]
"""What stands in each column of something, by the heads of the columns."""


class CellTable(NamedTuple):
    """A table; `is_summed`: its last row is a sum."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_summed: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        """Return the columns of numbers."""
        cells = (pair for row in self.rows for pair in enumerate(row))
        return frozenset(at for at, cell in cells if isinstance(cell, int | NumberCell))

    @property
    def texts(self) -> list[list[str]]:
        """Return the rows as texts."""
        return [
            [f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in self.rows
        ]


def table_of(
    items: Iterable[_Item], columns: Columns[_Item], *, is_summed: bool = False
) -> CellTable:
    """Return a row for each item."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return CellTable(list(columns), rows, is_summed)
