"""The JSON Schema of cascade files, for editors and for other programs."""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from windlass.cascade.model import Cascade

ID: Final = "urn:windlass:cascade:1"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a cascade file, as plain data.

    It is as strict as the models on keys, types and ranges. What one part of a file
    says of another (phases that exist, templates, tools) only `windlass check` knows.
    """
    schema = Cascade.model_json_schema(mode="validation", schema_generator=_Plain)
    parts = schema["$defs"]
    source = parts["ContextSource"]
    for key, other in (("messages_filter", "filter"), ("condition", "if")):
        field = source["properties"][key]
        short = {**field, "description": f"The same as `{key}`, in short."}
        source["properties"][other] = short
        source.setdefault("allOf", []).append({"not": {"required": [key, other]}})
    fields = parts["Phase"]["properties"]
    fields["on_error"] = _with_body(fields["on_error"], fields)
    schema["properties"] = {
        "$schema": {"type": "string", "description": "Names this schema, for editors."},
        **_sorted_by_need(schema),
    }
    parts["Phase"]["properties"] = _sorted_by_need(parts["Phase"])
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": ID,
        **schema,
        "title": "Windlass cascade",
        "patternProperties": {"^x-": {}},  # parts for YAML's aliases
    }


def _with_body(field: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return `on_error` of a phase: its body is a phase without a name and without such a body."""
    same = fields.keys() - {"name", "on_error"}
    body: dict[str, Any] = {
        "type": "object",
        "properties": {key: {"$ref": f"#/$defs/Phase/properties/{key}"} for key in sorted(same)},
        "additionalProperties": False,
    }
    body["properties"]["on_error"] = {"type": "string", "minLength": 1}
    forms = [form for form in field["anyOf"] if form.get("type") == "null"]
    word = {"type": "string", "minLength": 1}
    return {**field, "anyOf": [word, body, *forms]}


class _Plain(GenerateJsonSchema):
    """Without a title for every field: it would only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's form
        return False


def _sorted_by_need(part: dict[str, Any]) -> dict[str, Any]:
    required = part["required"]
    properties: dict[str, Any] = part["properties"]
    return dict(sorted(properties.items(), key=lambda item: item[0] not in required))
