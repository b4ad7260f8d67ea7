"""Spans of OpenTelemetry's conventions for GenAI, in OTLP: JSON, or protobuf with an extra.

No name of these conventions is stable; the table below has those in use. Content is recorded only
where the program was told to; a call without it counts with its usage. Nothing is told of cache
marks, and not all of what was sent: a transcript.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.importing.base import MALFORMED, Answers, model_of, text_of, time_of
from windlass.importing.exchanges import Exchange, Exchanges
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording
from windlass.safety.foreign import parse_recorded

_CALLS: Final = frozenset({"chat", "text_completion", "generate_content", "responses"})
"""The operations that ask a model once; an `invoke_agent` sums those beneath it."""
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "operation": ("gen_ai.operation.name",),
    "provider": ("gen_ai.provider.name", "gen_ai.system"),
    "model": ("gen_ai.request.model", "gen_ai.response.model"),
    "id": ("gen_ai.response.id",),
    "conversation": ("gen_ai.conversation.id", "session.id"),
    "agent": ("gen_ai.agent.id",),
    "system": ("gen_ai.system_instructions",),
    "input": ("gen_ai.input.messages", "gen_ai.prompt"),
    "output": ("gen_ai.output.messages", "gen_ai.completion"),
    "tools": ("gen_ai.tool.definitions", "gen_ai.request.tools"),
    "in": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "out": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "read": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.input_tokens.cached",
    ),
    "written": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
}
_PROVIDERS: Final[Mapping[str, str]] = {
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "gcp.vertex_ai": "gemini",
    "aws.bedrock": "bedrock",
    "azure.ai.openai": "openai",
}
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
    without: dict[str, list[dict[str, Any]]] = {}
    for record in file.records():
        for span in sorted(_spans(record), key=lambda one: str(one.get("startTimeUnixNano", ""))):
            try:
                told = _told(span)
                exchange = _exchange(span, told)
            except MALFORMED:
                file.skipped["spans that are malformed"] += 1
                continue
            operation = told.get("operation") or ("chat" if "in" in told else "")
            if not isinstance(operation, str) or operation not in _CALLS:
                file.skipped[f"spans of the operation {operation or 'none of a model'!r}"] += 1
                continue
            if not exchange.request["messages"]:
                file.skipped["messages of calls whose content was not recorded"] += 1
                said = without.setdefault(exchange.key, [])
                said.append({"role": "user", "content": _UNKNOWN})
                exchange.request["messages"].extend(said)
                said.append({"role": "assistant", "content": _UNKNOWN})
            exchanges.add(exchange)
    yield from exchanges.recordings("otel", "C")


def _spans(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in _objects(record, "resourceSpans", "resource_spans"):
        for scope in _objects(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            yield from _objects(scope, "spans")


def _objects(held: Mapping[str, Any], *keys: str) -> list[Mapping[str, Any]]:
    for key in keys:
        if isinstance(listed := held.get(key), list):
            return [one for one in listed if isinstance(one, Mapping)]
    return []


def _told(span: Mapping[str, Any]) -> dict[str, Any]:
    """What a span and its events say of a call, by our names.

    Messages may stand in one attribute, in one for each of their fields (`gen_ai.prompt.0.role`),
    or in an event each.
    """
    told = _attributes(span)
    asked, answered = _indexed(told, "gen_ai.prompt."), _indexed(told, "gen_ai.completion.")
    for event in _objects(span, "events"):
        name, held = text_of(event, "name"), _attributes(event)
        if name == _ANSWERED:
            answered.append({**held, **(_mapping(held.get("message")) or {})})
        elif role := _ASKED.get(name):
            asked.append({"role": role, **held})
        else:
            told = {**held, **told}
    found = {
        name: next(told[key] for key in keys if key in told)
        for name, keys in _NAMES.items()
        if any(key in told for key in keys)
    }
    listed = {
        "input": asked,
        "output": [one for one in answered if one.get("role") != "thinking"],
        "tools": [
            {"type": "function", "function": {**one, "parameters": _json(one.get("parameters"))}}
            for one in _indexed(told, "llm.request.functions.")
        ],
    }
    return {**{name: one for name, one in listed.items() if one}, **found}


def _attributes(held: Mapping[str, Any]) -> dict[str, Any]:
    listed = _objects(held, "attributes")
    return {str(one.get("key")): _value(one.get("value")) for one in listed}


def _indexed(told: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The objects of a list that has an attribute for each of their fields."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in told.items():
        number, _, name = key.removeprefix(prefix).partition(".")
        if key.startswith(prefix) and name and number.isdecimal():
            found.setdefault(int(number), {})[name] = value
    for one in found.values():
        if calls := _indexed(one, "tool_calls."):
            one["tool_calls"] = calls
    return [found[number] for number in sorted(found)]


def _value(given: Any) -> Any:
    """A value of OTLP as JSON."""
    if not isinstance(given, Mapping):
        return given
    for kind, value in given.items():
        match kind.lower().replace("_", ""):
            case "intvalue":
                return int(value)
            case "arrayvalue":
                return [_value(one) for one in _objects(value, "values")]
            case "kvlistvalue":
                pairs = _objects(value, "values")
                return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
            case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
                return value
    return None


def _json(given: Any) -> Any:
    """JSON that may stand there as text."""
    if isinstance(given, str):
        try:
            return parse_recorded(given)
        except ValueError:
            return [{"role": "user", "content": given}]
    return given


def _exchange(span: Mapping[str, Any], told: Mapping[str, Any]) -> Exchange:
    provider = str(told.get("provider") or "openai")
    model = model_of(told.get("model"), _PROVIDERS.get(provider, provider))
    messages = []
    if system := _json(told.get("system")):
        parts = system if isinstance(system, list) else [system]
        messages += _chats({"role": "system", "parts": parts})
    for one in _listed(told.get("input")):
        messages += _chats(one)
    answers = [chat for one in _listed(told.get("output")) for chat in _chats(one)]
    usage = {
        "prompt_tokens": told.get("in"),
        "completion_tokens": told.get("out"),
        "prompt_tokens_details": {
            "cached_tokens": told.get("read"),
            "cache_write_tokens": told.get("written"),
        },
    }
    tools = _json(told.get("tools"))
    key = str(told.get("conversation") or text_of(span, "traceId", "trace_id"))
    if agent := told.get("agent"):
        key = f"{key}/{agent}"
    ident = told.get("id")
    return Exchange(
        {"model": model, "messages": messages, "tools": tools},
        {
            "choices": [{"message": {**answers[0], "role": "assistant"}}] if answers else [],
            "usage": usage if told.get("in") is not None else None,
        },
        key,
        time_of(span.get("startTimeUnixNano") or span.get("start_time_unix_nano")),
        None,
        ident if isinstance(ident, str) else "",
    )


def _listed(given: Any) -> list[Mapping[str, Any]]:
    held = _json(given)
    return [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []


def _mapping(given: Any) -> Mapping[str, Any] | None:
    held = _json(given)
    return held if isinstance(held, Mapping) else None


def _parts(given: Mapping[str, Any]) -> list[Any]:
    """The parts of a message that may have none: content, calls, or the answer to a call."""
    if isinstance(parts := given.get("parts"), list):
        return parts
    content = given.get("content")
    if isinstance(content, str) and content.startswith("["):
        held = _listed(content)
        content = held if held and all("type" in one for one in held) else content
    if given.get("role") == "tool":
        ident = given.get("tool_call_id", given.get("id"))
        return [{"type": "tool_call_response", "id": ident, "response": content}]
    parts = content if isinstance(content, list) else [{"type": "text", "content": content}]
    for call in _listed(given.get("tool_calls")):
        own = _mapping(call.get("function")) or call
        parts = [*parts, {**own, "type": "tool_call", "id": call.get("id")}]
    return parts


def _chats(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message of the conventions in OpenAI's chat form; each result is one of its own."""
    role = str(given.get("role") or "user")
    parts = _parts(given)
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        words = part.get("content", part.get("text"))
        match part.get("type"):
            case "tool_call":
                name, given_now = str(part.get("name")), part.get("arguments")
                function = {"name": name, "arguments": _text(given_now)}
                ident = str(part.get("id") or "")
                calls.append({"id": ident, "type": "function", "function": function})
            case "tool_call_response":
                answer = part.get("response", part.get("result"))
                result = {"role": "tool", "content": _text(answer)}
                results.append({**result, "tool_call_id": str(part.get("id") or "")})
            case "reasoning" | "thinking":
                continue  # no wire takes it back in words
            case _:
                if words is not None:
                    texts.append(_text(words))
    own: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if calls:
        own["tool_calls"] = calls
    return [*results, *([own] if texts or calls or not results else [])]


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
