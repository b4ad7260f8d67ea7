"""What a command prints that it did not print the last time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from windlass.window._references import read_reference

_DIGITS: Final = re.compile(r"\d+")
_MOST: Final = 0.2
"""Where more of the lines are new, they are compared without their numbers; then none is news."""
_FEW: Final = 5


def news(lines: Sequence[str], before: Sequence[str]) -> Sequence[int]:
    """The places of the lines that are not among those of `before`, where they are few."""
    for same in (_spaced, _unnumbered):
        known = {*map(same, before), ""}
        changed = [
            at
            for at, line in enumerate(lines)
            if same(line) not in known and read_reference(line.rstrip("\n")) is None
        ]
        if len(changed) <= max(_FEW, _MOST * len(lines)):
            return changed
    return ()


def _spaced(line: str) -> str:
    return " ".join(line.split())


def _unnumbered(line: str) -> str:
    return _DIGITS.sub("0", _spaced(line))
