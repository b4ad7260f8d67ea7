"""Requests of Claude Code, rebuilt from what its newer versions record beside a session.

A request is recorded as the part that it keeps of an earlier one, and the hashes of the messages
that follow. A hash stands for a message of the session, or for one that was recorded by itself.
Each is computed again, so that a rebuilt request is the one that was sent. The layout is
undocumented: where anything does not fit, the session stays a transcript.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.importing.base import object_of, text_of, time_of
from windlass.importing.exchanges import Exchange

TYPES: Final = frozenset({"api-request", "api-request-shape", "api-request-blob"})
_OWN: Final = ("id", "uuid", "requestId", "requestDigest", "digest", "hash")
"""Keys by which a later request may name an earlier one."""


@dataclass(slots=True)
class _Request:
    hashes: list[str] | None
    """The hashes of its messages; None: it builds on a request that is missing."""
    body: Mapping[str, Any]
    request: str
    time: float | None
    answer: str = ""


@dataclass(slots=True)
class RecordedRequests:
    """The requests in a session's file, read record by record."""

    _messages: dict[str, Any] = field(default_factory=dict[str, Any])
    """Messages by their hash."""
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _changed: set[str] = field(default_factory=set[str])
    _unsent: list[Any] = field(default_factory=list[Any])
    """The blocks of users since the last request."""
    _requests: list[_Request] = field(default_factory=list[_Request])
    _named: dict[str, _Request] = field(default_factory=dict[str, _Request])
    _shapes: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in the next record of the session itself."""
        message = record.get("message")
        match record.get("type"):
            case "user" if isinstance(message, Mapping):
                self._take_words(message.get("content"))
            case "assistant" if isinstance(message, Mapping):
                self._take_answer(message, text_of(record, "requestId"))
            case "api-request-blob" if isinstance(message, Mapping):
                self._keep(message)
            case "api-request-shape":
                self._shapes.append(record)
            case "api-request":
                self._take_request(record)

    def _keep(self, message: Mapping[str, Any]) -> None:
        self._messages[hash_of(message)] = message

    def _take_words(self, content: object) -> None:
        """Take in words of a user, or results: those of several calls are sent as one message."""
        self._keep({"role": "user", "content": content})
        self._unsent += content if isinstance(content, list) else []
        if self._unsent != content:
            self._keep({"role": "user", "content": self._unsent.copy()})

    def _take_answer(self, message: Mapping[str, Any], request: str) -> None:
        ident, content = text_of(message, "id"), message.get("content")
        if not ident or not isinstance(content, list):
            return
        if ident not in self._answers:
            self._answers[ident] = {**message, "content": []}
            open_ones = [one for one in self._requests if not one.answer]
            same = [one for one in open_ones if request and one.request == request]
            if open_ones:
                (same or open_ones)[-1].answer = ident
        answer = self._answers[ident]["content"]
        answer += [block for block in content if block not in answer]
        self._changed.add(ident)

    def _take_request(self, record: Mapping[str, Any]) -> None:
        for ident in self._changed:
            content = self._answers[ident]["content"]
            self._keep({"role": "assistant", "content": content.copy()})
        self._changed.clear()
        self._unsent.clear()
        base, keep, tail = record.get("base"), record.get("keep"), record.get("tail")
        hashes: list[str] | None = []
        if base:
            before = self._named.get(str(base))
            kept = before.hashes if before is not None else None
            hashes = None if kept is None or not isinstance(keep, int) else kept[:keep]
        if hashes is not None and isinstance(tail, list):
            hashes = [*hashes, *map(str, tail)]
        request = _Request(
            hashes,
            self._body(record),
            text_of(record, "requestId"),
            time_of(record.get("timestamp")),
        )
        self._requests.append(request)
        for key in _OWN:
            if isinstance(name := record.get(key), str):
                self._named[name] = request

    def _body(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters of a request, with the system prompt and tools of the shape it names."""
        params = object_of(record.get("params"))
        named = {one for one in (*record.values(), *params.values()) if isinstance(one, str)}
        named -= {text_of(record, "type"), text_of(record, "sessionId")}
        shapes = [one for one in self._shapes if not named.isdisjoint(_texts(one))]
        shape = (shapes or self._shapes or [{}])[-1]
        inner = shape.get("shape")
        fields = inner if isinstance(inner, Mapping) else shape
        return {**params, **{key: fields[key] for key in ("system", "tools") if key in fields}}

    def exchanges(self, key: str) -> list[Exchange] | None:
        """Every request with its answer; None where the request of an answer cannot be rebuilt."""
        answered = {one.answer: one for one in self._requests if one.answer}
        if not answered or answered.keys() != self._answers.keys():
            return None
        rebuilt: list[Exchange] = []
        for ident, request in answered.items():
            if not request.hashes or not self._messages.keys() >= set(request.hashes):
                return None
            answer = self._answers[ident]
            body = {
                "system": None,
                "model": answer.get("model"),
                **request.body,
                "messages": [self._messages[one] for one in request.hashes],
            }
            rebuilt.append(
                Exchange(body, {**answer, "type": "message"}, key, request.time, None, ident)
            )
        return rebuilt


def _texts(record: Mapping[str, Any]) -> Sequence[str]:
    return [
        value
        for key, value in record.items()
        if isinstance(value, str) and key not in ("type", "sessionId", "timestamp")
    ]


def hash_of(message: Mapping[str, Any]) -> str:
    """The hash that Claude Code gives a message: of its JSON without cache marks."""
    text = json.dumps(
        _without_marks(message), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _without_marks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_marks(one) for key, one in value.items() if key != "cache_control"}
    return [_without_marks(one) for one in value] if isinstance(value, list) else value
