"""The head of every request: the system role, the definitions of tools, and values that change.

Role and definitions are STABLE and never cut: one that exceeds its cap is reported with its size. A
value that changes from call to call (the time, a number, an id) breaks the cache of everything
after it. If a template or Windlass inserted it, a name takes its place, and the DYNAMIC tier shows
the value. Text that the user wrote is never changed, only reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier
from windlass.messages import ToolSpec, canonical_json

if TYPE_CHECKING:
    from jinja2 import Environment

_NAMED: Final = 5
"""How many tools a report names with their sizes."""


@dataclass
class SystemRole(Injector):
    """The system prompt of the cascade or of the phase."""

    name: ClassVar[str] = "system_role"
    tier: ClassVar[Tier] = Tier.STABLE
    priority: ClassVar[int] = 10
    cap: ClassVar[int] = 2_000

    def render(self, seen: Situation) -> str:
        """Return the system prompt as written."""
        return seen.prompt.system


@dataclass
class ToolDefinitions(Injector):
    """The definitions of the phase's tools, in the order of its tackle, keys sorted.

    They are sent as the request's tools, not as text of a message.
    """

    name: ClassVar[str] = "tools"
    tier: ClassVar[Tier] = Tier.STABLE
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 3_000

    def render(self, seen: Situation) -> Rendered:
        """Return one line of JSON for each tool."""
        return Rendered(
            items=tuple(BlockItem(definition(spec), spec.name) for spec in seen.prompt.definitions)
        )


def definition(spec: ToolSpec) -> str:
    """Return a tool's definition as canonical JSON."""
    return canonical_json(spec.to_openai())


def long_role_text(tokens: int, cap: int) -> str:
    """Return the report about a system role over its cap."""
    return (
        f"the system role has {tokens:,} tokens, more than its cap of {cap:,}; it is sent whole."
        " Shorten it, move parts into skills or knowledge, or raise injectors.system_role.cap"
    )


def long_tools_text(specs: Sequence[ToolSpec], count: Callable[[str], int], cap: int) -> str | None:
    """Return the report about tools over their cap, with the size of each; None if they fit."""
    sizes = {spec.name: count(definition(spec)) for spec in specs}
    total = sum(sizes.values())
    if total <= cap:
        return None
    largest = sorted(sizes.items(), key=lambda size: (-size[1], size[0]))
    listed = ", ".join(f"{name} {size:,}" for name, size in largest[:_NAMED])
    others = f" and {len(sizes) - _NAMED} others" if len(sizes) > _NAMED else ""
    return (
        f"the definitions of {len(sizes)} tools have {total:,} tokens, more than their cap of"
        f" {cap:,} ({listed}{others}); they are sent whole. Name fewer tools, let the phase choose"
        " with 'tackle': 'manifest', or raise injectors.tools.cap"
    )


_LOOKS: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b1[5-9]\d{8}(?:\d{3})?\b"
    r"|\b[0-9a-f]{32,64}\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Volatile:
    """Text of the user's that looks as if it changed from run to run: place (characters), text."""

    at: int
    text: str


def looks_volatile(text: str) -> tuple[Volatile, ...]:
    """Find times, UUIDs, seconds since 1970 and long digests in a text, with their places.

    >>> looks_volatile("Built 2026-11-22T08:00:00Z.")
    (Volatile(at=6, text='2026-11-22T08:00:00Z'),)
    """
    return tuple(Volatile(match.start(), match[0]) for match in _LOOKS.finditer(text))


@dataclass
class Values(Injector):
    """The values that were moved out of the stable part, by the names that replace them."""

    name: ClassVar[str] = "values"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 5
    cap: ClassVar[int] = 200

    def render(self, seen: Situation) -> Rendered:
        """Return one line for each value."""
        items = (BlockItem(f"{name}: {value}", name) for name, value in seen.prompt.values.items())
        return Rendered("[Values now]", tuple(items))


# ---- moving them out of a template ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moved:
    """A template with names in place of volatile values.

    `values` are the expressions by name; `stay` the names of values that could not be moved,
    because they are inside a block of the template.
    """

    template: str
    values: Mapping[str, str]
    stay: tuple[str, ...] = ()


def move_volatile(template: str, *, state: bool) -> Moved:
    """Replace volatile values by names.

    `state`: whether values of the state are also volatile, as in a prompt that phases share.

    >>> move_volatile("Today is {{ now[:10] }}.", state=False)
    Moved(template='Today is [now].', values={'now': 'now[:10]'}, stay=())
    """
    from windlass.text.lookups import find_names  # brings Jinja, 100 ms
    from windlass.text.templates import MOMENTS

    volatile = {*MOMENTS, "state"} if state else {*MOMENTS}
    pieces: list[str] = []
    values: dict[str, str] = {}
    expression: list[str] | None = None
    depth, in_tag = 0, False
    for _, kind, text in _lexer().lex(template):
        if kind == "variable_begin":
            expression = [text]
        elif expression is not None:
            expression.append(text)
            if kind == "variable_end":
                whole, expression = "".join(expression), None
                inner = expression_of(whole)
                roots = {used.name for used in find_names(whole) if not used.of}
                if depth or not roots & volatile:
                    pieces.append(whole)
                else:
                    name = _name(inner, values)
                    values[name] = inner
                    pieces.append(f"[{name}]")
        else:
            pieces.append(text)
            if in_tag and kind == "name":
                depth += -1 if text.startswith("end") else text in _OPENING
                in_tag = False
            in_tag = in_tag or kind == "block_begin"
    left = "".join(pieces)
    stay = sorted({used.name for used in find_names(left) if not used.of and used.name in volatile})
    return Moved(left, values, tuple(stay))


def expression_of(output: str) -> str:
    """Return the expression between the braces of `{{ ... }}`."""
    return output[2:-2].strip("-+ \n\t")


_OPENING: Final = frozenset({"if", "for", "macro", "call", "filter", "with"})


@cache
def _lexer() -> Environment:
    from jinja2 import Environment  # templates alone need it

    return Environment(keep_trailing_newline=True)  # noqa: S701 - it only splits, and renders nothing


def _name(expression: str, taken: Mapping[str, str]) -> str:
    """Return the name that replaces a value: the dotted name at the beginning of its expression."""
    match = re.match(r"[A-Za-z_][\w.]*", expression)
    plain = match[0] if match else "value"
    name, number = plain, 1
    while taken.get(name, expression) != expression:
        number += 1
        name = f"{plain} {number}"
    return name
