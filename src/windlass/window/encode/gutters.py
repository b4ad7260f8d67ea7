"""Numbers before lines without their padding, which is read back letter for letter.

The first number keeps its padding and tells the width of all. `narrowed` writes nothing that
`widened` does not give back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NUMBER: Final = re.compile(r"^( *+)(\d{1,18}+)(?= ?[→\t:|])", re.MULTILINE)
"""The number that a tool writes before a line, with its padding."""
_PADDING: Final = re.compile(r"^ ++(?=\d{1,18}+ ?[→\t:|])", re.MULTILINE)
_HEAD: Final = 1_000
"""Characters in which a text that numbers its lines begins to."""
_LEAST_SAVED: Final = 40
"""Characters that are saved at least."""


def narrowed(text: str) -> str:
    """The text with no padding but that of its first number; the text itself where none goes.

    Its numbers must all be padded to one width.
    """
    first = _NUMBER.search(text) if _PADDING.search(text, 0, _HEAD) else None
    if first is None or not first[1]:
        return text
    width, end = len(first[0]), first.end()
    if any(len(pad) != max(width - len(number), 0) for pad, number in _NUMBER.findall(text)):
        return text
    short = text[:end] + _PADDING.sub("", text[end:])
    return short if len(text) - len(short) >= _LEAST_SAVED and widened(short) == text else text


@lru_cache(maxsize=32)
def widened(text: str) -> str:
    """The text that `narrowed` was given."""
    first = _NUMBER.search(text)
    if first is None or not first[1]:
        return text
    width = len(first[0])
    return _NUMBER.sub(lambda number: number[0].rjust(width), text)
