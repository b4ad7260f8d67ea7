"""Numbers that strangers wrote: `int` fails at superscripts and at thousands of digits."""

from __future__ import annotations

from typing import Final

_DIGITS: Final = 18
"""What any count has room in."""


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is, of at most 18 digits (None: it is none)."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None
