"""Spans in OTLP (JSON, or protobuf with an extra): OpenTelemetry's GenAI, OpenInference, AI SDK.

No name of these conventions is stable; `wire/genai_names.py` has those in use, and a span may have
those of several. Content is recorded only if the program is set up for it; a call without content
counts with its usage. A span of a call that lies around another, without a tool between them, tells
the same call again, or a sum. Cache marks, and some of what was sent, are not recorded: a
transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from windlass.public import (
    MALFORMED,
    UNRECORDED,
    Answers,
    Exchange,
    Exchanges,
    FileFormat,
    RecordedFile,
    Recording,
    Records,
    chat_call,
    chat_result,
    dollars_of,
    genai_names,
    model_of,
    object_of,
    parse_recorded,
    text_of,
    time_of,
    whole_number,
)

_CALLS: Final = frozenset({"chat", "text_completion", "generate_content", "responses", "LLM"})
_CALL_ENDS: Final = (".doGenerate", ".doStream")
"""The operations that call a model once; an `invoke_agent` is the sum of those below it."""
_TOOLS: Final = frozenset({"execute_tool", "ai.toolCall", "TOOL"})
"""The operations of tools, below which another agent may work."""
_ASKED: Final[Mapping[str, str]] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of a span that hold one message of its request, with the role."""
_ANSWERED: Final = "gen_ai.choice"


def recognises(records: Records) -> bool:
    """Return whether these are spans."""
    return any(
        "resourceSpans" in one
        or "resource_spans" in one
        or object_of(one.get("context")).keys() >= {"trace_id", "span_id"}
        for one in records
    )


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the conversations of the spans; each export of a collector is sorted by time."""
    outer = _outer(file)
    file.skipped.clear()
    exchanges = Exchanges(file, answers, "otel")
    for record in file.records():
        for span in sorted(_spans(record), key=lambda one: str(one.get("startTimeUnixNano", ""))):
            try:
                fields = _fields(span)
                exchange = _exchange(span, fields)
            except MALFORMED:
                file.skipped["spans that are malformed"] += 1
                continue
            operation = _operation(fields)
            if not _is_call(operation):
                file.skipped[f"spans of the operation {operation or 'none of a model'!r}"] += 1
                continue
            if text_of(span, "spanId", "span_id") in outer:
                file.skipped["spans around a call that they tell again"] += 1
                continue
            if not exchange.request["messages"]:
                file.skipped["messages of calls whose content was not recorded"] += 1
                roles = ("assistant", "user")
                told = [{"role": role, "content": UNRECORDED} for role in roles]
                request = {**exchange.request, "messages": told}
                exchange = replace(exchange, request=request, follows=True)
            exchanges.add(exchange)
    yield from exchanges.recordings("C")


def _outer(file: RecordedFile) -> set[str]:
    """Return the ids of spans that lie around one of a call, without a tool between them."""
    parents: dict[str, str] = {}
    calls: list[str] = []
    tools: set[str] = set()
    for record in file.records():
        for span in _spans(record):
            with suppress(*MALFORMED):
                ident, fields = text_of(span, "spanId", "span_id"), _named(_attributes(span))
                parents[ident] = text_of(span, "parentSpanId", "parent_span_id")
                operation = _operation(fields)
                if _is_call(operation) and "in" in fields:
                    calls.append(ident)
                elif operation in _TOOLS:
                    tools.add(ident)
    outer: set[str] = set()
    for call in calls:
        at = parents.get(call)
        while at and at not in outer and at not in tools:
            outer.add(at)
            at = parents.get(at)
    return outer


def _operation(fields: Mapping[str, Any]) -> str:
    return str(fields.get("operation") or ("chat" if "in" in fields else ""))


def _is_call(operation: str) -> bool:
    return operation in _CALLS or operation.endswith(_CALL_ENDS)


def _spans(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the spans of an export; a record may be a span as the SDK for Python writes it."""
    if context := object_of(record.get("context")):
        names = {"traceId": context.get("trace_id"), "spanId": context.get("span_id")}
        above, start = record.get("parent_id"), record.get("start_time")
        yield {**record, **names, "parentSpanId": above, "startTimeUnixNano": start}
    for resource in _objects(record, "resourceSpans", "resource_spans"):
        for scope in _objects(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            yield from _objects(scope, "spans")


def _objects(holder: Mapping[str, Any], *keys: str) -> list[Mapping[str, Any]]:
    for key in keys:
        if isinstance(items := holder.get(key), list):
            return [one for one in items if isinstance(one, Mapping)]
    return []


def _fields(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a span and its events say of a call, under our names.

    Messages may stand in one attribute, in one for each of their fields (`gen_ai.prompt.0.role`),
    or in an event each.
    """
    fields = _attributes(span)
    asked = _indexed(fields, "gen_ai.prompt.", "llm.input_messages.")
    answered = _indexed(fields, "gen_ai.completion.", "llm.output_messages.")
    if told := {key: fields[name] for name, key in _ANSWER.items() if fields.get(name)}:
        answered.append(told)
    for event in _objects(span, "events"):
        name, attributes = text_of(event, "name"), _attributes(event)
        if name == _ANSWERED:
            answered.append({**attributes, **object_of(_json(attributes.get("message")))})
        elif role := _ASKED.get(name):
            asked.append({"role": role, **attributes})
        else:
            fields = {**attributes, **fields}
    listed = {
        "input": asked,
        "output": [one for one in answered if one.get("role") != "thinking"],
        "tools": [
            {"type": "function", "function": {**one, "parameters": _json(one.get("parameters"))}}
            for one in _indexed(fields, "llm.request.functions.")
        ]
        + [_json(one.get("tool.json_schema")) for one in _indexed(fields, "llm.tools.")],
    }
    return {**{name: one for name, one in listed.items() if one}, **_named(fields)}


_ANSWER: Final = {
    "ai.response.object": "content",
    "ai.response.text": "content",
    "ai.response.toolCalls": "tool_calls",
}
"""Where the AI SDK has the fields of an answer."""


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes under our names."""
    return {
        name: next(attributes[key] for key in keys if key in attributes)
        for name, keys in genai_names.ATTRIBUTES.items()
        if any(key in attributes for key in keys)
    }


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(told := holder.get("attributes"), Mapping):
        return {str(key): one for key, one in told.items()}
    pairs = _objects(holder, "attributes")
    return {str(one.get("key")): _value(one.get("value")) for one in pairs}


def _indexed(attributes: Mapping[str, Any], *prefixes: str) -> list[dict[str, Any]]:
    """Return the objects of a list that has an attribute for each of their fields."""
    objects: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        for prefix in prefixes:
            digits, _, name = key.removeprefix(prefix).partition(".")
            if key.startswith(prefix) and name and (number := whole_number(digits)) is not None:
                objects.setdefault(number, {})[_OWN.sub("", name)] = value
    for one in objects.values():
        for name, key in (("tool_calls", "tool_calls"), ("contents", "content")):
            if inner := _indexed(one, f"{name}."):
                one[key] = inner
    return [objects[number] for number in sorted(objects)]


_OWN: Final = re.compile(r"\b(message|message_content|tool_call|function)\.")
"""What OpenInference writes in front of the fields of a message and its parts."""


def _value(value: Any) -> Any:
    """Return a value of OTLP as JSON."""
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
            case "doublevalue" if isinstance(inner, float) and inner.is_integer():
                return int(inner)  # some programs write counts so
            case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
                return inner
    return None


def _json(value: Any) -> Any:
    """Return JSON, which may be recorded as text; other text becomes a message of the user."""
    if isinstance(value, str):
        try:
            return parse_recorded(value)
        except ValueError:
            return [{"role": "user", "content": value}]
    return value


def _exchange(span: Mapping[str, Any], fields: Mapping[str, Any]) -> Exchange:
    provider = str(fields.get("provider") or _provider_of(fields.get("model")))
    provider = (
        genai_names.PROVIDERS.get(provider) or provider.partition(".")[0]
    )  # as in openai.responses
    model = model_of(fields.get("model"), genai_names.PROVIDERS.get(provider, provider))
    messages = []
    if system := _json(fields.get("system")):
        parts = system if isinstance(system, list) else [system]
        messages += _chats({"role": "system", "parts": parts})
    for one in _listed(fields.get("input")):
        messages += _chats(one)
    answers = [chat for one in _listed(fields.get("output")) for chat in _chats(one)]
    tools = _json(fields.get("tools"))
    tools = [_json(one) for one in tools] if isinstance(tools, list) else None
    key = str(fields.get("conversation") or text_of(span, "traceId", "trace_id"))
    if agent := fields.get("agent"):
        key = f"{key}/{agent}"
    ident = fields.get("id")
    return Exchange(
        {"model": model, "messages": messages, "tools": tools},
        {
            "choices": [{"message": {**answers[0], "role": "assistant"}}] if answers else [],
            "usage": _usage(fields),
        },
        key,
        time_of(span.get("startTimeUnixNano") or span.get("start_time_unix_nano")),
        dollars_of(fields.get("cost")),
        ident if isinstance(ident, str) else "",
    )


def _usage(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the usage in a provider's words: its own, which the AI SDK keeps, or that of the names.

    What was cached is among all that was sent; some programs count it besides, which shows where it
    is more.
    """
    for told in object_of(_json(fields.get("metadata"))).values():
        if "input_tokens" in (usage := object_of(object_of(told).get("usage"))):
            return usage
    if fields.get("in") is None:
        return None
    sent, read, written = (fields.get(key) for key in ("in", "read", "written"))
    beside = sum(one for one in (read, written) if isinstance(one, int))
    if isinstance(sent, int) and sent < beside:
        sent += beside
    return {
        "prompt_tokens": sent,
        "completion_tokens": fields.get("out"),
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }


def _provider_of(model: Any) -> str:
    """Return the provider of a model that is named without one."""
    return next((own for part, own in _MAKERS.items() if part in str(model)), "openai")


_MAKERS: Final = {"claude": "anthropic", "gemini": "gemini"}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    items = _json(value)
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []


def _parts(message: Mapping[str, Any]) -> list[Any]:
    """Return the parts of a message; those of a message in chat form are made of its fields."""
    if isinstance(parts := message.get("parts"), list):
        return parts
    content = message.get("content")
    if isinstance(content, str) and content.startswith("["):
        objects = _listed(content)
        content = objects if objects and all("type" in one for one in objects) else content
    is_part = isinstance(content, list) and _is_result(content[:1])
    if message.get("role") == "tool" and not is_part:
        ident = message.get("tool_call_id", message.get("id"))
        return [{"type": "tool_call_response", "id": ident, "response": content}]
    parts = content if isinstance(content, list) else [{"type": "text", "content": content}]
    for call in _listed(message.get("tool_calls")):
        own = object_of(_json(call.get("function"))) or call
        parts = [*parts, {"id": call.get("id"), **own, "type": "tool_call"}]
    return parts


def _is_result(parts: list[Any]) -> bool:
    return any(object_of(one).get("type") == "tool-result" for one in parts)


def _chats(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message of the conventions in OpenAI's chat form; each result becomes a message."""
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
            case "tool_call" | "tool-call":
                given = next((part[key] for key in _GIVEN if key in part), None)
                ident = text_of(part, "id", "toolCallId")
                calls.append(chat_call(ident, text_of(part, "name", "toolName"), given))
            case "tool_call_response" | "tool-result":
                answer = part.get("response", part.get("result"))
                output = object_of(part.get("output"))
                answer = output.get("value") if output else answer
                is_error = part.get("is_error", part.get("isError")) is True
                is_error = is_error or text_of(output, "type").startswith("error")
                ident = text_of(part, "id", "toolCallId")
                results.append(chat_result(ident, _text(answer), failed=is_error))
            case "reasoning" | "thinking":
                continue  # no provider takes thinking back as text
            case _:
                if words is not None:
                    texts.append(_text(words))
    own: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if calls:
        own["tool_calls"] = calls
    return [*results, *([own] if texts or calls or not results else [])]


_GIVEN: Final = ("arguments", "input", "args")
"""Where a call has what it was given."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


FORMAT: Final = FileFormat("otel", recognises, read)
