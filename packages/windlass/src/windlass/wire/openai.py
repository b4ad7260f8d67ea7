"""OpenAI chat dicts, in and out: the form messages have at every border.

Anything that Windlass has no word for (audio, files, refusals, vendor keys of a message, a part or
a tool call) travels as an opaque part and comes out where it was. Some things are normalised on the
way, and so do not come back byte for byte: keys that hold null, a list of one plain text (its
text), empty lists, a null content with nothing else beside it (empty text).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from windlass.errors import SequenceError, did_you_mean
from windlass.messages import (
    ROLES,
    Message,
    Opaque,
    Part,
    Picture,
    Role,
    Text,
    ToolCall,
)
from windlass.wire.calls import file_for, opaque, picture_address, picture_of

_PROVIDER: Final = "openai"
_PART: Final = "part:"
"""Opaque kind: a whole part of the content; the type's name follows."""
_WITH: Final = "with"
"""Opaque kind: extra keys of the text or picture before it."""
_KEY: Final = "key:"
"""Opaque kind: a key of the message; its name follows."""
_CALL: Final = "call:"
"""Opaque kind: further keys of a tool call; its position follows."""
_KNOWN: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_PLAIN: Final = frozenset({"type", "text"})


def from_openai(chat: Mapping[str, Any], *, where: str = "message") -> Message:
    """Return one chat dict as a message.

    Raises SequenceError naming `where` and the rule: an unknown role, a content
    that is neither text nor parts, a tool call without id or name, a data URL
    that is no picture.
    """
    role = chat.get("role")
    if role not in ROLES:
        raise SequenceError(f"{where}: role {role!r} is none of {', '.join(ROLES)}")
    keys: list[Opaque] = []
    if not _KNOWN.issuperset(chat):
        keys = [
            opaque(_PROVIDER, _KEY + key, value)
            for key, value in chat.items()
            if key not in _KNOWN and value is not None
        ]
    calls: tuple[ToolCall, ...] = ()
    if listed := chat.get("tool_calls"):
        calls, extras = _calls(listed, where)
        keys += extras
    content = chat.get("content")
    parts: tuple[Part, ...]
    if isinstance(content, str):
        parts = (Text(content),) if content or keys or calls else ()
    else:
        parts = (*_content(content, where),)
    if keys:
        parts += tuple(keys)
    call_id, name = _text(chat, "tool_call_id", where), _text(chat, "name", where)
    # The API has no word for a failed result; agents and gateways write Anthropic's.
    failed = role == "tool" and chat.get("is_error") is True
    return Message(cast("Role", role), parts, calls, call_id, name, failed)


def _text(chat: Mapping[str, Any], key: str, where: str) -> str | None:
    value = chat.get(key)
    if value is not None and not isinstance(value, str):
        raise SequenceError(f"{where}: {key} {value!r} is not text")
    return value


def _content(content: Any, where: str) -> Iterable[Part]:
    if content is None:
        return
    if not isinstance(content, list):
        raise SequenceError(f"{where}: content is neither text nor a list of parts")
    for index, part in enumerate(content):
        yield from _part(part, f"{where}, part {index}")


def _part(part: Any, where: str) -> Iterable[Part]:
    match part:
        case str():
            yield Text(part)
        case {"type": "text", "text": str(text), **rest}:
            yield Text(text)
            if rest:
                yield opaque(_PROVIDER, _WITH, rest)
        case {"type": "text"}:
            raise SequenceError(f"{where}: a text part has a text")
        case {"type": "image_url", "image_url": {"url": str(url), **address}, **rest}:
            detail = address.pop("detail", None) or ""
            yield _picture(url, str(detail), where)
            if address:
                rest["image_url"] = address
            if rest:
                yield opaque(_PROVIDER, _WITH, rest)
        case {"type": str(kind)}:
            yield opaque(_PROVIDER, _PART + kind, part)
        case _:
            raise SequenceError(f"{where}: a part is an object with a type")


def _picture(url: str, detail: str, where: str) -> Picture:
    if not url:
        raise SequenceError(f"{where}: the picture's url is empty")
    if not url.startswith("data:"):
        return Picture("", "", url=url, detail=detail)
    return replace(picture_of(url.partition(",")[2], where, "data URL"), detail=detail)


def _calls(calls: Any, where: str) -> tuple[tuple[ToolCall, ...], list[Opaque]]:
    """Return the calls and their extra keys (Gemini's thought signatures come this way)."""
    if not isinstance(calls, list | tuple):
        raise SequenceError(f"{where}: tool_calls is not a list")
    read: list[ToolCall] = []
    extras: list[Opaque] = []
    for index, call in enumerate(calls):
        match call:
            case {"id": str(id_), "function": {"name": str(name), **function}, **rest}:
                arguments = function.pop("arguments", None) or ""
                if not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False)
                rest.pop("type", None)
                if function:
                    rest["function"] = function
                if rest:
                    extras.append(opaque(_PROVIDER, f"{_CALL}{index}", rest))
                read.append(ToolCall(id_, name, arguments))
            case _:
                raise SequenceError(
                    f"{where}, tool call {index}: a call has an id and a function with a name"
                )
    return tuple(read), extras


def to_openai(message: Message, load: Callable[[str], bytes] | None = None) -> dict[str, Any]:
    """Return the message as a chat dict; pictures become data URLs.

    `load` returns a picture's bytes by SHA-256, and is called only for pictures that hold none
    themselves. Opaque parts of other providers are left out.
    """
    chat: dict[str, Any] = {"role": message.role}
    keys: dict[str, Any] = {}
    content: list[dict[str, Any]] = []
    further: dict[int, dict[str, Any]] = {}
    for part in message.parts:
        match part:
            case Text(text):
                content.append({"type": "text", "text": text})
            case Picture():
                content.append({"type": "image_url", "image_url": _url(part, load)})
            case Opaque(provider) if provider != _PROVIDER:
                if file := file_for(part, _PROVIDER, message.role):
                    held = {"filename": file.name or "file.pdf", "file_data": file.data_url}
                    content.append({"type": "file", "file": held})
            case Opaque(_, kind, data) if kind.startswith(_KEY):
                keys[kind.removeprefix(_KEY)] = json.loads(data)
            case Opaque(_, kind, data) if kind.startswith(_PART):
                content.append(json.loads(data))
            case Opaque(_, kind, data) if kind == _WITH and content:
                content[-1] = _merged(content[-1], json.loads(data))
            case Opaque(_, kind, data) if kind.startswith(_CALL):
                further[int(kind.removeprefix(_CALL))] = json.loads(data)
            case Opaque():
                pass  # another of OpenAI's interfaces made it; chat would refuse it
    if len(content) == 1 and content[0].keys() == _PLAIN:
        chat["content"] = content[0]["text"]
    elif content:
        chat["content"] = content
    else:
        chat["content"] = None if message.tool_calls or keys else ""
    if message.tool_calls:
        chat["tool_calls"] = [
            _merged(_call(call), further.get(index, {}))
            for index, call in enumerate(message.tool_calls)
        ]
    if message.tool_call_id is not None:
        chat["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        chat["name"] = message.name
    return chat | keys


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _merged(base: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `further`, also inside shared objects."""
    return {**base} | {
        key: base[key] | value if key in base and isinstance(value, dict) else value
        for key, value in further.items()
    }


def _url(part: Picture, load: Callable[[str], bytes] | None) -> dict[str, str]:
    detail = {"detail": part.detail} if part.detail else {}
    return {"url": picture_address(part, load), **detail}


def check_sequence(messages: Iterable[Message], tools: Collection[str] | None = None) -> None:
    """Raise SequenceError if OpenAI's chat endpoint would answer 400.

    Rules (field notes of the API's own error texts): an assistant message with
    tool calls is followed at once by one tool message for each of its calls; a
    tool message answers such a call (or none at all: it is sent as the user's);
    call ids do not repeat within a message; content may be missing only beside
    tool calls; there is at least one message.
    With `tools`, the names of those the request defines, each tool that is called
    must be one of them: not this endpoint's rule, but other providers' behind it.
    """
    open_calls: set[str] = set()
    count = 0
    for position, message in enumerate(messages):
        count += 1
        where = f"message {position} ({message.role})"
        if message.role == "tool" and not message.is_uncalled:
            if message.tool_call_id not in open_calls:
                raise SequenceError(
                    f"{where}: answers call {message.tool_call_id!r}, which the assistant"
                    " message before it did not make"
                )
            open_calls.discard(message.tool_call_id or "")
            continue
        if open_calls:
            raise SequenceError(f"{where}: calls {sorted(open_calls)} have no result yet")
        if message.tool_calls:
            if message.role != "assistant":
                raise SequenceError(f"{where}: only an assistant calls tools")
            open_calls = {call.id for call in message.tool_calls}
            if len(open_calls) != len(message.tool_calls):
                raise SequenceError(f"{where}: two tool calls share an id")
            for call in message.tool_calls:
                if tools is not None and call.name not in tools:
                    raise SequenceError(
                        f"{where}: calls {call.name!r}, which the request does not define;"
                        f" {did_you_mean(call.name, tools)}"
                    )
        elif not message.parts and not message.is_uncalled:
            raise SequenceError(f"{where}: has neither content nor tool calls")
    if open_calls:
        raise SequenceError(f"at the end: calls {sorted(open_calls)} have no result")
    if not count:
        raise SequenceError("the list of messages is empty")
