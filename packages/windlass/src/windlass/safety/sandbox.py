"""The sandbox that templates are rendered in: what a template may call, and what is counted.

Only methods and filters that are known to be harmless can be called. Of those that make a text
longer, the length is known before the text is made (`template_limits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from types import BuiltinMethodType
from typing import Any, Final

import jinja2
from jinja2 import filters, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from windlass.safety.template_limits import (
    Formatter,
    check_containers,
    check_length,
    count_steps,
    joined,
    method_length,
    percent_length,
    replaced_length,
)

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


def _counted_filter(run: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    """Return a filter that makes nothing much longer, with what it makes counted."""

    def filtered(*args: Any, **named: Any) -> Any:
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
    """`filtered`, which Jinja calls with the same first argument as `run`."""
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

    def __init__(self, finalize: Callable[[Any], Any], **options: Any) -> None:
        @jinja2.pass_context
        def counted(_: jinja2.runtime.Context, value: Any) -> Any:
            shown = finalize(value)
            if isinstance(shown, Sized) and not isinstance(shown, jinja2.Undefined):
                check_length(len(shown))
            return shown

        super().__init__(finalize=counted, **options)
        self.filters = _safe_filters(self.filters)
        self.globals["namespace"] = _Namespace
        del self.globals["lipsum"]  # chance has no place in a prompt

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_Counted().visit(source), *args, **options)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a key where a mapping has it: `input.items` means the key, not the method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format`, with its length bounded."""
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
