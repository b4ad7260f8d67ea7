"""From a function's signature and docstring to a JSON Schema and a parser of arguments.

Knows pydantic and Google's docstring style; knows neither the registry nor how a
tool is run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from windlass.errors import UsageError
from windlass.messages import ToolSpec
from windlass.tools.base import Tool, ToolContext


class _Schema(GenerateJsonSchema):
    # A default that JSON cannot say is left out, without a warning.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012


def describe(function: Callable[..., Any], name: str, origin: str) -> Tool:
    """Return `function` as a tool called `name`; UsageError where it cannot be one."""
    description, meanings = read_docstring(inspect.getdoc(function) or "")
    context_parameter: str | None = None
    fields: dict[str, Any] = {}
    names: list[str] = []
    for parameter in _parameters(function, origin):
        if parameter.annotation is ToolContext:
            context_parameter = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # Given only where there are words, or it would hide those of an annotation.
        words: dict[str, Any] = (
            {"description": meanings[parameter.name]} if parameter.name in meanings else {}
        )
        # Fields are numbered and known by alias, so that a parameter may be called
        # `schema` or `_x`, which pydantic keeps for itself.
        fields[f"p{len(names)}"] = (
            parameter.annotation,
            Field(default, alias=parameter.name, **words),
        )
        names.append(parameter.name)
    try:
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        model = create_model(name, __config__=config, **fields)
        raw = model.model_json_schema(schema_generator=_Schema)
        if names:
            # What it does not take is refused in a sentence; to say so before takes five tokens
            # of every call. Of a tool that takes nothing there is nothing else to tell.
            del raw["additionalProperties"]
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as problem:
        reason = str(problem).partition("\n")[0]
        raise UsageError(f"{origin} cannot be a tool: {reason}") from problem
    return Tool(
        ToolSpec(name, description, _tidy(raw)),
        function,
        context_parameter=context_parameter,
        origin=origin,
        parse=_parser(model, names, name),
    )


def _parameters(function: Callable[..., Any], origin: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError, ValueError) as problem:
        raise UsageError(
            f"{origin} cannot be a tool: its annotations cannot be read ({problem})"
        ) from problem
    parameters = list(signature.parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(
                f"{origin} cannot be a tool: name each parameter instead of '*{parameter.name}'"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(
                f"{origin} cannot be a tool: parameter {parameter.name!r} must be usable by "
                "name (remove the '/')"
            )
        if parameter.annotation is parameter.empty:
            raise UsageError(
                f"{origin} cannot be a tool: parameter {parameter.name!r} has no type annotation"
            )
    return parameters


def _parser(
    model: type[BaseModel], names: list[str], tool_name: str
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def parse(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            read = model.model_validate(arguments)
        except ValidationError as problem:
            raise ValueError(_complaint(problem, tool_name)) from None
        # What was not given is left to the function's own default.
        return {
            names[int(key[1:])]: getattr(read, key)
            for key in sorted(read.model_fields_set, key=lambda each: int(each[1:]))
        }

    return parse


def _complaint(problem: ValidationError, tool_name: str) -> str:
    lines = []
    for error in problem.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(step) for step in error["loc"])
        match error["type"]:
            case "missing":
                lines.append(f"{place!r} is missing")
            case "extra_forbidden":
                lines.append(f"{place!r} is unknown")
            case _:
                text = error["msg"]
                lines.append(f"{place!r}: {text[:1].lower()}{text[1:]}")
    return f"wrong arguments for {tool_name!r}: " + "; ".join(lines)


def expectation(spec: ToolSpec) -> str:
    """One line that tells a model what a tool takes: `file (string), x (string, optional)`."""
    required = set(spec.parameters.get("required", ()))
    properties: Mapping[str, Mapping[str, Any]] = spec.parameters.get("properties", {})
    if not properties:
        return "it takes no arguments"
    listed = ", ".join(
        f"{name} ({_kind(schema)}{'' if name in required else ', optional'})"
        for name, schema in properties.items()
    )
    return f"it takes a JSON object with {listed}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + "|".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


# ---- schema -------------------------------------------------------------------------

_KEYS: Final = ("type", "description", "enum", "properties", "required", "items", "default")
_ORDER: Final = {key: place for place, key in enumerate(_KEYS)}
_NAMED: Final = frozenset({"properties", "$defs", "patternProperties"})
_VERBATIM: Final = frozenset({"default", "enum", "const", "examples", "required"})


def _tidy(schema: Any) -> Any:
    """The schema without pydantic's titles and empty defaults, keys in one order: equal bytes."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key in sorted(schema, key=lambda each: (_ORDER.get(each, len(_ORDER)), each)):
        value = schema[key]
        if key == "title" or (key == "default" and value in ("", None)):
            continue  # that it may be left out is said by `required`
        if key in _NAMED:
            # In these maps `title` is a name that the user chose.
            result[key] = {name: _tidy(each) for name, each in value.items()}
        else:
            result[key] = value if key in _VERBATIM else _tidy(value)
    return result


# ---- docstring ----------------------------------------------------------------------

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters):\s*$")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    r"""Return the first paragraph, and what the lines under `Args:` say of each parameter.

    >>> read_docstring("Add.\n\nArgs:\n    a: One\n        number.\n    b (int): Another.")
    ('Add.', {'a': 'One number.', 'b': 'Another.'})
    """
    lines = inspect.cleandoc(text).splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.match(line):
            break
        summary.append(line.strip())
    start = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    meanings: dict[str, str] = {}
    current: str | None = None
    indent: int | None = None
    for line in lines[start + 1 :]:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            break
        indent = depth if indent is None else indent
        entry = _ENTRY.match(line.strip()) if depth <= indent else None
        if entry:
            current = entry.group(1)
            meanings[current] = entry.group(2).strip()
        elif current is not None:
            meanings[current] = f"{meanings[current]} {line.strip()}".strip()
    return " ".join(summary), meanings
