r"""Regular expressions that are searched for in time proportional to the text, whatever they are.

Patterns come from cascades and from models, texts from models and tools: Python's own engine can
take longer than the world lasts over some of them (`(a+)+$`). Here they are read by Python's
parser, so that they mean what Python means by them, and run by RE2, which never goes back. What
RE2 cannot do (lookaround, backreferences) is refused in a sentence.

Where the meaning differs from Python's: `\b` knows only the letters a to z, digits and `_` as
parts of words; `\w` and `\d` follow the edition of Unicode that RE2 has; case is folded one
character to one.

`search` takes any pattern whatever, within a limited time: what RE2 cannot do, Python's own engine,
which may run for ever, does in a process of its own, which is killed when its time is up.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from subprocess import PIPE, CalledProcessError, TimeoutExpired, run
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

LONGEST: Final = 10_000
"""Most characters of a pattern: parsing one takes time, too."""
_REPEATS: Final = 1_000
"""The largest number of repetitions that RE2 takes."""

_IGNORE_CASE: Final = int(re.IGNORECASE)
_MULTILINE: Final = int(re.MULTILINE)
_DOTALL: Final = int(re.DOTALL)
_ASCII: Final = int(re.ASCII)

_TOP: Final = 0x10FFFF
_HALVES: Final = range(0xD800, 0xE000)
"""Halves of characters outside the first plane, which no encoding of text has by themselves."""
_LAST_SPACE: Final = 0x3000
_ESCAPES: Final = {"WORD": r"\w+", "DIGIT": r"\d+", "SPACE": r"\s+"}
_CLASSES: Final = {"WORD": r"\p{L}\p{N}_", "DIGIT": r"\p{Nd}"}

_LACKING: Final = {
    "ASSERT": "has lookahead or lookbehind, (?=...) or (?<=...)",
    "ASSERT_NOT": "has lookahead or lookbehind, (?!...) or (?<!...)",
    "GROUPREF": r"has a backreference, \1 or (?P=name)",
    "GROUPREF_EXISTS": "has a condition, (?(1)...|...)",
    "ATOMIC_GROUP": "has an atomic group, (?>...)",
    "POSSESSIVE_REPEAT": "has a possessive quantifier, such as a++",
}
_CANNOT: Final = "which a search in linear time cannot do"


class BadPattern(ValueError):
    """A text that is not a regular expression. The message is the end of a sentence."""


class Unsupported(BadPattern):
    """A regular expression that only an engine without a time limit can search for."""


class PatternMatch(Protocol):
    """A match: `match[0]` is the whole, `match[1]` the first group."""

    def __getitem__(self, group: int, /) -> str | None: ...

    def groups(self) -> tuple[str | None, ...]:
        """Return what each group matches; None: nothing."""
        ...


class MatchingLine(NamedTuple):
    """A line in which something was found: its number from 1, and where in it, from 0."""

    number: int
    text: str
    at: int


class Pattern:
    """A regular expression that is searched for in linear time."""

    def __init__(self, translated: str, groups: int, *, in_lines: bool) -> None:
        import re2  # takes 15 ms

        options = re2.Options()
        options.log_errors = False
        options.never_nl = in_lines
        try:
            self._engine: Any = re2.compile(
                translated.encode() if in_lines else translated, options
            )
        except re2.error as error:
            raise Unsupported(f"is too large, {_reason(error)}, {_CANNOT}") from None
        self.groups = groups

    def search(self, text: str) -> PatternMatch | None:
        """Return the first match in a text, or None."""
        try:
            match = self._engine.search(text)
        except UnicodeEncodeError:  # halves of characters, which no encoding has
            match = self._engine.search(text.encode("utf-8", "replace").decode())
        return cast("PatternMatch | None", match)

    def lines(self, text: str) -> Iterator[MatchingLine]:
        """Yield the lines of a text that match; for patterns compiled with `in_lines`."""
        data = text.encode("utf-8", "surrogatepass")
        at, number = 0, 1
        while at <= len(data) and (match := self._engine.search(data, at)) is not None:
            start = data.rfind(b"\n", at, match.start()) + 1 or at
            end = data.find(b"\n", match.start())
            end = len(data) if end < 0 else end
            number += data.count(b"\n", at, start)
            before, line = data[start : match.start()], data[start:end]
            yield MatchingLine(number, _decoded(line), len(_decoded(before)))
            at, number = end + 1, number + 1


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, flags: int = 0, *, in_lines: bool = False) -> Pattern:
    """Return a pattern as Python's `re` reads it with these flags.

    `in_lines`: each line of a text is searched as a text of its own. Raises BadPattern for what is
    not a pattern, and Unsupported for what RE2 lacks.
    """
    if len(pattern) > LONGEST:
        raise BadPattern(f"has more than {LONGEST:,} characters")
    tree = _parsed(pattern, flags)
    try:
        translated = _Translation(tree.state.flags, in_lines=in_lines).whole(tree)
        return Pattern(translated, tree.state.groups - 1, in_lines=in_lines)
    except RecursionError:
        raise BadPattern("is nested too deeply") from None


def count_groups(pattern: str, flags: int = 0) -> int:
    """Return the number of groups in a pattern, whether RE2 takes it or not. Raises BadPattern."""
    try:
        return compile_pattern(pattern, flags).groups
    except Unsupported:
        try:
            return re.compile(pattern, flags).groups
        except (re.error, OverflowError, RecursionError) as error:
            raise BadPattern(f"is not a regular expression: {error}") from None


def _parsed(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        # Python warns of patterns whose meaning may change; that is no mistake today.
        warnings.simplefilter("ignore")
        try:
            return import_module("re._parser").parse(pattern, flags)
        except (re.error, ValueError, OverflowError) as error:
            raise BadPattern(f"is not a regular expression: {error}") from None
        except RecursionError:
            raise BadPattern("is nested too deeply") from None


class _Translation:
    """Python's tree of a pattern, written as RE2 reads it."""

    def __init__(self, flags: int, *, in_lines: bool) -> None:
        self._flags = flags
        self._in_lines = in_lines

    def whole(self, tree: Any) -> str:
        folded = "(?i)" if self._flags & _IGNORE_CASE else ""
        return folded + self._sequence(tree, self._flags, last=True)

    def _sequence(self, tree: Any, flags: int, *, last: bool) -> str:
        nodes = list(tree)
        return "".join(
            self._node(str(kind), value, flags, last=last and at == len(nodes) - 1)
            for at, (kind, value) in enumerate(nodes)
        )

    def _node(self, kind: str, value: Any, flags: int, *, last: bool) -> str:
        match kind:
            case "LITERAL":
                return _literal(value)
            case "NOT_LITERAL":
                return f"[^{_literal(value)}]"
            case "ANY":
                return "(?s:.)" if flags & _DOTALL else "(?-s:.)"
            case "IN":
                return _class(value, flags)
            case "BRANCH":
                return f"(?:{'|'.join(self._sequence(b, flags, last=last) for b in value[1])})"
            case "SUBPATTERN":
                group, add, remove, inner = value
                return self._group(group, inner, flags, (flags | add) & ~remove, last=last)
            case "MAX_REPEAT" | "MIN_REPEAT":
                lazy = "?" if kind == "MIN_REPEAT" else ""
                least, most, inner = value
                return self._repeat(least, most, inner, flags) + lazy
            case "AT":
                return (
                    _line_place(str(value)) if self._in_lines else _place(str(value), flags, last)
                )
        raise Unsupported(f"{_LACKING.get(kind, kind)}, {_CANNOT}")

    def _group(self, group: int | None, tree: Any, flags: int, inner: int, *, last: bool) -> str:
        body = self._sequence(tree, inner, last=last)
        if (inner ^ flags) & _IGNORE_CASE:
            body = f"(?{'' if inner & _IGNORE_CASE else '-'}i:{body})"
        return f"(?:{body})" if group is None else f"({body})"

    def _repeat(self, least: Any, most: Any, tree: Any, flags: int) -> str:
        body = f"(?:{self._sequence(tree, flags, last=False)})"
        endless = str(most) == "MAXREPEAT"
        if endless and least <= 1:
            return body + "*+"[least]
        if max(least, 0 if endless else most) > _REPEATS:
            raise Unsupported(f"repeats by number more than {_REPEATS:,} times, {_CANNOT}")
        return f"{body}{{{least},{'' if endless else most}}}"


def _line_place(place: str) -> str:
    """Return what stands for the places of a text where each line is one."""
    boundary = {"AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}.get(place)
    return boundary or ("(?m:^)" if "BEGINNING" in place else "(?m:$)")


def _place(place: str, flags: int, last: bool) -> str:
    match place:
        case "AT_BEGINNING":
            return "(?m:^)" if flags & _MULTILINE else r"\A"
        case "AT_BEGINNING_STRING":
            return r"\A"
        case "AT_BOUNDARY":
            return r"\b"
        case "AT_NON_BOUNDARY":
            return r"\B"
        case "AT_END_STRING":
            return r"\z"
    if flags & _MULTILINE:
        return "(?m:$)"
    if not last:
        raise Unsupported(f"has more after a $, {_CANNOT}")
    return r"(?:\n?\z)"  # Python's `$` stands before a line end that ends the text, too


def _literal(code: int) -> str:
    if code in _HALVES:
        raise BadPattern("holds half a character (a lone surrogate), which no text has")
    return f"\\x{{{code:x}}}"


_Ranges: TypeAlias = Sequence[tuple[int, int]]


def _class(items: Iterable[tuple[Any, Any]], flags: int) -> str:
    """Return a class of characters; where RE2 has no words for it, its ranges are written out."""
    parts = [(str(kind), value) for kind, value in items]
    negated = parts[0][0] == "NEGATE"
    parts = parts[1:] if negated else parts
    names = [str(value) for kind, value in parts if kind == "CATEGORY"]
    ascii_only = bool(flags & _ASCII)
    if len(parts) == 1 and names:
        inner, opposite = _category(names[0])
        return f"[{'^' if negated != opposite else ''}{_words(inner, ascii_only=ascii_only)}]"
    if not any("NOT_" in name for name in names):
        texts = [
            _words(_category(str(value))[0], ascii_only=ascii_only)
            if kind == "CATEGORY"
            else _written([value if kind == "RANGE" else (value, value)])
            for kind, value in parts
        ]
        return f"[{'^' if negated else ''}{''.join(texts)}]"
    found: list[tuple[int, int]] = []
    for kind, value in parts:
        if kind == "CATEGORY":
            inner, opposite = _category(str(value))
            ranges = _ranges(inner, ascii_only=ascii_only)
            found += _complement(ranges) if opposite else ranges
        else:
            found.append(value if kind == "RANGE" else (value, value))
    written = _written(_complement(found) if negated else found)
    return f"[{written}]" if written else f"[^{_written([(0, _TOP)])}]"


def _category(name: str) -> tuple[str, bool]:
    """Return `CATEGORY_NOT_WORD` as `WORD`, and that it is the opposite."""
    plain = name.removeprefix("CATEGORY_")
    return plain.removeprefix("NOT_"), plain.startswith("NOT_")


def _words(category: str, *, ascii_only: bool) -> str:
    letters = None if ascii_only else _CLASSES.get(category)
    return letters or _written(_ranges(category, ascii_only=ascii_only))


def _written(ranges: _Ranges) -> str:
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


@cache
def _ranges(category: str, *, ascii_only: bool) -> _Ranges:
    """Return the characters of a category as Python's `re` has it."""
    last = 0x7F if ascii_only else _LAST_SPACE if category == "SPACE" else _TOP
    text = "".join(map(chr, range(last + 1)))
    runs = re.finditer(_ESCAPES[category], text, re.ASCII if ascii_only else 0)
    return [(run.start(), run.end() - 1) for run in runs]


def _complement(ranges: _Ranges) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    done = 0
    for low, high in sorted(ranges):
        if low > done:
            found.append((done, low - 1))
        done = max(done, high + 1)
    if done <= _TOP:
        found.append((done, _TOP))
    return found


SECONDS: Final = 5.0
"""How long Python's own engine may take over one text."""

_SHOWN: Final = 80

_CHILD: Final = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
pattern, flags, text = json.load(sys.stdin)
found = re.search(pattern, text, flags)
json.dump(None if found is None else [found[0], *found.groups()], sys.stdout)
"""


def search(pattern: str, text: str, flags: int = 0) -> tuple[str | None, ...] | None:
    """Return what the pattern and each of its groups match first in a text; None: nothing.

    Blocks the thread. Raises BadPattern for what is no pattern, TimeoutError with a sentence
    where the search was stopped.
    """
    try:
        match = compile_pattern(pattern, flags).search(text)
    except Unsupported:
        return _in_child(pattern, text, flags)
    return None if match is None else (match[0], *match.groups())


def _in_child(pattern: str, text: str, flags: int) -> tuple[str | None, ...] | None:
    question = json.dumps([pattern, flags, text]).encode()
    try:
        # Isolated: nothing of the working folder or of the environment is imported.
        child = run(  # noqa: S603  # our own interpreter, and a program that stands above
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input=question,
            stdout=PIPE,
            timeout=SECONDS,
            check=True,
        )
    except TimeoutExpired as error:
        raise TimeoutError(
            f"the pattern {_short(pattern)} searched {len(text):,} characters for more than"
            f" {SECONDS:g} s and was stopped; write it without lookaround and backreferences, then"
            " it is searched for in linear time"
        ) from error
    except CalledProcessError as error:
        raise TimeoutError(
            f"the search for the pattern {_short(pattern)} ended without an answer (exit code"
            f" {error.returncode})"
        ) from error
    match = json.loads(child.stdout)
    return None if match is None else tuple(match)


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN else f"{pattern[: _SHOWN - 1]}…")
