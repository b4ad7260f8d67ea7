"""The published JSON Schema agrees with the models."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from tests.cascade.making import cascade, cascades, loaded, places
from windlass.cascade import model
from windlass.cascade.published_schema import ID, json_schema
from windlass.cascade.rules import ContextSource
from windlass.cascade.token_budget import MaxInputTokens
from windlass.errors import CascadeError

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [path for path in EXAMPLES.rglob("*") if path.suffix in {".json", ".yaml", ".yml"}]


VALIDATOR = Draft202012Validator(json_schema())


def validate(data: Any) -> None:
    VALIDATOR.validate(data)


def test_it_is_a_schema_with_a_name() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == ID


def test_every_field_has_a_line_of_prose() -> None:
    schema = json_schema()
    for part in (schema, *schema["$defs"].values()):
        for key, field in part["properties"].items():
            assert field.get("description"), key


@given(cascades())
def test_valid_cascades_validate(data: dict[str, Any]) -> None:
    validate({"$schema": ID, **data})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_examples_validate(path: Path) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if isinstance(data, dict) and "cascade_id" in data:
        validate(data)


@given(cascades(), st.data())
def test_unknown_keys_are_refused_by_both(data: dict[str, Any], draw: st.DataObject) -> None:
    data = copy.deepcopy(data)
    objects = [(), *(path for path in places(data) if "output_schema" not in path)]
    holder: Any = data
    for step in draw.draw(st.sampled_from(objects)):
        if isinstance(holder[step], dict | list):
            holder = holder[step]
    if isinstance(holder, list):
        holder = data
    holder["zzz"] = 1
    with pytest.raises(ValidationError):
        validate(data)
    with pytest.raises(CascadeError):
        _ = loaded(data).cascade


@pytest.mark.parametrize(
    "source",
    [
        {"phase": "a", "filter": "all", "messages_filter": "all"},
        {"phase": "a", "if": "x", "condition": "x"},
        {"phase": "a", "include": []},
        {"phase": "a", "include": ["images", "images"]},
        {"include": ["images"]},
        "",
        3,
    ],
)
def test_wrong_sources_are_refused_by_both(source: Any) -> None:
    data = cascade({"name": "a"}, {"name": "b", "context": {"from": [source]}})
    with pytest.raises(ValidationError):
        validate(data)
    with pytest.raises(CascadeError):
        _ = loaded(data).cascade


@pytest.mark.parametrize("key", ["filter", "messages_filter", "if", "condition"])
def test_both_spellings_are_allowed(key: str) -> None:
    value = "all" if "filter" in key else "{{ state.x }}"
    validate(cascade({"name": "a", "inject_from": [{"phase": "b", key: value}]}))


def test_the_models_declare_no_key_that_the_schema_lacks() -> None:
    schema = json_schema()
    for part in (
        model.Phase,
        model.Rules,
        model.PhaseContext,
        ContextSource,
        MaxInputTokens,
    ):
        declared = {field.serialization_alias or name for name, field in part.model_fields.items()}
        assert declared <= set(schema["$defs"][part.__name__]["properties"])
