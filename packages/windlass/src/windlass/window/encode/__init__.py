"""Saying the same in fewer characters: JSON as tables, short forms, output of programs."""

from __future__ import annotations

from windlass.window.encode._tables import ROWS_HEAD, decode_rows, encode, encode_rows
from windlass.window.encode.legend import is_head

__all__ = ["decode_rows", "encode", "encode_rows", "in_rows", "is_encoded"]


def in_rows(text: str) -> str:
    """Data as a window shows it, in rows; any other text as it is."""
    return encode(text) or encode_rows(text) or text


def is_encoded(text: str) -> bool:
    """Return whether a text begins as `encode` and `encode_rows` begin theirs."""
    head = text.partition("\n")[0]
    return head == ROWS_HEAD or is_head(head)
