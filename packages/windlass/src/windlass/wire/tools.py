"""Tools as callers pass them: recognising their form, reading them, and writing them back.

A tool keeps everything from its own form, and is written back to that form unchanged. Another form
gets its name, purpose and schema. A tool that the provider runs itself (a server tool) has no
schema, and so no place in another form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.errors import SequenceError, UsageError
from windlass.messages import ToolSpec
from windlass.safety.foreign import whole_number
from windlass.wire.base import ordered
from windlass.wire.calls import opaque
from windlass.wire.forms import TITLES, FormName, as_json

_FUNCTION: Final = "tool"
"""Opaque kind: a tool with a schema of its own, as its form has it."""
_SERVER: Final = "server_tool"
"""Opaque kind: a tool that only its provider knows the schema of."""
_ANTHROPICS: Final = re.compile(r".*_20\d{6}|mcp_toolset")
"""Types of Anthropic's tools: all but one end with a date."""
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_SCHEMAS: Final = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_NOT_OF_JSON_SCHEMA: Final = ("nullable", "propertyOrdering", "property_ordering", "example")
_COUNTS: Final = ("minItems", "maxItems", "minLength", "maxLength", "minProperties")
_SNAKE: Final = re.compile(r"_([a-z])")


def tools_form(tools: Iterable[Mapping[str, Any]]) -> FormName | None:
    """Return the form of the first tool that shows one (None: there is no tool)."""
    return next((_form(one) for one in tools), None)


def read_tools(given: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], tuple[ToolSpec, ...]]:
    """Return the tools as JSON data, and in Windlass's form, one for each function.

    Raises UsageError for anything that is not a tool in any of the forms.
    """
    tools: list[dict[str, Any]] = []
    specs: list[ToolSpec] = []
    for one in given:
        tool = as_json(one)
        if not isinstance(tool, Mapping):
            raise _no_tool(one)
        tools.append(dict(tool))
        specs += _read(tool)
    return tuple(tools), tuple(specs)


def with_tool(
    tools: Sequence[dict[str, Any]], spec: ToolSpec, form: FormName
) -> list[dict[str, Any]]:
    """Return the tools of a list in a form, and one more."""
    (added,) = write_tools((spec,), {spec.name: spec.name}, form)
    if form == "gemini":  # which takes all functions in one tool
        for at, tool in enumerate(tools):
            for key in _DECLARATIONS:
                if key in tool:
                    declared = [*tool[key], *added[_DECLARATIONS[0]]]
                    return [*tools[:at], {**tool, key: declared}, *tools[at + 1 :]]
    return [*tools, added]


def write_tools(
    specs: Iterable[ToolSpec], names: Mapping[str, str], form: FormName
) -> list[dict[str, Any]]:
    """Return the tools in a form; `names` are theirs on the wire.

    Raises SequenceError for one that another provider runs itself.
    """
    if form != "gemini":
        return [_written(spec, names[spec.name], form) for spec in specs]
    declared: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for spec in specs:
        own = spec.own is not None and spec.own.kind == _SERVER
        (others if own else declared).append(_written(spec, names[spec.name], form))
    return [*([{_DECLARATIONS[0]: declared}] if declared else []), *others]


def _written(spec: ToolSpec, name: str, form: FormName) -> dict[str, Any]:
    own = spec.own
    if own is not None and own.provider == form:
        tool: dict[str, Any] = json.loads(own.data)
        if own.kind == _FUNCTION:
            function = tool["function"] if form == "openai" else tool
            function["name"] = name
        return tool
    if own is not None and own.kind == _SERVER:
        raise SequenceError(
            f"tool {spec.name!r} of {TITLES[own.provider]} has no place in {TITLES[form]}:"
            " its provider runs it"
        )
    schema = dict(spec.parameters)
    if form == "anthropic":
        about = {"description": spec.description} if spec.description else {}
        return {"name": name, **about, "input_schema": {"type": "object", **schema}}
    about = {"name": name, "description": spec.description}
    if form == "gemini":
        return {**about, "parametersJsonSchema": {"type": "object", **schema}}
    if form == "responses":
        return {"type": "function", **about, "parameters": schema, "strict": False}
    return {"type": "function", "function": {**about, "parameters": schema}}


def _form(tool: Mapping[str, Any]) -> FormName:
    kind, name = tool.get("type"), tool.get("name")
    if "input_schema" in tool:
        return "anthropic"
    if "function" in tool or (kind == "custom" and "custom" in tool):
        return "openai"
    if isinstance(kind, str):
        return "anthropic" if _ANTHROPICS.fullmatch(kind) else "responses"
    return "openai" if name is not None else "gemini"


def _read(given: Mapping[str, Any]) -> list[ToolSpec]:
    form = _form(given)
    tool = {key: value for key, value in given.items() if key != "cache_control"}
    if form == "gemini":
        return _read_gemini(tool)
    kind = tool.get("type", "function" if form == "openai" else "custom")
    if form == "openai" and kind == "function":
        function = tool.get("function", tool)
        wrapped = tool if "function" in tool else {"type": "function", "function": function}
        return [_function(function, "parameters", wrapped, form)]
    if form == "responses" and kind == "function":
        return [_function(tool, "parameters", tool, form)]
    if form == "anthropic" and "input_schema" in tool:
        return [_function(tool, "input_schema", tool, form)]
    custom = tool.get("custom")
    about = custom if isinstance(custom, Mapping) else tool
    name = about.get("name") or ":".join(
        str(tool[key]) for key in ("type", "server_label", "mcp_server_name") if key in tool
    )
    return [_server(str(name), tool, form)]


def _read_gemini(tool: Mapping[str, Any]) -> list[ToolSpec]:
    """Return the functions that a tool of Gemini's declares, and what else it is."""
    specs: list[ToolSpec] = []
    for key, value in tool.items():
        if key not in _DECLARATIONS:
            if value is not None:
                specs.append(_server(key, {key: value}, "gemini"))
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, Mapping):
                raise _no_tool(one)
            held = next((key for key in _SCHEMAS if one.get(key) is not None), _SCHEMAS[0])
            specs.append(_function(one, held, one, "gemini"))
    if not specs:
        raise _no_tool(tool)
    return specs


def _function(function: Any, key: str, tool: Mapping[str, Any], form: FormName) -> ToolSpec:
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise _no_tool(tool)
    schema = function.get(key) or {"type": "object"}
    if not isinstance(schema, Mapping):
        raise UsageError(f"tool {name!r}: its {key} are a JSON Schema, not {schema!r:.80}")
    if form == "gemini" and key == "parameters":
        schema = json_schema(schema)
    own = opaque(form, _FUNCTION, ordered(tool))
    return ToolSpec(name, str(function.get("description") or ""), schema, own)


def _server(name: str, tool: Mapping[str, Any], form: FormName) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object"}, opaque(form, _SERVER, tool))


def _no_tool(given: Any) -> UsageError:
    return UsageError(
        "a tool is an object with a name and a schema, in OpenAI's, Anthropic's or Gemini's form,"
        f" not {given!r:.200}"
    )


def json_schema(schema: Any) -> Any:
    """Return a Schema of Gemini's as JSON Schema; what is JSON Schema stays as it is.

    >>> json_schema({"type": "STRING", "nullable": True, "maxLength": "9"})
    {'type': ['string', 'null'], 'maxLength': 9}
    """
    if not isinstance(schema, Mapping):
        return [json_schema(one) for one in schema] if isinstance(schema, list | tuple) else schema
    result: dict[str, Any] = {}
    for given, value in schema.items():
        key = _SNAKE.sub(lambda found: found[1].upper(), given) if given[:1] != "$" else given
        if given in _NOT_OF_JSON_SCHEMA:
            continue
        if key == "type" and isinstance(value, str):
            result[key] = value.lower()
        elif key == "properties" and isinstance(value, Mapping):
            result[key] = {name: json_schema(one) for name, one in value.items()}
        elif key in _COUNTS and isinstance(value, str) and whole_number(value) is not None:
            result[key] = whole_number(value)
        elif key in ("items", "anyOf", "additionalProperties"):
            result[key] = json_schema(value)
        else:
            result[given] = value
    if schema.get("nullable") is True and isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    return result
