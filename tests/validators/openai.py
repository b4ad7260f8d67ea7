"""What OpenAI's `/chat/completions` refuses (field notes of the API's error texts)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ROLES = {"system", "developer", "user", "assistant", "tool"}
_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_ID_LENGTH = 40
_TEXT_ONLY = {"system", "developer", "tool"}
_DEEPSEEK = re.compile(r"deepseek-v(?:[4-9]|\d\d)")
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}


def problems(body: Mapping[str, Any]) -> list[str]:
    """What is wrong with `body`, as sentences."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages must be a list with at least one message"]
    tools = body.get("tools")
    defined = {one.get("function", {}).get("name") for one in tools or []}
    return [
        *_settings(body),
        *_tools(tools, defined, body.get("tool_choice")),
        *_sequence(messages, defined),
        *(_thought(messages) if _DEEPSEEK.search(str(body.get("model"))) else ()),
        *(wrong for at, one in enumerate(messages) for wrong in _message(one, f"messages[{at}]")),
    ]


def _thought(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    """DeepSeek from V4 on: a reply that called tools goes back with its reasoning, for good."""
    for at, message in enumerate(messages):
        if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            yield (
                f"messages[{at}]: The reasoning_content in the thinking mode must be passed back"
                " to the API."
            )


def _settings(body: Mapping[str, Any]) -> Iterator[str]:
    if not body.get("model"):
        yield "model must be given"
    limit = body.get("max_completion_tokens", body.get("max_tokens", 1))
    if not isinstance(limit, int) or limit < 1:
        yield "max_completion_tokens must be at least 1"
    if "max_completion_tokens" in body and "max_tokens" in body:
        yield "max_tokens and max_completion_tokens exclude each other"
    if not 0 <= (body.get("temperature") or 0) <= 2:
        yield "temperature must lie between 0 and 2"
    if body.get("reasoning_effort") not in {None, *_EFFORTS}:
        yield "reasoning_effort is not one of the API's words"
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options are only allowed when stream is true"
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        told = form.get("json_schema") or {}
        if not _NAME.match(str(told.get("name") or "")):
            yield "response_format.json_schema must have a name"
        if told.get("strict"):
            yield from _strict(told.get("schema"), "response_format")


def _strict(schema: Any, where: str) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _strict(one, where)
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where}: a strict schema needs additionalProperties false in every object"
        if set(schema.get("properties") or {}) != set(schema.get("required") or []):
            yield f"{where}: a strict schema requires every property"
    for key, one in schema.items():
        if key not in ("enum", "const", "default", "examples"):
            yield from _strict(list(one.values()) if key == "properties" else one, where)


def _tools(tools: Any, defined: set[Any], choice: Any) -> Iterator[str]:
    if tools is not None and not tools:
        yield "tools must not be an empty list"
    if choice is not None and not tools:
        yield "tool_choice is only allowed when tools are specified"
    if isinstance(choice, Mapping) and choice.get("function", {}).get("name") not in defined:
        yield "tool_choice names a tool that is not defined"
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        yield f"tool_choice {choice!r} is none of auto, none, required"
    names = [one.get("function", {}).get("name") for one in tools or []]
    for name in names:
        if not _NAME.match(str(name or "")):
            yield f"the name of tool {name!r} must match {_NAME.pattern}"
    if len(set(names)) != len(names):
        yield "tool names must be unique"


def _sequence(messages: list[Any], defined: set[Any]) -> Iterator[str]:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role, where = message.get("role"), f"messages[{at}]"
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield (
                    f"{where}: messages with role 'tool' must be a response to a preceding"
                    " message with 'tool_calls'"
                )
            continue
        if waiting:
            yield (
                f"{where}: an assistant message with 'tool_calls' must be followed by tool"
                f" messages responding to each 'tool_call_id' (missing: {', '.join(waiting)})"
            )
        calls = message.get("tool_calls") or []
        waiting = [str(call.get("id")) for call in calls]
        if len(set(waiting)) != len(waiting):
            yield f"{where}: two tool calls share an id"
        if calls and role != "assistant":
            yield f"{where}: only an assistant calls tools"
        for call in calls:
            name = call.get("function", {}).get("name")
            if name not in defined:
                yield f"{where}: tool {name!r} is called and not defined"
    if waiting:
        yield f"at the end: no tool messages for {', '.join(waiting)}"


def _message(message: Mapping[str, Any], where: str) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        yield f"{where}: {role!r} is no role"
    if content is None and not (message.get("tool_calls") or message.get("refusal")):
        if role != "assistant" or not set(message) - {"role", "content", "name"}:
            yield f"{where}: content may be null only beside tool calls"
    elif content is not None and not isinstance(content, str | list):
        yield f"{where}: content must be text or a list of parts"
    if "tool_calls" in message and not message["tool_calls"]:
        yield f"{where}: tool_calls must not be empty"
    if role == "tool" and not message.get("tool_call_id"):
        yield f"{where}: a tool message has a tool_call_id"
    if role == "tool" and "name" in message:
        yield f"{where}: a tool message has no name"
    for call in message.get("tool_calls") or []:
        yield from _call(call, where)
    parts = content if isinstance(content, list) else []
    if isinstance(content, list) and not content:
        yield f"{where}: an empty list of parts"
    for part in parts:
        kind = part.get("type")
        if kind == "text" and not isinstance(part.get("text"), str):
            yield f"{where}: a text part has a text"
        if kind != "text" and role in _TEXT_ONLY:
            yield f"{where}: {kind} in a {role} message, which takes text only"
        if kind not in ("text", "refusal") and role == "assistant":
            yield f"{where}: {kind} in an assistant message"
        if kind == "image_url":
            url = str(part.get("image_url", {}).get("url") or "")
            if not url.startswith(("http://", "https://", "data:image/")):
                yield f"{where}: an image has an http address or a data URL"


def _call(call: Mapping[str, Any], where: str) -> Iterator[str]:
    id_, function = call.get("id"), call.get("function") or {}
    if not isinstance(id_, str) or not 0 < len(id_) <= _ID_LENGTH:
        yield f"{where}: the id of a call is text of at most {_ID_LENGTH} characters"
    if call.get("type") != "function":
        yield f"{where}: the type of a call is function"
    if not _NAME.match(str(function.get("name") or "")):
        yield f"{where}: the name of a called function must match {_NAME.pattern}"
    if not isinstance(function.get("arguments"), str):
        yield f"{where}: the arguments of a call are text"
