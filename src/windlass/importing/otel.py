"""Spans of OpenTelemetry's conventions for GenAI, in OTLP: JSON, or protobuf with an extra.

No name of these conventions is stable; `wire/genai_names.py` has those in use. Content is recorded
only if the program is set up for it; a call without content counts with its usage. Cache marks, and
some of what was sent, are not recorded: a transcript.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from windlass.importing.base import (
    MALFORMED,
    Answers,
    dollars_of,
    model_of,
    object_of,
    text_of,
    time_of,
)
from windlass.importing.exchanges import Exchange, Exchanges
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording
from windlass.messages import canonical_json
from windlass.safety.foreign import parse_recorded
from windlass.safety.numbers import whole_number
from windlass.wire.genai_names import ATTRIBUTES, PROVIDERS

_CALLS: Final = frozenset({"chat", "text_completion", "generate_content", "responses"})
"""The operations that call a model once; an `invoke_agent` is the sum of those below it."""
_ASKED: Final[Mapping[str, str]] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of a span that hold one message of its request, with the role."""
_ANSWERED: Final = "gen_ai.choice"
_UNKNOWN: Final = "[not recorded]"


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The conversations of the spans; each export of a collector is sorted by time."""
    exchanges = Exchanges(file.path, answers, file.skipped)
    for record in file.records():
        for span in sorted(_spans(record), key=lambda one: str(one.get("startTimeUnixNano", ""))):
            try:
                fields = _fields(span)
                exchange = _exchange(span, fields)
            except MALFORMED:
                file.skipped["spans that are malformed"] += 1
                continue
            operation = fields.get("operation") or ("chat" if "in" in fields else "")
            if not isinstance(operation, str) or operation not in _CALLS:
                file.skipped[f"spans of the operation {operation or 'none of a model'!r}"] += 1
                continue
            if not exchange.request["messages"]:
                file.skipped["messages of calls whose content was not recorded"] += 1
                roles = ("assistant", "user")
                told = [{"role": role, "content": _UNKNOWN} for role in roles]
                request = {**exchange.request, "messages": told}
                exchange = replace(exchange, request=request, follows=True)
            exchanges.add(exchange)
    yield from exchanges.recordings("otel", "C")


def _spans(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in _objects(record, "resourceSpans", "resource_spans"):
        for scope in _objects(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            yield from _objects(scope, "spans")


def _objects(holder: Mapping[str, Any], *keys: str) -> list[Mapping[str, Any]]:
    for key in keys:
        if isinstance(items := holder.get(key), list):
            return [one for one in items if isinstance(one, Mapping)]
    return []


def _fields(span: Mapping[str, Any]) -> dict[str, Any]:
    """What a span and its events say of a call, under our names.

    Messages may stand in one attribute, in one for each of their fields (`gen_ai.prompt.0.role`),
    or in an event each.
    """
    fields = _attributes(span)
    asked, answered = _indexed(fields, "gen_ai.prompt."), _indexed(fields, "gen_ai.completion.")
    for event in _objects(span, "events"):
        name, attributes = text_of(event, "name"), _attributes(event)
        if name == _ANSWERED:
            answered.append({**attributes, **object_of(_json(attributes.get("message")))})
        elif role := _ASKED.get(name):
            asked.append({"role": role, **attributes})
        else:
            fields = {**attributes, **fields}
    named = {
        name: next(fields[key] for key in keys if key in fields)
        for name, keys in ATTRIBUTES.items()
        if any(key in fields for key in keys)
    }
    listed = {
        "input": asked,
        "output": [one for one in answered if one.get("role") != "thinking"],
        "tools": [
            {"type": "function", "function": {**one, "parameters": _json(one.get("parameters"))}}
            for one in _indexed(fields, "llm.request.functions.")
        ],
    }
    return {**{name: one for name, one in listed.items() if one}, **named}


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    pairs = _objects(holder, "attributes")
    return {str(one.get("key")): _value(one.get("value")) for one in pairs}


def _indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The objects of a list that has an attribute for each of their fields."""
    objects: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            digits, _, name = key.removeprefix(prefix).partition(".")
            if name and (number := whole_number(digits)) is not None:
                objects.setdefault(number, {})[name] = value
    for one in objects.values():
        if calls := _indexed(one, "tool_calls."):
            one["tool_calls"] = calls
    return [objects[number] for number in sorted(objects)]


def _value(value: Any) -> Any:
    """A value of OTLP as JSON."""
    if not isinstance(value, Mapping):
        return value
    for kind, inner in value.items():
        match kind.lower().replace("_", ""):
            case "intvalue":
                return int(inner)
            case "arrayvalue":
                return [_value(one) for one in _objects(inner, "values")]
            case "kvlistvalue":
                pairs = _objects(inner, "values")
                return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
            case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
                return inner
    return None


def _json(value: Any) -> Any:
    """JSON, which may be recorded as text; other text becomes a message of the user."""
    if isinstance(value, str):
        try:
            return parse_recorded(value)
        except ValueError:
            return [{"role": "user", "content": value}]
    return value


def _exchange(span: Mapping[str, Any], fields: Mapping[str, Any]) -> Exchange:
    provider = str(fields.get("provider") or "openai")
    model = model_of(fields.get("model"), PROVIDERS.get(provider, provider))
    messages = []
    if system := _json(fields.get("system")):
        parts = system if isinstance(system, list) else [system]
        messages += _chats({"role": "system", "parts": parts})
    for one in _listed(fields.get("input")):
        messages += _chats(one)
    answers = [chat for one in _listed(fields.get("output")) for chat in _chats(one)]
    usage = {
        "prompt_tokens": fields.get("in"),
        "completion_tokens": fields.get("out"),
        "prompt_tokens_details": {
            "cached_tokens": fields.get("read"),
            "cache_write_tokens": fields.get("written"),
        },
    }
    tools = _json(fields.get("tools"))
    key = str(fields.get("conversation") or text_of(span, "traceId", "trace_id"))
    if agent := fields.get("agent"):
        key = f"{key}/{agent}"
    ident = fields.get("id")
    return Exchange(
        {"model": model, "messages": messages, "tools": tools},
        {
            "choices": [{"message": {**answers[0], "role": "assistant"}}] if answers else [],
            "usage": usage if fields.get("in") is not None else None,
        },
        key,
        time_of(span.get("startTimeUnixNano") or span.get("start_time_unix_nano")),
        dollars_of(fields.get("cost")),
        ident if isinstance(ident, str) else "",
    )


def _listed(value: Any) -> list[Mapping[str, Any]]:
    items = _json(value)
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []


def _parts(message: Mapping[str, Any]) -> list[Any]:
    """The parts of a message; those of a message in chat form are made of its fields."""
    if isinstance(parts := message.get("parts"), list):
        return parts
    content = message.get("content")
    if isinstance(content, str) and content.startswith("["):
        objects = _listed(content)
        content = objects if objects and all("type" in one for one in objects) else content
    if message.get("role") == "tool":
        ident = message.get("tool_call_id", message.get("id"))
        return [{"type": "tool_call_response", "id": ident, "response": content}]
    parts = content if isinstance(content, list) else [{"type": "text", "content": content}]
    for call in _listed(message.get("tool_calls")):
        own = object_of(_json(call.get("function"))) or call
        parts = [*parts, {**own, "type": "tool_call", "id": call.get("id")}]
    return parts


def _chats(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message of the conventions in OpenAI's chat form; each result becomes a message."""
    role = str(message.get("role") or "user")
    parts = _parts(message)
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        words = part.get("content", part.get("text"))
        match part.get("type"):
            case "tool_call":
                given = part.get("arguments")
                arguments = given if isinstance(given, str) else canonical_json(given)
                function = {"name": str(part.get("name")), "arguments": arguments}
                ident = str(part.get("id") or "")
                calls.append({"id": ident, "type": "function", "function": function})
            case "tool_call_response":
                answer = part.get("response", part.get("result"))
                result = {"role": "tool", "content": _text(answer)}
                failed = {"is_error": True} if part.get("is_error") is True else {}
                results.append({**result, **failed, "tool_call_id": str(part.get("id") or "")})
            case "reasoning" | "thinking":
                continue  # no provider takes thinking back as text
            case _:
                if words is not None:
                    texts.append(_text(words))
    own: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if calls:
        own["tool_calls"] = calls
    return [*results, *([own] if texts or calls or not results else [])]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
