"""What tests of engine context build their cases of; others use it, too."""

from __future__ import annotations

import base64
from typing import Any

from tests.strategies import png

RED, BLUE, GREEN = png(2, 3), png(4, 5), png(6, 7)


def url(data: bytes) -> dict[str, Any]:
    """A PNG as an OpenAI content part."""
    encoded = base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}


def draw(colour: str = "red") -> bytes:
    """Draw a picture of one colour.

    Args:
        colour: red, blue or green.
    """
    return {"red": RED, "blue": BLUE, "green": GREEN}[colour]


def look_up(word: str = "x") -> str:
    """Look a word up."""
    return f"{word} means something"
