"""What was found out about a word, kept for speed alone: a session says the same ones again.

Knows no words and no windows. Unlike `functools.lru_cache` it is asked without a call of
Python's where the answer is there, which is what most of the time is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

_MOST: Final = 1 << 14
"""Words remembered; with one more all are forgotten."""

Found = TypeVar("Found")


class _Table(dict[str, Found], Generic[Found]):
    """A dict that works out what it lacks."""

    def __init__(self, find: Callable[[str], Found]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, word: str) -> Found:
        found = self._find(word)
        if len(self) >= _MOST:
            self.clear()
        self[word] = found
        return found


class Memo(Generic[Found]):
    """Remembers what a pure function says of each word."""

    def __init__(self, find: Callable[[str], Found]) -> None:
        self.of: Final[Callable[[str], Found]] = _Table(find).__getitem__
        """What the function says of a word."""
