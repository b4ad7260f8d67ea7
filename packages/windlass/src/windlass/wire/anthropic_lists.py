"""Lists of messages as callers of Anthropic keep them: read one by one, and written.

The bodies of requests and the answers to them are `anthropic`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall
from windlass.wire.anthropic import (
    KEY_OF_MESSAGE,
    KEYS_BESIDE,
    KEYS_OF_CALL,
    KEYS_OF_RESULT,
    PROVIDER,
    go_on,
    plain_blocks,
    text_block,
    uncited,
    write_turns,
)
from windlass.wire.base import Request
from windlass.wire.calls import (
    CALL,
    arguments_text,
    opaque,
    picture_of,
    wire_names,
    with_wire_ids,
)
from windlass.wire.forms import ListReading

NOT_SENT: Final = frozenset(
    {
        *("id", "at", "usage", "type", "model", "stop_reason", "stop_sequence", "stop_details"),
        *("container", "context_management"),
    }
)
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_OF_ASSISTANT: Final = ("thinking", "redacted_thinking", "tool_use")
_OF_USER: Final = ("image", "document", "tool_result", "search_result", "container_upload")
_OF_OTHERS: Final = (
    *("image_url", "video_url", "video", "input_audio", "audio", "file", "refusal"),
    *("input_text", "output_text", "input_image", "input_file"),
)


def side(message: Message) -> str:
    """Return whose turn a message belongs to."""
    if message.role == "assistant":
        return "assistant"
    return "system" if message.is_system else "user"


def opening() -> list[dict[str, Any]]:
    """Return what the user says before a list that begins with the assistant."""
    return [go_on()]


def write(
    messages: Sequence[Message],
    caller: Message | None = None,  # noqa: ARG001 - one signature for all forms
) -> list[dict[str, Any]]:
    """Return messages of one side as a turn."""
    request = Request("", tuple(messages), 1)
    if side(messages[0]) == "system":
        return [{"role": "system", "content": plain_blocks([p for m in messages for p in m.parts])}]
    names = wire_names(request, PROVIDER)
    return write_turns(with_wire_ids(messages, PROVIDER, ""), request, names, system=False)


class AnthropicList:
    """Reads the messages of a list, one by one."""

    def read(self, given: Mapping[str, Any], where: str) -> ListReading:
        """Return a message in Windlass's form: tool results become messages of their own."""
        role, content = given.get("role"), given.get("content")
        mended: list[str] = []
        if role not in ("user", "assistant", "system"):
            raise SequenceError(f"{where}: role {role!r} is none of user, assistant, system")
        blocks = [text_block(content)] if isinstance(content, str) else content
        if not isinstance(blocks, list | tuple):
            raise SequenceError(f"{where}: content is neither text nor a list of blocks")
        parts: list[Part] = []
        calls: list[ToolCall] = []
        results: list[Message] = []
        for at, given_block in enumerate(blocks):
            place, block = f"{where}, block {at}", _as_block(given_block, mended)
            kind = block.get("type") if isinstance(block, Mapping) else None
            if not isinstance(kind, str):
                raise SequenceError(f"{place}: a block is an object with a type")
            if kind in _OF_OTHERS:
                raise SequenceError(f"{place}: {kind!r} has no place in Anthropic's form")
            if kind in (_OF_USER if role == "assistant" else _OF_ASSISTANT) or (
                role == "system" and kind != "text"
            ):
                raise SequenceError(f"{place}: {kind!r} in a message of role {role!r}")
            match block:
                case {"type": "tool_result"}:
                    if parts:
                        mended.append("results stand before all else")
                    results.append(_read_result(block, place, mended))
                case {"type": "tool_use", "id": str(id_), "name": str(name), **rest}:
                    if id_ and not _ID.fullmatch(id_):
                        mended.append("an id has letters, digits, _ and - alone")
                    if not isinstance(rest.get("input"), Mapping):
                        mended.append("the input of a call is an object")
                    further = {k: v for k, v in rest.items() if k not in ("type", "input")}
                    parts.append(Opaque(PROVIDER, CALL, str(len(calls))))
                    if further:
                        parts.append(opaque(PROVIDER, f"{KEYS_OF_CALL}{len(calls)}", further))
                    calls.append(ToolCall(id_, name, arguments_text(rest.get("input"))))
                case {"type": "tool_use"}:
                    raise SequenceError(f"{place}: a tool_use has an id and a name")
                case _:
                    parts += _read_block(block, place, mended, cited=role == "assistant")
        while parts and isinstance(mark := parts[-1], Opaque) and mark.kind == CALL:
            parts.pop()  # calls stand at the end anyway
        own_keys = NOT_SENT | {"role", "content"}
        parts += [
            opaque(PROVIDER, KEY_OF_MESSAGE + key, given[key])
            for key in given
            if key not in own_keys
        ]
        words = [] if results and not parts else [Message(role, tuple(parts), tuple(calls))]
        return ListReading((*results, *words), tuple(dict.fromkeys(mended)))


list_reader = AnthropicList


def _as_block(block: Any, mended: list[str]) -> Any:
    if not isinstance(block, str):
        return block
    mended.append("blocks are objects with a type")
    return text_block(block)


def _read_block(
    block: Mapping[str, Any], where: str, mended: list[str], *, cited: bool = False
) -> list[Part]:
    """Return a block that is neither a call nor a result."""
    match block:
        case {"type": "text", "text": str(text), **rest}:
            if not text.strip():
                mended.append("empty text is left out")
                return []
            further = {key: value for key, value in rest.items() if key != "type"}
            if not cited and uncited(further) != further:
                further = uncited(further)
                mended.append("citations of a user's text are left out")
            return [Text(text), *([opaque(PROVIDER, KEYS_BESIDE, further)] if further else [])]
        case {"type": "text"}:
            raise SequenceError(f"{where}: a text block has a text")
        case {"type": "image", "source": {"type": "base64", "data": str(data)} as source, **rest}:
            shown: Part = _read_picture(source, data, where, mended)
        case {"type": "image", "source": {"type": "url", "url": str(url)}, **rest}:
            if not url.startswith(("http://", "https://")):
                raise SequenceError(f"{where}: the picture's url {url[:80]!r} is no http address")
            shown = Picture("", "", url=url)
        case {"type": "image", "source": {"type": "file"}}:
            return [opaque(PROVIDER, "image", block)]
        case {"type": "image"}:
            raise SequenceError(f"{where}: an image has a source of type base64, url or file")
        case {"type": "thinking"} if not block.get("signature"):
            mended.append("thinking without its signature is left out")
            return []
        case {"type": "redacted_thinking"} if not block.get("data"):
            mended.append("redacted thinking without its data is left out")
            return []
        case _:
            return [opaque(PROVIDER, str(block["type"]), block)]
    further = {key: value for key, value in rest.items() if key != "type"}
    return [shown, *([opaque(PROVIDER, KEYS_BESIDE, further)] if further else [])]


def _read_picture(source: Mapping[str, Any], data: str, where: str, mended: list[str]) -> Picture:
    shown = picture_of(data, where, "data")
    if source.get("media_type") != shown.media_type:
        mended.append("a picture has the type of its data")
    return shown


def _read_result(block: Mapping[str, Any], where: str, mended: list[str]) -> Message:
    content, id_ = block.get("content"), block.get("tool_use_id")
    if id_ is not None and not isinstance(id_, str):
        raise SequenceError(f"{where}: tool_use_id {id_!r} is not text")
    if id_ and not _ID.fullmatch(id_):
        mended.append("an id has letters, digits, _ and - alone")
    inner = [text_block(content)] if isinstance(content, str) and content else content or []
    if not isinstance(inner, list | tuple):
        raise SequenceError(f"{where}: content is neither text nor a list of blocks")
    parts: list[Part] = []
    for at, given_block in enumerate(inner):
        place, part_block = f"{where}, block {at} of its content", _as_block(given_block, mended)
        kind = part_block.get("type") if isinstance(part_block, Mapping) else None
        if not isinstance(kind, str):
            raise SequenceError(f"{place}: a block is an object with a type")
        if kind in (*_OF_OTHERS, *_OF_ASSISTANT, "tool_result"):
            raise SequenceError(f"{place}: {kind!r} has no place in a tool_result")
        parts += _read_block(part_block, place, mended)
    own_keys = ("type", "tool_use_id", "content", "is_error")
    further = {key: value for key, value in block.items() if key not in own_keys}
    if further:
        parts.append(opaque(PROVIDER, KEYS_OF_RESULT, further))
    return Message("tool", tuple(parts), tool_call_id=id_, failed=block.get("is_error") is True)
