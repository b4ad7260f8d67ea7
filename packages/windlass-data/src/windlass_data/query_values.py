"""The values of a query's template as literals of SQL: no value can change what the query does.

While the template is rendered a word stands for each printed value. DuckDB itself says in which
piece of the query each word lies, and so how its value is written there.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass_data._data_files import load_duckdb

_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?", re.ASCII)
"""A text that is a number and nothing else; `007` is none."""
_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
"""One text in plain quotes, or one name; no text that goes on in the next line."""
_BESIDE: Final = re.compile(r"[\w'\"$]", re.ASCII)
"""What joins with a literal that stands right beside it."""


class QueryValues:
    """The values that a template prints, each under a word that stands for it in the query."""

    def __init__(self) -> None:
        self._stem = f"value_{secrets.token_hex(8)}_"  # which no value can hold
        self._word = re.compile(rf"{self._stem}(\d+)_")
        self._values: list[Any] = []

    def stand_in(self, value: Any) -> str:
        """Keep a value, and give the word that stands for it."""
        if isinstance(value, str):  # a part of the template that was rendered by itself
            value = self._word.sub(self._as_text, value)
        self._values.append(value)
        return f"{self._stem}{len(self._values) - 1}_"

    def fill(self, query: str) -> str:
        """Return the query with the values in the places of their words.

        Raises ValueError, the end of a sentence, for a value in a place that takes none.
        """
        pieces = [piece for piece in _pieces(query) if piece]
        written: list[str] = []
        for before, piece, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
            bare = piece.rstrip()
            if word := self._word.fullmatch(bare):
                beside = before[-1:], piece[len(bare) :][:1] or after[:1]
                if any(map(_BESIDE.match, beside)):
                    raise ValueError(_PART)
                written.append(_literal(self._values[int(word[1])]) + piece[len(bare) :])
            elif self._word.search(piece):
                written.append(self._inside(piece, bare))
            else:
                written.append(piece)
        return "".join(written)

    def _inside(self, piece: str, bare: str) -> str:
        """Return a text in quotes, a quoted name, or a comment, with its values."""
        if bare.startswith(("--", "/*")):
            return self._word.sub("", piece)
        if not _QUOTED.fullmatch(bare):
            raise ValueError(_PART)
        quote = bare[0]
        return self._word.sub(lambda word: self._as_text(word).replace(quote, quote * 2), piece)

    def _as_text(self, word: re.Match[str]) -> str:
        return _text(self._values[int(word[1])])


_PART: Final = (
    "prints a value that is part of a word, or of a text between other quotes than ' and \";"
    " write it by itself, or between these"
)


def _pieces(query: str) -> Iterator[str]:
    """Yield the query cut before each of its tokens."""
    data = query.encode()
    starts = [at for at, _ in load_duckdb().tokenize(query)]
    for start, end in zip([0, *starts], [*starts, len(data)], strict=True):
        yield data[start:end].decode()


def _text(value: Any) -> str:
    """Return a value as a text. Raises ValueError where SQL has no such text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    listed = isinstance(value, Mapping | list | tuple)
    text = json.dumps(value, ensure_ascii=False, default=str) if listed else str(value)
    if "\0" in text:
        raise ValueError("prints a value with a NUL character, which SQL has no text for")
    return text


def _literal(value: Any) -> str:
    """Return a value as it stands in a query by itself; a list as its values, for `IN (...)`."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return ", ".join(map(_literal, value)) or "NULL"
    text = _text(value)
    if isinstance(value, bool):
        return text
    if _NUMBER.fullmatch(text):
        return f"({text})" if text.startswith("-") else text  # `--` begins a comment
    quoted = text.replace("'", "''")
    return f"'{quoted}'"
