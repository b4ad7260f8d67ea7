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
from windlass.messages import canonical_json

TYPES: Final = frozenset({"api-request", "api-request-shape", "api-request-blob"})
_OWN: Final = ("id", "uuid", "requestId", "requestDigest", "digest", "hash")
"""Keys by which a later request may name an earlier one."""


_TOGETHER: Final = 64
"""Records of users that may have been sent as one message before the next request is recorded."""
_MOST_HASHES: Final = 10_000_000
"""Messages that all requests of a file may have together."""
_MOST_CHARS: Final = 1 << 31
"""Characters that they may have: a request is recorded by what it adds to an earlier one."""


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

    _messages: dict[str, tuple[Any, int]] = field(default_factory=dict[str, tuple[Any, int]])
    """Messages by their hash, each with its characters."""
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _blocks: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The blocks of each answer."""
    _changed: set[str] = field(default_factory=set[str])
    _unsent: list[Any] = field(default_factory=list[Any])
    """The blocks of users since the last request."""
    _waiting: int = 0
    """How many records they are of."""
    _requests: list[_Request] = field(default_factory=list[_Request])
    _open: dict[int, _Request] = field(default_factory=dict[int, _Request])
    """Those without an answer, by their number."""
    _open_of: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Their numbers by the name that the provider gave each."""
    _named: dict[str, _Request] = field(default_factory=dict[str, _Request])
    _hashes: int = 0
    """How many messages the requests have together."""
    _shapes: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    _shape_of: dict[str, int] = field(default_factory=dict[str, int])
    """The last shape with a text, by that text."""

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
                self._shape_of |= dict.fromkeys(_texts(record), len(self._shapes))
                self._shapes.append(record)
            case "api-request":
                self._take_request(record)

    def _keep(self, message: Mapping[str, Any]) -> None:
        text = _hashed_text(message)
        self._messages[_hash(text)] = message, len(text)

    def _take_words(self, content: object) -> None:
        """Take in words of a user, or results: those of several calls are sent as one message."""
        self._keep({"role": "user", "content": content})
        self._unsent += content if isinstance(content, list) else []
        self._waiting += 1
        if self._waiting <= _TOGETHER:
            self._keep_together()

    def _keep_together(self) -> None:
        if self._waiting > 1:
            self._keep({"role": "user", "content": self._unsent.copy()})

    def _take_answer(self, message: Mapping[str, Any], request: str) -> None:
        ident, content = text_of(message, "id"), message.get("content")
        if not ident or not isinstance(content, list):
            return
        if ident not in self._answers:
            self._answers[ident] = {**message, "content": []}
            if self._open:
                same = self._open_of.get(request) if request else None
                one = self._open.pop(same[-1] if same else next(reversed(self._open)))
                self._open_of[one.request].pop()
                one.answer = ident
        told = [(ident, canonical_json(block)) for block in content]
        new = [block for block, name in zip(content, told, strict=True) if name not in self._blocks]
        self._answers[ident]["content"] += new
        self._blocks.update(told)
        self._changed.add(ident)

    def _take_request(self, record: Mapping[str, Any]) -> None:
        for ident in self._changed:
            content = self._answers[ident]["content"]
            self._keep({"role": "assistant", "content": content.copy()})
        self._changed.clear()
        self._keep_together()
        self._unsent.clear()
        self._waiting = 0
        base, keep, tail = record.get("base"), record.get("keep"), record.get("tail")
        hashes: list[str] | None = []
        if base:
            before = self._named.get(str(base))
            kept = before.hashes if before is not None else None
            hashes = None if kept is None or not isinstance(keep, int) else kept[:keep]
        if hashes is not None and isinstance(tail, list):
            hashes = [*hashes, *map(str, tail)]
        self._hashes += len(hashes or ())
        if self._hashes > _MOST_HASHES:
            raise ValueError("more messages than are rebuilt")
        request = _Request(
            hashes,
            self._body(record),
            text_of(record, "requestId"),
            time_of(record.get("timestamp")),
        )
        self._open[len(self._requests)] = request
        self._open_of.setdefault(request.request, []).append(len(self._requests))
        self._requests.append(request)
        for key in _OWN:
            if isinstance(name := record.get(key), str):
                self._named[name] = request

    def _body(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters of a request, with the system prompt and tools of the shape it names."""
        params = object_of(record.get("params"))
        named = {one for one in (*record.values(), *params.values()) if isinstance(one, str)}
        named -= {text_of(record, "type"), text_of(record, "sessionId")}
        last = max((self._shape_of[one] for one in named if one in self._shape_of), default=-1)
        shape = self._shapes[last] if self._shapes else {}
        inner = shape.get("shape")
        fields = inner if isinstance(inner, Mapping) else shape
        return {**params, **{key: fields[key] for key in ("system", "tools") if key in fields}}

    def exchanges(self, key: str) -> list[Exchange] | None:
        """Every request with its answer; None where the request of an answer cannot be rebuilt.

        That is so, too, where all of them are longer than is read of one file.
        """
        answered = {one.answer: one for one in self._requests if one.answer}
        if not answered or answered.keys() != self._answers.keys():
            return None
        hashes = (one for request in answered.values() for one in request.hashes or ())
        if sum(self._messages[one][1] for one in hashes if one in self._messages) > _MOST_CHARS:
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
                "messages": [self._messages[one][0] for one in request.hashes],
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
    """Return the hash that Claude Code gives a message: of its JSON without cache marks."""
    return _hash(_hashed_text(message))


def _hashed_text(message: Mapping[str, Any]) -> str:
    return json.dumps(
        _without_marks(message), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _without_marks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_marks(one) for key, one in value.items() if key != "cache_control"}
    return [_without_marks(one) for one in value] if isinstance(value, list) else value
