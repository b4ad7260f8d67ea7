"""What was found out about a text, kept for speed alone: it is asked for again.

Knows no windows, and nothing of what is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Recent(Generic[Found]):
    """Remembers what a pure function says of the texts that were asked for last.

    Args:
        find: The function.
        most: Texts remembered; with one more the older half is forgotten.
        chars: Texts of more characters are not remembered.
    """

    def __init__(self, find: Callable[[str], Found], *, most: int, chars: int) -> None:
        self._find = find
        self._most = most
        self._chars = chars
        self._found: dict[str, Found] = {}

    def of(self, text: str) -> Found:
        """What the function says of a text."""
        found = self._found.get(text)
        if found is None:
            found = self._find(text)
            self.know(text, found)
        return found

    def know(self, text: str, found: Found) -> None:
        """Remember what the function would say of a text, where that is known without it."""
        if len(text) > self._chars:
            return
        if len(self._found) >= self._most:
            for old in list(self._found)[: self._most // 2]:
                self._found.pop(old, None)  # another thread may have done so
        self._found[text] = found
