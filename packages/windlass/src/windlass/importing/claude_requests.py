"""Requests of Claude Code, rebuilt from what its newer versions record beside a session.

A request is recorded as the part that it keeps of an earlier one, and the hashes of the messages
that follow. A hash stands for a message of the session, or for one that was recorded by itself.
Each is computed again, so that a rebuilt request is the one that was sent. The layout is
undocumented: where anything does not fit, the session stays a transcript.

What Claude Code says at the end of a run, or of a session: the sums of each model.

They bill what its records do not tell: the rest of answers that were recorded while they began, and
whole calls (titles, classifiers, summaries of what was compacted).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Any, Final

from windlass.importing.base import (
    Answers,
    dollars_of,
    model_of,
    object_of,
    shares,
    text_of,
    time_of,
    unseen,
    usage_of,
    usage_of_counts,
)
from windlass.importing.exchanges import Exchange
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import canonical_json
from windlass.wire.base import Usage

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
        """Return every request with its answer.

        None where the request of an answer cannot be rebuilt.

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


SUM_TYPES: Final = ("result", "cost-state")
"""The records with sums: of `stream-json` logs, and of session files."""
UNSEEN: Final = "calls that were not recorded"
_COUNTS: Final = (
    *("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
)


@dataclass(frozen=True, slots=True)
class _Sum:
    usage: Usage
    dollars: float


class ClosingSums:
    """The sums of a session."""

    def __init__(self) -> None:
        self._runs: list[tuple[dict[str, _Sum], float]] = []

    def __bool__(self) -> bool:
        """Return whether the file tells any."""
        return bool(self._runs)

    def take(self, record: Mapping[str, Any]) -> bool:
        """Return a record with sums.

        It goes on from those of its run before, or it ends another run.

        Older ones have the sum of one model, which they do not name, and dollars of all turns so
        far. False: it tells none.
        """
        sums: dict[str, _Sum] = {}
        for name, told in object_of(record.get("modelUsage")).items():
            one = object_of(told)
            if usage := usage_of_counts(*(one.get(key) for key in _COUNTS), is_all=False):
                sums[name] = _Sum(usage, dollars_of(one.get("costUSD")) or 0.0)
        total = dollars_of(record.get("total_cost_usd") or record.get("totalCostUSD")) or 0.0
        if not sums and (usage := usage_of(record.get("usage"))):
            before = sum(dollars for _, dollars in self._runs)
            total = total - before if total > before else total
            sums[""] = _Sum(usage, total)
        elif self._runs and all(
            name in sums and sums[name].usage.tokens_in >= one.usage.tokens_in
            for name, one in self._runs[-1][0].items()
        ):
            self._runs.pop()
        if sums:
            self._runs.append((sums, total))
        return bool(sums)

    def _by_model(self, seen: Sequence[str]) -> dict[str, _Sum]:
        """Return the sums of all runs.

        Where a total is more than they are, it is their dollars' sum.
        """
        models: dict[str, _Sum] = {}
        for sums, total in self._runs:
            named = sum(one.dollars for one in sums.values())
            factor = total / named if total and named else 1.0
            for name, one in sums.items():
                key = _plain(name) or (seen[0] if len(seen) == 1 else "")
                before = models.get(key, _Sum(Usage(0, 0), 0.0))
                dollars = before.dollars + one.dollars * factor
                models[key] = _Sum(before.usage.plus(one.usage), dollars)
        return models

    def complete(
        self, recordings: Sequence[Recording], answers: Answers, session: str, begun: set[str]
    ) -> Iterator[Recording]:
        """The recordings of a session with what its sums tell besides, and calls that they lack.

        `begun` are the answers of which it was not recorded how they ended.
        """
        seen: defaultdict[str, dict[str, Usage]] = defaultdict(dict)
        for ident, model, usage in answers.of_session(session):
            seen[_plain(model)][ident] = usage
        told = self._by_model([*seen])
        here = {call.id: call for one in recordings for call in one.calls}
        is_sum = seen.keys() <= told.keys() and all(
            sum(each.tokens_in for each in seen[key].values()) <= told[key].usage.tokens_in
            for key in seen
        )
        if not is_sum or not seen:
            yield from recordings
            return
        for key, usages in seen.items():
            calls = [here[ident] for ident in usages if ident in here]
            if len(calls) == len(usages) and not _rest(told[key].usage, usages.values()).tokens_in:
                here.update((one.id, one) for one in _exact(calls, told[key], begun))
        for one in recordings:
            yield replace(one, calls=tuple(here[call.id] for call in one.calls))
        for key, total in told.items():
            used = [here[i].usage or one if i in here else one for i, one in seen[key].items()]
            rest = _rest(total.usage, used)
            if rest.tokens_in:
                dollars = [RecordedCall(0, model_of(key, "anthropic"), one).dollars for one in used]
                known = total.dollars - sum(one or 0.0 for one in dollars)
                call = RecordedCall(
                    0,
                    model_of(key, "anthropic"),
                    rest,
                    known if known > 0 and None not in dollars else None,
                    id=f"{UNSEEN} ({key})",
                )
                if recordings and answers.claim(f"{session}/{call.id}"):
                    yield unseen("claude-code", call, recordings[0])


def _exact(calls: list[RecordedCall], told: _Sum, begun: set[str]) -> list[RecordedCall]:
    """Give the calls of a model, all of which are told: with the output and dollars of its sum."""
    out = {call.id: call.usage.tokens_out for call in calls if call.usage}
    ends = [ident for ident in out if ident in begun]
    rest = told.usage.tokens_out - sum(out[ident] for ident in out if ident not in begun)
    if ends and rest >= len(ends):  # in the proportion of the estimates
        given = shares(rest, [max(1, out[ident]) for ident in ends])
        out |= dict(zip(ends, given, strict=True))
    exact = [
        replace(
            call,
            usage=replace(call.usage, tokens_out=out[call.id]),
            estimated=call.estimated and len(ends) > 1,
        )
        if call.usage
        else call
        for call in calls
    ]
    prices = [call.dollars for call in exact]
    listed = sum(one or 0.0 for one in prices)
    if not told.dollars or (None not in prices and isclose(listed, told.dollars, rel_tol=1e-6)):
        return exact
    weights = [
        one if listed and None not in prices else call.usage.tokens_in if call.usage else 0
        for one, call in zip(prices, exact, strict=True)
    ]
    share = sum(one or 0 for one in weights) or 1
    return [
        replace(call, cost=told.dollars * (one or 0) / share)
        for call, one in zip(exact, weights, strict=True)
    ]


def _rest(all_: Usage, used: Any) -> Usage:
    """Return what is left of a usage."""
    total = Usage(0, 0)
    for one in used:
        total = total.plus(one)
    return Usage(
        *(
            max(0, getattr(all_, key) - getattr(total, key))
            for key in ("tokens_in", "tokens_out", "tokens_cached", "tokens_written")
        )
    )


_EXTRA: Final = re.compile(r"^.*(?=claude-)|\[.*\]$|@.*$|(-v\d+)?(:\d+)?$|-20\d{6}")


def _plain(model: str) -> str:
    """Return a model without what its clouds and sizes of window add to its name."""
    return _EXTRA.sub("", model)
