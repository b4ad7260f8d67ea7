"""Forms of lines: what is left of a line when its words and numbers are taken for any others.

A form that many lines share is frequent. Lines of rare forms are written more coarsely, so that
prose and code, where each line has a form of its own, have few.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from windlass.window.shorten._segments import LINE

_TOKEN: Final = re.compile(r"[\w./@~+%\\-]+|[^\w\s]")
_NUMBER: Final = re.compile(r"([+-]?)\d+(?:[.,]\d+)*([^\W\d_]{1,3}|%)?")
FREQUENT: Final = 8
"""Lines that share a frequent form, at least."""


def split(text: str, most: int | None = None) -> list[str]:
    """Words, numbers, paths and punctuation of a text, or of its first `most` characters."""
    return _TOKEN.findall(text, 0, len(text) if most is None else most)


@lru_cache(maxsize=1 << 15)
def class_of(token: str) -> str:
    """What a token is: `0` a number (with minus and unit), `w` a word, `x` a mixture, or itself.

    >>> [class_of(token) for token in ("-1.5", "30ms", "größer", "a/b.c", "::")]
    ['-0', '0ms', 'w', 'x', '::']
    """
    if token.isalpha():
        return "w"
    number = _NUMBER.fullmatch(token)
    if number:
        return f"{'-' * (number[1] == '-')}0{number[2] or ''}"
    return "x" if any(map(str.isalnum, token)) else token


class Templates:
    """The form of each segment of a text.

    `keys` are the forms (an empty one: it is blank), `rows` the places of each frequent one.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.tokens: list[list[str]] = [split(text, LINE) for text in texts]
        self.classes: list[list[str]] = [[*map(class_of, tokens)] for tokens in self.tokens]
        self.keys: list[str] = [*map(" ".join, self.classes)]
        counts = Counter(self.keys)
        del counts[""]
        places: defaultdict[str, list[int]] = defaultdict(list)
        coarse: dict[str, str] = {"": ""}
        for at, key in enumerate(self.keys):
            if counts[key] >= FREQUENT:
                places[key].append(at)
                continue
            if key not in coarse:
                coarse[key] = _collapsed(self.classes[at])
            self.keys[at] = coarse[key]
        self.rows: Mapping[str, list[int]] = places
        """By frequent form the places that have it."""


def _collapsed(classes: Sequence[str]) -> str:
    """Return a form with any words in a row as one; it begins as none that is frequent."""
    parts = ["~"]
    for one in classes:
        part = "w" if one == "x" else one
        if part != "w" or parts[-1] != "w":
            parts.append(part)
    return " ".join(parts)
