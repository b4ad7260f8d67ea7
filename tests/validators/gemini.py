"""What Gemini's `:generateContent` refuses (ai.google.dev and its error texts)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$")
_IMAGES = {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
_FILES = ("audio/", "video/", "text/", "application/pdf")
_CONFIG = {
    "maxOutputTokens",
    "responseModalities",
    "temperature",
    "thinkingConfig",
    "responseMimeType",
    "responseJsonSchema",
    "responseSchema",
    "topP",
    "topK",
    "seed",
    "stopSequences",
    "candidateCount",
}
_DATA = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult"),
)


def lost_signatures(
    contents: Sequence[Mapping[str, Any]], signed: Mapping[str, str]
) -> Iterator[str]:
    """Calls of the current turn that came with a signature, by their ids, and have another now.

    The current turn begins behind the last text of the user. What stands before it is free.
    """
    texts = [
        at
        for at, content in enumerate(contents)
        if content.get("role") == "user" and any(part.get("text") for part in content["parts"])
    ]
    for at, content in enumerate(contents[texts[-1] if texts else 0 :], texts[-1] if texts else 0):
        calls = [part for part in content["parts"] if "functionCall" in part]
        own = signed.get(str(calls[0]["functionCall"].get("id"))) if calls else None
        if own is not None and calls[0].get("thoughtSignature") != own:
            yield f"contents[{at}]: the function call has lost its thought_signature"


def problems(body: Mapping[str, Any], *, model: str = "") -> list[str]:
    """What is wrong with `body`, as sentences.

    The body does not name its model; with `model`, the rules of its generation count too.
    """
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        return ["contents is not specified"]
    for at, content in enumerate(contents):
        if not content.get("parts"):
            return [f"contents[{at}].parts must not be empty"]
    tools = body.get("tools") or []
    declared = [one for tool in tools for one in tool.get("functionDeclarations") or []]
    return [
        *_turns(contents),
        *_calls(contents, {one.get("name") for one in declared}),
        *_tools(declared, tools, body.get("toolConfig")),
        *_config(body),
        *(_signatures(contents) if re.search(r"gemini-[3-9]", model) else ()),
        *(
            wrong
            for at, content in enumerate(contents)
            for part in content["parts"]
            for wrong in _part(part, f"contents[{at}]")
        ),
    ]


def _turns(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if contents[0].get("role") != "user":
        yield "the first content must have the role user"
    if contents[-1].get("role") == "model":
        yield "a multiturn request must end with a user role or a function response"
    for at, content in enumerate(contents):
        if content.get("role") not in ("user", "model"):
            yield f"contents[{at}]: please use a valid role: user, model"
        if at and content.get("role") == contents[at - 1].get("role"):
            yield f"contents[{at}]: roles must alternate between user and model"


def _held(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [part[key] for part in content["parts"] if key in part]


def _calls(contents: Sequence[Mapping[str, Any]], declared: set[Any]) -> Iterator[str]:
    used: set[str] = set()
    for at, content in enumerate(contents):
        where = f"contents[{at}]"
        calls, answers = _held(content, "functionCall"), _held(content, "functionResponse")
        if calls and content.get("role") != "model":
            yield f"{where}: function calls stand in a model turn"
        if answers and content.get("role") != "user":
            yield f"{where}: function responses stand in a user turn"
        if calls and (not at or contents[at - 1].get("role") != "user"):
            yield (
                f"{where}: a function call turn must come immediately after a user turn or"
                " after a function response turn"
            )
        for call in calls:
            if call.get("name") not in declared:
                yield f"{where}: function {call.get('name')!r} is called and not declared"
            if "args" in call and not isinstance(call["args"], Mapping):
                yield f"{where}: the args of a function call are an object"
            if call.get("id") in used:
                yield f"{where}: the id {call.get('id')!r} names two function calls"
            used |= {call["id"]} if call.get("id") else set()
        after = _held(contents[at + 1], "functionResponse") if at + 1 < len(contents) else []
        if len(calls) != len(after):
            yield (
                f"{where}: the number of function response parts must equal the number of"
                f" function call parts of the function call turn ({len(after)}, {len(calls)})"
            )
        elif sorted(map(_identity, calls)) != sorted(map(_identity, after)):
            yield f"{where}: function responses must have the names and ids of the calls"
        kinds = ["functionResponse" in part for part in content["parts"]]
        if kinds != sorted(kinds, reverse=True):
            yield f"{where}: function responses stand before all else in their turn"
        for answer in answers:
            if not isinstance(answer.get("response"), Mapping):
                yield f"{where}: the response of a functionResponse is an object"
        if answers and not at:
            yield f"{where}: a function response turn comes right after a function call turn"


def _identity(one: Mapping[str, Any]) -> tuple[str, str]:
    return str(one.get("name")), str(one.get("id"))


def _signatures(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for at, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            yield f"contents[{at}]: function call is missing a thought_signature"


def _tools(
    declared: Sequence[Mapping[str, Any]], tools: Any, config: Mapping[str, Any] | None
) -> Iterator[str]:
    names = [one.get("name") for one in declared]
    if len(set(names)) != len(names):
        yield "duplicate function declaration found"
    for one in declared:
        if not _NAME.match(str(one.get("name") or "")):
            yield f"function name {one.get('name')!r} must match {_NAME.pattern}"
        if "parameters" in one and "parametersJsonSchema" in one:
            yield "parameters and parametersJsonSchema exclude each other"
        if one.get("parametersJsonSchema", {}).get("type", "object") != "object":
            yield "the parameters of a function are an object"
    calling = (config or {}).get("functionCallingConfig")
    if calling is None:
        return
    if not tools:
        yield "function calling config is set without function declarations"
    if calling.get("mode") not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        yield f"{calling.get('mode')!r} is no mode of function calling"
    allowed = calling.get("allowedFunctionNames") or []
    if allowed and calling.get("mode") not in ("ANY", "VALIDATED"):
        yield "allowed function names are only for mode ANY"
    if set(allowed) - set(names):
        yield "allowedFunctionNames names a function that is not declared"


def _config(body: Mapping[str, Any]) -> Iterator[str]:
    known = {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
    }
    for key in body.keys() - known:
        yield f"unknown name {key!r}: cannot find field"
    config = body.get("generationConfig") or {}
    for key in config.keys() - _CONFIG:
        yield f"unknown name {key!r} at generation_config: cannot find field"
    if config.get("maxOutputTokens", 1) < 1:
        yield "maxOutputTokens must be at least 1"
    if not 0 <= config.get("temperature", 0) <= 2:
        yield "temperature must lie between 0 and 2"
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        yield "a response schema needs the response mime type application/json"
    thinking = config.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "thinkingBudget and thinkingLevel exclude each other"
    system = body.get("systemInstruction")
    if system is not None:
        parts = system.get("parts") or []
        if not parts or any(not part.get("text") for part in parts):
            yield "systemInstruction holds text parts only, none of them empty"


def _part(part: Mapping[str, Any], where: str) -> Iterator[str]:
    data = [key for key in _DATA if key in part]
    if len(data) > 1:
        yield f"{where}: a part holds one of {', '.join(data)}"
    if not data and "thoughtSignature" not in part:
        yield f"{where}: required oneof field 'data' must have one initialized field"
    if data == ["text"] and not part["text"] and "thoughtSignature" not in part:
        yield f"{where}: empty text parameter"
    if "inlineData" in part:
        blob = part["inlineData"]
        kind = str(blob.get("mimeType"))
        if kind not in _IMAGES and not kind.startswith(_FILES):
            yield f"{where}: unsupported MIME type: {blob.get('mimeType')}"
        if not _is_base64(blob.get("data")):
            yield f"{where}: inlineData.data must be base64"
    if "fileData" in part and not part["fileData"].get("fileUri"):
        yield f"{where}: fileData has a fileUri"


def _is_base64(data: Any) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (TypeError, ValueError, binascii.Error):
        return False
