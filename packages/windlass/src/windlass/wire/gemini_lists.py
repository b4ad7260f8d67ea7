"""Lists of contents as callers of Gemini keep them: read one by one, and written.

The bodies of requests and the answers to them are `gemini`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Part, Text
from windlass.wire.base import Request
from windlass.wire.calls import opaque, picture_of, wire_names, with_wire_ids
from windlass.wire.forms import ListReading
from windlass.wire.gemini import (
    KEYS_BESIDE,
    NO_ID,
    PROVIDER,
    RESPONSE_KEY,
    RESPONSE_KEYS,
    WHOLE_PART,
    opening,
    read_parts,
    write_contents,
)

__all__ = ("NOT_SENT", "list_reader", "opening", "side", "write")

NOT_SENT: Final = frozenset({"id", "at", "usage"})
_OLD: Final = re.compile(r"_([a-z])")


def side(message: Message) -> str:
    """Return whose turn a message belongs to."""
    return "model" if message.role == "assistant" else "user"


def write(
    messages: Sequence[Message],
    caller: Message | None = None,  # noqa: ARG001 - one signature for all forms
) -> list[dict[str, Any]]:
    """Return messages of one side as a content."""
    request = Request(_LISTED, tuple(messages), 1)
    names = wire_names(request, PROVIDER)
    return write_contents(with_wire_ids(messages, PROVIDER, ""), request, names)


_LISTED: Final = "gemini-2"
"""A model whose calls need no signature, because a list has those that it came with."""


class GeminiList:
    """Reads the contents of a list, one by one; calls without ids are numbered."""

    def __init__(self) -> None:
        self._calls = 0
        self._open: list[tuple[str, str]] = []

    def read(self, given: Mapping[str, Any], where: str) -> ListReading:
        """Return a content in Windlass's form: function responses become messages of their own."""
        role, parts = given.get("role") or "user", given.get("parts")
        if isinstance(given.get("content"), str) and parts is None and role != "model":
            parts = [{"text": given["content"]}]
        if role not in ("user", "model", "function"):
            raise SequenceError(f"{where}: role {role!r} is none of user, model")
        if not isinstance(parts, list | tuple):
            raise SequenceError(f"{where}: parts is not a list")
        mended: list[str] = []
        camel_parts: list[dict[str, Any]] = []
        for at, part in enumerate(parts):
            if not isinstance(part, Mapping) or not part:
                raise SequenceError(f"{where}, part {at}: a part is an object that holds something")
            if part.keys() == {"text"} and not part["text"]:
                mended.append("empty text is left out")
                continue
            camel_parts.append(_as_camel(part))
        if role == "model":
            return ListReading((self._model(camel_parts, where),), tuple(mended))
        return self._user(camel_parts, where, mended)

    def _model(self, parts: list[dict[str, Any]], where: str) -> Message:
        self._open = []
        for at, part in enumerate(parts):
            if "functionResponse" in part:
                raise SequenceError(f"{where}, part {at}: a functionResponse in a model's content")
            call = part.get("functionCall")
            if call is not None:
                if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
                    raise SequenceError(f"{where}, part {at}: a functionCall has a name")
                id_ = call.get("id")
                if not id_:
                    id_ = f"{NO_ID}{self._calls}"
                    part["functionCall"] = {**call, "id": id_}
                self._calls += 1
                self._open.append((str(id_), call["name"]))
        try:
            said, calls = read_parts(parts, Request("", (), 1))
        except ValueError as error:
            raise SequenceError(f"{where}: {error}") from error
        return Message("assistant", tuple(said), tuple(calls))

    def _user(self, parts: list[dict[str, Any]], where: str, mended: list[str]) -> ListReading:
        results: list[Message] = []
        words: list[Part] = []
        for at, part in enumerate(parts):
            place = f"{where}, part {at}"
            match part:
                case {"functionCall": _}:
                    raise SequenceError(f"{place}: a functionCall in a user's content")
                case {"functionResponse": {"name": str(name)} as response}:
                    if words:
                        mended.append("responses stand before all else")
                    results.append(self._result(name, response))
                case {"functionResponse": _}:
                    raise SequenceError(f"{place}: a functionResponse has a name")
                case _:
                    words += _read_said(part, place)
        messages = [*results, *([Message("user", tuple(words))] if words or not results else [])]
        return ListReading(tuple(messages), tuple(dict.fromkeys(mended)))

    def _result(self, name: str, given: Mapping[str, Any]) -> Message:
        rest = {key: value for key, value in given.items() if key != "name"}
        id_ = rest.pop("id", None)
        if not id_:
            id_ = next((id_ for id_, called in self._open if called == name), "")
        self._open = [each for each in self._open if each[0] != id_]
        response = rest.pop("response", None)
        response = {} if response is None else response
        failed = isinstance(response, Mapping) and response.keys() == {"error"}
        marks: list[Part] = []
        match list(response.items()) if isinstance(response, Mapping) else ():
            case [(key, str(text))]:  # `output`, or what a framework calls it
                if key not in ("output", "error") or rest:
                    marks.append(opaque(PROVIDER, RESPONSE_KEY, {"key": key, "keys": rest}))
            case _:
                text = json.dumps(response, ensure_ascii=False)
                marks.append(opaque(PROVIDER, RESPONSE_KEYS, rest))
        return Message("tool", (Text(text), *marks), (), id_, name, failed)


list_reader = GeminiList


def _as_camel(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part with its own and its nested keys in the API's camel case."""

    def camel(key: str) -> str:
        return _OLD.sub(lambda match: match[1].upper(), key)

    return {
        camel(key): {camel(name): one for name, one in value.items()}
        if isinstance(value, Mapping)
        else value
        for key, value in part.items()
    }


def _read_said(part: dict[str, Any], where: str) -> list[Part]:
    """Return a part of the user's."""
    match part:
        case {"text": str(text), **keys} if text:
            return [
                Text(text),
                *([opaque(PROVIDER, KEYS_BESIDE, {"from": 0, "keys": keys})] if keys else []),
            ]
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind.startswith(
            "image/"
        ):
            try:
                shown = picture_of(data.translate(_STANDARD), where, "data")
            except SequenceError:
                if kind in ("image/heic", "image/heif"):
                    return [opaque(PROVIDER, WHOLE_PART, part)]
                raise
            held = part["inlineData"]
            plain = part.keys() == {"inlineData"} and held.keys() == {"mimeType", "data"}
            return (
                [shown]
                if plain and kind == shown.media_type
                else [opaque(PROVIDER, WHOLE_PART, part)]
            )
        case _ if any(key in part for key in _HELD):
            return [opaque(PROVIDER, WHOLE_PART, part)]
        case _:
            raise SequenceError(f"{where}: {', '.join(part)} has no place in Gemini's form")


_STANDARD: Final = str.maketrans("-_", "+/")
_HELD: Final = (
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "thought",
    "text",
)
