"""How much one template may make and do, counted while it renders.

A template may be a user's, its values are a model's: neither may fill the memory or hold a run up.
The limits are counts and not seconds, so that a template renders to the same text on every
machine, or on none.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, MappingView, Sequence, Sized
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedFormatter

LONGEST: Final = 4_000_000
"""Characters a template may render to: more than any model's window holds."""
_MOST_MADE: Final = 16 * LONGEST
"""Characters and items that one rendering may make on its way."""
_MOST_STEPS: Final = 1_000_000
"""Steps of one rendering: items that loops go over and filters are called with, and calls."""
_BRACKETS: Final = 6
"""Characters that an object or a list has besides its values, roughly."""
_TOO_LONG: Final = f"the result would be longer than {LONGEST:,} characters"
_CONTAINERS: Final = (list, tuple, set, frozenset, MappingView)


@dataclass(slots=True)
class _Spent:
    """What a rendering has made, in characters and items, and the steps it has taken."""

    made: int = 0
    steps: int = 0


_SPENT: Final[ContextVar[_Spent]] = ContextVar("spent")


def start_counting() -> None:
    """A rendering begins: nothing is made yet."""
    _SPENT.set(_Spent())


def check_length(length: int) -> None:
    """Count a text or list of that length as made.

    Raises ValueError where it is longer than one may be, or all of them together are.
    """
    if length > LONGEST:
        raise ValueError(_TOO_LONG)
    spent = _SPENT.get(None)
    if spent is not None:
        spent.made += max(length, 0)
        if spent.made > _MOST_MADE:
            raise ValueError(f"the template makes more than {_MOST_MADE:,} characters on its way")


def count_steps(count: int = 1) -> None:
    """Count steps as taken. Raises ValueError where a rendering may not take so many."""
    spent = _SPENT.get(None)
    if spent is not None:
        spent.steps += count
        if spent.steps > _MOST_STEPS:
            raise ValueError(f"the template takes more than {_MOST_STEPS:,} steps")


def written_length(*values: Any) -> int:
    """Roughly the characters of values when they are written out, with all that they contain.

    Raises ValueError as soon as that is more than a text may have: the values in a list may be
    one long text many times over.
    """
    total = 0
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            value = [*value.keys(), *value.values()]
        contains = isinstance(value, _CONTAINERS)
        total += len(value) + (_BRACKETS if contains else 0)
        if total > LONGEST:
            raise ValueError(_TOO_LONG)
        if contains:
            waiting += [each for each in value if _is_sized(each)]
    return total


def check_containers(*values: Any) -> None:
    """Raise ValueError where an object or list that is about to be written out is too long."""
    written_length(*(each for each in values if isinstance(each, (*_CONTAINERS, Mapping))))


def _is_sized(value: Any) -> bool:
    return isinstance(value, Sized) and not isinstance(value, Undefined)


# ---- how long a text will be, before it is made -----------------------------------------


def joined(between: str, items: Iterable[Any]) -> str:
    """The items as texts, with `between` between them; gives up as soon as that is too long."""
    texts: list[str] = []
    length = 0
    for item in items:
        check_containers(item)
        texts.append(item if isinstance(item, str) else str(item))
        length += len(texts[-1]) + len(between)
        if length > LONGEST + len(between):
            raise ValueError(_TOO_LONG)
    check_length(length)
    return between.join(texts)


def replaced_length(text: str, old: str, new: str) -> int:
    """Return the length of `text.replace(old, new)`, at most."""
    return len(text) + text.count(old) * max(len(new) - len(old), 0)


def method_length(text: str, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> int:
    """The length of what a method of a text makes, at most, for those that make it longer."""
    numbers = [each for each in (*args, *named.values()) if isinstance(each, int)]
    match name:
        case "center" | "ljust" | "rjust" | "zfill":
            return max(len(text), *numbers, 0)
        case "expandtabs":
            return len(text) + text.count("\t") * max([*numbers, 0] if numbers else [8])
        case "replace":
            old, new = (*args, "", "")[:2]
            texts = isinstance(old, str) and isinstance(new, str)
            return replaced_length(text, old, new) if texts else len(text)
    raise SecurityError(f"a template may not call {name!r} of a text")


class Formatter(SandboxedFormatter):
    """`str.format` with the width of fields and the length of all of them bounded."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Return the text of one field, no wider than a text may be."""
        check_width(format_spec)
        check_containers(value)
        written = super().format_field(value, format_spec)
        check_length(len(written))
        return written

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Return what `!r` and `!s` make of a value that may be written out."""
        check_containers(value)
        return super().convert_field(value, conversion)

    def vformat(self, format_string: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the text with all its fields, once it is known to be short enough."""
        fields = sum(1 for piece in string.Formatter().parse(format_string) if piece[1] is not None)
        most = max((written_length(value) for value in (*args, *kwargs.values())), default=0)
        check_length(len(format_string) + fields * most)
        return str(super().vformat(format_string, args, kwargs))


def check_width(spec: str) -> None:
    """Raise ValueError where a number in the format of a field is a width that is too long."""
    for digits in re.findall(r"\d+", spec):
        check_length(int(digits) if len(digits) <= len(str(LONGEST)) else LONGEST + 1)


_PERCENT: Final = re.compile(r"%(?:\([^()]*\))?[#0 +-]*(\*|\d*)(?:\.(\*|\d*))?")


def percent_length(text: str, values: Any) -> int:
    """The length of `text % values`, at most. Widths that stand among the values are refused."""
    items = list(values.values()) if isinstance(values, Mapping) else values
    items = items if isinstance(items, list | tuple) else [items]
    most = max((written_length(value) for value in items), default=0)
    length = len(text)
    for match in _PERCENT.finditer(text):
        if "*" in match.groups():
            raise SecurityError("a template may not format with a width of '*'")
        for digits in match.groups():
            check_width(digits or "")
            length += int(digits or 0)
        length += 2 * most
        if length > LONGEST:
            break
    return length
