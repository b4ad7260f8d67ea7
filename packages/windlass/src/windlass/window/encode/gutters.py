"""Numbers that tools write before lines: read, written, and without their padding.

Where the padding is left out, the first number keeps its own and tells the width of all. `narrowed`
writes nothing that `widened` does not give back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NUMBER: Final = re.compile(r"( *+)(\d{1,18}+)(?=[→\t:|])")
_ENDS: Final = re.compile(r"\n(?: *+\d++[→\t:|])?+")
"""The end of a line, with the number before the next one."""
_NUMBERED: Final = re.compile(r"\n *+\d++[→\t:|]")
_HEAD: Final = 1_000
"""Characters in which a text that numbers its lines begins to: to look for numbers at the end of
every line takes six times as long as to split it."""
_PADDED: Final = re.compile(r"^( *+)(\d{1,18}+)(?= ?[→\t:|])", re.MULTILINE)
"""The number that a tool writes before a line, with its padding."""
_PADDING: Final = re.compile(r"^ ++(?=\d{1,18}+ ?[→\t:|])", re.MULTILINE)
_LEAST_SAVED: Final = 40
"""Characters that are saved at least."""


def narrowed(text: str) -> str:
    """Return the text with no padding but that of its first number.

    The text itself where none goes.

    Its numbers must all be padded to one width.
    """
    first = _PADDED.search(text) if _PADDING.search(text, 0, _HEAD) else None
    if first is None or not first[1]:
        return text
    width, end = len(first[0]), first.end()
    if any(len(pad) != max(width - len(number), 0) for pad, number in _PADDED.findall(text)):
        return text
    short = text[:end] + _PADDING.sub("", text[end:])
    return short if len(text) - len(short) >= _LEAST_SAVED and widened(short) == text else text


@lru_cache(maxsize=32)
def widened(text: str) -> str:
    """Return the text that `narrowed` was given."""
    first = _PADDED.search(text)
    if first is None or not first[1]:
        return text
    width = len(first[0])
    return _PADDED.sub(lambda number: number[0].rjust(width), text)


def bare_lines(text: str) -> list[str]:
    """Give the lines of a text without the numbers before them, where it begins with such lines."""
    if not _NUMBERED.search(f"\n{text[:_HEAD]}"):
        return text.split("\n")
    return _ENDS.split(f"\n{text}")[1:]


def number_of(line: str) -> int | None:
    """Return the number before a line; None: there is none."""
    match = NUMBER.match(line)
    return int(match[2]) if match else None


def moved(line: str, by: int) -> str:
    """Return the line with the number before it raised; the line itself where there is none.

    A number that is padded to a width keeps it.
    """
    match = NUMBER.match(line)
    if match is None:
        return line
    number = str(int(match[2]) + by)
    return (number.rjust(match.end()) if match[1] else number) + line[match.end() :]


def counted(line: str, number: int, like: str) -> str:
    """Return the line with a number before it, written as before the line `like`."""
    match = NUMBER.match(like)
    assert match is not None  # it has a number
    written = str(number).rjust(match.end()) if match[1] else str(number)
    return f"{written}{like[match.end()]}{line}"


def shift_between(shown: str, line: str) -> int | None:
    """By how much the number before `shown` is raised to make it `line`; None: nothing does."""
    if shown == line:
        return 0
    before, now = number_of(shown), number_of(line)
    if before is None or now is None or before == now or moved(shown, now - before) != line:
        return None
    return now - before
