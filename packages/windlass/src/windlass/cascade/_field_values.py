"""Values of cascades that a type alone cannot check: patterns, schemas, inputs of sub-cascades."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from windlass.declared import refuse
from windlass.safety.patterns import BadPattern, compile_pattern, count_groups
from windlass.safety.schemas import patterns_in, validator_for


def working_pattern(pattern: str) -> str:
    """Return a regular expression that has exactly one group."""
    try:
        groups = count_groups(pattern, re.DOTALL)
    except BadPattern as error:
        raise refuse(f"{pattern!r} {error}") from error
    if groups != 1:
        count = "none" if groups == 0 else str(groups)
        raise refuse(
            f"{pattern!r} needs exactly one group, the part in round brackets that is stored,"
            f" but has {count}; write (?:...) for brackets that only group"
        )
    return pattern


def fast_pattern(pattern: str) -> str:
    """Return a regular expression that is searched for in linear time."""
    try:
        compile_pattern(pattern, re.MULTILINE)
    except BadPattern as error:
        raise refuse(f"{pattern!r} {error}") from error
    return pattern


def working_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of an object that needs no other document."""
    from jsonschema.exceptions import SchemaError

    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(f"the schema cannot be written as JSON: {error}") from error
    try:
        validator_for(schema)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise refuse(
            f"not a valid JSON Schema{f' at {place!r}' if place else ''}: {error.message}"
        ) from error
    for pattern in patterns_in(schema):
        try:
            count_groups(pattern)
        except BadPattern as error:
            raise refuse(f"the pattern {pattern!r} of the schema {error}") from error
    if schema.get("type") != "object":
        raise refuse("the schema must describe an object: write 'type': 'object' at its top")
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise refuse(
                f"{reference!r} refers to another document; only references inside the schema,"
                " such as '#/$defs/item', are followed"
            )
    return schema


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def plain_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the input of a sub-cascade.

    No value is a template, which would be taken as it stands.
    """
    for name, value in values.items():
        if isinstance(value, str) and ("{{" in value or "{%" in value):
            raise refuse(
                f"{name!r} holds the template {value!r}; write the name of a key of the state or of"
                " the input, or a value as it is"
            )
    return values
