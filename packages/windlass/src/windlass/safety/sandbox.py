"""The sandbox that templates are rendered in: what a template may call, and what is counted.

Only methods and filters that are known to be harmless can be called. Of those that make a text
longer, the length is known before the text is made.

How much one template may make and do, counted while it renders.

A template may be a user's, its values are a model's: neither may fill the memory or hold a run up.
The limits are counts and not seconds, so that a template renders to the same text on every
machine, or on none.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence, Sized
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import BuiltinMethodType
from typing import Any, Final, ParamSpec

import jinja2
from jinja2 import Undefined, filters, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.visitor import NodeTransformer

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
    """Give roughly the characters of values when they are written out, with all that they contain.

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
    """Return the items as texts, with `between` between them.

    Gives up as soon as that is too long.
    """
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
    """Give the length of what a method of a text makes, at most, for those that make it longer."""
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
    """Return the length of `text % values`, at most.

    Widths that stand among the values are refused.
    """
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


_CALL: Final = 10
"""Steps that a call counts for."""
_MOST_BITS: Final = 100_000
_LONG_WORD: Final = 200

_TEXT_NAMES: Final = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper lower lstrip "
    "partition removeprefix removesuffix rfind rindex rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title upper"
)
_METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(_TEXT_NAMES.split()),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
    list: frozenset(("copy", "count", "index")),
    tuple: frozenset(("count", "index")),
    range: frozenset(("count", "index")),
    int: frozenset(("bit_length", "is_integer")),
    float: frozenset(("is_integer",)),
}
"""Methods whose result is about as long as what they are called on, at most."""

_LISTING_NAMES: Final = (
    "abs attr count d default dictsort filesizeformat first float groupby int items last "
    "length list map max min reject rejectattr reverse round select selectattr sort sum "
    "unique"
)
"""Filters that make no text of what they are given."""
_WRITING_NAMES: Final = (
    "capitalize e escape forceescape lower pprint safe string title trim truncate upper "
    "urlencode wordcount"
)
"""Filters that make a text a few times as long as what they are given, at most."""


# ---- filters ----------------------------------------------------------------------------

_Given = ParamSpec("_Given")


def _counted_filter(run: Callable[_Given, Any], *, writes: bool) -> Callable[_Given, Any]:
    """Return a filter that makes nothing much longer, with what it makes counted."""

    def filtered(*args: _Given.args, **named: _Given.kwargs) -> Any:
        count_steps()
        if writes:
            check_containers(*args)
        result = run(*args, **named)
        if isinstance(result, Sized) and not isinstance(result, Mapping):
            check_length(len(result))
        return result

    return _called_like(run, filtered)


def _growing_filter(run: Callable[..., Any], length: Callable[..., int]) -> Callable[..., Any]:
    """A filter of a text that runs once `length` of the same arguments is known to be allowed."""
    passed = 1 if hasattr(run, "jinja_pass_arg") else 0  # what Jinja itself hands in comes first

    def filtered(*args: Any, **named: Any) -> Any:
        check_containers(*args[passed:], *named.values())
        before, text, others = args[:passed], str(args[passed]), args[passed + 1 :]
        check_length(length(text, *others, **named))
        return run(*before, text, *others, **named)

    return _called_like(run, filtered)


def _called_like(run: Callable[..., Any], filtered: Callable[..., Any]) -> Callable[..., Any]:
    """Return `filtered`, which Jinja calls with the same first argument as `run`."""
    for mark in ("jinja_pass_arg", "jinja_async_variant"):
        if hasattr(run, mark):
            setattr(filtered, mark, getattr(run, mark))
    return filtered


def _indented_length(text: str, width: int | str = 4, *_: bool, **__: bool) -> int:
    size = len(width) if isinstance(width, str) else width
    return len(text) + (text.count("\n") + 1) * max(size, 0)


def _replaced_length(text: str, old: Any, new: Any, *_: int, **__: int) -> int:
    return replaced_length(text, str(old), str(new))


_LENGTHS: Final[Mapping[str, Callable[..., int]]] = {
    "center": lambda text, width=80: max(len(text), width),
    "format": lambda text, *args, **named: percent_length(text, named or args),
    "indent": _indented_length,
    "replace": _replaced_length,
}
"""What the filters of a text that make it longer come to."""


def _batch(value: Iterable[Any], linecount: int, fill_with: Any = None) -> Iterator[Any]:
    check_length(linecount)
    return filters.do_batch(value, linecount, fill_with)


def _slice(value: Any, slices: int, fill_with: Any = None) -> Iterator[Any]:
    check_length(slices)
    yield from filters.do_slice(value, slices, fill_with)


@jinja2.pass_environment
def _sum(
    environment: jinja2.Environment, iterable: Iterable[Any], attribute: Any = None, start: Any = 0
) -> Any:
    if not isinstance(start, int | float):
        raise TypeError("sum adds numbers only")
    return filters.sync_do_sum(environment, iterable, attribute, start)


@jinja2.pass_environment
def _join(
    environment: jinja2.Environment, value: Iterable[Any], d: str = "", attribute: Any = None
) -> str:
    check_containers(d)
    if attribute is not None:
        value = map(filters.make_attrgetter(environment, attribute), value)
    return joined(str(d), value)


def _striptags(value: Any) -> str:
    """Return the text without comments and tags, and with single blanks."""
    check_containers(value)
    text = _without(_without(str(value), "<!--", "-->"), "<", ">")
    return " ".join(text.split())


def _without(text: str, opening: str, closing: str) -> str:
    pieces: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        pieces.append(text[at:start])
        at = end + len(closing)
    return "".join([*pieces, text[at:]])


@jinja2.pass_environment
def _wordwrap(  # noqa: PLR0917  # Jinja's arguments
    environment: jinja2.Environment,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    check_containers(value)
    text = str(value)
    line_end = wrapstring or "\n"
    check_length(len(text) * (1 + len(line_end) // max(width, 1)) + len(line_end))
    # Longer words are data, over whose hyphens textwrap would take for ever.
    hyphens = break_on_hyphens and all(len(word) <= _LONG_WORD for word in text.split())
    return filters.do_wordwrap(environment, text, width, break_long_words, wrapstring, hyphens)


def _safe_filters(known: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return those of Jinja's filters that a template may use, each with what it makes counted."""
    listing = {name: known[name] for name in _LISTING_NAMES.split()} | {"sum": _sum}
    return {
        **{name: _counted_filter(run, writes=False) for name, run in listing.items()},
        **{name: _counted_filter(known[name], writes=True) for name in _WRITING_NAMES.split()},
        **{name: _growing_filter(known[name], length) for name, length in _LENGTHS.items()},
        "batch": _batch,
        "join": _join,
        "slice": _slice,
        "striptags": _striptags,
        "wordwrap": _wordwrap,
        _LOOPED: _looped,
        _JOINED: partial(joined, ""),
        _PRINTED: _printed,
    }


# ---- the environment --------------------------------------------------------------------

_LOOPED: Final = "count a loop"
_JOINED: Final = "join pieces"
_PRINTED: Final = "count a text"
"""The filters that the sandbox itself puts into templates; no template can name them."""


@jinja2.pass_context  # or Jinja would call it once, when the template is compiled
def _looped(_: jinja2.runtime.Context, values: Any) -> Any:
    """Count what a loop goes over."""
    if isinstance(values, jinja2.Undefined):
        return values
    if isinstance(values, Sized):
        count_steps(len(values))
        return values
    return _counting(values)


def _counting(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        count_steps()
        yield value


@jinja2.pass_context
def _printed(_: jinja2.runtime.Context, length: int) -> None:
    """Count what a template prints of its own text."""
    check_length(length)


class _Counted(NodeTransformer):
    """Puts the sandbox's filters into the tree of a template, wherever it loops or makes a text."""

    def visit_For(self, loop: nodes.For) -> nodes.For:  # noqa: N802  # Jinja's names
        self.generic_visit(loop)
        loop.iter = _filtered(_LOOPED, loop.iter)
        return loop

    def visit_Concat(self, concat: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(concat)
        return _filtered(_JOINED, nodes.List(concat.nodes, lineno=concat.lineno))

    def visit_Output(self, output: nodes.Output) -> list[nodes.Node]:  # noqa: N802
        self.generic_visit(output)
        own = sum(len(each.data) for each in output.nodes if isinstance(each, nodes.TemplateData))
        length = _filtered(_PRINTED, nodes.Const(own, lineno=output.lineno))
        return [*([nodes.ExprStmt(length, lineno=output.lineno)] if own else []), output]


def _filtered(name: str, value: Any) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


class _Namespace(jinja2.utils.Namespace):
    """Jinja's `namespace()`; printed, it does not write out all that it holds."""

    def __repr__(self) -> str:
        return "<Namespace>"


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, which also counts what a template makes and does."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, finalize: Callable[[Any], Any], undefined: type[jinja2.Undefined]) -> None:
        @jinja2.pass_context
        def counted(_: jinja2.runtime.Context, value: Any) -> Any:
            shown = finalize(value)
            if isinstance(shown, Sized) and not isinstance(shown, jinja2.Undefined):
                check_length(len(shown))
            return shown

        super().__init__(
            finalize=counted, undefined=undefined, autoescape=False, keep_trailing_newline=True
        )
        self.filters = _safe_filters(self.filters)
        self.globals["namespace"] = _Namespace
        del self.globals["lipsum"]  # chance has no place in a prompt

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,
    ) -> str:
        return super()._generate(_Counted().visit(source), name, filename, defer_init)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a key where a mapping has it: `input.items` means the key, not the method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return `str.format`, with its length bounded."""
        text = getattr(value, "__self__", None)
        name = getattr(value, "__name__", "")
        if not isinstance(text, str) or name not in ("format", "format_map"):
            return None
        formatter = Formatter(self)

        def written(*args: Any, **named: Any) -> str:
            return formatter.vformat(
                text, *(((), args[0]) if name == "format_map" else (args, named))
            )

        return written

    def call(
        __self,  # noqa: N805  # as in Jinja: names of arguments are the template's
        __context: jinja2.runtime.Context,  # noqa: PYI063
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call what a template calls, where it may."""
        count_steps(_CALL)
        owner = getattr(__obj, "__self__", None)
        if isinstance(__obj, BuiltinMethodType) and owner is not None:
            name = __obj.__name__
            if isinstance(owner, str) and name == "join":
                return joined(owner, *args)
            if name not in _methods_of(owner):
                if not isinstance(owner, str):
                    raise SecurityError(
                        f"a template may not call {name!r} of a value of type"
                        f" {type(owner).__name__!r}"
                    )
                check_length(method_length(owner, name, args, kwargs))
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str | list):
            check_length(len(result))
        return result

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        """Return an operator whose result may be long, when that is known to be short enough."""
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() + right.bit_length()
            if operator == "**":
                bits = left.bit_length() * max(right, 1)
            if bits > _MOST_BITS:
                raise ValueError("the number would be too long")
        elif operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(sequence, "__len__"):
                    check_length(len(sequence) * max(times, 0))
        elif operator == "+":
            if hasattr(left, "__len__") and hasattr(right, "__len__"):
                check_length(len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            check_length(percent_length(left, right))
        return super().call_binop(context, operator, left, right)


def _methods_of(owner: Any) -> frozenset[str]:
    kinds = (kind for kind in _METHODS if isinstance(owner, kind))
    return _METHODS.get(next(kinds, type(None)), frozenset())
