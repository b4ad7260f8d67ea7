"""Lines in fewer characters: numbers without their padding, a common indentation said once.

Both are read back letter for letter: `shorter` writes nothing that `restored` does not give back.
The first number keeps its padding and tells the width of all; a line of its own tells what was
left out before the lines that follow it. A line that stands for lines of another result (see
`references`) is no line of the text and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from windlass.window.references import is_reference

NUMBER: Final = re.compile(r"^( *+)(\d{1,18}+)(?= ?[→\t:|])", re.MULTILINE)
"""The number that a tool writes before a line, with its padding."""
_PADDING: Final = re.compile(r"^ ++(?=\d{1,18}+ ?[→\t:|])", re.MULTILINE)
_SIGN: Final = re.compile(r" *+\d{1,18}+ ?[→\t:|]")
"""All that stands before the line itself."""
_HEAD: Final = 1_000
"""Characters in which a text that numbers its lines begins to."""
_FEWEST: Final = 3
"""Lines with numbers that a text has at least where they are written shorter."""
_LEAST_SAVED: Final = 40
"""Characters that are saved at least."""
_INDENTED: Final = {" ": 4, "\t": 2}
"""What lines may be indented by, and how often at least."""
_NAMES: Final = {" ": "spaces", "\t": "tabs"}
_LEAST_SHARE: Final = 0.1
"""The share of a text that leaving out an indentation saves at least."""
_END: Final = "; edits must quote them]"
_LEFT_OUT: Final = re.compile(
    r"^\[next (\d{1,9}) lines: (\d{1,4}) (spaces|tabs) less (before each|behind each number)"
    + re.escape(_END)
    + "$",
    re.MULTILINE,
)


def shorter(text: str) -> str:
    """The text in fewer characters; the text itself where that cannot be, or would not pay."""
    if _END in text:
        return text
    short = _dedented(_narrowed(text))
    return short if short is not text and restored(short) == text else text


@lru_cache(maxsize=8)
def restored(text: str) -> str:
    """The text that `shorter` was given."""
    return _padded(_indented(text) if _END in text else text)


def _narrowed(text: str) -> str:
    """The text with each number but the first without its padding, where all have one width."""
    if not _PADDING.search(text, 0, _HEAD):
        return text
    first = NUMBER.search(text)
    if first is None or not first[1]:
        return text
    numbers, width = NUMBER.findall(text), len(first[0])
    if len(numbers) < _FEWEST or any(
        len(padding) != max(width - len(number), 0) for padding, number in numbers
    ):
        return text
    end = first.end()
    short = text[:end] + _PADDING.sub("", text[end:])
    return short if len(text) - len(short) >= _LEAST_SAVED else text


def _padded(text: str) -> str:
    first = NUMBER.search(text)
    if first is None or not first[1]:
        return text
    width = len(first[0])
    return NUMBER.sub(lambda number: number[0].rjust(width), text)


def _dedented(text: str) -> str:
    """The text with stretches of lines without what all of them are indented by."""
    for sign, least in _INDENTED.items():
        if sign * least not in text:
            continue
        lines = text.split("\n")
        numbered = NUMBER.search(text[:_HEAD]) is not None
        starts = [_begin(line, numbered=numbered) for line in lines]
        wide = [_indentation(line, at, sign) for line, at in zip(lines, starts, strict=True)]
        shown: list[str] = []
        done = 0
        for stretch in _stretches(wide, least):
            by = min(width for width in wide[stretch.start : stretch.stop] if width is not None)
            where = "behind each number" if numbered else "before each"
            line = f"[next {len(stretch)} lines: {by} {_NAMES[sign]} less {where}{_END}"
            count = sum(width is not None for width in wide[stretch.start : stretch.stop])
            saved = by * count - len(line) - 1
            if saved < max(_LEAST_SAVED, _LEAST_SHARE * len(text)):
                continue
            shown += [*lines[done : stretch.start], line]
            shown += [
                lines[at] if wide[at] is None else _without(lines[at], starts[at], by)
                for at in stretch
            ]
            done = stretch.stop
        if done:
            return "\n".join([*shown, *lines[done:]])
    return text


def _stretches(wide: Sequence[int | None], least: int) -> Iterator[range]:
    """Lines one behind the other that are indented so far or hold nothing; the longest such."""
    first = last = -1
    for at, width in enumerate([*wide, 0]):
        if width is None:
            continue
        if width >= least:
            first = at if first < 0 else first
            last = at
        elif first >= 0:
            yield range(first, last + 1)
            first = -1


def _begin(line: str, *, numbered: bool) -> int:
    """Where the line itself begins, behind its number; -1: it stays as it is."""
    if is_reference(line):
        return -1
    if not numbered:
        return 0
    sign = _SIGN.match(line)
    return sign.end() if sign else 0


def _indentation(line: str, at: int, sign: str) -> int | None:
    """How far a line is indented; None: it holds nothing, or stands for others."""
    body = line[at:]
    if at < 0 or not body or body.isspace():
        return None
    return len(body) - len(body.lstrip(sign))


def _without(line: str, at: int, by: int) -> str:
    return line[:at] + line[at + by :]


def _indented(text: str) -> str:
    lines = text.split("\n")
    told: list[str] = []
    at = 0
    while at < len(lines):
        match = _LEFT_OUT.match(lines[at])
        at += 1
        if match is None:
            told.append(lines[at - 1])
            continue
        sign = " " if match[3] == "spaces" else "\t"
        numbered = match[4] == "behind each number"
        before = sign * int(match[2])
        end = min(at + int(match[1]), len(lines))
        for line in lines[at:end]:
            start = _begin(line, numbered=numbered)
            empty = _indentation(line, start, sign) is None
            told.append(line if empty else f"{line[:start]}{before}{line[start:]}")
        at = end
    return "\n".join(told)
