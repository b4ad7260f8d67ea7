"""JSON as values that remember how their numbers were written.

`1.10` and `1e5` are no floats here: nothing that a text said may read differently later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

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
