"""Cutting a text in the middle: where to cut, what is told of what is gone.

A cut never splits a character that people see, and no identifier that is not a text of its
own length.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from windlass.window.digest import error_lines

_JOINER: Final = "\u200d"
_BACK: Final = 300
"""How far a cut moves to find a better place: longer words than this are split."""
_INSIDE: Final = re.compile(r"[\w/@#.:+\-]")


def truncated(chars: int) -> str:
    """What is told of a cut."""
    return f"[Truncated {chars} chars]"


def head_end(text: str, most: int) -> int:
    """Where a head of at most `most` characters ends: at a line's end, or between words."""
    if most >= len(text):
        return len(text)
    if most <= 0:
        return 0
    line = text.rfind("\n", max(0, most - _BACK), most)
    return line + 1 if line >= 0 else _between(text, most, -1)


def tail_start(text: str, most: int) -> int:
    """Where a tail of at most `most` characters begins: at a line's start, or between words."""
    if most >= len(text):
        return 0
    at = len(text) - most
    if most <= 0:
        return len(text)
    line = text.find("\n", at - 1, at + _BACK)
    return line + 1 if line >= 0 else _between(text, at, 1)


def cut(text: str, most: int, *, head: float, errors: int, back: str) -> str:
    """The text in `most` characters: head, error lines of what is left out, tail, way back.

    Args:
        text: The text.
        most: Characters of the result; a little more where the way back is long.
        head: The share of the kept characters that the head takes; the tail takes the others.
        errors: Characters that error lines of the part that is left out may take.
        back: How the original is got back.
    """
    if len(text) <= most:
        return text
    told = f"{truncated(len(text))} Full data: {back}"
    room = max(0, most - len(told) - 2)
    lost = text[head_end(text, int(room * head)) : tail_start(text, int(room * (1 - head)))]
    kept = error_lines(lost, min(errors, room // 2)) if errors else ""
    room = max(0, room - len(kept) - 1) if kept else room
    first, last = head_end(text, int(room * head)), tail_start(text, int(room * (1 - head)))
    told = f"{truncated(last - first)} Full data: {back}"
    before, after = text[:first].rstrip("\n"), text[last:]
    return "\n".join(part for part in (before, told, kept, after) if part)


def line_cut(line: str, most: int) -> str:
    """One line in at most `most` characters."""
    if len(line) <= most:
        return line
    return line[: _between(line, max(0, most - 1), -1)].rstrip() + "…"


def _between(text: str, at: int, step: int) -> int:
    """The place nearest to `at`, in the direction of `step`, that splits nothing."""
    place = at
    for _ in range(_BACK):
        if not 0 < place < len(text):
            return place
        inside = _INSIDE.match(text[place - 1]) and _INSIDE.match(text[place])
        if not inside and not _joined(text, place):
            return place
        place += step
    while 0 < at < len(text) and _joined(text, at):
        at += step
    return at


def _joined(text: str, at: int) -> bool:
    """Whether the characters around a place make one that people see."""
    return (
        unicodedata.category(text[at])[0] == "M"
        or text[at] == _JOINER
        or text[at - 1] == _JOINER
        or "\U0001f3fb" <= text[at] <= "\U0001f3ff"
        or (
            "\U0001f1e6" <= text[at] <= "\U0001f1ff"
            and "\U0001f1e6" <= text[at - 1] <= "\U0001f1ff"
        )
    )
