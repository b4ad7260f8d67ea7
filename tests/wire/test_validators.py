"""The validators refuse each kind of break, in a body that is right but for it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.strategies import png
from tests.support.wire_formats import FORMATS, LOOK, RULES, SCHEMA, every_format, problems, spec
from windlass.messages import Opaque, ToolCall, assistant, system, tool, user
from windlass.text.pictures import picture
from windlass.wire.base import SEQUENCES, Request

Body = dict[str, Any]
Break = Callable[[Body], Any]

ONE, TWO = ToolCall("call_0", "look", "{}"), ToolCall("call_1", "count", "{}")
MODEL = {"openai": "gpt-5.6", "anthropic": "claude-opus-4-8", "gemini": "gemini-3-pro"}
SIGNED = Opaque("anthropic", "thinking", '{"type": "thinking", "thinking": "x", "signature": "s"}')


def right(wire: str) -> Body:
    """A body with a system prompt, thinking, two calls at once, a picture and a schema."""
    request = Request(
        MODEL[wire],
        (
            system("Be."),
            user("Go", picture(png())),
            assistant(SIGNED, "So", calls=[ONE, TWO]),
            tool(ONE, "1"),
            tool(TWO, "2"),
            user("On"),
            assistant("Well."),
            user("And?"),
        ),
        4_096,
        (LOOK, spec("count")),
        output_schema=SCHEMA,
        reasoning_effort="low",
    )
    return FORMATS[wire].body(request)


def put(*way: Any) -> Break:
    """Put the last of `way` at the place that the others lead to."""

    def broken(body: Body) -> None:
        at: Any = body
        for key in way[:-2]:
            at = at[key]
        at[way[-2]] = way[-1]

    return broken


def cut(*way: Any) -> Break:
    def broken(body: Body) -> None:
        at: Any = body
        for key in way[:-1]:
            at = at[key]
        del at[way[-1]]

    return broken


def swap(*way: Any) -> Break:
    """Swap the first two of the list that `way` leads to."""

    def broken(body: Body) -> None:
        at: Any = body
        for key in way:
            at = at[key]
        at[0], at[1] = at[1], at[0]

    return broken


def reverse_results(body: Body) -> None:
    body["messages"][2]["content"].reverse()


def mark_five(body: Body) -> None:
    for block in [*body["tools"], *body["system"], *body["messages"][0]["content"]]:
        block["cache_control"] = {"type": "ephemeral"}


def mark_late_hour(body: Body) -> None:
    body["tools"][0]["cache_control"] = {"type": "ephemeral"}
    body["system"][0]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


EMPTY = {"type": "text", "text": " "}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}

OPENAI_BREAKS: list[tuple[Break, str]] = [
    (cut("messages"), "at least one message"),
    (cut("model"), "model"),
    (cut("messages", 3), "responding to each 'tool_call_id'"),
    (cut("messages", 2), "must be a response to a preceding"),
    (cut("tools", 0), "called and not defined"),
    (cut("tools"), "tool_choice is only allowed"),
    (put("tools", []), "must not be an empty list"),
    (put("tools", 0, "function", "name", "a.b"), "must match"),
    (put("tools", 0, "function", "name", "count"), "unique"),
    (put("tool_choice", "any"), "is none of"),
    (put("tool_choice", {"type": "function", "function": {"name": "x"}}), "not defined"),
    (put("messages", 1, "role", "human"), "is no role"),
    (put("messages", 1, "content", None), "null only beside tool calls"),
    (put("messages", 1, "content", []), "empty list of parts"),
    (put("messages", 1, "content", 1, "image_url", "url", "a.png"), "data URL"),
    (put("messages", 2, "tool_calls", 0, "id", "call_1"), "share an id"),
    (put("messages", 2, "tool_calls", 0, "id", "x" * 41), "at most 40"),
    (put("messages", 2, "tool_calls", 0, "type", "tool"), "type of a call"),
    (put("messages", 2, "tool_calls", 0, "function", "arguments", {}), "are text"),
    (put("messages", 2, "tool_calls", []), "must not be empty"),
    (put("messages", 2, "role", "user"), "only an assistant"),
    (put("messages", 2, "content", [IMAGE]), "in an assistant message"),
    (put("messages", 3, "content", [IMAGE]), "takes text only"),
    (put("messages", 3, "name", "look"), "has no name"),
    (put("messages", 0, "content", [{"type": "text"}]), "has a text"),
    (put("max_completion_tokens", 0), "at least 1"),
    (put("max_tokens", 1), "exclude each other"),
    (put("temperature", 3), "between 0 and 2"),
    (put("reasoning_effort", "huge"), "reasoning_effort"),
    (put("stream_options", {}), "when stream is true"),
    (cut("response_format", "json_schema", "name"), "must have a name"),
    (cut("response_format", "json_schema", "schema", "additionalProperties"), "every object"),
    (put("response_format", "json_schema", "schema", "required", []), "every property"),
]
ANTHROPIC_BREAKS: list[tuple[Break, str]] = [
    (cut("messages"), "at least one message"),
    (cut("model"), "model"),
    (cut("max_tokens"), "max_tokens"),
    (cut("messages", 0), "first message must use the user role"),
    (put("messages", 0, "content", []), "content must not be empty"),
    (put("messages", 0, "content", 0, "text", "\n"), "non-whitespace"),
    (put("messages", 0, "content", 1, "source", "media_type", "image/bmp"), "base64 image"),
    (put("messages", 0, "content", 1, "source", {"type": "url", "url": "a"}), "http address"),
    (put("messages", 0, "content", 1, "source", {}), "base64 or url"),
    (put("messages", 1, "role", "user"), "roles must alternate"),
    (put("messages", 1, "role", "tool"), "is no role"),
    (cut("messages", 1, "content", 0, "signature"), "with its text and its signature"),
    (put("messages", 1, "content", 2, "id", "call_1"), "must be unique"),
    (put("messages", 1, "content", 2, "id", "a.b"), "must match"),
    (put("messages", 1, "content", 2, "input", "{}"), "must be an object"),
    (cut("messages", 1, "content", 2), "unexpected tool_use_id"),
    (cut("messages", 2, "content", 0), "without exactly one tool_result"),
    (reverse_results, "before all others"),
    (put("messages", 2, "content", 0, "content", [EMPTY]), "non-whitespace"),
    (
        put("messages", 2, "content", 0, "content", [{"type": "video"}]),
        "a tool_result holds no video",
    ),
    (put("messages", 3, "content", [{"type": "image"}]), "images stand in user"),
    (put("messages", 0, "content", [{"type": "thinking"}]), "thinking stands in assistant"),
    (put("messages", 0, "content", [{"type": "tool_use"}]), "tool_use blocks stand in assistant"),
    (put("messages", 1, "content", [{"type": "tool_result"}]), "blocks stand in user"),
    (cut("messages", 4), "prefill"),
    (put("messages", 3, "content", [{"text": "x"}]), "has a type"),
    (put("messages", 1, "content", 0, {"type": "redacted_thinking"}), "with its data"),
    (put("system", [EMPTY]), "system"),
    (put("system", ""), "system must not be empty"),
    (cut("tools"), "while providing tools"),
    (cut("tools", 0), "used and not defined"),
    (put("tools", 0, "name", "a.b"), "must match"),
    (put("tools", 0, "name", "count"), "unique"),
    (put("tools", 0, "input_schema", {}), "input_schema.type"),
    (put("tool_choice", {"type": "required"}), "is unknown"),
    (put("tool_choice", {"type": "tool", "name": "x"}), "not defined"),
    (put("tool_choice", {"type": "any"}), "forces tool use"),
    (put("thinking", {"type": "enabled", "budget_tokens": 5_000}), "less than max_tokens"),
    (put("temperature", 0.5), "from 4.7 on"),
    (put("temperature", 1.5), "between 0 and 1"),
    (cut("output_config", "format", "schema", "additionalProperties"), "every object"),
    (mark_five, "maximum of 4"),
    (mark_late_hour, "must not come after"),
    (put("messages", 1, "content", 0, "cache_control", {"type": "ephemeral"}), "on thinking"),
]
GEMINI_BREAKS: list[tuple[Break, str]] = [
    (cut("contents"), "contents is not specified"),
    (cut("contents", 0), "first content must have the role user"),
    (cut("contents", 4), "must end with a user"),
    (put("contents", 0, "role", "human"), "valid role"),
    (put("contents", 3, "role", "user"), "must alternate"),
    (put("contents", 0, "parts", []), "parts must not be empty"),
    (cut("contents", 2), "number of function response parts"),
    (cut("contents", 2, "parts", 0), "number of function response parts"),
    (put("contents", 2, "parts", 0, "functionResponse", "name", "x"), "names and ids"),
    (put("contents", 2, "parts", 0, "functionResponse", "response", "x"), "is an object"),
    (swap("contents"), "first content must have the role user"),
    (put("contents", 1, "parts", 1, "functionCall", "args", "x"), "are an object"),
    (put("contents", 1, "parts", 2, "functionCall", "id", "call_0"), "two function calls"),
    (cut("contents", 1, "parts", 1, "thoughtSignature"), "missing a thought_signature"),
    (lambda body: body["contents"][2]["parts"].reverse(), "before all else"),
    (cut("tools", 0, "functionDeclarations", 0), "not declared"),
    (put("tools", 0, "functionDeclarations", 0, "name", "count"), "duplicate"),
    (put("tools", 0, "functionDeclarations", 0, "name", "a b"), "must match"),
    (put("tools", 0, "functionDeclarations", 0, "parameters", {}), "exclude each other"),
    (
        put("tools", 0, "functionDeclarations", 0, "parametersJsonSchema", "type", "array"),
        "are an object",
    ),
    (cut("tools"), "without function declarations"),
    (put("toolConfig", "functionCallingConfig", "mode", "any"), "no mode"),
    (put("toolConfig", "functionCallingConfig", "allowedFunctionNames", ["look"]), "mode ANY"),
    (put("toolConfig", "functionCallingConfig", "allowedFunctionNames", ["x"]), "not declared"),
    (put("model", "m"), "cannot find field"),
    (put("generationConfig", "max_tokens", 1), "cannot find field"),
    (put("generationConfig", "maxOutputTokens", 0), "at least 1"),
    (put("generationConfig", "temperature", 3), "between 0 and 2"),
    (cut("generationConfig", "responseMimeType"), "mime type"),
    (put("generationConfig", "thinkingConfig", "thinkingBudget", 1), "exclude each other"),
    (put("systemInstruction", {"parts": [{"text": ""}]}), "text parts only"),
    (put("contents", 0, "parts", 0, {"text": ""}), "empty text"),
    (put("contents", 0, "parts", 0, {}), "one initialized field"),
    (put("contents", 0, "parts", 1, "text", "x"), "holds one of"),
    (put("contents", 0, "parts", 1, "inlineData", "mimeType", "image/gif"), "unsupported MIME"),
    (put("contents", 0, "parts", 1, "inlineData", "data", "%"), "must be base64"),
    (put("contents", 0, "parts", 1, {"fileData": {}}), "has a fileUri"),
]
BREAKS = [
    pytest.param(wire, broken, told, id=f"{wire}-{at}-{told}")
    for wire, breaks in (
        ("openai", OPENAI_BREAKS),
        ("anthropic", ANTHROPIC_BREAKS),
        ("gemini", GEMINI_BREAKS),
    )
    for at, (broken, told) in enumerate(breaks)
]


@every_format
def test_the_right_body_is_accepted(wire: str) -> None:
    assert problems(wire, right(wire), MODEL[wire]) == []


@pytest.mark.req("CI-61")
@pytest.mark.parametrize(("wire", "broken", "told"), BREAKS)
def test_each_break_is_refused(wire: str, broken: Break, told: str) -> None:
    body = copy.deepcopy(right(wire))
    broken(body)
    found = problems(wire, body, MODEL[wire])
    assert [one for one in found if told in one], found


@every_format
def test_the_validators_share_nothing_with_the_formats(wire: str) -> None:
    source = RULES[wire].__file__
    assert source is not None
    with open(source, encoding="utf-8") as file:  # noqa: PTH123
        assert "windlass" not in file.read().split('"""', 2)[2]


def test_each_format_has_sequence_rules() -> None:
    assert set(SEQUENCES) == set(FORMATS)
