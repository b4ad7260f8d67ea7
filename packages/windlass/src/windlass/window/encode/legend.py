"""The first line of a JSON text written in fewer characters: how it is to be read.

Told in full once, it is one short line where a text still in view has told as much. It knows
first lines only; who is in view is the affair of the policies. A column that counts the rows of a
table from 0 or 1 is told among its keys, as `rank=1..20`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_JSON: Final = "JSON without quotes"
_TABLES: Final = "table: keys, then rows"
_COMMON: Final = "key=value: in every row"
_GROUPS: Final = "---: next list"
BRIEF: Final = f"[{_JSON}]"
"""Stands in the place of a legend that an earlier text has told; it points to no other text, which
may soon be shortened."""
_TEXTS: Final = "json value: its text"
_MOST_CHARS: Final = len(f"[{_JSON}; {_TABLES}; {_COMMON}; {_GROUPS}; {_TEXTS}]")
_FEWEST: Final = 5
"""Rows that are counted so at least: with fewer nothing is saved."""
_MOST: Final = 999
"""Larger numbers may be names that a later call quotes, and stay in sight."""


def legend(*, tables: bool, common: bool, groups: bool, texts: bool = False) -> str:
    """Return the first line of a text that takes these liberties."""
    liberties = ((tables, _TABLES), (common, _COMMON), (groups, _GROUPS), (texts, _TEXTS))
    return f"[{'; '.join([_JSON, *(text for taken, text in liberties if taken)])}]"


def legend_of(text: str) -> str | None:
    """Return the first line of an encoded text, if it tells how to read it.

    None: any other text.
    """
    if not text.startswith(f"[{_JSON}"):
        return None
    return text[: _MOST_CHARS + 1].partition("\n")[0]


def is_head(line: str) -> bool:
    """Return whether an encoded text may begin with this line."""
    return line.startswith(f"[{_JSON}")


def explains(full: str, line: str) -> bool:
    """Return whether one legend tells all that another one does."""
    return set(line[1:-1].split("; ")) <= set(full[1:-1].split("; "))


def briefly(text: str) -> str:
    """Return an encoded text with a brief legend in the place of its own."""
    return f"{BRIEF}\n{text.partition(chr(10))[2]}"


def counted_from(cells: Sequence[str]) -> int | None:
    """Return what the cells count from, 0 or 1; None: they do not count, or there are too few.

    >>> counted_from([str(number) for number in range(1, 21)])
    1
    """
    first = int(cells[0] == "1")
    if not _FEWEST <= len(cells) <= _MOST:
        return None
    return first if list(cells) == [str(first + row) for row in range(len(cells))] else None


def is_count(word: str) -> bool:
    """Return whether a word is how such a column is told: `1..20`."""
    return word[:3] in ("0..", "1..") and word[3:].isdecimal()
