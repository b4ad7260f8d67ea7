"""Reads back what windows show otherwise: JSON as tables, and references to other results.

It knows the forms only, and shares nothing with what writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.window._references import SAME, read_reference
from windlass.window.encode import in_rows
from windlass.window.encode._tables import NotPlain, Number, Value, parse
from windlass.window.encode.gutters import counted, moved, number_of
from windlass.window.encode.legend import is_head

_TABLE: Final = "table "
_LISTS: Final = "lists "
_NEXT: Final = "---"
_TEXT: Final = "json "
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_FROM: Final = re.compile(r"([01])\.\.\d+(?=[,}\n])")
"""What is told of such a column behind its key, as a reader finds it."""
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_VALUE: Final = re.compile(r'[^"\[\]{},\n]+')
_KEY: Final = re.compile(r'[^"\[\]{},:=\n()]+')


@dataclass
class _Column:
    key: str
    cells: list[Any] = field(default_factory=list[Any])
    inner: list[_Column] = field(default_factory=list["_Column"])
    counted: int | None = None


def decode(text: str) -> Value:
    """The value that `encode` was given. Raises NotPlain for any other text."""
    head, _, body = text.partition("\n")
    if not is_head(head):
        raise NotPlain("it does not begin with the line that says how to read it")
    reader = _Reader(body)
    value: Value = reader.value()
    if reader.at != len(body):
        raise NotPlain(f"something follows the value at character {reader.at}")
    return value


@dataclass(frozen=True)
class JsonText:
    """A text that is JSON: as a text it is equal to any that says the same."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonText):
            return bool(self.value == other.value)
        return isinstance(other, str) and bool(parse(other) == self.value)

    __hash__ = None  # type: ignore[assignment]


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def value(self) -> Any:
        if self._skips(_TEXT):
            return JsonText(self.value())
        match self._text[self.at : self.at + 1]:
            case "{":
                return self._object()
            case "[":
                return self._list()
            case '"':
                return self._quoted()
            case _:
                return _scalar(self._take(_VALUE))

    def _object(self) -> dict[str, Any]:
        self.at += 1
        if self._skips(_TABLE):
            return self._keyed()
        found: dict[str, Any] = {}
        while not self._skips("}"):
            if found and not self._skips("\n"):
                self._must(",")
            key = self._key()
            self._must(":")
            found[key] = self.value()
        return found

    def _list(self) -> list[Any]:
        self.at += 1
        for sign in (_TABLE, _LISTS):
            if self._skips(sign):
                columns = self._columns("\n")
                groups: list[list[Any]] = [[]]
                while not self._skips("]"):
                    self._must("\n")
                    if sign == _LISTS and self._skips(_NEXT + "\n"):
                        groups.append([])
                        self.at -= 1
                        continue
                    groups[-1].append(self._row(columns))
                return groups if sign == _LISTS else groups[0]
        found: list[Any] = []
        while not self._skips("]"):
            if found:
                self._must(",")
            found.append(self.value())
        return found

    def _keyed(self) -> dict[str, Any]:
        same: str | None = None
        if not self._skips("(key)"):
            self._must("(key and ")
            same = self._quoted() if self._text[self.at] == '"' else self._take(_KEY)
            self._must(")")
        self._must(",")
        columns = self._columns("\n")
        found: dict[str, Any] = {}
        while not self._skips("}"):
            self._must("\n")
            key = self.value()
            self._must(",")
            row = self._row(columns)
            if same is not None:
                row[same] = key
            found[str(key)] = row
        return found

    def _columns(self, end: str) -> list[_Column]:
        columns: list[_Column] = []
        while self._text[self.at : self.at + 1] not in (end, ""):
            if columns:
                self._must(",")
            column = _Column(self._key())
            if self._skips("{"):
                column.inner = self._columns("}")
                self._must("}")
            elif self._skips("="):
                if counted := _FROM.match(self._text, self.at):
                    self.at = counted.end()
                    column.counted = int(counted[1])
                else:
                    column.cells = [self.value()]
            columns.append(column)
        return columns

    def _row(self, columns: Sequence[_Column]) -> dict[str, Any]:
        self._is_first = True
        return self._cells(columns)

    def _cells(self, columns: Sequence[_Column]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column in columns:
            if column.inner:
                row[column.key] = self._cells(column.inner)
                continue
            if column.cells:
                row[column.key] = column.cells[0]
                continue
            if column.counted is not None:
                row[column.key] = Number(str(column.counted))
                column.counted += 1
                continue
            if not self._is_first:
                self._must(",")
            self._is_first = False
            if self._text[self.at : self.at + 1] not in (",", "\n", "]", "}", ""):
                row[column.key] = self.value()
                self._is_first = False  # a table inside the cell had rows of its own
        return row

    def _key(self) -> str:
        return self._quoted() if self._text[self.at : self.at + 1] == '"' else self._take(_KEY)

    def _quoted(self) -> str:
        found = parse(self._take(_QUOTED))
        assert isinstance(found, str)
        return found

    def _take(self, shape: re.Pattern[str]) -> str:
        found = shape.match(self._text, self.at)
        if found is None:
            raise NotPlain(f"nothing to read at character {self.at}")
        self.at = found.end()
        return found[0]

    def _skips(self, sign: str) -> bool:
        if not self._text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def _must(self, sign: str) -> None:
        if not self._skips(sign):
            raise NotPlain(f"{sign!r} is missing at character {self.at}")


def _scalar(text: str) -> Value:
    match text:
        case "null":
            return None
        case "true" | "false":
            return text == "true"
        case _:
            return Number(text) if _NUMBER.fullmatch(text) else text


_SIGN: Final = re.compile(r"( *)(\d{1,18})(?= ?[→\t:|])")


def padded(text: str) -> str:
    """A text with the padding of its numbers, of which the first still has it."""
    lines = text.split("\n")
    signs = [_SIGN.match(line) for line in lines]
    first = next(filter(None, signs), None)
    if first is None or not first[1]:
        return text
    return "\n".join(
        sign[0].rjust(len(first[0])) + line[sign.end() :] if sign else line
        for sign, line in zip(signs, lines, strict=True)
    )


def resolve(text: str, sources: Mapping[str, str]) -> str:
    """What a text with references stands for.

    `sources` are the originals of what it refers to: by reference, and behind that the path into
    the arguments of a call. Raises KeyError where one is not among them.
    """
    whole = SAME.fullmatch(text)
    if whole:
        return sources[whole[1]]
    lines: list[str] = []
    for line in text.split("\n"):
        found = read_reference(line)
        if found is None:
            lines.append(line)
            continue
        place = f"{found.ref} {found.path}".rstrip()
        source = in_rows(sources[place]) if found.rows else sources[place]
        meant = source.split("\n")[found.first - 1 : found.last]
        low = found.numbered[0] if found.numbered else None
        before = number_of(meant[0])
        if low is not None and before is None:
            like = next(one for one in lines if number_of(one) is not None)
            meant = [counted(one, low + at, like) for at, one in enumerate(meant)]
        elif low is not None and before is not None:
            meant = [moved(one, low - before) for one in meant]
        lines += meant
        if found.numbered:
            told = [number for one in meant if (number := number_of(one)) is not None]
            assert (told[0], told[-1]) == found.numbered
    return "\n".join(lines)
