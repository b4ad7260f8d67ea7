"""A Python list of tuples, as databases answer through a driver, with a line for each tuple.

Reads back letter for letter: what would not is left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from windlass.window.encode._jsontext import NotPlain

ROWS_HEAD: Final = "[Python tuples, one a line, without quotes]"
"""The first line of the form."""
_CELL: Final = re.compile(
    r"b?'(?:[^'\\\n]|\\.)*'|b?\"(?:[^\"\\\n]|\\.)*\"|[A-Za-z_][\w.]*\((?:[^()'\"\n]|'[^'\\\n]*')*\)"
    r"|[-+\w.]+"
)
_WORD: Final = re.compile(r"[^,\n]+")
_PLAIN: Final = re.compile(r"[^\s,()'\"\\](?:[^,()'\"\\]*[^\s,()'\"\\])?")
_RAW: Final = re.compile(r"[-+]?[\d.][\w.+-]*|None|True|False|nan|inf|-inf")
"""Cells that stand without quotes in the original: numbers and constants."""


def encode_rows(text: str) -> str | None:
    """Return the list with a line for each tuple; None: it is no such list, or no shorter so."""
    if not text.startswith("[(") or not text.endswith(")]"):
        return None
    try:
        lines = [",".join(map(_shown, row)) for row in _rows(text)]
    except NotPlain:
        return None
    if len(lines) < 2:  # noqa: PLR2004 - one is no list
        return None
    encoded = "\n".join([ROWS_HEAD, *lines])
    return encoded if len(encoded) < len(text) and decode_rows(encoded) == text else None


def decode_rows(text: str) -> str:
    """Return the text that `encode_rows` was given. Raises NotPlain for any other."""
    head, *lines = text.split("\n")
    if head != ROWS_HEAD:
        raise NotPlain("it does not begin with the line that says how to read it")
    rows = (list(_cells(line)) for line in lines)
    return f"[{', '.join(map(_tuple, rows))}]"


def _tuple(cells: list[str]) -> str:
    return f"({cells[0]},)" if len(cells) == 1 else f"({', '.join(cells)})"


def _rows(text: str) -> Iterator[list[str]]:
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] != "(":
            raise NotPlain(f"no tuple at character {at}")
        row: list[str] = []
        at += 1
        while text[at] != ")":
            match = _CELL.match(text, at, end)
            if match is None:
                raise NotPlain(f"no plain value at character {at}")
            row.append(match[0])
            at = match.end()
            if text.startswith(", ", at):
                at += 2
            elif text.startswith(",)", at):
                at += 1
            elif text[at] != ")":
                raise NotPlain(f"no plain value at character {at}")
        yield row
        at += 1
        if text.startswith(", (", at):
            at += 2


def _shown(cell: str) -> str:
    if cell[0] == "'":
        inner = cell[1:-1]
        if inner.isprintable() and _PLAIN.fullmatch(inner) and not _RAW.fullmatch(inner):
            return inner
    return cell


def _cells(line: str) -> Iterator[str]:
    at = 0
    while at <= len(line):
        match = _CELL.match(line, at)
        if match is None or line[match.end() : match.end() + 1] not in ("", ","):
            match = _WORD.match(line, at)
            if match is None:
                raise NotPlain("an empty cell")
        cell = match[0]
        plain = cell[0] not in "'\"" and cell[:2] not in ("b'", 'b"') and "(" not in cell
        yield f"'{cell}'" if plain and not _RAW.fullmatch(cell) else cell
        at = match.end() + 1
