"""Anthropic's `/v1/messages`: bodies out, whole and streamed answers in.

Rules (platform.claude.com, Messages API; anthropics/skills): the first message is
the user's; roles alternate (the API merges repeats, gateways refuse them); each
`tool_use` is answered in the next user message, all results in that one, before
its text; a reply that waits for tools of the API's own goes back as the last message;
no text block is empty or mere white space; a final assistant text has no trailing
white space; ids do not repeat. `thinking` blocks go back unmodified,
at their place, to the model that made them. Keys are those of SDK 2.12.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from operator import is_not
from typing import Any, Final, TypeGuard

from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall
from windlass.safety.foreign import parse_json
from windlass.wire.anthropic_controls import (
    ADAPTIVE,
    controls,
    feature_headers,
    takes_temperature,
    tool_choice,
)
from windlass.wire.base import Finish, Refused, Reply, Request
from windlass.wire.calls import (
    ANSWERED,
    CALL,
    GO_ON,
    OPENED,
    FileData,
    arguments_object,
    arguments_text,
    closed_schema,
    file_for,
    inside,
    is_foreign,
    needed,
    opaque,
    own_names,
    picture_base64,
    refuse_error,
    wire_names,
    with_wire_ids,
    words,
)
from windlass.wire.editing import read_edits
from windlass.wire.inner_calls import is_paused, with_whole_pairs
from windlass.wire.marks import mark_blocks
from windlass.wire.thinking import claude_version
from windlass.wire.tools import write_tools
from windlass.wire.usage import usage_of_answer

PROVIDER: Final = "anthropic"
KEYS_BESIDE: Final = "with"
"""Opaque kind: further keys of the block before it (citations, a cache mark)."""
KEYS_OF_RESULT: Final = "with:result"
"""Opaque kind: further keys of the tool_result."""
KEYS_OF_CALL: Final = "with:call:"
"""Opaque kind: further keys of a tool_use; its number follows."""
KEY_OF_MESSAGE: Final = "key:"
"""Opaque kind: a further key of the message; its name follows."""
_COMPACTED: Final = "compaction"
"""The types of blocks that replace everything before them: signed, or made above a threshold."""


def path(model: str, *, stream: bool) -> str:  # noqa: ARG001 - one signature for all formats
    """Return the path behind `https://api.anthropic.com/v1`."""
    return "/messages"


headers = feature_headers


# ---- out ----------------------------------------------------------------------------


def body(
    request: Request, *, stream: bool = False, system_anywhere: bool = False
) -> dict[str, Any]:
    """Return the JSON body of `/v1/messages`."""
    whole = with_whole_pairs(request.messages)
    if len(whole) != len(request.messages) or any(map(is_not, whole, request.messages)):
        request = replace(request, messages=tuple(whole), breakpoints=())
    names = wire_names(request, PROVIDER)
    messages = with_wire_ids(request.messages, PROVIDER, request.model)
    head = next((at for at, message in enumerate(messages) if not message.is_system), len(messages))
    spoken = write_turns(messages[head:], request, names, system=system_anywhere)
    turns = _ended(_begun(spoken), request)
    payload: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "messages": turns,
    }
    if system := [block for message in messages[:head] for block in plain_blocks(message.parts)]:
        payload["system"] = system
    if request.tools:
        payload["tools"] = write_tools(request.tools, names, "anthropic")
        payload["tool_choice"] = tool_choice(request, names)
    payload |= controls(request, turns, names)
    # With thinking on, the API takes no temperature but 1.
    thinks = payload.get("thinking", {}).get("type", "disabled") != "disabled"
    if request.temperature is not None and takes_temperature(request) and not thinks:
        payload["temperature"] = min(request.temperature, 1.0)
    if request.output_schema is not None:
        form = {"type": "json_schema", "schema": closed_schema(request.output_schema)}
        payload["output_config"] = payload.get("output_config", {}) | {"format": form}
    if stream:
        payload["stream"] = True
    return mark_blocks(request, payload)


def write_turns(
    messages: Iterable[Message], request: Request, names: Mapping[str, str], *, system: bool
) -> list[dict[str, Any]]:
    """Return messages in order as turns; with `system`, a late system message is one of its own."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "user"
        match message.role:
            case "assistant":
                role, blocks = "assistant", _reply_blocks(message, request, names)
            case "tool":
                blocks = [_result(message, request)]
            case "system" | "developer" if system and turns:
                role, blocks = "system", plain_blocks(message.parts)
            case _:
                blocks = _blocks(message.parts, request, message.role)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
        for part in message.parts:
            if _is_own(part) and part.kind.startswith(KEY_OF_MESSAGE):
                turns[-1][part.kind.removeprefix(KEY_OF_MESSAGE)] = json.loads(part.data)
    return turns


def _begun(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns, beginning with the user's; a compaction replaces what users said."""
    return [go_on(), *turns] if _needs_opening(turns) else turns


def _needs_opening(turns: Sequence[Mapping[str, Any]]) -> bool:
    first = turns[0] if turns else None
    return (
        first is not None
        and first["role"] == "assistant"
        and first["content"][0]["type"] != _COMPACTED
    )


def _ended(turns: list[dict[str, Any]], request: Request) -> list[dict[str, Any]]:
    """The turns with an end that the model accepts: since 4.6 the last turn must be the user's."""
    if _needs_answer(turns, request.model):
        return [*turns, go_on()]
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and _has_white_end(last):
        last["text"] = last["text"].rstrip()
    return turns


def _has_white_end(block: Mapping[str, Any]) -> bool:
    return bool(block["type"] == "text" and block["text"] != block["text"].rstrip())


def _needs_answer(turns: Sequence[Mapping[str, Any]], model: str) -> bool:
    # A system message stands behind a user's.
    last = next((turn for turn in reversed(turns) if turn["role"] != "system"), None)
    if last is None or last["role"] == "user":
        return last is None
    if last is turns[-1] and is_paused(last["content"]):
        return False
    takes_words = last is turns[-1] and claude_version(model) < ADAPTIVE
    return not (takes_words and last["content"][-1]["type"] == "text")


def repaired_ends(
    messages: Sequence[Message], model: str, *, system_anywhere: bool = False
) -> list[str]:
    """Return what `body` changes at the beginning and the end of messages, a sentence each."""
    request = Request(model, tuple(messages), 1)
    names = wire_names(request, PROVIDER)
    spoken = list(dropwhile(lambda message: message.is_system, request.messages))

    def first(several: Iterable[Message]) -> list[dict[str, Any]]:
        turns = (write_turns([one], request, names, system=False) for one in several)
        return next(filter(None, turns), [])

    begins, behind = first(spoken), reversed(spoken)
    ends = first(one for one in behind if not (system_anywhere and one.is_system))
    said: list[str] = []
    if _needs_opening(begins):
        said.append(OPENED)
    if _needs_answer(ends, model):
        said.append(ANSWERED)
    elif ends[-1]["role"] == "assistant" and _has_white_end(ends[-1]["content"][-1]):
        said.append("the white space at the end of the last message is left out")
    return said


def text_block(text: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": text}


def go_on() -> dict[str, Any]:
    """Return what the user says where the API wants a turn of theirs."""
    return {"role": "user", "content": [text_block(GO_ON)]}


def _is_own(part: Part) -> TypeGuard[Opaque]:
    return isinstance(part, Opaque) and part.provider == PROVIDER


def is_block(part: Opaque) -> bool:
    """Whether an opaque part is a block of its own, and not a place or extra keys of another."""
    return part.kind != CALL and not part.kind.startswith((KEYS_BESIDE, KEY_OF_MESSAGE))


def uncited(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys beside a text of the user's without citations, which only replies hold."""
    cited = isinstance(keys.get("citations"), list) and keys["citations"]
    return {key: value for key, value in keys.items() if not (cited and key == "citations")}


def plain_blocks(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Give text alone, pictures in words: system prompts and assistant turns hold nothing else."""
    return [text_block(text) for text in words(parts) if text.strip()]


def _document(file: FileData) -> dict[str, Any]:
    title = {"title": file.name} if file.name else {}
    source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    if file.url:
        source = {"type": "url", "url": file.url}
    elif file.media_type == "text/plain":
        text = base64.b64decode(file.data).decode(errors="replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, **title}


def _blocks(parts: Iterable[Part], request: Request, role: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Picture(url=url) if url:
                blocks.append({"type": "image", "source": {"type": "url", "url": url}})
            case Picture():
                data = picture_base64(part, request.load)
                source = {"type": "base64", "media_type": part.media_type, "data": data}
                blocks.append({"type": "image", "source": source})
            case Opaque(provider) if provider != PROVIDER:
                if file := file_for(part, PROVIDER, role):
                    blocks.append(_document(file))
            case Opaque() if is_foreign(part, PROVIDER, request.model) or not is_block(part):
                if blocks and part.provider == PROVIDER and part.kind == KEYS_BESIDE:
                    blocks[-1] |= uncited(json.loads(part.data))
            case Opaque(data=data):
                blocks.append(json.loads(data))
            case _:
                blocks += plain_blocks([part])
    return blocks


def _result(message: Message, request: Request) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    if content := _blocks(message.parts, request, "tool"):
        result["content"] = content
    if message.failed:
        result["is_error"] = True
    for part in message.parts:
        if _is_own(part) and part.kind == KEYS_OF_RESULT:
            result |= json.loads(part.data)
    return result


def _reply_blocks(
    message: Message, request: Request, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """An assistant's blocks: parts in order, calls where a mark places them, or else at the end."""
    calls = [
        {
            "type": "tool_use",
            "id": call.id,
            "name": names[call.name],
            "input": arguments_object(call),
        }
        for call in message.tool_calls
    ]
    left = dict(enumerate(calls))
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Opaque() if is_foreign(part, PROVIDER, request.model):
                pass
            case Opaque(_, kind, data) if kind == CALL:
                if (call := left.pop(int(data), None)) is not None:
                    blocks.append(call)
            case Opaque(_, kind, data) if kind == KEYS_BESIDE:
                if blocks:
                    blocks[-1] |= json.loads(data)
            case Opaque(_, kind, data) if kind.startswith(KEYS_OF_CALL):
                calls[int(kind.removeprefix(KEYS_OF_CALL))] |= json.loads(data)
            case Opaque(data=data) if is_block(part):
                blocks.append(json.loads(data))
            case Opaque():
                pass
            case _:
                blocks += plain_blocks([part])
    return [*blocks, *left.values()]


# ---- in -----------------------------------------------------------------------------

_FINISH: Final[dict[str, Finish]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "window",
    "refusal": "refusal",
}
_HARMLESS: Final = frozenset(
    {"end_turn", "stop_sequence", "pause_turn", "tool_use", "compaction", *_FINISH}
)


def read(answer: Mapping[str, Any], request: Request) -> Reply:
    """Return a `Message` object as a reply. Raises Refused or ValueError (see Format)."""
    _refuse_error(answer)
    names = own_names(request, PROVIDER)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    marked = 0
    for block in needed(answer.get("content"), list, "content"):
        match block:
            case {"type": "text", "text": str(text)}:
                part: Part | None = Text(text) if text else None
            case {"type": "tool_use", "id": str(id_), "name": str(name), "input": given}:
                calls.append(ToolCall(id_, names.get(name, name), arguments_text(given)))
                continue
            case {"type": str(kind)} if kind not in ("text", "tool_use"):
                part = opaque(PROVIDER, kind, block, request.model)
            case _:
                raise ValueError(f"a malformed block in content: {str(block)[:200]}")
        if part is not None:
            while marked < len(calls):
                parts.append(Opaque(PROVIDER, CALL, str(marked), request.model))
                marked += 1
            parts.append(part)
    reason = str(answer.get("stop_reason") or "end_turn")
    if not (parts or calls) and reason not in _HARMLESS:
        raise Refused(reason, "the answer is empty")
    return Reply(
        Message("assistant", tuple(parts), tuple(calls)),
        usage_of_answer(answer.get("usage"), "input_tokens", "output_tokens"),
        _FINISH.get(reason, "tool_calls" if calls else "stop"),
        str(answer.get("model") or request.model),
        provider_edits=read_edits(answer),
    )


def _refuse_error(answer: Mapping[str, Any]) -> None:
    refuse_error(answer, "type")
    if answer.get("type") == "error":
        raise Refused("error", "")


_OF_CONTEXT: Final = ("context_management", "input_transformations")
"""Keys of an answer that the last `message_delta` may set, besides those it adds to."""


class AnthropicReader:
    """Assembles server-sent events, from `message_start` to `message_stop`, into one answer.

    Unknown events and `ping` are ignored, as the API's versioning page asks. A delta adds to the
    keys of its block, so blocks of unknown types come out whole.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._answer: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._spoke: int | None = None
        self._ended = False

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take one event; return its new text."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._answer = {**message, "usage": dict(inside(message, "usage", dict))}
            case {"type": "content_block_start", "index": int(at), "content_block": dict(block)}:
                self._blocks[at] = dict(block)
                return self._new(at, block.get("text") if block.get("type") == "text" else "")
            case {"type": "content_block_delta", "index": int(at), "delta": dict(delta)}:
                return self._delta(at, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._answer |= {key: value for key, value in delta.items() if value is not None}
                used = inside(event, "usage", dict).items()
                counts = {key: value for key, value in used if value is not None}
                self._answer["usage"] = inside(self._answer, "usage", dict) | counts
                self._answer |= {key: event[key] for key in _OF_CONTEXT if event.get(key)}
            case {"type": "message_stop"}:
                self._ended = True
            case {
                "type": "message_start"
                | "content_block_start"
                | "content_block_delta"
                | "message_delta"
            }:
                raise ValueError(f"a malformed event: {str(event)[:200]}")
            case _:
                _refuse_error(event)
        return ""

    def _new(self, at: int, text: Any) -> str:
        """Return `text` as it continues the answer: each block's text begins on a new line."""
        new = str(needed(text, str, "text"))
        if not new:
            return ""
        before, self._spoke = self._spoke, at
        return new if before in (None, at) else "\n" + new

    def _delta(self, at: int, delta: dict[str, Any]) -> str:
        if at not in self._blocks:
            raise ValueError(f"a delta for block {at}, which did not start")
        block = self._blocks[at]
        if delta.get("type") == "input_json_delta":
            piece = needed(delta.get("partial_json"), str, "partial_json")
            self._inputs[at] = self._inputs.get(at, "") + piece
            return ""
        if delta.get("type") == "citations_delta":
            block["citations"] = [*inside(block, "citations", list), delta.get("citation")]
            return ""
        for key, value in delta.items():
            if key == "type":
                continue
            held = block.get(key)
            block[key] = held + value if isinstance(held, str) and isinstance(value, str) else value
        if delta.get("type") != "text_delta":
            return ""
        return self._new(at, delta.get("text"))

    def reply(self) -> Reply:
        """Return the whole answer. Raises ValueError where the stream was cut."""
        if not self._answer:
            raise ValueError("the stream ended before message_start")
        if not self._ended:
            raise ValueError("the stream ended before message_stop")
        content = [
            block | {"input": _parsed(self._inputs[at])} if self._inputs.get(at) else block
            for at, block in sorted(self._blocks.items())
        ]
        return read({**self._answer, "content": content}, self._request)


reader = AnthropicReader


def _parsed(text: str) -> Any:
    """Return the input, or its text if the output limit cut it."""
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
