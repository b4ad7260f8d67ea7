"""Canonical JSON (sorted keys, no white space, ASCII) of what is mostly long texts, made quickly.

Knows nothing of messages. What it writes is what `CANONICAL` writes, letter for letter.
"""

from __future__ import annotations

import json
from typing import Any, Final

CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)

_LONG: Final = 200
"""Characters from which on it pays to search for what must be escaped."""
_ESCAPES: Final = (
    (b"\\", b"\\\\"),
    (b'"', b'\\"'),
    (b"\n", b"\\n"),
    (b"\t", b"\\t"),
    (b"\r", b"\\r"),
)
"""What texts have; the backslash first, since the others bring some."""
_RARE: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])
_WITHOUT_RARE: Final = bytes.maketrans(_RARE, b" " * len(_RARE))
"""Changes the characters of ASCII that have other escapes."""


def text_json(text: str) -> str:
    """The JSON of a text."""
    if len(text) > _LONG and text.isascii():
        data = text.encode("ascii")
        if data.translate(_WITHOUT_RARE) == data:
            for character, escape in _ESCAPES:
                data = data.replace(character, escape)
            return f'"{data.decode("ascii")}"'
    return CANONICAL.encode(text)


def told_json(told: dict[str, Any]) -> str:
    """The JSON of an object whose values are texts, or lists of such objects, for the most part.

    Its keys, and those of these objects, need no escapes.
    """
    return "{" + ",".join([f'"{key}":{_value(told[key])}' for key in sorted(told)]) + "}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return text_json(value)
    if isinstance(value, list):
        return "[" + ",".join(map(told_json, value)) + "]"
    return "null" if value is None else CANONICAL.encode(value)
