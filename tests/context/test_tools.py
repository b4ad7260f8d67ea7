"""Tools in each form: they keep schema and kind, and come back in the form that they came in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from google.genai import types

import windlass
from windlass.errors import SequenceError, UsageError

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Which."},
        "days": {"type": "integer"},
    },
    "required": ["city"],
}
ABOUT = {"name": "weather", "description": "The weather of a city."}
CHAT = {"type": "function", "function": {**ABOUT, "parameters": SCHEMA, "strict": True}}
FLAT = {"type": "function", **ABOUT, "parameters": SCHEMA, "strict": True}
CLAUDE = {**ABOUT, "input_schema": SCHEMA, "defer_loading": True}
DECLARED = {"functionDeclarations": [{**ABOUT, "parametersJsonSchema": SCHEMA}]}
IN_FORMS: dict[str, dict[str, Any]] = {
    "openai": CHAT,
    "responses": FLAT,
    "anthropic": CLAUDE,
    "gemini": DECLARED,
}
SERVER: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"type": "web_search_20260209", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "mcp_toolset", "mcp_server_name": "files"},
    ],
    "responses": [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "mcp", "server_label": "one", "server_url": "https://one.example"},
        {"type": "mcp", "server_label": "two", "server_url": "https://two.example"},
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
    ],
    "gemini": [{"googleSearch": {}}, {"codeExecution": {}}],
    "openai": [{"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}}],
}


def said(form: str) -> list[dict[str, Any]]:
    if form == "gemini":
        return [{"role": "user", "parts": [{"text": "Is it raining?"}]}]
    return [{"role": "user", "content": "Is it raining?"}]


def window(form: str, tools: Sequence[Any], **settings: Any) -> Any:
    return windlass.bound(said(form), tools=tools, **settings)


def schema_of(tool: Mapping[str, Any]) -> Any:
    """The schema of a tool in any of the forms."""
    if "functionDeclarations" in tool:
        (tool,) = tool["functionDeclarations"]
    tool = tool.get("function", tool)
    return next(
        tool[key] for key in ("input_schema", "parametersJsonSchema", "parameters") if key in tool
    )


@pytest.mark.parametrize("form", IN_FORMS)
def test_tools_come_back_as_they_came(form: str) -> None:
    tools = [IN_FORMS[form], *SERVER[form]]
    shown = window(form, tools)
    assert shown.tools == tools
    sent = shown.wire(form)["tools"]
    keyed = partial(json.dumps, sort_keys=True)
    assert sorted(map(keyed, sent)) == sorted(map(keyed, tools))


@pytest.mark.parametrize("target", IN_FORMS)
@pytest.mark.parametrize("form", IN_FORMS)
def test_a_schema_is_the_same_in_each_form(form: str, target: str) -> None:
    (tool,) = window(form, [IN_FORMS[form]]).wire(target)["tools"]
    assert schema_of(tool) == SCHEMA
    (back,) = window(target, [tool]).wire(form)["tools"]
    assert schema_of(back) == SCHEMA
    assert "weather" in str(back)
    assert ABOUT["description"] in str(back)


@pytest.mark.parametrize("target", IN_FORMS)
@pytest.mark.parametrize("form", IN_FORMS)
def test_what_a_provider_runs_itself_has_no_place_elsewhere(form: str, target: str) -> None:
    for tool in SERVER[form]:
        shown = window(form, [tool])
        if form == target:
            assert shown.wire(target)["tools"] == [tool]
        else:
            with pytest.raises(SequenceError, match=r"has no place in .*: its provider runs it"):
                shown.wire(target)


@pytest.mark.parametrize("form", IN_FORMS)
def test_recall_is_in_the_form_of_the_tools(form: str) -> None:
    shown = window(form, [IN_FORMS[form], *SERVER[form]], recall=True)
    names = [
        declared.get("name") or declared.get("function", {}).get("name")
        for tool in shown.tools
        for declared in tool.get("functionDeclarations", [tool])
    ]
    assert names.count("recall") == 1
    again = window(form, shown.tools, recall=True)
    assert again.tools == shown.tools
    assert again.wire(form)["tools"] == shown.wire(form)["tools"]


def test_recall_is_in_the_form_of_the_messages_where_there_is_no_other_tool() -> None:
    (tool,) = window("gemini", [], recall=True).tools
    assert tool["functionDeclarations"][0]["name"] == "recall"
    block = {"type": "text", "text": "It is.", "citations": None}
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    messages = [*said("anthropic"), {"role": "assistant", "content": [thought, block]}]
    (tool,) = windlass.bound(messages, tools=[], recall=True).tools
    assert tool["input_schema"]["required"] == ["ref"]


def test_a_schema_object_of_gemini_is_read_as_json_schema() -> None:
    declared = types.FunctionDeclaration(
        name="weather",
        description="The weather of a city.",
        parameters=types.Schema(
            type=types.Type.OBJECT,
            properties={
                "city": types.Schema(type=types.Type.STRING, max_length=40),
                "days": types.Schema(type=types.Type.INTEGER, nullable=True),
                "nullable": types.Schema(
                    type=types.Type.ARRAY, items=types.Schema(type=types.Type.NUMBER)
                ),
            },
            required=["city"],
            property_ordering=["city", "days"],
        ),
    )
    shown = window("gemini", [types.Tool(function_declarations=[declared])])
    (tool,) = shown.wire("anthropic")["tools"]
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 40},
            "days": {"type": ["integer", "null"]},
            "nullable": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["city"],
    }
    (own,) = shown.tools
    assert types.Tool.model_validate(own).function_declarations == [declared]


@pytest.mark.parametrize(
    "tool", [{}, "weather", {"function": {"parameters": {}}}, {"functionDeclarations": [{}]}, len]
)
def test_what_is_no_tool_is_said_in_a_sentence(tool: Any) -> None:
    with pytest.raises(UsageError, match="a tool is an object with a name and a schema, in OpenAI"):
        window("openai", [tool])


def test_marks_of_the_caller_on_tools_make_place_for_those_of_the_window() -> None:
    tools = [
        {**CLAUDE, "name": f"tool_{at}", "cache_control": {"type": "ephemeral"}} for at in range(4)
    ]
    sent = windlass.bound(said("anthropic"), "anthropic/claude-opus-5", tools=tools).wire(
        "anthropic"
    )
    assert str(sent).count("cache_control") <= 4
