"""JSON Schemas: checking values by the schema of a user or a server.

jsonschema searches for patterns with Python's own engine, which may take for ever over a text of
a model; here they are searched for as all patterns of others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from windlass.searching import search

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, and no schemas."""


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

    own = {"pattern": _pattern, "patternProperties": _by_pattern}
    others = kind.VALIDATORS["additionalProperties"]

    def additional(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and validator.is_type(value, "object"):
            value = {k: v for k, v in value.items() if not any(search(p, k) for p in patterns)}
            schema = {key: part for key, part in schema.items() if key != "patternProperties"}
        yield from others(validator, said, value, schema) or ()

    extend: Any = validators.extend  # it has no types
    return extend(kind, {**own, "additionalProperties": additional})


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
    for held in _held(value):
        yield from _parts(held)


def _held(value: Any) -> Iterable[Any]:
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
