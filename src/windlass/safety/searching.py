"""Patterns and JSON Schemas of a user or a server, whatever they are, searched for within a time.

RE2 searches where it can. Python's own engine, which may take for ever, does the rest in a
process of its own that is killed. jsonschema would search for the patterns of a schema with
Python's own engine; here they are searched for as all patterns of others are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from subprocess import PIPE, CalledProcessError, TimeoutExpired, run
from typing import Any, Final

from windlass.safety.patterns import Unsupported, compiled

SECONDS: Final = 5.0
"""How long Python's own engine may take over one text."""

_SHOWN: Final = 80

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema whose values are data, and no schemas."""

_CHILD: Final = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
pattern, flags, text = json.load(sys.stdin)
found = re.search(pattern, text, flags)
json.dump(None if found is None else [found[0], *found.groups()], sys.stdout)
"""


def search(pattern: str, text: str, flags: int = 0) -> tuple[str | None, ...] | None:
    """What the pattern and each of its groups match first in a text; None: nothing.

    Blocks the thread. Raises BadPattern for what is no pattern, TimeoutError with a sentence
    where the search was stopped.
    """
    try:
        match = compiled(pattern, flags).search(text)
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


def checker(schema: Mapping[str, Any]) -> Any:
    """A validator of jsonschema, of the draft that the schema names (2020-12 where none is).

    `iter_errors` raises BadPattern and TimeoutError, each with a sentence, where a pattern cannot
    be searched for. Raises SchemaError where the schema is none.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(dict(schema))
    keywords = set(_keywords(schema))
    if {"patternProperties", "unevaluatedProperties"} <= keywords:
        raise SchemaError("patternProperties and unevaluatedProperties cannot be used together")
    # A part that names its draft would be checked by that draft's own class.
    return _kind(kind)(_without_drafts(schema))


@cache
def _kind(kind: Any) -> Any:
    from jsonschema import validators

    by_pattern = {"pattern": _pattern, "patternProperties": _by_pattern}
    without_patterns = kind.VALIDATORS["additionalProperties"]

    def additional(validator: Any, keyword: Any, value: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and validator.is_type(value, "object"):
            value = {k: v for k, v in value.items() if not any(search(p, k) for p in patterns)}
            schema = {key: part for key, part in schema.items() if key != "patternProperties"}
        yield from without_patterns(validator, keyword, value, schema) or ()

    extend: Any = validators.extend  # it has no types
    return extend(kind, {**by_pattern, "additionalProperties": additional})


def _pattern(validator: Any, pattern: str, value: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and search(pattern, value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _by_pattern(validator: Any, patterns: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, schema in patterns.items():
        for key, held in value.items():
            if search(pattern, key) is not None:
                yield from validator.descend(held, schema, path=key, schema_path=pattern)


def patterns_in(schema: Any) -> Iterator[str]:
    """The regular expressions of a schema."""
    for part in _parts(schema):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        if isinstance(part.get("patternProperties"), Mapping):
            yield from part["patternProperties"]


def _keywords(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        yield from part


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """All objects in a schema but those in values: schemas, and what holds schemas by name."""
    if isinstance(value, Mapping):
        yield value
    for child in _children(value):
        yield from _parts(child)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [held for key, held in value.items() if key not in _VALUES]
    return value if isinstance(value, list | tuple) else ()


def _without_drafts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: held if key in _VALUES else _without_drafts(held)
            for key, held in value.items()
            if key != "$schema" or not isinstance(held, str)
        }
    return [_without_drafts(held) for held in value] if isinstance(value, list) else value
