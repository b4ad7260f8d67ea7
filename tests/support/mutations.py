"""Files that work, changed a little in ways that readers fail at."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

_PIECE: Final = re.compile(r"\w+|\s+|[^\w\s]")
_NUMBERS: Final = (
    *("0", "-0", "-1", "1.5", "1e400", "-1e400", "1e-400", "9" * 30, "9" * 400, "9" * 5_000),
    *("0x1F", "1_000", "0o17", "\u0663", "NaN", "Infinity", ".inf", "true", "null"),
)
_TEXTS: Final = (
    *("", " ", "\t", "\r", "\0", "\ufeff", "\u202e", "\u2028", "\ud800", "\x1b[31m", "\U0001f9f5"),
    *("{{", "}}", "{{ a.b[0] }}", "{% for a in b %}", "{{ 9**9**9 }}", "{#", "\\", "'", '"', "`"),
    *("[" * 150, "]" * 9, "{" * 150, "- " * 150, "&a [*a]", "<<: *a", "!!python/name:os", "---"),
    *(
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?x y?>",
        "&lt;",
        "&a;",
        "&#0;",
        "&#x110000;",
        "&#55296;",
    ),
    *("<a>" * 150, "</task>", "<task>", "<task type='reduce'>", "xmlns:a='b'", " a='1' a='2'"),
    *("<!DOCTYPE a [<!ENTITY b 'c'>]>", "<?xml version='1.0' encoding='utf-16'?>"),
    *("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>", "#", ":", ",", "=", "[a]", "[[a]]"),
    *("../x", "/dev/zero", "~nobody-here", "http://127.0.0.1:1", "a" * 5_000, "a." * 300, "\n\n"),
    *("2020-01-01", "0001-01-01T00:00:00+14:00", "all", "none", "previous", "*", "a/b", "python:x"),
)
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 10**30, 10**400, 1e308, "", " ", "1", "true", "\0", "\ud800"),
    *([], {}, [[]], [None], {"": None}, {"a": {}}, ["a", "a"], {"type": "object"}, {"$ref": "#"}),
)
_Edit: TypeAlias = Callable[[list[str], Random], None]


def changed(text: str, random: Random) -> bytes:
    """A text with one to four changes: pieces left out, twice, elsewhere, odd; or cut off."""
    pieces = _PIECE.findall(text) or [""]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_EDITS)(pieces, random)
    data = "".join(pieces).encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        at = random.randrange(len(data) + 1)
        return data[:at] + random.choice((b"\xff", b"\xc3", b"\0", b"\xfe\xff")) + data[at:]
    return data if random.random() < 0.9 else data[: random.randrange(len(data) + 1)]


def changed_value(value: Any, random: Random) -> Any:
    """A value of JSON with one to four changes: parts left out, twice, elsewhere, odd."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return random.choice(_VALUES)
        holder, key = random.choice(places)
        match random.randrange(7):
            case 0:
                del holder[key]
            case 1:
                other, at = random.choice(places)
                holder[key], other[at] = copy.deepcopy((other[at], holder[key]))
            case 2:
                holder[key] = copy.deepcopy(random.choice(places)[0])
            case 3 if isinstance(holder, list):
                holder[key:key] = [holder[key]] * random.choice((1, 2, 50))
            case 3:
                holder[random.choice(_TEXTS)] = holder[key]
            case 4:
                holder[key] = _nested(holder[key], random.choice((1, 2, 60, 150)), random)
            case 5:
                holder[key] = random.choice(_TEXTS)
            case _:
                holder[key] = copy.deepcopy(random.choice(_VALUES))
    return value


def as_json(value: Any) -> str:
    """The value in one line; numbers of any length, and characters that no text may hold."""
    return json.dumps(value).replace("1" + "0" * 400, "1" + "0" * 5_000)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _nested(value: Any, levels: int, random: Random) -> Any:
    for _ in range(levels):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _leave_out(pieces: list[str], random: Random) -> None:
    at = random.randrange(len(pieces))
    del pieces[at : at + random.choice((1, 1, 3, 20))]
    if not pieces:
        pieces.append("")


def _repeat(pieces: list[str], random: Random) -> None:
    at = random.randrange(len(pieces))
    part = pieces[at : at + random.choice((1, 3, 20, 200))]
    pieces[at:at] = part * random.choice((1, 1, 2, 100))


def _swap(pieces: list[str], random: Random) -> None:
    a, b = random.randrange(len(pieces)), random.randrange(len(pieces))
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _put_in(pieces: list[str], random: Random) -> None:
    pieces.insert(random.randrange(len(pieces) + 1), random.choice(_TEXTS))


def _replace(pieces: list[str], random: Random) -> None:
    words = [at for at, piece in enumerate(pieces) if piece[:1].isalnum()]
    pieces[random.choice(words or [0])] = random.choice(_TEXTS)


def _number(pieces: list[str], random: Random) -> None:
    numbers = [at for at, piece in enumerate(pieces) if piece[:1].isdecimal()]
    pieces[random.choice(numbers or [0])] = random.choice(_NUMBERS)


_EDITS: Final[tuple[_Edit, ...]] = (_leave_out, _repeat, _swap, _put_in, _replace, _number)
