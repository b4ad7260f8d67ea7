"""JSON in fewer characters, for a model to read: plain quotes left out, like objects as tables.

The form is JSON with liberties, told in the first line of a text that takes them
(`legend`):
plain texts and keys stand without quotes; a list of like objects is `[table` with their keys
and then one line for each object; what all objects of a table have in common stands once,
`key=value`, among the keys, and so does a column that counts the rows, `key=1..20`. A text that
is JSON itself, as tools wrap what they got, is `json` and its value. Values, number texts and the
order of lists are kept, the order of keys and white space between values need not be.

JSON as values that remember how their numbers were written.

`1.10` and `1e5` are no floats here: nothing that a text said may read differently later.

A Python list of tuples, as databases answer through a driver, with a line for each tuple.

Reads back letter for letter: what would not is left as it was.

JSON as values that remember how their numbers were written.

`1.10` and `1e5` are no floats here: nothing that a text said may read differently later.

A Python list of tuples, as databases answer through a driver, with a line for each tuple.

Reads back letter for letter: what would not is left as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias, TypeGuard

from windlass.window.encode.legend import counted_from, legend

_TABLE: Final = "table "
_LISTS: Final = "lists "
_NEXT: Final = "---"
_TEXT: Final = "json "
_LEAST_TEXT: Final = 40
"""Characters of a text that is looked at for JSON."""
_PLAIN: Final = re.compile(r'[^\s"\[\]{},=()](?:[^"\[\]{},]*[^\s"\[\]{},])?')
_PLAIN_KEY: Final = re.compile(r'[^\s"\[\]{},:=()](?:[^"\[\]{},:=()]*[^\s"\[\]{},:=()])?')
_NUMERIC: Final = re.compile(
    r"[-+.]?\d[\d_.]*(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity|(?:table|lists)\b.*"
)
"""Texts that would read as something else without quotes."""
_RESERVED: Final = frozenset({"true", "false", "null", "NaN", "Infinity", "table", "lists"})
"""Those of them that are one word of letters."""
_MAX_INNER: Final = 4
"""Objects inside objects that become columns; deeper ones stand in a cell."""
_MAX_SPARSE: Final = 2
"""A table may have so many times the cells that its objects have members."""


def encode(text: str) -> str | None:
    """Return the JSON text in fewer characters; None: it is no JSON, or there is no shorter way."""
    try:
        writer = _Writer()
        body = writer.value(parse(text), 0)
    except NotPlain:
        return None
    encoded = f"{writer.head()}\n{body}"
    return encoded if len(encoded) < len(text) else None


@dataclass
class _Column:
    """A key of a table: its cells in order, or the columns of the objects that it holds.

    A cell is None where the object has no such key.
    """

    key: str
    cells: list[Any] = field(default_factory=list[Any])
    inner: list[_Column] = field(default_factory=list["_Column"])
    common: str | None = None
    counted: int | None = None


class _Writer:
    """Writes one value, and remembers which liberties it took."""

    def __init__(self) -> None:
        self._tables = self._common = self._groups = self._texts = False

    def head(self) -> str:
        return legend(
            tables=self._tables, common=self._common, groups=self._groups, texts=self._texts
        )

    def value(self, value: Any, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise NotPlain("nested too deep")
        kind = type(value)  # most are texts and numbers
        if kind is str:
            return self._text(value, depth)
        if kind is Number:
            return str(value)
        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is dict:
            return self._object(value, depth)
        return self._list(value, depth)

    def _text(self, text: str, depth: int) -> str:
        """Return a text, or the value of one that is JSON with something in it."""
        if len(text) >= _LEAST_TEXT and text[0] in "{[":
            try:
                value = parse(text)
            except NotPlain:
                return _plain(text)
            if value:
                self._texts = True
                return f"{_TEXT}{self.value(value, depth + 1)}"
        return _plain(text)

    def _object(self, value: Mapping[str, Any], depth: int) -> str:
        rows = list(value.values())
        if _are_like(rows):
            return self._keyed(list(value), rows, depth)
        members = (f"{_key(key)}:{self.value(one, depth + 1)}" for key, one in value.items())
        # A line for each member at the top: where a later result differs in one of them, the
        # others are lines that were there before.
        between = "," if depth else "\n"
        return f"{{{between.join(members)}}}"

    def _list(self, value: Sequence[Any], depth: int) -> str:
        if _are_like(value):
            head, lines = self._rows(value, depth)
            return f"[{_TABLE}{head}\n" + "\n".join(lines) + "]"
        if len(value) > 1 and all(isinstance(group, list) and group for group in value):
            rows = [row for group in value for row in group]
            if _are_like(rows):
                self._groups = True
                head, lines = self._rows(rows, depth)
                texts: list[str] = []
                for group in value:
                    texts.append("\n".join(lines[: len(group)]))
                    lines = lines[len(group) :]
                return f"[{_LISTS}{head}\n" + f"\n{_NEXT}\n".join(texts) + "]"
        return f"[{','.join(self.value(one, depth + 1) for one in value)}]"

    def _keyed(self, keys: Sequence[str], rows: Sequence[Mapping[str, Any]], depth: int) -> str:
        """Return an object of like objects: its keys are the first column."""
        same = next(
            (
                name
                for name in rows[0]
                if all(
                    type(row.get(name)) is str and row[name] == key
                    for key, row in zip(keys, rows, strict=True)
                )
            ),
            None,
        )
        shown = [{name: row[name] for name in row if name != same} for row in rows]
        head, lines = self._rows(shown, depth) if any(shown) else ("", [""] * len(rows))
        first = "(key)" if same is None else f"(key and {_key(same)})"
        texts = [f"{_plain(key)},{line}" for key, line in zip(keys, lines, strict=True)]
        return f"{{{_TABLE}{first},{head}\n" + "\n".join(texts) + "}"

    def _rows(self, rows: Sequence[Mapping[str, Any]], depth: int) -> tuple[str, list[str]]:
        self._tables = True
        columns = _columns(rows, 0)
        varying = list(self._settle(columns, depth))
        if not varying:
            # A line for each object there must be, or nobody can count them.
            first = columns[0]
            while first.inner:
                first = first.inner[0]
            first.common = first.counted = None
            varying = list(self._settle([first], depth, keep=True))
        lines = list(map(",".join, zip(*[column.cells for column in varying], strict=True)))
        return ",".join(map(self._told, columns)), lines

    def _settle(self, columns: Sequence[_Column], depth: int, *, keep: bool = False) -> Any:
        """Write the cells; the columns that vary, in the order in which they are told."""
        for column in columns:
            if column.inner:
                yield from self._settle(column.inner, depth + 1)
                continue
            if not keep:
                column.cells = [
                    "" if cell is _ABSENT else self.value(cell, depth + 2) for cell in column.cells
                ]
                if column.cells[0] and len(set(column.cells)) == 1:
                    column.common = column.cells[0]
                    continue
                column.counted = counted_from(column.cells)
                if column.counted is not None:
                    continue
            yield column

    def _told(self, column: _Column) -> str:
        if column.inner:
            return f"{_key(column.key)}{{{','.join(map(self._told, column.inner))}}}"
        if column.common is not None:
            self._common = True
            return f"{_key(column.key)}={column.common}"
        if column.counted is not None:
            return f"{_key(column.key)}={column.counted}..{column.counted + len(column.cells) - 1}"
        return _key(column.key)


class _Absent:
    """Stands where an object has no such key."""


_ABSENT: Final = _Absent()


def _columns(rows: Sequence[Mapping[str, Any]], depth: int) -> list[_Column]:
    columns: list[_Column] = []
    for key in dict.fromkeys(chain.from_iterable(rows)):
        cells = [row.get(key, _ABSENT) for row in rows]
        column = _Column(key, cells)
        if depth < _MAX_INNER and _are_alike(cells):
            column.inner = _columns(cells, depth + 1)
        columns.append(column)
    return columns


def _are_alike(cells: Sequence[Any]) -> TypeGuard[Sequence[dict[str, Any]]]:
    """Return whether all are objects with the same keys, and have some."""
    first = cells[0]
    if not isinstance(first, dict) or not first:
        return False
    keys = first.keys()
    return all(isinstance(cell, dict) and cell.keys() == keys for cell in cells)


def _are_like(rows: Sequence[Any]) -> TypeGuard[Sequence[dict[str, Any]]]:
    """Say whether a table of these is worth it: two objects or more, most keys in most of them."""
    if len(rows) < 2 or not all(isinstance(row, dict) and row for row in rows):  # noqa: PLR2004
        return False
    members = sum(map(len, rows))
    keys = set(chain.from_iterable(rows))
    return len(keys) * len(rows) <= _MAX_SPARSE * members


def _plain(text: str) -> str:
    if text.isidentifier() and text.isascii():  # most are; the expressions say the same of them
        return dumps(text) if text in _RESERVED else text
    if text.isprintable() and _PLAIN.fullmatch(text) and not _NUMERIC.fullmatch(text):
        return text if text != _NEXT else dumps(text)
    return dumps(text)


def _key(text: str) -> str:
    if text.isprintable() and _PLAIN_KEY.fullmatch(text) and not _NUMERIC.fullmatch(text):
        return text
    return dumps(text)


MAX_DEPTH: Final = 60
"""Deeper values are left alone: no result of a tool that a model reads is nested so deep."""


class Number(str):
    """A number, as its text."""

    __slots__ = ()


Value: TypeAlias = "bool | str | list[Any] | dict[str, Any] | None"
"""A JSON value whose numbers are `Number`."""


class NotPlain(ValueError):
    """A text that is no JSON, or cannot be said otherwise without losing something."""


def parse(text: str) -> Value:
    """Return the value. Raises NotPlain: no JSON, doubled keys, NaN, too deep."""
    try:
        return _DECODER.decode(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as problem:
        raise NotPlain(str(problem)[:100]) from problem


def dumps(text: str) -> str:
    """Return a string in quotes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(text)  # half a character has no bytes: it stays an escape
    return json.dumps(text, ensure_ascii=False)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotPlain("a key stands twice")
    return members


def _constant(name: str) -> Any:
    raise NotPlain(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_constant, object_pairs_hook=_object
)


ROWS_HEAD: Final = "[Python tuples, one a line, without quotes]"
"""The first line of the form."""
_CELL: Final = re.compile(
    r"b?'(?:[^'\\\n]|\\.)*'|b?\"(?:[^\"\\\n]|\\.)*\"|[A-Za-z_][\w.]*\((?:[^()'\"\n]|'[^'\\\n]*')*\)"
    r"|[-+\w.]+"
)
_WORD: Final = re.compile(r"[^,\n]+")
_PLAIN_TUPLE: Final = re.compile(r"[^\s,()'\"\\](?:[^,()'\"\\]*[^\s,()'\"\\])?")
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
        if inner.isprintable() and _PLAIN_TUPLE.fullmatch(inner) and not _RAW.fullmatch(inner):
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
