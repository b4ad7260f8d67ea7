"""The price vectors of the tables."""

from __future__ import annotations

from typing import Final

from windlass.replays.pricing import VECTORS as USUAL
from windlass.replays.pricing import Vector

MARKED: Final = (
    USUAL[0],
    Vector(0.05, 1.25, 512, 1, name="anthropic.05"),
    Vector(0.025, 1.25, 512, 1, name="anthropic.025"),
)
"""Those by which only what ends at a mark is cached: Anthropic's until the summer of 2026, and
those of the models since."""

VECTORS: Final = (*MARKED, *USUAL[1:])
"""All of them, an automatic cache and none besides."""
