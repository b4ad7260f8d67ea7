"""Saying the same in fewer characters: JSON as tables, output without what nobody reads."""

from __future__ import annotations

from windlass.window.encode.clean import clean
from windlass.window.encode.rows import decode_rows, encode_rows
from windlass.window.encode.tables import decode, encode

__all__ = ["clean", "decode", "decode_rows", "encode", "encode_rows"]
