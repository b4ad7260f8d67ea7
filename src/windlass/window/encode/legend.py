"""The first line of a JSON text written in fewer characters: how it is to be read.

Told in full once, it is one short line where a text still in view has told as much. It knows
first lines only; who is in view is the affair of the policies.
"""

from __future__ import annotations

from typing import Final

_JSON: Final = "JSON without quotes"
_TABLES: Final = "table: keys, then rows"
_COMMON: Final = "key=value: in every row"
_GROUPS: Final = "---: next list"
BRIEF: Final = f"[{_JSON}]"
"""Stands in the place of a legend that an earlier text has told; it points to no other text, which
may soon be shortened."""
_MOST_CHARS: Final = len(f"[{_JSON}; {_TABLES}; {_COMMON}; {_GROUPS}]")


def legend(*, tables: bool, common: bool, groups: bool) -> str:
    """The first line of a text that takes these liberties."""
    told = ((tables, _TABLES), (common, _COMMON), (groups, _GROUPS))
    return f"[{'; '.join([_JSON, *(text for taken, text in told if taken)])}]"


def legend_of(text: str) -> str | None:
    """The first line of an encoded text, if it tells how to read it; None: any other text."""
    if not text.startswith(f"[{_JSON}"):
        return None
    return text[: _MOST_CHARS + 1].partition("\n")[0]


def is_head(line: str) -> bool:
    """Whether an encoded text may begin with this line."""
    return line.startswith(f"[{_JSON}")


def explains(said: str, line: str) -> bool:
    """Whether one legend tells all that another one does."""
    return set(line[1:-1].split("; ")) <= set(said[1:-1].split("; "))


def briefly(text: str) -> str:
    """An encoded text with a brief legend in the place of its own."""
    return f"{BRIEF}\n{text.partition(chr(10))[2]}"
