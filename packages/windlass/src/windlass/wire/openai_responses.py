"""OpenAI's Responses form: items in and out, and the context of a request in it.

Rules (developers.openai.com, Responses; its error texts): each call has one output and each output
a call; a reasoning item stays before what it led to; compaction items and items of unknown types
keep their place. The items of one response are one message of the assistant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall, ToolSpec
from windlass.wire.base import Request
from windlass.wire.calls import (
    CALL,
    FileData,
    ends_as_they_are,
    file_for,
    opaque,
    picture_address,
    picture_of,
    pictures_in_words,
    wire_names,
    with_wire_ids,
)
from windlass.wire.forms import ListReading
from windlass.wire.responses_calls import (
    CALLS,
    KEYS,
    KEYS_OF_CALL,
    OUTPUTS,
    PROVIDER,
    WHOLE_ITEM,
    kind_of_call,
    read_call,
    read_output,
    write_output,
)
from windlass.wire.tools import write_tools

NOT_SENT: Final = frozenset({"at", "usage"})
_WITH: Final = "with"
"""Opaque kind: further keys of the text or picture before it."""
_PART: Final = "part:"
"""Opaque kind: a whole part of the content; its type follows."""
_CALLS: Final[Mapping[str, str]] = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS: Final = ("function_call_output", "custom_tool_call_output")
_OF_CLIENT: Final = ("additional_tools", "configuration_update")
_APPROVED: Final = "mcp_approval_response"
_ROLES: Final = ("system", "developer", "user", "assistant")
_OF_OTHERS: Final = (
    *("text", "image_url", "video_url", "file", "image", "document", "thinking"),
    *("tool_use", "tool_result"),
)


def side(message: Message) -> None:  # noqa: ARG001 - one signature for all forms
    """No two messages become one item."""
    return


def opening() -> list[dict[str, Any]]:
    """Nothing: a list may begin with the assistant."""
    return []


# ---- out ----------------------------------------------------------------------------


def body(request: Request) -> dict[str, Any]:
    """Return the context of a request, `input` and `tools`, and its cache key."""
    names = wire_names(request, PROVIDER)
    messages = with_wire_ids(request.messages, PROVIDER, request.model)
    payload: dict[str, Any] = {
        "model": request.model,
        "input": _listed(messages, names, request),
    }
    if tools := _defined(request):
        payload["tools"] = write_tools(tools, names, "responses")
    if request.cache_key is not None:
        payload["prompt_cache_key"] = request.cache_key
    return payload


def _defined(request: Request) -> list[ToolSpec]:
    """Return the tools without those that nobody defined and only calls of other types name."""
    names = {kind.removesuffix("_call") for kind in CALLS}
    if any(spec.own is None and spec.name in names for spec in request.tools):
        names -= {
            call.name
            for message in request.messages
            for call in message.tool_calls
            if kind_of_call(message, call.id) not in CALLS
        }
    return [spec for spec in request.tools if spec.own is not None or spec.name not in names]


repaired_ends = ends_as_they_are


def write(messages: Sequence[Message], caller: Message | None = None) -> list[dict[str, Any]]:
    """Return messages as items; the first of them may answer calls of `caller`."""
    request = Request("", tuple(messages), 1)
    names = wire_names(request, PROVIDER)
    return _listed(with_wire_ids(messages, PROVIDER, ""), names, request, caller)


def _listed(
    messages: Iterable[Message],
    names: Mapping[str, str],
    request: Request,
    caller: Message | None = None,
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "assistant":
            caller = message
        if message.role == "tool":
            items += _results(message, request, kind_of_call(caller, message.tool_call_id))
        else:
            items += _items(message, names, request)
    return items


def _results(message: Message, request: Request, kind: str) -> list[dict[str, Any]]:
    """Return the items of a result, which answers a call of this type."""
    if kind in CALLS or any(_is_item(part) for part in message.parts):
        return write_output(message, kind, request)
    return [_output(message, request, f"{kind}_output")]


def _is_item(part: Part) -> bool:
    return isinstance(part, Opaque) and part.kind.startswith(WHOLE_ITEM)


def _items(message: Message, names: Mapping[str, str], request: Request) -> list[dict[str, Any]]:
    if message.role == "assistant":
        message = pictures_in_words(message)
    items: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []
    keys: dict[str, Any] = {}
    calls = {at: _call(call, names) for at, call in enumerate(message.tool_calls)}

    def close() -> None:
        nonlocal content, keys
        if content:
            plain = message.role == "assistant" and not keys
            texts = [part.get("text") for part in content]
            text_or_parts: Any = content
            if plain and all(part.keys() == {"type", "text"} for part in content):
                text_or_parts = "\n".join(map(str, texts))
            kind = {} if plain else {"type": "message"}
            items.append({**kind, "role": message.role, "content": text_or_parts, **keys})
        content, keys = [], {}

    for part in message.parts:
        match part:
            case Text(text):
                kind = "output_text" if message.role == "assistant" else "input_text"
                if text:
                    content.append({"type": kind, "text": text})
            case Picture():
                content.append(_image(part, request))
            case Opaque(provider, kind, data) if provider == "openai" and kind == "part:refusal":
                content.append(json.loads(data))
            case Opaque(provider) if provider != PROVIDER:
                if file := file_for(part, PROVIDER, message.role):
                    content.append(_file(file))
            case Opaque(_, kind, data) if kind == _WITH and content:
                content[-1] |= json.loads(data)
            case Opaque(_, kind, data) if kind.startswith(_PART):
                content.append(json.loads(data))
            case Opaque(_, kind, data) if kind == KEYS:
                close()
                keys = json.loads(data)
            case Opaque(_, kind, data) if kind.startswith(WHOLE_ITEM):
                close()
                items.append(json.loads(data))
            case Opaque(_, kind, data) if kind.startswith(KEYS_OF_CALL):
                at = int(kind.removeprefix(KEYS_OF_CALL))
                if at in calls:
                    calls[at] = _with_keys(calls[at], json.loads(data))
            case Opaque(_, kind, data) if kind == CALL:
                close()
                if int(data) in calls:
                    items.append(calls.pop(int(data)))
            case _:
                pass
    close()
    return [*items, *calls.values()]


def _call(call: ToolCall, names: Mapping[str, str]) -> dict[str, Any]:
    arguments = call.arguments if call.arguments.strip() else "{}"
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": names[call.name],
        "arguments": arguments,
    }


def _with_keys(item: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    kind = keys.get("type", item["type"])
    if kind in CALLS:
        return {"type": kind, "call_id": item["call_id"], **keys}
    fields = {key: value for key, value in item.items() if key not in ("type", "arguments")}
    return {"type": kind, **fields, _CALLS[kind]: item["arguments"], **keys}


def _file(file: FileData) -> dict[str, Any]:
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    suffix = "txt" if file.media_type == "text/plain" else file.media_type.rpartition("/")[2]
    name = file.name or f"file.{suffix}"
    return {"type": "input_file", "filename": name, "file_data": file.data_url}


def _output(message: Message, request: Request, type_: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    keys: dict[str, Any] = {}
    for part in message.parts:
        match part:
            case Text(text):
                output.append({"type": "input_text", "text": text})
            case Picture():
                output.append(_image(part, request))
            case Opaque(provider, kind, data) if provider == PROVIDER:
                if kind == KEYS:
                    keys = json.loads(data)
                elif kind == _WITH and output:
                    output[-1] |= json.loads(data)
                elif kind.startswith(_PART):
                    output.append(json.loads(data))
            case Opaque():
                if file := file_for(part, PROVIDER, "tool"):
                    output.append(_file(file))
    plain = len(output) < 2 and all(part.keys() == {"type", "text"} for part in output)  # noqa: PLR2004
    content: Any = (output[0]["text"] if output else "") if plain else output
    return {
        "type": type_,
        "call_id": message.tool_call_id,
        "output": content,
        **keys,
    }


def _image(part: Picture, request: Request) -> dict[str, Any]:
    url = picture_address(part, request.load)
    return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}


# ---- in -----------------------------------------------------------------------------


class ResponsesList:
    """Reads the items of a list, one by one."""

    def read(self, given: Mapping[str, Any], where: str) -> ListReading:
        """Return an item in Windlass's form; items of one response join."""
        kind = given.get("type", "message")
        given = {key: value for key, value in given.items() if key not in NOT_SENT}
        if not isinstance(kind, str):
            raise SequenceError(f"{where}: an item has a type")
        if kind == "message":
            return _read_message(given, where)
        if kind in _CALLS:
            return ListReading((_read_call(given, kind, where),), joins=True)
        if kind in CALLS:
            return ListReading((read_call(given),), joins=True)
        if kind in _RESULTS:
            return ListReading((_read_output(given, where),))
        if kind in OUTPUTS:
            return ListReading((read_output(given, where),))
        part = opaque(PROVIDER, WHOLE_ITEM + kind, given)
        if kind == _APPROVED:
            ident = str(given.get("approval_request_id") or "")
            return ListReading((Message("tool", (part,), (), ident),))
        if kind.endswith("_output") and given.get("call_id"):
            return ListReading((Message("tool", (part,), (), str(given["call_id"])),))
        if kind in _OF_CLIENT:
            return ListReading((Message("user", (part,)),))
        # An output that names no call is its provider's own.
        return ListReading((Message("assistant", (part,)),), joins=True)


list_reader = ResponsesList


def joined(*messages: Message) -> Message:
    """Assistant messages joined into one, with the numbering continued."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for message in messages:
        parts += [_renumbered(part, len(calls)) for part in message.parts]
        calls += message.tool_calls
    return Message("assistant", tuple(parts), tuple(calls))


def _renumbered(part: Part, count: int) -> Part:
    match part:
        case Opaque(_, kind, data) if kind == CALL:
            return replace(part, data=str(int(data) + count))
        case Opaque(_, kind, _) if kind.startswith(KEYS_OF_CALL):
            return replace(
                part, kind=f"{KEYS_OF_CALL}{int(kind.removeprefix(KEYS_OF_CALL)) + count}"
            )
        case _:
            return part


def _read_message(given: Mapping[str, Any], where: str) -> ListReading:
    role, content = given.get("role"), given.get("content")
    if role not in _ROLES:
        raise SequenceError(f"{where}: role {role!r} is none of {', '.join(_ROLES)}")
    mended: list[str] = []
    parts: list[Part] = []
    own_keys = ("type", "role", "content")
    keys = {key: value for key, value in given.items() if key not in own_keys}
    if keys:
        parts.append(opaque(PROVIDER, KEYS, keys))
    if isinstance(content, str):
        parts += [Text(content)] if content or keys else []
    else:
        parts += _read_content(content, where, mended, assistant=role == "assistant")
    if all(isinstance(part, Opaque) and part.kind == KEYS for part in parts):
        parts = []  # the keys of a message that says nothing
    message = Message(role, tuple(parts))
    return ListReading((message,), tuple(mended), joins=role == "assistant" and "type" in given)


def _read_content(
    content: Any, where: str, mended: list[str], *, assistant: bool = False
) -> list[Part]:
    if not isinstance(content, list | tuple):
        raise SequenceError(f"{where}: content is neither text nor a list of parts")
    parts: list[Part] = []
    for at, part in enumerate(content):
        place = f"{where}, part {at}"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str):
            raise SequenceError(f"{place}: a part is an object with a type")
        if kind in _OF_OTHERS and not (kind == "text" and isinstance(part.get("text"), str)):
            raise SequenceError(f"{place}: {kind!r} has no place in OpenAI's Responses form")
        if assistant and kind.startswith("input_") and kind != "input_text":
            raise SequenceError(f"{place}: {kind!r} in a message of role 'assistant'")
        further = {key: value for key, value in part.items() if key not in ("type", "text")}
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                if (kind == "output_text") is not assistant:
                    mended.append("text has the type of its role")
                if not text:
                    mended.append("empty text is left out")
                    continue
                parts.append(Text(text))
            case {"type": "input_text" | "output_text"}:
                raise SequenceError(f"{place}: a text part has a text")
            case {"type": "input_image", "image_url": str(url)} if url:
                detail = further.pop("detail", None) or ""
                further.pop("image_url")
                parts.append(_read_image(url, str(detail), place))
            case _:
                parts.append(opaque(PROVIDER, _PART + kind, part))
                continue
        if further:
            parts.append(opaque(PROVIDER, _WITH, further))
    return parts


def _read_image(url: str, detail: str, where: str) -> Picture:
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://")):
            raise SequenceError(
                f"{where}: the picture's url {url[:80]!r} is neither an http address nor a data URL"
            )
        return Picture("", "", url=url, detail=detail)
    return replace(picture_of(url.partition(",")[2], where, "data URL"), detail=detail)


def _read_call(given: Mapping[str, Any], kind: str, where: str) -> Message:
    id_, name, arguments = given.get("call_id"), given.get("name"), given.get(_CALLS[kind])
    if not isinstance(name, str) or not name.strip():
        raise SequenceError(f"{where}: a {kind} has a name")
    if id_ is not None and not isinstance(id_, str):
        raise SequenceError(f"{where}: call_id {id_!r} is not text")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    own_keys = (
        "call_id",
        "name",
        "arguments",
        "input",
        *(["type"] if kind == "function_call" else []),
    )
    keys = {key: value for key, value in given.items() if key not in own_keys}
    parts: list[Part] = [opaque(PROVIDER, f"{KEYS_OF_CALL}0", keys)] if keys else []
    return Message(
        "assistant", (*parts, Opaque(PROVIDER, CALL, "0")), (ToolCall(id_ or "", name, arguments),)
    )


def _read_output(given: Mapping[str, Any], where: str) -> Message:
    id_, output = given.get("call_id"), given.get("output")
    if id_ is not None and not isinstance(id_, str):
        raise SequenceError(f"{where}: call_id {id_!r} is not text")
    keys = {key: value for key, value in given.items() if key not in ("type", "call_id", "output")}
    parts: list[Part] = [opaque(PROVIDER, KEYS, keys)] if keys else []
    if output is None or isinstance(output, str):
        parts += [Text(output)] if output else []
    else:
        parts += _read_content(output, where, [])
    return Message("tool", tuple(parts), tool_call_id=id_)
