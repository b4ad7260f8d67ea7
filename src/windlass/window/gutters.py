"""The numbers that tools write before the lines of a file, told apart from the lines.

A file that was changed is shown again with other numbers before the same lines. Knows single
texts; which lines are shown elsewhere is the affair of an index.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"( *+)(\d{1,18}+)(?=[→\t:|])")
_ENDS: Final = re.compile(r"\n(?: *+\d++[→\t:|])?+")
"""The end of a line, with the number before the next one."""
_NUMBERED: Final = re.compile(r"\n *+\d++[→\t:|]")
_HEAD: Final = 1_000
"""Characters in which a text that numbers its lines begins to: to look for numbers at the end of
every line takes six times as long as to split it."""


def bare_lines(text: str) -> list[str]:
    """The lines of a text without the numbers before them, where it begins with such lines."""
    if not _NUMBERED.search(f"\n{text[:_HEAD]}"):
        return text.split("\n")
    return _ENDS.split(f"\n{text}")[1:]


def number_of(line: str) -> int | None:
    """The number before a line; None: there is none."""
    found = _NUMBER.match(line)
    return int(found[2]) if found else None


def moved(line: str, by: int) -> str:
    """The line with the number before it raised; the line itself where there is none.

    A number that is padded to a width keeps it.
    """
    found = _NUMBER.match(line)
    if found is None:
        return line
    number = str(int(found[2]) + by)
    return (number.rjust(found.end()) if found[1] else number) + line[found.end() :]


def shift_between(shown: str, line: str) -> int | None:
    """By how much the number before `shown` is raised to make it `line`; None: nothing does."""
    if shown == line:
        return 0
    before, now = number_of(shown), number_of(line)
    if before is None or now is None or before == now or moved(shown, now - before) != line:
        return None
    return now - before
