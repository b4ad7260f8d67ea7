"""JSON Schemas of a user or a server, checked without ever running their patterns for long.

jsonschema would search for a schema's patterns with Python's own engine, which may run for ever.
Here they are searched for as all patterns of others are (`patterns.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from windlass.safety.patterns import search

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema whose values are data, not schemas."""


def object_with(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has one key and no other."""
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }


def validator_for(schema: Mapping[str, Any]) -> Any:
    """Return a validator of jsonschema, of the draft that the schema names (2020-12 where none is).

    `iter_errors` raises BadPattern and TimeoutError, each with a sentence, where a pattern cannot
    be searched for. Raises SchemaError for what is not a schema.
    """
    from jsonschema import Draft202012Validator, SchemaError, validators

    kind = validators.validator_for(schema, default=Draft202012Validator)
    kind.check_schema(dict(schema))
    keywords = {keyword for part in _parts(schema) for keyword in part}
    if {"patternProperties", "unevaluatedProperties"} <= keywords:
        raise SchemaError("patternProperties and unevaluatedProperties cannot be used together")
    # A part that names its draft would be checked by that draft's own class.
    return _with_safe_search(kind)(_without_drafts(schema))


@cache
def _with_safe_search(kind: Any) -> Any:
    """Return Jsonschema's class of validators for a draft, with our search for patterns."""
    from jsonschema import validators

    by_pattern = {"pattern": _check_pattern, "patternProperties": _check_named_by_pattern}
    without_patterns = kind.VALIDATORS["additionalProperties"]

    def additional(validator: Any, keyword: Any, value: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and validator.is_type(value, "object"):
            value = {k: v for k, v in value.items() if not any(search(p, k) for p in patterns)}
            schema = {key: part for key, part in schema.items() if key != "patternProperties"}
        yield from without_patterns(validator, keyword, value, schema) or ()

    extend: Any = validators.extend  # it has no types
    return extend(kind, {**by_pattern, "additionalProperties": additional})


def _check_pattern(validator: Any, pattern: str, value: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and search(pattern, value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_named_by_pattern(
    validator: Any, patterns: Mapping[str, Any], value: Any, _: Any
) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, schema in patterns.items():
        for key, held in value.items():
            if search(pattern, key) is not None:
                yield from validator.descend(held, schema, path=key, schema_path=pattern)


def patterns_in(schema: Any) -> Iterator[str]:
    """Yield the regular expressions of a schema."""
    for part in _parts(schema):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        if isinstance(part.get("patternProperties"), Mapping):
            yield from part["patternProperties"]


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Give all objects in a schema but those in values: schemas, and what holds schemas by name."""
    inner: Iterable[Any] = value if isinstance(value, list | tuple) else ()
    if isinstance(value, Mapping):
        yield value
        inner = [held for key, held in value.items() if key not in _VALUES]
    for each in inner:
        yield from _parts(each)


def _without_drafts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: held if key in _VALUES else _without_drafts(held)
            for key, held in value.items()
            if key != "$schema" or not isinstance(held, str)
        }
    return [_without_drafts(held) for held in value] if isinstance(value, list) else value
