"""Gemini's `:generateContent`: bodies out, whole and streamed answers in.

Rules (ai.google.dev, function calling, thought signatures): contents begin with the
user; roles are user and model; a turn with functionCalls comes right after a user
turn or a turn of functionResponses, and as many functionResponses right after it;
a `thoughtSignature` goes back on the part it came with, and from Gemini 3 on the
first functionCall of a step must have one. Keys are those of SDK 3.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final

from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall
from windlass.safety.foreign import parse_json
from windlass.wire.base import Finish, Refused, Reply, Request, Usage
from windlass.wire.calls import (
    ANSWERED,
    GO_ON,
    OPENED,
    FileData,
    arguments_object,
    arguments_text,
    file_for,
    inside,
    is_foreign,
    needed,
    next_call,
    opaque,
    own_names,
    picture_base64,
    refuse_error,
    wire_names,
    with_wire_ids,
    words,
)
from windlass.wire.tools import write_tools
from windlass.wire.usage import usage_of_answer

PROVIDER: Final = "gemini"
WHOLE_PART: Final = "part"
"""Opaque kind: a whole part (a thought summary, or a signature on its own)."""
KEYS_BESIDE: Final = "with"
"""Opaque kind: `{"from": n, "keys": {…}}`: the text before it is, from n on, a part of its own."""
_CALL: Final = "call"
"""Opaque kind: `{"index": n, "keys": {…}}`: the place of call n; its part also has these keys."""
RESPONSE_KEYS: Final = "with:response"
"""Opaque kind: the text is the response itself, not plain output; extra keys of the part."""
RESPONSE_KEY: Final = "with:response_key"
"""Opaque kind: `{"key": name, "keys": {…}}`: the text is all that the response holds, at `key`."""
NO_ID: Final = "no_id_"
"""The beginning of ids that a list did not have; they are not written."""
UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google says to send for a call that another model made (thought signatures, FAQ)."""
_VERSION: Final = re.compile(r"gemini-(\d+)")
_SIGNS: Final = 3
"""From this version on, calls are signed, thinking has levels, tools work with a schema."""
_BUDGETS: Final = {"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192}
_LARGE_BUDGET: Final = 24_576
"""`thinkingBudget` for an effort: the mapping of Google's OpenAI-compatible endpoint."""
_SMALLEST_PRO_BUDGET: Final = 128
_UNSEEN: Final = "image/gif"
"""The one picture type of Windlass that Gemini does not accept."""
_SUFFIXES: Final = {"png": "image/png", "webp": "image/webp", "gif": "image/gif"}


def path(model: str, *, stream: bool) -> str:
    """Return the path behind `https://generativelanguage.googleapis.com/v1beta`."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/models/{model}:{method}"


def signs_calls(model: str) -> bool:
    """Return whether a model wants a signature at its calls.

    It also takes what came with Gemini 3.
    """
    version = _VERSION.search(model)
    return version is None or int(version[1]) >= _SIGNS


# ---- out ----------------------------------------------------------------------------


def body(
    request: Request,
    *,
    stream: bool = False,  # noqa: ARG001 - the path says it, not the body
    system_anywhere: bool = False,  # noqa: ARG001 - no model has a place for it
) -> dict[str, Any]:
    """Return the JSON body of `:generateContent` (the model is in the path)."""
    names = wire_names(request, PROVIDER)
    messages = with_wire_ids(request.messages, PROVIDER, request.model)
    head = next((at for at, message in enumerate(messages) if not message.is_system), len(messages))
    contents = write_contents(messages[head:], request, names)
    if _needs_opening(contents):
        contents = [*opening(), *contents]
    if _needs_answer(contents):
        contents += opening()
    payload: dict[str, Any] = {"contents": contents}
    if system := [part for message in messages[:head] for part in _plain(message.parts)]:
        payload["systemInstruction"] = {"parts": system}
    if request.tools:
        payload["tools"] = write_tools(request.tools, names, "gemini")
        if any("functionDeclarations" in tool for tool in payload["tools"]):
            payload["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice, names)}
    payload["generationConfig"] = _generation(request)
    return payload


def _choice(choice: str, names: Mapping[str, str]) -> dict[str, Any]:
    match choice:
        case "auto" | "none":
            return {"mode": choice.upper()}
        case "required":
            return {"mode": "ANY"}
        case name:
            return {"mode": "ANY", "allowedFunctionNames": [names.get(name, name)]}


def _generation(request: Request) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": request.max_output_tokens}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.reasoning_effort is not None:
        config["thinkingConfig"] = _thinking(request.model, request.reasoning_effort)
    # Before Gemini 3: `Function calling with a response mime type: 'application/json' is
    # unsupported`. The reply is validated by the caller there.
    if request.output_schema is not None and (not request.tools or signs_calls(request.model)):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = dict(request.output_schema)
    return config


def _thinking(model: str, effort: str) -> dict[str, Any]:
    is_pro = "pro" in model
    if not signs_calls(model):
        least = _SMALLEST_PRO_BUDGET if is_pro else 0
        return {"thinkingBudget": max(least, _BUDGETS.get(effort, _LARGE_BUDGET))}
    if effort in ("none", "minimal"):
        return {"thinkingLevel": "LOW" if is_pro else "MINIMAL"}
    return {"thinkingLevel": effort.upper() if effort in ("low", "medium") else "HIGH"}


def write_contents(
    messages: Iterable[Message], request: Request, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return messages in order as contents, those of one side together."""
    contents: list[dict[str, Any]] = []
    called: dict[str, str] = {}
    responses = 0
    for message in messages:
        role, parts = "user", []
        match message.role:
            case "assistant":
                role, parts = "model", _reply_parts(message, request, names)
                called = {call.id: names[call.name] for call in message.tool_calls}
            case "tool":
                parts = _response(message, called, request)
            case _:
                parts = _parts(message.parts, request)
        if not parts:
            continue
        if contents and contents[-1]["role"] == role:
            held = contents[-1]["parts"]
            if message.role == "tool":
                # Responses stand together, before the pictures that came with them.
                held[responses:responses] = parts[:1]
                held += parts[1:]
            else:
                held += parts
        else:
            responses = 0
            contents.append({"role": role, "parts": list(parts)})
        responses += message.role == "tool"
    return contents


def _needs_opening(contents: Sequence[Mapping[str, Any]]) -> bool:
    return bool(contents) and contents[0]["role"] == "model"


def _needs_answer(contents: Sequence[Mapping[str, Any]]) -> bool:
    return not contents or contents[-1]["role"] == "model"


def repaired_ends(
    messages: Sequence[Message],
    model: str,
    *,
    system_anywhere: bool = False,  # noqa: ARG001 - no model has a place for it
) -> list[str]:
    """Return what `body` adds at the beginning and the end of messages, a sentence each."""
    request = Request(model, tuple(messages), 1)
    names = wire_names(request, PROVIDER)
    spoken = list(dropwhile(lambda message: message.is_system, request.messages))

    def first(several: Iterable[Message]) -> list[dict[str, Any]]:
        return next(filter(None, (write_contents([one], request, names) for one in several)), [])

    begins, ends = first(spoken), first(reversed(spoken))
    repairs = ((_needs_opening(begins), OPENED), (_needs_answer(ends), ANSWERED))
    return [sentence for needed_here, sentence in repairs if needed_here]


def opening() -> list[dict[str, Any]]:
    """Return what the user says before a list that begins with the model."""
    return [{"role": "user", "parts": [{"text": GO_ON}]}]


def _plain(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [{"text": text} for text in words(parts) if text]


def _parts(parts: Iterable[Part], request: Request) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Picture() if _type(part) != _UNSEEN:
                sent.append(_image(part, request))
            case Opaque(provider, kind, data) if provider == PROVIDER and kind == WHOLE_PART:
                sent.append(json.loads(data))
            case Opaque(provider, kind, data) if provider == PROVIDER and kind == KEYS_BESIDE:
                _sign(sent, json.loads(data))
            case Opaque() if (file := file_for(part, PROVIDER, "user")) is not None:
                sent.append(_file(file))
            case _:
                sent += _plain([part])
    return sent


def _file(file: FileData) -> dict[str, Any]:
    if file.url:
        return {"fileData": {"fileUri": file.url, "mimeType": file.media_type}}
    return {"inlineData": {"mimeType": file.media_type, "data": file.data}}


def _type(part: Picture) -> str:
    suffix = part.url.rpartition(".")[2].lower()
    return part.media_type or _SUFFIXES.get(suffix, "image/jpeg")


def _image(part: Picture, request: Request) -> dict[str, Any]:
    if part.url:
        return {"fileData": {"fileUri": part.url, "mimeType": _type(part)}}
    data = picture_base64(part, request.load)
    return {"inlineData": {"mimeType": part.media_type, "data": data}}


def _response(
    message: Message, called: Mapping[str, str], request: Request
) -> list[dict[str, Any]]:
    """Return the functionResponse, followed by the pictures that came with it."""
    id_ = message.tool_call_id or ""
    shown = [part for part in message.pictures if _type(part) != _UNSEEN]
    others = [part for part in message.parts if part not in shown]
    text = "\n".join(words(others))
    response: dict[str, Any] = {
        **_id(id_),
        "name": called.get(id_, message.name or "unknown"),
        "response": {"error" if message.failed else "output": text},
    }
    for part in message.parts:
        match part:
            case Opaque(provider, kind, data) if (provider, kind) == (PROVIDER, RESPONSE_KEYS):
                response |= json.loads(data)
                response["response"] = _object(text, failed=message.failed)
            case Opaque(provider, kind, data) if (provider, kind) == (PROVIDER, RESPONSE_KEY):
                held = json.loads(data)
                response |= {**held["keys"], "response": {held["key"]: text}}
    files = (file_for(part, PROVIDER, "tool") for part in message.parts)
    return [
        {"functionResponse": response},
        *(_image(part, request) for part in shown),
        *(_file(file) for file in files if file is not None),
    ]


def _reply_parts(
    message: Message, request: Request, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a model's parts, each with its keys; calls where a mark places them, or at the end."""
    left: dict[int, dict[str, Any]] = {
        at: {
            "functionCall": {
                **_id(call.id),
                "name": names[call.name],
                "args": arguments_object(call),
            }
        }
        for at, call in enumerate(message.tool_calls)
    }
    sent: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Opaque() if is_foreign(part, PROVIDER, request.model):
                pass
            case Opaque(_, kind, data) if kind == _CALL:
                mark = json.loads(data)
                if (call := left.pop(mark["index"], None)) is not None:
                    sent.append(call | mark["keys"])
            case Opaque(_, kind, data) if kind == KEYS_BESIDE:
                _sign(sent, json.loads(data))
            case Opaque(_, kind, data) if kind == WHOLE_PART:
                sent.append(json.loads(data))
            case Text(text):
                sent.append({"text": text})
            case _:
                sent += _plain([part])
    sent = [part for part in sent if part != {"text": ""}] + list(left.values())
    if signs_calls(request.model):
        first = next((part for part in sent if "functionCall" in part), None)
        if first is not None:
            first.setdefault("thoughtSignature", UNSIGNED)
    return sent


def _id(id_: str) -> dict[str, str]:
    return {} if id_.startswith(NO_ID) else {"id": id_}


def _object(text: str, *, failed: bool) -> dict[str, Any]:
    """Return the response object that a text was made from, if it still is one."""
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"error" if failed else "output": text}


def _sign(sent: list[dict[str, Any]], mark: Mapping[str, Any]) -> None:
    """Give the end of the last text the keys it came with, unless an edit cut the text."""
    last, at = sent[-1] if sent else {}, mark["from"]
    if last.keys() == {"text"} and len(last["text"]) >= at:
        text = last["text"]
        sent[-1:] = [{"text": text[:at]}, {"text": text[at:], **mark["keys"]}]


# ---- in -----------------------------------------------------------------------------

_FILTERS: Final = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
_FINISH: Final[dict[str, Finish]] = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERS, "filter"),
}
_HARMLESS: Final = frozenset({"STOP", *_FINISH})


def headers(request: Request) -> dict[str, str]:  # noqa: ARG001 - one signature for all formats
    """No headers: everything is in the body."""
    return {}


def read(answer: Mapping[str, Any], request: Request) -> Reply:
    """Return a `GenerateContentResponse` object as a reply.

    Raises Refused or ValueError (see Format).
    """
    _refuse_error(answer)
    if inside(answer, "promptFeedback", dict).get("blockReason"):
        model = str(answer.get("modelVersion") or request.model)
        return Reply(
            Message("assistant"), _usage(answer.get("usageMetadata") or _NONE), "filter", model
        )
    candidates = needed(answer.get("candidates"), list, "candidates")
    if not candidates:
        raise ValueError("the answer has no candidates")
    candidate = needed(candidates[0], Mapping, "candidates[0]")
    reason = str(candidate.get("finishReason") or "STOP")
    content = inside(inside(candidate, "content", dict), "parts", list)
    parts, calls = read_parts(content, request)
    if not (parts or calls) and reason not in _HARMLESS:
        raise Refused(reason, str(candidate.get("finishMessage") or "the answer is empty"))
    return Reply(
        Message("assistant", tuple(parts), tuple(calls)),
        _usage(answer.get("usageMetadata")),
        _FINISH.get(reason, "tool_calls" if calls else "stop"),
        str(answer.get("modelVersion") or request.model),
    )


def read_parts(content: list[Any], request: Request) -> tuple[list[Part], list[ToolCall]]:
    """Return what a model said in the parts of a content, and its calls."""
    names, number = own_names(request, PROVIDER), next_call(request)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    marked = 0

    def mark(index: int, keys: Mapping[Any, Any] | None = None) -> None:
        """Mark the places of the calls before `index`; with keys, also of this one."""
        nonlocal marked
        for at in range(marked, index if keys is None else index + 1):
            extras = {"index": at, "keys": keys if keys and at == index else {}}
            parts.append(opaque(PROVIDER, _CALL, extras, request.model))
            marked = at + 1

    for part in content:
        match part:
            case {"functionCall": {"name": str(name), **call}, **keys}:
                id_ = str(call.get("id") or f"call_{number + len(calls)}")
                if keys:
                    mark(len(calls), keys)
                calls.append(ToolCall(id_, names.get(name, name), arguments_text(call.get("args"))))
            case {"text": str(text), **keys} if not keys.get("thought") and (text or not keys):
                mark(len(calls))
                at = len(parts)
                start = 0
                if parts and isinstance(held := parts[-1], Text):
                    start, at = len(held.text), at - 1
                    text = held.text + text
                if text:
                    parts[at:] = [Text(text)]
                keys = {key: value for key, value in keys.items() if key != "thought"}
                if keys:
                    extras = {"from": start, "keys": keys}
                    parts.append(opaque(PROVIDER, KEYS_BESIDE, extras, request.model))
            case dict() if part:
                mark(len(calls))
                parts.append(opaque(PROVIDER, WHOLE_PART, part, request.model))
            case _:
                raise ValueError(f"a malformed part in content: {str(part)[:200]}")
    return parts, calls


def _refuse_error(answer: Mapping[str, Any]) -> None:
    refuse_error(answer, "status", "code")


_NONE: Final = {"promptTokenCount": 0}
"""The usage of a blocked prompt, if the answer has none."""


def _usage(usage: Any) -> Usage:
    """Return `promptTokenCount` includes the cached ones; thoughts are billed as output."""
    return usage_of_answer(usage, "promptTokenCount", name="usageMetadata")


class GeminiReader:
    """Assembles `GenerateContentResponse` chunks: parts in order, the newest usage."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts: list[Any] = []
        self._candidate: dict[str, Any] = {}
        self._answer: dict[str, Any] = {}
        self._spoke = False
        self._apart = False

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take one chunk; return its new text."""
        _refuse_error(event)
        for key in ("usageMetadata", "modelVersion", "promptFeedback"):
            if event.get(key) is not None:
                self._answer[key] = event[key]
        new = ""
        for candidate in inside(event, "candidates", list)[:1]:
            content = inside(candidate, "content", dict)
            for key in ("finishReason", "finishMessage"):
                if candidate.get(key) is not None:
                    self._candidate[key] = candidate[key]
            for part in inside(content, "parts", list):
                new += self._text(needed(part, Mapping, "part in a chunk"))
                self._add(part)
        return new

    def _add(self, part: Mapping[str, Any]) -> None:
        """A thought summary comes in pieces; signed parts are never joined."""
        last = self._parts[-1] if self._parts else {}
        if part.get("thought") and part.keys() == last.keys() == {"text", "thought"}:
            self._parts[-1] = {**last, "text": f"{last['text']}{part['text']}"}
        else:
            self._parts.append(part)

    def _text(self, part: Mapping[str, Any]) -> str:
        """Return the part's text as it continues: after another part, it begins on a new line."""
        text = part.get("text")
        if not isinstance(text, str) or part.get("thought"):
            self._apart = True
            return ""
        if not text:
            self._apart = self._apart or part.keys() != {"text"}
            return ""
        new = "\n" + text if self._apart and self._spoke else text
        # A text with keys of its own ends with them.
        self._spoke, self._apart = True, bool(part.keys() - {"text", "thought"})
        return new

    def reply(self) -> Reply:
        """Return the whole answer. Raises ValueError where the stream was cut."""
        if inside(self._answer, "promptFeedback", dict).get("blockReason"):
            return read(self._answer, self._request)
        if "finishReason" not in self._candidate:
            raise ValueError("the stream ended before a finishReason")
        if "usageMetadata" not in self._answer:
            raise ValueError("the stream ended before the usageMetadata")
        candidate = {**self._candidate, "content": {"role": "model", "parts": self._parts}}
        return read({**self._answer, "candidates": [candidate]}, self._request)


reader = GeminiReader
