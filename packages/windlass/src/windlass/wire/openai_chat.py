"""OpenAI's `/chat/completions`: bodies out, whole and streamed answers in.

Also spoken by OpenRouter, vLLM, Ollama and llama.cpp. Message dicts are those of
`wire/openai.py`, fitted to what the endpoint takes: pictures stand in user messages
only, so those of tool results follow the last result of their turn (nothing may
stand between an assistant's calls and their results).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque, ToolCall, tool
from windlass.wire.base import Finish, Refused, Reply, Request
from windlass.wire.calls import (
    closed_schema,
    ends_as_they_are,
    images_of,
    inside,
    needed,
    own_names,
    pictures_in_words,
    refuse_error,
    wire_names,
    with_wire_ids,
    without_pictures,
)
from windlass.wire.marks import mark_keys, marked
from windlass.wire.openai import from_openai, to_openai
from windlass.wire.tools import write_tools
from windlass.wire.usage import tier_of, usage_of_answer

_PROVIDER: Final = "openai"
THINKS_ALOUD: Final = re.compile(r"deepseek-v(?:[4-9]|\d\d)")
"""Models that want the reasoning of turns with calls back in all later requests: `The
reasoning_content in the thinking mode must be passed back to the API.` An empty one is enough if
there is none, because another model spoke or an edit removed it (openclaw/openclaw#73417)."""
REASONING: Final = "reasoning_content"
FIT_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")
"""The API's own pattern for `name` of a message."""


def path(model: str, *, stream: bool) -> str:  # noqa: ARG001 - one signature for all formats
    """Return the path behind `https://api.openai.com/v1`."""
    return "/chat/completions"


# ---- out ----------------------------------------------------------------------------


def body(request: Request, *, stream: bool = False, system_anywhere: bool = True) -> dict[str, Any]:
    """Return the JSON body of `/chat/completions`.

    OpenAI takes system messages anywhere; templates of some local models do not.
    """
    names = wire_names(request, _PROVIDER)
    payload: dict[str, Any] = {
        "model": request.model,
        "messages": [
            _with_reasoning(to_openai(message, request.load), request.model)
            for message in _fitted(request, names, system_anywhere=system_anywhere)
        ],
        "max_completion_tokens": request.max_output_tokens,
    }
    if request.tools:
        payload["tools"] = write_tools(request.tools, names, "openai")
        payload["tool_choice"] = _choice(request.tool_choice, names)
    if request.temperature is not None:
        payload["temperature"] = request.temperature
    if request.reasoning_effort is not None:
        payload["reasoning_effort"] = request.reasoning_effort
    if request.output_schema is not None:
        payload["response_format"] = _format(request.output_schema)
    payload |= mark_keys(request)
    if stream:
        payload |= {"stream": True, "stream_options": {"include_usage": True}}
    return payload


repaired_ends = ends_as_they_are


def _with_reasoning(chat: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the message with the reasoning that its model wants back, even if it is empty."""
    if chat["role"] == "assistant" and REASONING not in chat and THINKS_ALOUD.search(model):
        return {**chat, REASONING: ""}
    return chat


def _choice(choice: str, names: Mapping[str, str]) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": names.get(choice, choice)}}


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`strict` only if the schema allows it: all properties of every object are required."""
    strict = _all_required(schema)
    form = {
        "name": "output",
        "schema": closed_schema(schema) if strict else dict(schema),
        "strict": strict,
    }
    return {"type": "json_schema", "json_schema": form}


def _all_required(schema: Any) -> bool:
    if isinstance(schema, list | tuple):
        return all(map(_all_required, schema))
    if not isinstance(schema, Mapping):
        return True
    named = schema.get("properties")
    if isinstance(named, Mapping):
        if set(named) != set(schema.get("required") or ()):
            return False
    elif schema.get("type") == "object":
        return False
    if schema.get("additionalProperties", False) is not False:
        return False
    return all(map(_all_required, schema.values()))


def _fitted(
    request: Request, names: Mapping[str, str], *, system_anywhere: bool
) -> Iterator[Message]:
    """Yield the messages in the form that the endpoint accepts, moved pictures included."""
    shown: list[Message] = []
    called: dict[str, str] = {}
    begun = False
    for message in _own(with_wire_ids(marked(request), _PROVIDER, request.model), request.model):
        if message.role != "tool":
            yield from shown
            shown = []
        match message.role:
            case "tool":
                if message.pictures:
                    shown.append(images_of(message, called.get(message.tool_call_id or "", "")))
                yield _result(message)
            case "assistant":
                called = {call.id: call.name for call in message.tool_calls}
                calls = tuple(_call(call, names) for call in message.tool_calls)
                yield replace(pictures_in_words(message), tool_calls=calls)
            case "system" | "developer" if begun and not system_anywhere:
                yield _named(replace(message, role="user"))
            case "system" | "developer":
                yield _named(pictures_in_words(message))
            case _:
                yield _named(message)
        begun = begun or not message.is_system
    yield from shown


def _own(messages: Iterable[Message], model: str) -> Iterator[Message]:
    """Yield the messages without the opaque parts that another model made."""
    for message in messages:
        kept = tuple(
            part
            for part in message.parts
            if not (isinstance(part, Opaque) and part.model not in ("", model))
        )
        yield message if len(kept) == len(message.parts) else message.with_parts(*kept)


def _result(message: Message) -> Message:
    """Return a tool message holds only text, and no name."""
    return tool(message.tool_call_id or "", *without_pictures(message).parts)


def _named(message: Message) -> Message:
    fits = message.name is None or FIT_NAME.fullmatch(message.name)
    return message if fits else replace(message, name=None)


def _call(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    """Get arguments as the model wrote them; missing ones become an object, which servers parse."""
    return replace(
        call,
        name=names[call.name],
        arguments=call.arguments if call.arguments.strip() else "{}",
    )


# ---- in -----------------------------------------------------------------------------

_FINISH: Final[dict[str, Finish]] = {"length": "length", "content_filter": "filter"}
_HARMLESS: Final = frozenset({"stop", "tool_calls", "function_call", *_FINISH})


def headers(request: Request) -> dict[str, str]:  # noqa: ARG001 - one signature for all formats
    """No headers: everything is in the body."""
    return {}


def read(answer: Mapping[str, Any], request: Request) -> Reply:
    """Return a `chat.completion` object as a reply. Raises Refused or ValueError (see Format)."""
    _refuse_error(answer)
    choices = needed(answer.get("choices"), list, "choices")
    if not choices:
        raise ValueError("the answer has no choices")
    choice = needed(choices[0], Mapping, "choices[0]")
    _refuse_error(choice)
    chat = needed(choice.get("message"), Mapping, "message in choices[0]")
    # Empty text and lists (annotations) say nothing, and few requests take them back.
    filled = {key: value for key, value in chat.items() if value not in ("", [])}
    filled["role"] = "assistant"
    try:
        message = from_openai(filled, where="choices[0].message")
    except SequenceError as error:
        raise ValueError(str(error)) from error
    names = own_names(request, _PROVIDER)
    message = replace(
        message,
        parts=tuple(
            replace(part, model=request.model) if isinstance(part, Opaque) else part
            for part in message.parts
        ),
        tool_calls=tuple(
            replace(call, name=names.get(call.name, call.name)) for call in message.tool_calls
        ),
    )
    reason = str(choice.get("finish_reason") or "stop")
    usual: Finish = "tool_calls" if message.tool_calls else "stop"
    if _refuses(chat):
        usual = "refusal"
    if reason not in _HARMLESS and not (message.parts or message.tool_calls):
        raise Refused(str(reason), "the answer is empty")
    usage = usage_of_answer(answer.get("usage"), "prompt_tokens", "completion_tokens")
    return Reply(
        message,
        replace(usage, tier=tier_of(answer)),
        _FINISH.get(reason, usual),
        str(answer.get("model") or request.model),
    )


def _refuses(chat: Mapping[str, Any]) -> bool:
    """Return whether the message is a refusal: the key `refusal`, or a part of that type."""
    content = chat.get("content")
    parts = content if isinstance(content, list) else []
    return bool(chat.get("refusal")) or any(
        isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts
    )


def _refuse_error(answer: Any) -> None:
    refuse_error(answer, "type", "code")


class ChatReader:
    """Assembles `chat.completion.chunk` objects into one answer.

    Calls are told apart by their index; text of every key is joined, so vendor keys
    (`reasoning_content`) come out whole. The usage comes in the last chunk, without
    choices.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._chat: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._reason: str | None = None
        self._usage: Any = None
        self._model: str | None = None

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take one chunk; return its new text."""
        _refuse_error(event)
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        new = ""
        for choice in inside(event, "choices", list):
            _refuse_error(choice)
            if not choice.get("index"):
                self._reason = choice.get("finish_reason") or self._reason
                new += self._delta(inside(choice, "delta", dict))
        return new

    def _delta(self, delta: Mapping[str, Any]) -> str:
        for key, value in delta.items():
            if key == "tool_calls":
                for at, call in enumerate(inside(delta, key, list)):
                    self._call(needed(call, Mapping, "tool call in a chunk"), at)
            elif key != "role" and value is not None:
                self._chat[key] = _joined(self._chat.get(key), value)
        content = delta.get("content")
        return content if isinstance(content, str) else ""

    def _call(self, call: Mapping[str, Any], at: int) -> None:
        index = call.get("index")
        held = self._calls.setdefault(index if isinstance(index, int) else at, {})
        for key, value in call.items():
            if key == "function":
                function = held.setdefault("function", {})
                for name, piece in inside(call, key, dict).items():
                    # Some servers repeat the name in every chunk; only arguments come in pieces.
                    before = function.get(name) if name == "arguments" else None
                    if piece is not None:
                        function[name] = _joined(before, piece)
            elif key != "index" and value:
                held[key] = value

    def reply(self) -> Reply:
        """Return the whole answer. Raises ValueError where the stream was cut."""
        if self._reason is None:
            raise ValueError("the stream ended before a finish_reason")
        if self._usage is None:
            raise ValueError("the stream ended before the usage")
        chat = dict(self._chat)
        if self._calls:
            chat["tool_calls"] = [call for _, call in sorted(self._calls.items())]
        choice = {"message": chat, "finish_reason": self._reason}
        answer = {"model": self._model, "choices": [choice], "usage": self._usage}
        return read(answer, self._request)


reader = ChatReader


def _joined(before: Any, piece: Any) -> Any:
    """`one` joined with the next piece; also pieces of one numbered item (reasoning_details)."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if not (isinstance(before, list) and isinstance(piece, list)):
        return piece
    items = list(before)
    for item in piece:
        last = items[-1] if items else None
        if isinstance(last, dict) and isinstance(item, dict) and _same_item(last, item):
            items[-1] = {
                **last,
                **{
                    key: _joined(last.get(key), value) if key in _PIECES else value
                    for key, value in item.items()
                    if value is not None
                },
            }
        else:
            items.append(item)
    return items


_PIECES: Final = frozenset({"text", "summary", "data", "thinking"})


def _same_item(before: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    return before.get("index") is not None and _tag(before) == _tag(piece)


def _tag(item: Mapping[str, Any]) -> tuple[str, str]:
    return json.dumps(item.get("index")), str(item.get("type"))
