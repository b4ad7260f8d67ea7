"""What somebody else wrote: JSON and TOML, numbers and bytes, as far as can be worked with.

What a model, a recording or a file says is not believed: values nested without end exhaust the
stack of whatever walks over them, and numbers that no float holds stop arithmetic half-way.

`int` fails at superscripts and at thousands of digits, and bytes of unknown origin may be no text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

DEPTH: Final = 100
"""How deep values may be nested: deeper ones are a slip, and would exhaust the stack."""

TOO_DEEP: Final = f"the values are nested more than {DEPTH} levels deep"
_LONGEST_NUMBER: Final = 308
"""Digits of the largest numbers that a float holds."""
_BITS: Final = 1024
"""Bits of the first whole number that no float holds."""
_TOO_LONG: Final = "a number has more digits than can be worked with"

TOML_BYTES: Final = 100_000
"""The most bytes of a file in TOML: settings, not data."""
_TOML_DEPTH: Final = 20
"""How deep keys may be nested in it, dotted ones too: the time to parse one grows faster."""
_TOML_ENDS: Final = frozenset("[]{}=,\n")
"""What ends a dotted key."""
_TOML_TOKEN: Final = re.compile(
    r"""\"{3}(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z) | '{3}(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"""
    r"""| "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'? | \#[^\n]*+ | [\[\]{}=,.\n] | [^\[\]{}=,.\n"'\#]++""",
    re.DOTALL | re.VERBOSE,
)
"""A text, a comment, what separates, or anything else; what has no end goes to the end."""

_FENCED: Final = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_BRACES: Final = re.compile(r'\{\s*["}]')


class DeepValueError(ValueError):
    """Values are nested too deep."""

    def __init__(self, depth: int = DEPTH) -> None:
        super().__init__(f"the values are nested more than {depth} levels deep")


def is_too_deep(value: Any) -> bool:
    """Return whether values are nested more than `DEPTH` levels deep."""
    level = [value] if _holds_values(value) else []
    for _ in range(DEPTH + 1):
        held = (each.values() if isinstance(each, Mapping) else each for each in level)
        level = [v for each in held for v in each if type(v) not in _LEAVES and _holds_values(v)]
        if not level:
            return False
    return True


_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
"""Types of most values, which are known without a question to each class."""


def _holds_values(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError in one clause for what is no JSON and for numbers that no float holds (1e400,
    NaN, a thousand digits), DeepValueError for values that are nested too deep.
    """
    return _parsed(text, _refused)


def find_json(text: str) -> Any:
    """Give the value of a JSON text, or of the JSON in prose: in a fence, else in the first braces.

    Raises ValueError as `parse_json` does of the whole text where it holds none.

    >>> find_json('It will do: {"valid": true}. That is all.')
    {'valid': True}
    """
    try:
        return parse_json(text)
    except ValueError:
        for piece in _perhaps_json(text):
            with suppress(ValueError):
                return parse_json(piece)
        raise


def _perhaps_json(text: str) -> Iterator[str]:
    for fenced in _FENCED.finditer(text):
        yield fenced[1]
    if (opening := _BRACES.search(text)) is not None:
        at = opening.start()
        with suppress(ValueError, RecursionError):
            yield text[at : json.JSONDecoder().raw_decode(text, at)[1]]


def parse_recorded(text: str | bytes) -> Any:
    """Return the value of a JSON text that a program recorded.

    A number that no float holds is null.

    Raises ValueError in one clause for what is no JSON, or nested too deep.
    """
    return _parsed(text, _unknown)


def _parsed(text: str | bytes, otherwise: Any) -> Any:
    def integer(digits: str) -> Any:
        return int(digits) if len(digits.lstrip("-")) <= _LONGEST_NUMBER else otherwise(digits)

    def number(digits: str) -> Any:
        value = float(digits)
        return value if math.isfinite(value) else otherwise(digits)

    try:
        value = json.loads(text, parse_int=integer, parse_float=number, parse_constant=otherwise)
    except RecursionError as error:
        raise DeepValueError from error
    # What has few brackets is not walked over.
    brackets = (
        text.count("[") + text.count("{")
        if isinstance(text, str)
        else text.count(b"[") + text.count(b"{")
    )
    if brackets > DEPTH and is_too_deep(value):
        raise DeepValueError
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    Raises ValueError in one clause for what is no TOML, DeepValueError for keys that are nested too
    deep.
    """
    import tomllib  # takes 5 ms, and few folders have such a file

    toml_statements(text)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise ValueError(_TOO_LONG) from error
    waiting: list[Any] = [values]
    while waiting:
        match waiting.pop():
            case dict() as table:
                waiting += table.values()
            case list() as items:
                waiting += items
            case int() as number if number.bit_length() >= _BITS:
                raise ValueError(_TOO_LONG)
            case _:
                pass
    return values


def toml_statements(text: str) -> list[tuple[int, str]]:
    """Return the statements of a TOML text that are not blank, each with its first line, from 1.

    Raises DeepValueError for keys that are nested too deep.
    """
    statements: list[tuple[int, str]] = []
    begin = line = depth = dots = 0
    first = 1
    for token in _TOML_TOKEN.finditer(text):
        piece = token[0]
        line += piece.count("\n")
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        if piece == ".":
            dots += 1
        elif piece in _TOML_ENDS:
            dots = 0
        if max(depth, dots) > _TOML_DEPTH:
            raise DeepValueError(_TOML_DEPTH)
        if piece == "\n" and depth <= 0:
            statements.append((first, text[begin : token.end()]))
            begin, first = token.end(), line + 1
    statements.append((first, text[begin:]))
    return [(at, each) for at, each in statements if not each.isspace()]


def _refused(digits: str) -> NoReturn:
    shown = digits if len(digits) <= 20 else f"{digits[:20]}..."  # noqa: PLR2004 - for one line
    raise ValueError(f"{shown} is not a number that JSON can hold")


def _unknown(digits: str) -> None:
    del digits


_DIGITS: Final = 18
"""What any count has room in."""


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is, of at most 18 digits (None: it is none)."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


# Above this share of invalid bytes it is no damaged text but something else.
_BINARY_SHARE: Final = 0.1


def decode_text(data: bytes) -> str | None:
    """Return bytes as text, invalid UTF-8 replaced and its bytes counted.

    None where it is no text.
    """
    escaped = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= char <= "\udcff" for char in escaped)
    if not invalid:
        return escaped
    if invalid > max(1, len(data) * _BINARY_SHARE):
        return None
    text = data.decode("utf-8", "replace")
    return f"{text}\n({invalid} of {len(data)} bytes were not valid UTF-8 and are shown as \ufffd)"
