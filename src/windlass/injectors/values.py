"""Volatile values: found in the stable part, moved behind the last stable cut point, and named.

A value that changes from call to call (the time, a number, an id) breaks the cache of all that
stands behind it. Where a template or Windlass put it in, a name stands in its place, and the
value itself is told in the DYNAMIC tier. What the user wrote is never changed, only reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier

_HEAD: Final = "[Values now]"
_LOOKS: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b1[5-9]\d{8}(?:\d{3})?\b"
    r"|\b[0-9a-f]{32,64}\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Volatile:
    """Text of the user's that looks as if it changed from run to run: place (characters), text."""

    at: int
    text: str


def looks_volatile(text: str) -> tuple[Volatile, ...]:
    """Times, UUIDs, seconds since 1970 and long digests in a text, with their places.

    >>> looks_volatile("Built 2026-11-22T08:00:00Z.")
    (Volatile(at=6, text='2026-11-22T08:00:00Z'),)
    """
    return tuple(Volatile(match.start(), match[0]) for match in _LOOKS.finditer(text))


@dataclass
class Values(Injector):
    """The values that were moved out of the stable part, by the names that stand there."""

    name: ClassVar[str] = "values"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 5
    cap: ClassVar[int] = 200

    def render(self, seen: Situation) -> Rendered:
        """A line for each."""
        return Rendered(
            _HEAD, tuple(BlockItem(f"{name}: {value}", name) for name, value in seen.values.items())
        )
