"""Grammars that hold the local model to the shape of a tool call, or of a JSON schema.

The runtime takes llguidance grammars (github.com/guidance-ai/llguidance): Lark rules
with `%json` for a JSON Schema. It silently ignores a grammar it cannot compile, and
an unbounded string may run into the output limit. So a schema is narrowed first: the
grammar's schema accepts a subset of the original's values, uses supported keywords
only and bounds what has no bound. The reply is then checked against the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.public import ToolSpec

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"

MAX_STRING: Final = 200
"""Characters of a string for which the schema sets no bound."""

MAX_ITEMS: Final = 20
"""Items of an array for which the schema sets no bound."""

MAX_NUMBER: Final = 10**9
"""Largest absolute value of a number for which the schema sets no bound."""

_DEPTH: Final = 8
"""Levels of nesting, references included, below which optional parts are left out."""

_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
"""The string formats that llguidance knows."""

_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!][^()]*\)")
_ODD_PATTERN: Final = re.compile(r"\(\?|\\[1-9bBAZzkpP]")
"""What llguidance's regular expressions lack: look-around, references, boundaries."""

_STEP: Final = 0.0001
"""Numbers get at most four decimals: a small model writes 0.333… without end."""

_SPACING: Final = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""The spacing of `json.dumps`, which the model has seen most."""


def call_grammar(tools: Sequence[ToolSpec], *, simple: bool = False) -> str:
    """Return the llguidance grammar of exactly one call of one of `tools`.

    `simple` leaves out patterns and formats, for a schema whose patterns llguidance
    cannot compile. A call has the bytes that `_prompt` renders it as, so that
    the next request goes on where this reply ends.
    """
    names = " | ".join(f"call_{index}" for index in range(len(tools)))
    rules = [f'start: "{OPEN}" ({names}) "{CLOSE}"']
    for index, spec in enumerate(tools):
        rules.append(f'call_{index}: {json.dumps(call_head(spec.name))} args_{index} "}}"')
        rules.append(f"args_{index}: %json {_json_rule(spec.parameters, simple=simple)}")
    return "\n".join(["%llguidance {}", *rules, ""])


def json_grammar(schema: Mapping[str, Any], *, simple: bool = False) -> str:
    """Return the llguidance grammar of JSON text that `schema` accepts; `simple` as for calls."""
    return f"%llguidance {{}}\nstart: %json {_json_rule(schema, simple=simple)}\n"


def call_head(name: str) -> str:
    """Return what stands between the opening tag and the arguments of a call of the tool `name`."""
    return f'{{"name": {json.dumps(name)}, "arguments": '


def read_call(text: str, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, str] | None:
    """Return the tool that `text` calls and its arguments' text; None where it is no whole call."""
    for spec in tools:
        head, tail = OPEN + call_head(spec.name), "}" + CLOSE
        if text.startswith(head) and text.endswith(tail):
            return spec, text[len(head) : -len(tail)]
    return None


def _json_rule(schema: Mapping[str, Any], *, simple: bool) -> str:
    return json.dumps({"x-guidance": _SPACING, **narrowed(schema, simple=simple)})


def narrowed(schema: Mapping[str, Any], *, simple: bool = False) -> dict[str, Any]:
    """Give a schema that accepts a subset of what `schema` accepts, bounded and without references.

    Bounds that `schema` sets are kept. `simple` leaves out patterns and formats.
    What cannot be expressed (`not`, `if`, `contains`) is left out: the result may
    then accept more, which the check against the original finds.
    """
    return _Narrower(schema, simple=simple).schema(schema, 0) or {"type": "null"}


class _Narrower:
    """One walk over a schema; `root` is what local references point into."""

    def __init__(self, root: Mapping[str, Any], *, simple: bool) -> None:
        self.root = root
        self.simple = simple

    def schema(self, schema: Any, depth: int) -> dict[str, Any] | None:
        """Return the narrowed `schema`; None where nothing (finite) can satisfy it."""
        if schema is False or depth > _DEPTH:
            return None
        if not isinstance(schema, Mapping):
            return self._scalar()
        if _refers(schema):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._resolved(schema["$ref"])
            merged = {**target, **rest} if isinstance(target, Mapping) else target
            return self.schema(merged, depth + 1)
        if "const" in schema:
            return {"const": schema["const"]}
        if "enum" in schema:
            return {"enum": list(schema["enum"])}
        if schema.get("allOf"):
            return self.schema(self._merged(schema), depth + 1)
        for union in ("anyOf", "oneOf"):
            if schema.get(union):
                base = {key: value for key, value in schema.items() if key != union}
                return self._any_of(
                    (self._merged({**base, "allOf": [option]}) for option in schema[union]),
                    depth,
                )
        kind = schema.get("type") or _kind_of(schema)
        if isinstance(kind, list):
            return self._any_of(({**schema, "type": one} for one in kind), depth)
        return self._typed(kind, schema, depth)

    def _any_of(self, options: Iterable[Any], depth: int) -> dict[str, Any] | None:
        narrow = [
            each for option in options if (each := self.schema(option, depth + 1)) is not None
        ]
        if not narrow:
            return None
        return {"anyOf": narrow} if narrow[1:] else narrow[0]

    def _typed(self, kind: Any, schema: Mapping[str, Any], depth: int) -> dict[str, Any] | None:
        match kind:
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return _number(kind, schema)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth)
            case "boolean" | "null":
                return {"type": kind}
            case _:
                return self._scalar()

    def _scalar(self) -> dict[str, Any]:
        """Any value, held to a short one."""
        return {
            "anyOf": [self._string({}), _number("number", {}), {"type": "boolean"}],
        }

    def _string(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        least = schema.get("minLength", 0)
        narrow: dict[str, Any] = {"type": "string"}
        if not self.simple and schema.get("format") in _FORMATS:
            narrow["format"] = schema["format"]
            return narrow
        pattern = _LOOK_AROUND.sub("", schema.get("pattern", ""))
        if pattern and not self.simple and not _ODD_PATTERN.search(pattern):
            narrow["pattern"] = pattern
        if least:
            narrow["minLength"] = least
        narrow["maxLength"] = schema.get("maxLength", max(MAX_STRING, least))
        return narrow

    def _array(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", max(MAX_ITEMS, least))
        if schema.get("uniqueItems"):  # cannot be expressed; a list of one is always unique
            most = min(most, max(1, least))
        narrow: dict[str, Any] = {"type": "array", "minItems": least}
        firsts: Sequence[Any] = schema.get("prefixItems", ())
        if firsts:
            narrow["prefixItems"] = [
                self.schema(one, depth + 1) or self._scalar() for one in firsts
            ]
        rest = self.schema(schema.get("items", True), depth + 1)
        if rest is None:
            return {**narrow, "items": False, "maxItems": min(most, len(firsts))}
        return {**narrow, "items": rest, "maxItems": most}

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any] | None:
        required = list(dict.fromkeys(schema.get("required", ())))
        properties: dict[str, Any] = {}
        schemas = {**schema.get("properties", {})}
        for name in required:
            schemas.setdefault(name, schema.get("additionalProperties", True))
        for name, inner in schemas.items():
            narrow = self.schema(inner, depth + 1)
            if narrow is not None:
                properties[name] = narrow
            elif name in required:
                return None
        extra: dict[str, Any] | bool = False
        if not schemas and schema.get("additionalProperties") is not False:
            # A free-form object is all there is to fill in; else extras are left out.
            extra = self.schema(schema.get("additionalProperties", True), depth + 1) or False
        narrow = {"type": "object", "properties": properties, "required": required}
        return {**narrow, "additionalProperties": extra}

    def _merged(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """`schema` with its `allOf` joined into it; where two speak of a key, the later holds."""
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for one in schema["allOf"]:
            member = self._resolved(one["$ref"]) if _refers(one) else one
            if not isinstance(member, Mapping):
                continue
            both = {
                "properties": {**merged.get("properties", {}), **member.get("properties", {})},
                "required": [*merged.get("required", ()), *member.get("required", ())],
            }
            merged = {**merged, **member} | {key: value for key, value in both.items() if value}
        return merged

    def _resolved(self, pointer: str) -> Any:
        """What a local reference (`#/$defs/Name`) points at; anything where it points nowhere."""
        at: Any = self.root
        if not pointer.startswith("#"):
            return True
        for step in pointer[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(at, Mapping) or key not in at:
                return True
            at = at[key]
        return at


def _refers(schema: Any) -> bool:
    return isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)


def _number(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    narrow: dict[str, Any] = {"type": kind}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        value = schema.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            narrow[key] = value
    if kind == "number":
        narrow.setdefault("multipleOf", _STEP)
    low = narrow.get("minimum", narrow.get("exclusiveMinimum"))
    high = narrow.get("maximum", narrow.get("exclusiveMaximum"))
    if low is None:
        narrow["minimum"] = -MAX_NUMBER if high is None else min(-MAX_NUMBER, high - MAX_NUMBER)
    if high is None:
        narrow["maximum"] = MAX_NUMBER if low is None else max(MAX_NUMBER, low + MAX_NUMBER)
    return narrow


def _kind_of(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema without `type` speaks of; empty where it says nothing."""
    speaks = {
        "object": ("properties", "required", "additionalProperties"),
        "array": ("items", "prefixItems", "minItems", "maxItems"),
        "string": ("minLength", "maxLength", "pattern", "format"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
    return next((kind for kind, keys in speaks.items() if any(k in schema for k in keys)), "")
