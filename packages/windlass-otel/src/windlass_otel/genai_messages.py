"""Messages and tools in the form of the GenAI conventions. Pictures are named, not held."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.public import Message, Picture, Text, ToolCall, assistant, user


@dataclass(frozen=True, slots=True)
class Contents:
    """What is told of contents: whether they are, and as what messages and JSON data are shown."""

    told: bool = False
    shown: Callable[[Message], Message] = lambda message: message
    value: Callable[[Any], Any] = lambda value: value

    def message(self, message: Message) -> dict[str, Any]:
        """Return a message in the form of the conventions."""
        return message_as_json(self.shown(message))

    def arguments(self, call: ToolCall) -> Any:
        """Return the arguments of a call, as `arguments_of` gives them."""
        (shown,) = self.shown(assistant("", calls=[call])).tool_calls
        return arguments_of(shown)

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the definitions of tools that are in OpenAI's form."""
        return [{"type": "function", **tool["function"]} for tool in self.value([*tools])]

    def text(self, text: str) -> str:
        """Return a text, as it is shown."""
        return self.shown(user(text)).text


def message_as_json(message: Message) -> dict[str, Any]:
    """Return a message with its parts; what only its provider understands is left out.

    The conventions have no word for a result that failed: it is marked with `is_error`.
    """
    parts = [part for each in message.parts if (part := _part(each)) is not None]
    if message.tool_call_id is not None:
        answer: dict[str, Any] = {"type": "tool_call_response", "id": message.tool_call_id}
        answer["response"] = message.text
        if message.failed:
            answer["is_error"] = True
        parts = [answer, *(part for part in parts if part["type"] != "text")]
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments_of(call)}
        for call in message.tool_calls
    ]
    named = {} if message.name is None else {"name": message.name}
    return {"role": message.role, "parts": [*parts, *calls], **named}


def arguments_of(call: ToolCall) -> Any:
    """Return the arguments of a call as an object; as the model wrote them where they are none."""
    try:
        return call.parsed()
    except (ValueError, RecursionError):
        return call.arguments


def split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Any], Sequence[Any]]:
    """Return the parts of the system prompt that a request begins with ([]: none), and the rest."""
    if messages and messages[0]["role"] in ("system", "developer"):
        return messages[0]["parts"], messages[1:]
    return [], messages


def as_text(value: Any) -> str:
    """Return a value as JSON text in ASCII: attributes of spans hold no objects."""
    return json.dumps(value)


def _part(part: object) -> dict[str, Any] | None:
    match part:
        case Text(text):
            return {"type": "text", "content": text}
        case Picture() if part.url:
            return {"type": "uri", "modality": "image", "uri": part.url}
        case Picture():
            kind = {"modality": "image", "mime_type": part.media_type}
            return {"type": "file", **kind, "file_id": f"sha256:{part.sha256}"}
    return None
