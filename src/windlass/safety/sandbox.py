"""The sandbox that templates are rendered in: what one may call, and how much it may make.

A template may be a user's, its values are a model's: neither may fill the memory or hold a run up.
Only methods and filters that are known to be harmless can be called; of those that make a text
longer the length is worked out before the text is made; and all that one rendering makes and does
is counted.

510 lines because what may be called, what it may make and where both are asked are one rule.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextvars import ContextVar
from types import BuiltinMethodType
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter

LONGEST: Final = 4_000_000
"""Characters a template may render to: more than any model's window holds."""
_MOST_MADE: Final = 16 * LONGEST
"""Characters and items that one rendering may make on its way."""
_MOST_STEPS: Final = 1_000_000
"""Steps of one rendering: items that loops go over and filters are called with, and calls."""
_BRACKETS: Final = 6
"""Characters of an object or a list beside its values, about."""
_CALL: Final = 10
"""Steps that a call counts for."""
_MOST_BITS: Final = 100_000
_LONG_WORD: Final = 200
_TOO_LONG: Final = f"the result would be longer than {LONGEST:,} characters"
_MEASURED: Final = (str, list, tuple, set, frozenset, Mapping)

_TEXT_NAMES: Final = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper lower lstrip "
    "partition removeprefix removesuffix rfind rindex rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title upper"
)
_TEXT: Final = frozenset(_TEXT_NAMES.split())
_METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: _TEXT,
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
_LISTING: Final = frozenset(_LISTING_NAMES.split())
"""Filters that make no text of what they are given."""
_WRITING_NAMES: Final = (
    "capitalize e escape forceescape lower pprint safe string title trim truncate upper "
    "urlencode wordcount"
)
_WRITING: Final = frozenset(_WRITING_NAMES.split())
"""Filters that make a text a few times as long as what they are given, at most."""


class _Spent:
    """What a rendering has made and done."""

    __slots__ = ("made", "steps")

    def __init__(self) -> None:
        self.made = 0
        self.steps = 0


_SPENT: Final[ContextVar[_Spent]] = ContextVar("spent")


def begin() -> None:
    """Count anew: a rendering begins."""
    _SPENT.set(_Spent())


def bound(length: int) -> None:
    """Raise ValueError where a text would be longer than one may be, or all of them together."""
    if length > LONGEST:
        raise ValueError(_TOO_LONG)
    spent = _SPENT.get(None)
    if spent is not None:
        spent.made += max(length, 0)
        if spent.made > _MOST_MADE:
            raise ValueError(f"the template makes more than {_MOST_MADE:,} characters on its way")


def _step(count: int = 1) -> None:
    spent = _SPENT.get(None)
    if spent is not None:
        spent.steps += count
        if spent.steps > _MOST_STEPS:
            raise ValueError(f"the template takes more than {_MOST_STEPS:,} steps")


def weigh(*values: Any) -> int:
    """The characters of values when they are written, about; what is contained is counted.

    Raises ValueError as soon as that is more than a text may have: values in a list may be one
    long text many times.
    """
    total = 0
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            value = [*value.keys(), *value.values()]
        total += len(value) if isinstance(value, str) else len(value) + _BRACKETS
        if total > LONGEST:
            raise ValueError(_TOO_LONG)
        if not isinstance(value, str):
            waiting += [each for each in value if isinstance(each, _MEASURED)]
    return total


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


# ---- what makes texts longer: how long, before they are made -----------------------------


def _joined(between: str, items: Iterable[Any]) -> str:
    """The items as texts, with one between them; given up as soon as that grows too long."""
    texts: list[str] = []
    length = 0
    for item in items:
        if not isinstance(item, str):
            weigh(item)
        texts.append(item if isinstance(item, str) else str(item))
        length += len(texts[-1]) + len(between)
        if length > LONGEST + len(between):
            raise ValueError(_TOO_LONG)
    bound(length)
    return between.join(texts)


def _replaced(text: str, old: str, new: str) -> int:
    times = text.count(old)
    return len(text) + times * max(len(new) - len(old), 0)


def _method_length(text: str, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> int:
    """The length of what a method of a text makes, for those that make it longer."""
    match name:
        case "center" | "ljust" | "rjust" | "zfill":
            return max(len(text), *map(_number, args), 0)
        case "expandtabs":
            size = args[0] if args else named.get("tabsize", 8)
            return len(text) + text.count("\t") * max(_number(size), 0)
        case "replace":
            old, new = (*map(str, args), "", "")[:2]
            return _replaced(text, old, new)
    raise SecurityError(f"a template may not call {name!r} of a text")


class _Formatter(SandboxedFormatter):
    """`str.format` with the width of fields and the length of all of them bounded."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        _width(format_spec)
        weigh(value)
        written = super().format_field(value, format_spec)
        bound(len(written))
        return written

    def convert_field(self, value: Any, conversion: Any) -> Any:
        weigh(value)
        return super().convert_field(value, conversion)

    def vformat(self, format_string: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        fields = sum(1 for piece in string.Formatter().parse(format_string) if piece[1] is not None)
        most = max((weigh(value) for value in (*args, *kwargs.values())), default=0)
        bound(len(format_string) + fields * most)
        return str(super().vformat(format_string, args, kwargs))


_DIGITS: Final = re.compile(r"\d+")


def _width(spec: str) -> None:
    for digits in _DIGITS.findall(spec):
        if len(digits) > len(str(LONGEST)):
            bound(LONGEST + 1)
        bound(int(digits))


_PERCENT: Final = re.compile(r"%(?:\([^()]*\))?[#0 +-]*(\*|\d*)(?:\.(\*|\d*))?")


def _percent_length(text: str, values: Any) -> int:
    """How long `text % values` is at most; widths that stand among the values are refused."""
    items = list(values.values()) if isinstance(values, Mapping) else values
    items = items if isinstance(items, list | tuple) else [items]
    most = max((weigh(value) for value in items), default=0)
    length = len(text)
    for match in _PERCENT.finditer(text):
        if "*" in match.groups():
            raise SecurityError("a template may not format with a width of '*'")
        for digits in match.groups():
            _width(digits or "")
            length += int(digits or 0)
        length += 2 * most
        if length > LONGEST:
            break
    return length


# ---- filters that are looked at before they run ----------------------------------------


def _plain(name: str, run: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    """A filter that makes nothing much longer, with what it makes counted."""

    def filtered(*args: Any, **named: Any) -> Any:
        _step()
        if writes:
            weigh(
                *(
                    each
                    for each in args
                    if not isinstance(each, str) and isinstance(each, _MEASURED)
                )
            )
        if name == "sum":
            _check_sum(args, named)
        result = run(*args, **named)
        if isinstance(result, Sized) and not isinstance(result, Mapping):
            bound(len(result))
        return result

    for mark in ("jinja_pass_arg", "jinja_async_variant"):
        if hasattr(run, mark):
            setattr(filtered, mark, getattr(run, mark))
    return filtered


def _check_sum(args: Sequence[Any], named: Mapping[str, Any]) -> None:
    start = named.get("start", args[3] if len(args) > 3 else 0)  # noqa: PLR2004  # environment, iterable, attribute, start
    if not isinstance(start, int | float):
        raise TypeError("sum adds numbers only")


def _center(value: Any, width: int = 80) -> str:
    text = str(value)
    bound(max(len(text), width))
    return text.center(width)


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = str(value)
    size = len(width) if isinstance(width, str) else width
    bound(len(text) + (text.count("\n") + 1) * max(size, 0))
    return str(jinja2.filters.do_indent(text, width, first, blank))


def _replace(context: Any, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    del context
    text, old, new = str(value), str(old), str(new)
    bound(_replaced(text, old, new))
    return text.replace(old, new, -1 if count is None else count)


_replace.jinja_pass_arg = jinja2.filters.do_replace.jinja_pass_arg  # type: ignore[attr-defined]


def _join(context: Any, value: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    environment = context.environment if hasattr(context, "environment") else context
    if attribute is not None:
        value = map(jinja2.filters.make_attrgetter(environment, attribute), value)
    return _joined(str(d), value)


def _format(value: Any, *args: Any, **named: Any) -> str:
    text = str(value)
    if args and named:
        raise TypeError("format takes either positions or names")
    bound(_percent_length(text, named or args))
    return text % (named or args)


def _batch(value: Iterable[Any], linecount: int, fill_with: Any = None) -> Iterator[Any]:
    bound(linecount)
    return jinja2.filters.do_batch(value, linecount, fill_with)


def _slice(value: Any, slices: int, fill_with: Any = None) -> Iterator[Any]:
    bound(slices)
    yield from jinja2.filters.do_slice(value, slices, fill_with)


def _striptags(value: Any) -> str:
    """The text without comments and tags, and with single blanks."""
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


def _wordwrap(  # noqa: PLR0917  # Jinja's arguments
    environment: Any,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    text = str(value)
    bound(len(text) * (1 + len(wrapstring or "\n") // max(width, 1)) + len(wrapstring or ""))
    # Longer words are data, over whose hyphens textwrap would take for ever.
    hyphens = break_on_hyphens and all(len(word) <= _LONG_WORD for word in text.split())
    return str(
        jinja2.filters.do_wordwrap(environment, text, width, break_long_words, wrapstring, hyphens)
    )


_wordwrap.jinja_pass_arg = jinja2.filters.do_wordwrap.jinja_pass_arg  # type: ignore[attr-defined]
_join.jinja_pass_arg = jinja2.filters.do_join.jinja_pass_arg  # type: ignore[attr-defined]

_GROWING: Final[Mapping[str, Callable[..., Any]]] = {
    "batch": _batch,
    "center": _center,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "slice": _slice,
    "striptags": _striptags,
    "wordwrap": _wordwrap,
}


# ---- the environment -------------------------------------------------------------------


class _Buffer(list[str]):
    """The pieces of a text that a template keeps for itself, together no longer than one may be."""

    def __init__(self) -> None:
        self._length = 0

    def append(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > LONGEST:
            raise ValueError(_TOO_LONG)
        bound(len(piece))
        super().append(piece)

    def extend(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self.append(piece)


class _Generator(CodeGenerator):
    """Compiles templates so that the environment is asked wherever a text is put together."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802  # Jinja's name
        self.write("environment.concatenated((")
        for piece in node.nodes:
            self.visit(piece, frame)
            self.write(", ")
        self.write("))")

    def buffer(self, frame: Frame) -> None:
        frame.buffer = self.temporary_identifier()
        self.writeline(f"{frame.buffer} = environment.buffer()")


class Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a bound on what is made and done."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})
    code_generator_class = _Generator
    buffer = _Buffer

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        known = {
            name: _plain(name, self.filters[name], writes=name in _WRITING)
            for name in _LISTING | _WRITING
        }
        self.filters = {**known, **_GROWING, _COUNTED: _counted}
        # Chance and texts for web pages have no place in a prompt.
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key where a mapping has it: `input.items` means the key, not the method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format`, with its length bounded."""
        text = getattr(value, "__self__", None)
        name = getattr(value, "__name__", "")
        if not isinstance(text, str) or name not in ("format", "format_map"):
            return None
        formatter = _Formatter(self)

        def written(*args: Any, **named: Any) -> str:
            return formatter.vformat(
                text, *(((), args[0]) if name == "format_map" else (args, named))
            )

        return written

    def concatenated(self, values: Iterable[Any]) -> str:
        """What `~` puts together."""
        return _joined("", values)

    def call(
        __self,  # noqa: N805  # as in Jinja: names of arguments are the template's
        __context: jinja2.runtime.Context,  # noqa: PYI063
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call what a template calls, where it may."""
        _step(_CALL)
        owner = getattr(__obj, "__self__", None)
        if isinstance(__obj, BuiltinMethodType) and owner is not None:
            name = __obj.__name__
            if isinstance(owner, str) and name == "join":
                return _joined(owner, *args)
            if name not in _methods_of(owner):
                if not isinstance(owner, str):
                    raise SecurityError(
                        f"a template may not call {name!r} of a value of type"
                        f" {type(owner).__name__!r}"
                    )
                bound(_method_length(owner, name, args, kwargs))
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str | list):
            bound(len(result))
        return result

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        """An operator whose result may be long, when that is known to be short enough."""
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() + right.bit_length()
            if operator == "**":
                bits = left.bit_length() * max(right, 1)
            if bits > _MOST_BITS:
                raise ValueError("the number would be too long")
        elif operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(sequence, "__len__"):
                    bound(len(sequence) * max(times, 0))
        elif operator == "+":
            if hasattr(left, "__len__") and hasattr(right, "__len__"):
                bound(len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            bound(_percent_length(left, right))
        return super().call_binop(context, operator, left, right)


_COUNTED: Final = "counted by the sandbox"


def _counted(values: Any) -> Any:
    """What a loop goes over, counted."""
    if isinstance(values, jinja2.Undefined):
        return values
    if isinstance(values, Sized):
        _step(len(values))
        return values
    return _counting(values)


def _counting(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _step()
        yield value


def _methods_of(owner: Any) -> frozenset[str]:
    kinds = (kind for kind in _METHODS if isinstance(owner, kind))
    return _METHODS.get(next(kinds, type(None)), frozenset())
