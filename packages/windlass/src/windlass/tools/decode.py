"""Bytes of unknown origin as text, without losing sight of what was not text."""

from __future__ import annotations

from typing import Final

# Above this share of invalid bytes it is no damaged text but something else.
_BINARY_SHARE: Final = 0.1


def decode_text(data: bytes) -> str | None:
    """Bytes as text, invalid UTF-8 replaced and its bytes counted; None where it is no text."""
    escaped = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= char <= "\udcff" for char in escaped)
    if not invalid:
        return escaped
    if invalid > max(1, len(data) * _BINARY_SHARE):
        return None
    text = data.decode("utf-8", "replace")
    return f"{text}\n({invalid} of {len(data)} bytes were not valid UTF-8 and are shown as \ufffd)"
