"""JSON texts that somebody else wrote, changed in one place: every other character stays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json import JSONDecoder
from typing import Any, Final, NamedTuple, TypeAlias

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_DECODER: Final = JSONDecoder()

Path: TypeAlias = Sequence[str | int]
"""Keys of objects, and places in lists, from the top."""


class _Span(NamedTuple):
    """From where to where a value stands; `begin` is where its key does, if it has one."""

    begin: int
    value: int
    end: int


def with_member(text: str, path: Path, key: str, value: object) -> str:
    """Return the text of an object with another member at the end of the object at `path`."""
    return _with_last(text, path, f"{json.dumps(key)}: ", value)


def with_element(text: str, path: Path, value: object) -> str:
    """Return the text of an object with another element at the end of the list at `path`."""
    return _with_last(text, path, "", value)


def without(text: str, path: Path) -> str:
    """Return the text of an object without the value at `path`.

    An object or list that has nothing left in it becomes `{}` or `[]`.
    """
    *above, last = path
    holder = _span(text, above)
    parts = list(_parts(text, holder.value).items())
    at = next(number for number, (name, _) in enumerate(parts) if name == last)
    span = parts[at][1]
    if len(parts) == 1:
        begin, end = holder.value + 1, holder.end - 1
    elif at == 0:
        begin, end = span.begin, parts[1][1].begin
    else:
        begin, end = parts[at - 1][1].end, span.end
    return text[:begin] + text[end:]


def _with_last(text: str, path: Path, key: str, value: object) -> str:
    holder = _span(text, path)
    parts = list(_parts(text, holder.value).values())
    indent = match[1] if (match := _INDENT.search(text)) else "  "
    inner = "\n" + indent * (len(path) + 1)
    new = key + json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", inner)
    if not parts:
        return (
            text[: holder.value + 1] + inner + new + inner[: -len(indent)] + text[holder.end - 1 :]
        )
    end = parts[-1].end
    return f"{text[:end]},{inner}{new}{text[end:]}"


def _span(text: str, path: Path) -> _Span:
    begin = _after_space(text, 0)
    span = _Span(begin, begin, _DECODER.raw_decode(text, begin)[1])
    for step in path:
        span = _parts(text, span.value)[step]
    return span


def _parts(text: str, at: int) -> Mapping[str | int, _Span]:
    """Return where the members of an object or the elements of a list stand that begins at `at`."""
    parts: dict[str | int, _Span] = {}
    is_object, at = text[at] == "{", at + 1
    while text[at := _after_space(text, at)] not in "}]":
        begin, key = at, len(parts)
        name: Any = key
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # over the colon
        parts[name] = _Span(begin, at, end := _DECODER.raw_decode(text, at)[1])
        at = _after_space(text, end)
        at += text[at] == ","
    return parts


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
