"""Where the parts of a cascade stand: key paths, how they are written, their lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""A key path: `("phases", 3, "context", "from", 0)`."""


def place_of(path: Path) -> str:
    """A key path as people write it: `phases[3].context.from[0]`, on one line whatever it holds."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            said = step if step.isprintable() else repr(step)
            text += f".{said}" if text else said
    return text


@dataclass(frozen=True, slots=True)
class Origin:
    """The file a cascade was read from, and the line of each place in it.

    No part of a cascade's value: all origins are equal, so that the same cascade
    read from two files is equal too.
    """

    file: str = field(default="", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def where(self, place: str) -> str:
        """`file:line, place`; empty where the cascade came from no file."""
        if not self.file:
            return ""
        line = self.lines.get(place)
        return f"{self.file}, {place}" if line is None else f"{self.file}:{line}, {place}"
