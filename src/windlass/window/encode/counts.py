"""Columns that count the rows of a table from 0 or 1: told among the keys, as `rank=1..20`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

FROM: Final = re.compile(r"([01])\.\.\d+(?=[,}\n])")
"""What is told of such a column behind its key, as a reader finds it."""
_FEWEST: Final = 5
"""Rows that are counted so at least: with fewer nothing is saved."""
_MOST: Final = 999
"""Larger numbers may be names that a later call quotes, and stay in sight."""


def counted_from(cells: Sequence[str]) -> int | None:
    """What the cells count from, 0 or 1; None: they do not count, or there are too few.

    >>> counted_from([str(number) for number in range(1, 21)])
    1
    """
    first = int(cells[0] == "1")
    if not _FEWEST <= len(cells) <= _MOST:
        return None
    return first if list(cells) == [str(first + row) for row in range(len(cells))] else None


def is_count(word: str) -> bool:
    """Whether a word is how such a column is told: `1..20`."""
    return word[:3] in ("0..", "1..") and word[3:].isdecimal()
