"""How near each line is to what a result was asked for, by whole words that few lines have."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from windlass.window.shorten._templates import Templates, split

_WORD: Final = re.compile(r"[^\W_]{3,}")
_MOST_CHARS: Final = 20_000
"""The number of last characters of a text that are read for words."""
_COMMON: Final = 0.12
_FEW: Final = 3
"""A word in more of the lines distinguishes none of them."""
_MOST: Final = 20.0
_LEAST_NAME: Final = 4
"""Characters of an identifier, at least."""


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """What a result was asked for with: the call's arguments, the words beside it, the task."""

    arguments: str = ""
    words: str = ""
    task: str = ""

    @property
    def weighted(self) -> tuple[tuple[str, float], ...]:
        """The texts with their weights."""
        return ((self.arguments, 0.32), (self.words, 0.24), (self.task, 0.24))


@lru_cache(maxsize=64)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[-_MOST_CHARS:].lower()))


@lru_cache(maxsize=1 << 15)
def _words_in(token: str) -> frozenset[str]:
    return frozenset(_WORD.findall(token.lower()))


def nearness(templates: Templates, asked: RequestTexts) -> list[float]:
    """Return how near each segment is to what was asked for; 0 for most."""
    near = [0.0] * len(templates.tokens)
    weighted = [(_words(text), weight) for text, weight in asked.weighted if text]
    known = frozenset[str]().union(*[words for words, _ in weighted])
    if not known:
        return near
    distinct = {token for tokens in templates.tokens for token in tokens}
    said = {token: words for token in distinct if (words := known & _words_in(token))}
    if not said:
        return near
    places: dict[str, list[int]] = {}
    for at, tokens in enumerate(templates.tokens):
        there = said.keys() & tokens
        if there:
            for word in frozenset[str]().union(*[said[token] for token in there]):
                places.setdefault(word, []).append(at)
    most = max(_FEW, _COMMON * len(near))
    for words, weight in weighted:
        sums: dict[int, float] = {}
        for word in sorted(words & places.keys()):
            if len(places[word]) <= most:
                worth = math.log2(len(near) / len(places[word]))
                for at in places[word]:
                    sums[at] = sums.get(at, 0.0) + worth
        for at, total in sums.items():
            near[at] += weight * min(total, _MOST)
    return near


def named_places(templates: Templates, asked: RequestTexts) -> frozenset[int]:
    """Return the segments with an identifier of what was asked for that few segments have."""
    said = {token for text, _ in asked.weighted for token in split(text[-_MOST_CHARS:])}
    names = {token for token in said if len(token) >= _LEAST_NAME and not token.isalpha()}
    places: dict[str, list[int]] = {}
    for at, tokens in enumerate(templates.tokens):
        for name in names.intersection(tokens):
            places.setdefault(name, []).append(at)
    most = max(_FEW, _COMMON * len(templates.tokens))
    return frozenset(at for found in places.values() if len(found) <= most for at in found)
