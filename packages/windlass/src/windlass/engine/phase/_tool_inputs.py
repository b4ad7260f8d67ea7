"""The call of a tool phase: its tool, and its inputs as rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.cascade.deterministic import INPUTS, SQL
from windlass.cascade.model import Phase
from windlass.cascade.tools_named import RUN_SQL
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.rule_texts import recorded_in
from windlass.errors import ContextError, UsageError
from windlass.messages import ToolCall, canonical_json
from windlass.safety.files import PROMPT_BYTES, UnreadableError
from windlass.settings.plugins import QUERIES, load_plugin
from windlass.text.templates import as_value, render
from windlass.tools.base import Tool
from windlass.tools.registry import make_tool

CALL: Final = "tool_phase"
"""The id of the call that a tool phase makes."""


def call_of(run: CascadeRun, phase: Phase, tool: Tool) -> ToolCall:
    """Return the call of the tool, with the phase's inputs as arguments. Raises ContextError."""
    arguments = rendered_inputs(run, phase)
    if phase.tool is not None and phase.tool.startswith(SQL):
        arguments = {"query": _query(run, phase, arguments)}
    return ToolCall(CALL, tool.spec.name, canonical_json(with_numbers(arguments, tool)))


def with_numbers(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Return the arguments with numbers in place of their texts, where the tool takes a number.

    A tool that is a function reads its own arguments.
    """
    properties: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    taken = dict(arguments)
    for name, value in arguments.items() if tool.parse is None else ():
        described = properties.get(name)
        kind = described.get("type") if isinstance(described, Mapping) else None
        if isinstance(value, str) and (number := _number(value, kind)) is not None:
            taken[name] = number
    return taken


def _number(text: str, kind: object) -> int | float | None:
    """Return the number that a text is, where one of this kind is taken (None: it is none)."""
    try:
        if kind == "integer":
            return int(text)
        return float(text) if kind == "number" else None
    except ValueError:
        return None


def sql_tool(phase: Phase) -> Tool | None:
    """Return what runs the query of a `sql:` phase; None: it runs another tool."""
    if phase.tool is None or not phase.tool.startswith(SQL):
        return None
    return make_tool(_language().query_rows, name=RUN_SQL)


def _language() -> Any:
    """Return what answers queries in SQL: `query_rows`, and `QueryValues` for their templates."""
    return load_plugin(QUERIES, SQL.removesuffix(":"))


def rendered_inputs(run: CascadeRun, phase: Phase) -> dict[str, Any]:
    """Return the inputs with their templates rendered; what looks like JSON is read as such.

    Raises ContextError.
    """
    cascade = run.cascade
    index = [each.name for each in cascade.phases].index(phase.name)

    def rendered(value: Any, place: str) -> Any:
        match value:
            case str():
                where = cascade.where(place)
                values = run.template_values()
                return as_value(
                    render(value, **values, where=where, moments=recorded_in(run, value))
                )
            case dict():
                return {key: rendered(each, f"{place}.{key}") for key, each in value.items()}
            case list() | tuple():
                return [rendered(each, f"{place}[{at}]") for at, each in enumerate(value)]
            case _:
                return value

    return {
        name: rendered(value, f"phases[{index}].inputs.{name}")
        for name, value in phase.inputs.items()
    }


def _query(run: CascadeRun, phase: Phase, arguments: dict[str, Any]) -> str:
    """Return the query in the file of a `sql:` phase, with its inputs as literals.

    Raises UsageError, and ContextError where it cannot be rendered.
    """
    assert phase.tool is not None
    name = phase.tool.removeprefix(SQL).strip()
    try:
        template = run.folders.read_text(name, PROMPT_BYTES)
    except UnreadableError as error:
        raise UsageError(f"phase {phase.name!r}: {name!r} {error}") from error
    seen = {**run.template_values(), "input": {**run.input, **arguments}}
    where, values = str(run.folders.at(name)), _language().QueryValues()
    moments = {**arguments, INPUTS: arguments}
    query = render(template, **seen, where=where, moments=moments, stand_in=values.stand_in)
    try:
        return str(values.fill(query))
    except ValueError as error:
        raise ContextError(f"{where}: the query {error}") from error
