"""Checks of single values that a type alone cannot make. Each answers in one sentence."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

T = TypeVar("T")

SERVER_NAME: Final = "^[A-Za-z][A-Za-z0-9_-]{0,31}$"
"""What an MCP server may be called: it stands before the dot in the names of its tools."""

_SECRET: Final = re.compile(
    r"key|token|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE
)

SENTENCE = "windlass"
"""The pydantic error type of what these checks find; its message is shown as it is."""


def refuse(sentence: str) -> PydanticCustomError:
    """An error for pydantic whose message is `sentence`, braces and all."""
    return PydanticCustomError(SENTENCE, "{sentence}", {"sentence": sentence})


def without_repeats(items: Sequence[T]) -> tuple[T, ...]:
    """The items as a tuple; none may occur twice."""
    seen: list[T] = []
    for item in items:
        if item in seen:
            raise refuse(f"{item!r} is listed twice")
        seen.append(item)
    return tuple(seen)


def working_pattern(pattern: str) -> str:
    """A regular expression that compiles and has exactly one group."""
    try:
        with warnings.catch_warnings():
            # Python warns of patterns whose meaning may change; that is no mistake today.
            warnings.simplefilter("ignore")
            groups = re.compile(pattern, re.DOTALL).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise refuse(f"{pattern!r} is not a regular expression: {error}") from error
    if groups != 1:
        found = "none" if groups == 0 else str(groups)
        raise refuse(
            f"{pattern!r} needs exactly one group, the part in round brackets that is stored,"
            f" but has {found}; write (?:...) for brackets that are no group"
        )
    return pattern


def working_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema (draft 2020-12) of an object that needs no other document."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(f"the schema cannot be written as JSON: {error}") from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise refuse(
            f"not a valid JSON Schema{f' at {place!r}' if place else ''}: {error.message}"
        ) from error
    if schema.get("type") != "object":
        raise refuse("the schema must describe an object: write 'type': 'object' at its top")
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise refuse(
                f"{reference!r} refers to another document; only references inside the schema,"
                " such as '#/$defs/item', are followed"
            )
    return schema


def working_names(servers: dict[str, T]) -> dict[str, T]:
    """Servers by names that can stand before the dot in a tool's name."""
    for name in servers:
        if not re.fullmatch(SERVER_NAME, name):
            raise refuse(
                f"{name!r} is no name for a server; give one of letters, digits, '_' and '-'"
                " that begins with a letter (32 at most)"
            )
    return servers


def working_secrets(values: dict[str, str]) -> dict[str, str]:
    """Values of which those that look like keys are named as variables, not written out.

    What a cascade says goes into the record, and a key never may.
    """
    for name, value in values.items():
        if _SECRET.search(name) and value and "${" not in value:
            raise refuse(
                f"{name!r} looks like a key, and what stands here goes into the record; put the"
                f" key into an environment variable and write '${{{_variable(name)}}}'"
            )
    return values


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def working_url(url: str) -> str:
    """An address over http or https that holds no password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise refuse(f"{url!r} is no address; write it in full, like 'http://127.0.0.1:8000/mcp'")
    if "@" in parts.netloc:
        raise refuse("an address goes into the record; put what proves who you are into 'headers'")
    return url


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
