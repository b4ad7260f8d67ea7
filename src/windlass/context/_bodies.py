"""Requests of the official clients: what of a body is its context, and the body with a window.

Bodies are JSON as their client sends them. Decides nothing, and changes nothing but the context of
a request and its cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windlass.context._threads import Asked
from windlass.context.window import ChatWindow
from windlass.errors import UsageError
from windlass.wire.forms import FormName, as_json

_PATHS: Final[Mapping[str, FormName]] = {
    "/v1/messages": "anthropic",
    "/chat/completions": "openai",
    "/responses": "responses",
}
_GEMINI: Final = re.compile(r"(?:.*/)?models/(?P<model>[^/:]+):(?:generate|streamGenerate)Content")
_LISTS: Final[Mapping[str, str]] = {
    "anthropic": "messages",
    "openai": "messages",
    "responses": "input",
    "gemini": "contents",
}
_HEADS: Final[Mapping[str, str]] = {
    "anthropic": "system",
    "responses": "instructions",
    "gemini": "systemInstruction",
}
"""Where what stands in front of the list stands, by form."""
_ELSEWHERE: Final = ("previous_response_id", "conversation", "cachedContent", "prompt")
"""Keys of a request whose messages lie with the provider."""
_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_ABSENT: Final = ("Omit", "NotGiven")
"""Classes by which clients say that an argument was not given."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A request that was read. `marks`: it has cache marks of its own."""

    asked: Asked
    body: Mapping[str, Any]
    marks: bool


def form_of_request(path: str, body: Any) -> tuple[FormName, str] | None:
    """The form and the model of a request for an answer; None: it asks for something else."""
    if not isinstance(body, Mapping):
        return None
    path = path.partition("?")[0]
    if found := _GEMINI.fullmatch(path):
        return "gemini", found["model"]
    form, model = _PATHS.get(path), body.get("model")
    return (form, model) if form is not None and isinstance(model, str) else None


def opened(form: FormName, model: str, body: Mapping[str, Any]) -> Opened:
    """A request, read. Raises UsageError for one whose messages lie elsewhere or are no list."""
    given = {key: one for key, one in body.items() if type(one).__name__ not in _ABSENT}
    if elsewhere := [key for key in _ELSEWHERE if given.get(key) is not None]:
        raise UsageError(f"{elsewhere[0]}: its messages lie with the provider")
    listed = given.get(_LISTS[form])
    if form == "responses" and isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    if form == "gemini" and isinstance(listed, Mapping):
        listed = [listed]
    if isinstance(listed, str | Mapping) or not isinstance(listed, Iterable):
        raise UsageError(f"{_LISTS[form]} is no list")
    messages = given[_LISTS[form]] = [as_json(one) for one in listed]
    tools = given.get("tools")
    if tools is not None:
        tools = given["tools"] = [as_json(one) for one in tools]
    bare = [_unmarked(one) for one in messages]
    head = given.get(_HEADS.get(form, ""))
    bare_tools = [_without_marks(one) for one in tools or ()]
    asked = Asked(form, model, _head(form, as_json(head)), bare, bare_tools)
    marks = "cache_control" in given or bare_tools != (tools or [])
    marks = marks or any(map(_has_marks, [*messages, {"content": head}]))
    return Opened(asked, given, marks)


def with_window(request: Opened, window: ChatWindow, *, keyed: bool) -> dict[str, Any]:
    """The body with what a window shows; `keyed`: with a key for the provider's cache."""
    form, body = request.asked.form, dict(request.body)
    wired = window.wire(form)
    listed = wired[_LISTS[form]]
    if form == "responses" and request.asked.head is not None:
        listed = listed[1:]  # the instructions, which stay where they are
    body[_LISTS[form]] = listed
    if form == "anthropic":
        body = _marked(body, wired, request.asked.tools)
    if keyed:
        for key in ("prompt_cache_key", "prompt_cache_options"):
            if key in wired:
                body.setdefault(key, wired[key])
    return body


def _marked(body: dict[str, Any], wired: Mapping[str, Any], tools: Sequence[Any]) -> dict[str, Any]:
    """An Anthropic body with the marks of a window on its system prompt and its tools."""
    if "system" in wired:
        body["system"] = wired["system"]
    if tools:
        marked = [one.get("cache_control") for one in wired["tools"][: len(tools)]]
        body["tools"] = [
            {**tool, "cache_control": mark} if mark else tool
            for tool, mark in zip(tools, marked, strict=True)
        ]
    body.pop("cache_control", None)  # which would be one mark more, at the end
    return body


def _head(form: FormName, given: Any) -> Mapping[str, Any] | None:
    """What stands in front of a list, as a message."""
    if not given:
        return None
    if form == "gemini":
        parts = given.get("parts") if isinstance(given, Mapping) else None
        if not isinstance(parts, list) or not all(set(part) == {"text"} for part in parts):
            raise UsageError("systemInstruction holds more than text")
        return {"role": "system", "content": [{"type": "text", **part} for part in parts]}
    head: Mapping[str, Any] = _unmarked({"role": "system", "content": given})
    return head


def _unmarked(message: Any) -> Any:
    """A message without cache marks; text that stands alone is a string then."""
    if not isinstance(message, Mapping):
        return message
    content = message.get("content")
    if not isinstance(content, list):
        return _without_marks(message)
    blocks = [_without_marks(block) for block in content]
    alone = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], Mapping) else {}
    if alone.keys() == {"type", "text"} and alone["type"] == "text":
        return {**_without_marks(message), "content": alone["text"]}
    return {**_without_marks(message), "content": blocks}


def _without_marks(block: Any) -> Any:
    """A block, and those that it holds, without marks; what a model or tool said stays."""
    if not isinstance(block, Mapping):
        return block
    bare = {key: value for key, value in block.items() if key not in _MARKS}
    if isinstance(inner := bare.get("content"), list):
        bare["content"] = [_without_marks(one) for one in inner]
    return bare


def _has_marks(message: Any) -> bool:
    content = message.get("content") if isinstance(message, Mapping) else None
    return isinstance(content, list) and [_without_marks(one) for one in content] != content


def usage_of(answer: Any) -> Mapping[str, Any] | None:
    """What an answer, or an event of a streamed one, says of its usage (None: nothing).

    It is in its provider's words, without what is null.
    """
    for holder in (answer, _held(answer, "message"), _held(answer, "response")):
        for name in ("usage", "usageMetadata"):
            usage = as_json(_held(holder, name))
            if isinstance(usage, Mapping):
                return {key: value for key, value in usage.items() if value is not None}
    return None


def _held(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
