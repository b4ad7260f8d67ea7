"""What tests of wire formats build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.strategies import conversations, names
from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from tests.wire.sdk import anthropic_takes, gemini_takes, openai_takes
from windlass.messages import (
    Message,
    ToolCall,
    ToolSpec,
)
from windlass.wire import anthropic, gemini, openai_chat
from windlass.wire.base import Format, Request

FORMATS: dict[str, Format] = {
    "openai": openai_chat,
    "anthropic": anthropic,
    "gemini": gemini,
}


RULES: dict[str, ModuleType] = {
    "openai": openai_rules,
    "anthropic": anthropic_rules,
    "gemini": gemini_rules,
}


SDK: dict[str, Callable[[dict[str, Any]], None]] = {
    "openai": openai_takes,
    "anthropic": anthropic_takes,
    "gemini": gemini_takes,
}


MODELS = {
    "openai": ["gpt-5.6", "gpt-4.1"],
    "anthropic": [
        "claude-opus-4-8",
        "claude-sonnet-4-5",
        "claude-fable-5",
        "claude-opus-4-20250514",
    ],
    "gemini": ["gemini-3-pro", "gemini-2.5-flash"],
}


every_format = pytest.mark.parametrize("wire", list(FORMATS))


SCHEMA = {
    "type": "object",
    "properties": {"said": {"type": "array", "items": {"type": "string"}}},
    "required": ["said"],
}


CALL = ToolCall("call_0", "look", '{"at": "x"}')


LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, f"Does {name}.", {"type": "object", "properties": {}})


@st.composite
def requests(draw: st.DrawFn, wire: str) -> Request:
    """A request with a valid sequence; its tools are those called and perhaps more."""
    messages = tuple(draw(conversations()))
    called = {call.name for message in messages for call in message.tool_calls}
    defined = sorted(called | set(draw(st.lists(names(), max_size=2))))
    choices = ["auto", "none", *(["required", *defined] if defined else [])]
    return Request(
        model=draw(st.sampled_from(MODELS[wire])),
        messages=messages,
        max_output_tokens=draw(st.integers(1, 20_000)),
        tools=tuple(spec(name) for name in defined),
        tool_choice=draw(st.sampled_from(choices)),
        temperature=draw(st.none() | st.sampled_from([0.0, 0.5, 1.0])),
        reasoning_effort=draw(st.none() | st.sampled_from(["none", "low", "medium", "high"])),
        output_schema=draw(st.sampled_from([None, SCHEMA])),
    )


def problems(wire: str, body: dict[str, Any], model: str) -> list[str]:
    if wire == "gemini":
        return gemini_rules.problems(body, model=model)
    found: list[str] = RULES[wire].problems(body)
    return found


def ask(
    *messages: Message, model: str = "m", tools: tuple[ToolSpec, ...] = (), **more: Any
) -> Request:
    return Request(model, messages, 1_000, tools, **more)
