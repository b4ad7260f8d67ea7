"""Rollouts of Codex: one record a line, each with a type and a payload.

The items of the conversation are those of OpenAI's Responses, as they were sent. Tools are recorded
only where the client sends them as an item, so that it is a transcript. Until autumn 2025 records
had no payload: a header, then the items themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Final

from windlass.importing.base import (
    CODEX_HEADER,
    COUNTED,
    MALFORMED,
    Answers,
    ListOfForm,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of_counts,
)
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import Kind, RecordedCall, Recording
from windlass.messages import canonical_json
from windlass.safety.foreign import parse_recorded
from windlass.wire.base import Usage


def beside(file: RecordedFile) -> list[Path]:
    """The rollouts of the session's subagents, which lie in the same folder as it does."""
    heads: dict[Path, Mapping[str, Any]] = {}
    for path in sorted(file.path.parent.glob("rollout-*.jsonl")):
        with suppress(OSError, ValueError), path.open("rb") as other:
            heads[path] = object_of(object_of(parse_recorded(other.readline(_HEAD))).get("payload"))
    heads.pop(file.path, None)
    names = {text_of(object_of(file.head[0].get("payload")), "id")}
    below: list[Path] = []
    while more := [path for path, head in heads.items() if (_parent_of(head) or None) in names]:
        below += more
        names = {text_of(heads.pop(path), "id") for path in more}
    return below


_HEAD: Final = 1 << 20
"""The most bytes of a file's first line that are read to find its parent."""


def _parent_of(meta: Mapping[str, Any]) -> str | None:
    """The session whose subagent a rollout is, empty where it is not told; None: it is its own."""
    source = object_of(meta.get("source"))
    if "subagent" not in source and meta.get("thread_source") != "subagent":
        return None
    spawn = object_of(object_of(source.get("subagent")).get("thread_spawn"))
    named = (
        text_of(meta, "parent_thread_id"),
        text_of(spawn, "parent_thread_id"),
        text_of(meta, "session_id"),
    )
    return next((one for one in named if one and one != meta.get("id")), "")


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The conversation, and another one after each compaction."""
    rollout = _Rollout(file, answers)
    for record in file.records():
        kind, payload = _payload_of(record)
        parser = _PARSERS.get(kind)
        if parser is None or not isinstance(payload, Mapping):
            file.skipped[f"records of the unknown type {kind!r}"] += 1
            continue
        try:
            ended = list(parser(rollout, payload, time_of(record.get("timestamp"))))
        except MALFORMED:
            file.skipped[f"records of type {kind!r} that are malformed"] += 1
        else:
            yield from ended
    yield from rollout.end()


def _payload_of(record: Mapping[str, Any]) -> tuple[str, object]:
    """The type of a record and what it holds; an older one holds itself."""
    kind = str(record.get("type"))
    if "payload" in record:
        return kind, record["payload"]
    if "record_type" in record:  # a mark of the client's own state
        return "event_msg", record
    return ("session_meta" if record.keys() >= CODEX_HEADER else "response_item"), record


def _with_readable_pictures(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item with a word for each picture that the client did not keep."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return {**item, "content": [_LOST_PICTURE if _is_lost(part) else part for part in content]}


_LOST_PICTURE: Final = {"type": "input_text", "text": "[a picture that was not recorded]"}


def _is_lost(part: object) -> bool:
    if not isinstance(part, Mapping) or part.get("type") != "input_image":
        return False
    address = part.get("image_url")
    return isinstance(address, str) and not address.startswith(("data:", "http:", "https:"))


def usage_of_codex(counts: object) -> Usage | None:
    """A usage in Codex's words; like OpenAI's, its input includes what was cached."""
    if not isinstance(counts, Mapping) or "input_tokens" not in counts:
        return None
    return usage_of_counts(*(counts.get(key) for key in _COUNTS))


_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens"),
)


class _Rollout:
    """The records of a file, as far as they were read."""

    def __init__(self, file: RecordedFile, answers: Answers) -> None:
        self._file = file
        self._answers = answers
        self._limit = MemoryLimit(file.path)
        self._name = ""
        self._origin = ""
        """The session that a fork of forks began as: its answers are counted once."""
        self._project = ""
        self._model = ""
        self._kind: Kind = "session"
        self._parent: str | None = None
        self._number = 0
        self._total: object = None
        self._begin()

    def _begin(self) -> None:
        self._listed = ListOfForm("responses", self._file.skipped, self._limit)
        self._calls: list[RecordedCall] = []
        self._open: RecordedCall | None = None
        """The call whose usage is yet to come."""
        self._early: tuple[str, Usage | None, float | None] | None = None
        """A usage that came before its answer."""

    def take_meta(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """The session's own; copies of others' follow where it is a fork, and of what they hold."""
        del at
        self._origin = text_of(payload, "id") or text_of(payload, "session_id") or self._origin
        if not self._name:
            self._project, self._parent = text_of(payload, "cwd"), _parent_of(payload)
            self._name = (
                text_of(payload, "id") or text_of(payload, "session_id") or self._file.path.stem
            )
            prompt = payload.get("base_instructions") or payload.get("instructions")
            text = text_of(prompt, "text") if isinstance(prompt, Mapping) else prompt
            if isinstance(text, str) and text:
                self._listed.add({"role": "developer", "content": text})
        yield from ()

    def take_context(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """The settings of a turn: the model."""
        del at
        self._model = text_of(payload, "model") or self._model
        yield from ()

    def take_item(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """An item of the conversation; the first of an answer begins a call."""
        if payload.get("type") == "local_shell_call":  # its result names it as that of a function
            payload = {
                "type": "function_call",
                "name": "local_shell",
                "call_id": payload.get("call_id") or payload.get("id"),
                "arguments": json.dumps(payload.get("action")),
            }
        if isinstance(output := payload.get("output"), Mapping):
            payload = {**payload, "output": text_of(output, "content") or json.dumps(output)}
        before, _ = self._listed.last
        self._listed.add(_with_readable_pictures(payload))
        count, role = self._listed.last
        if count > before and role == "assistant":
            self._close()
            self._open = RecordedCall(before, model_of(self._model, "openai"), time=at)
            if self._early is not None:
                early, self._early = self._early, None
                self._count(*early)
        yield from ()

    def take_usage(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """What an answer used."""
        self._count(text_of(payload, "response_id"), usage_of_codex(payload.get("usage")), at)
        yield from ()

    def take_event(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """A message to the screen; older clients report the usage of an answer in one."""
        kind, info = text_of(payload, "type"), payload.get("info")
        if kind == "token_count" and isinstance(info, Mapping):
            total = info.get("total_token_usage")
            if self._open is not None and total != self._total:
                self._count("", usage_of_codex(info.get("last_token_usage")), at)
            self._total = total
        self._file.skipped["events of the screen"] += 1
        yield from ()

    def _count(self, ident: str, usage: Usage | None, at: float | None) -> None:
        if self._open is None:
            last = self._calls[-1] if self._calls else None
            if last is not None and not last.id and last.usage == usage:
                # It was reported to the screen first.
                self._calls[-1] = replace(last, id=ident)
                if ident and self._answers.claim(ident) is None:
                    self._calls.pop()
                return
            self._early = ident, usage, at
            return
        call, self._open = self._open, None
        answer = self._listed.messages[-1].content_hash
        self._listed.close()  # what the model says next is another answer
        own = ident or canonical_json(
            [self._origin, len(self._listed.messages), answer, usage and astuple(usage)]
        )
        if self._answers.claim(own) is None:
            self._file.skipped[COUNTED] += 1
            return
        self._calls.append(RecordedCall(call.at, call.model, usage, None, call.time, ident))

    def _close(self) -> None:
        """Keep a call whose usage was not recorded."""
        if self._open is not None:
            self._calls.append(self._open)
            self._open = None

    def take_compacted(self, payload: Mapping[str, Any], at: float | None) -> Iterator[Recording]:
        """The conversation begins again with what it was cut to."""
        del at
        yield from self.end()
        self._kind = "after compaction"
        self._begin()
        history = payload.get("replacement_history")
        if not isinstance(history, list):
            history = [{"role": "user", "content": text_of(payload, "message")}]
        for item in history:
            self._listed.add(item)
        self._listed.close()  # its end may be a summary, to which no answer is joined
        yield from ()

    def end(self) -> Iterator[Recording]:
        """The conversation up to here, if calls were made in it."""
        self._close()
        if self._early is not None:  # of the call that wrote the summary
            ident, usage, when = self._early
            model = model_of(self._model, "openai")
            if not ident or self._answers.claim(ident):
                at = len(self._listed.messages)
                self._calls.append(RecordedCall(at, model, usage, None, when, ident))
        if not self._calls:
            return
        own = self._name or self._file.path.stem
        self._number += 1
        first: Kind = "session" if self._parent is None else "side chain"
        yield Recording(
            own if self._number == 1 else f"{own}/{self._number}",
            "codex",
            "C",
            self._calls[0].model,
            tuple(self._listed.messages),
            tuple(self._calls),
            kind=first if self._number == 1 else self._kind,
            parent=(self._parent or None) if self._number == 1 else own,
            skipped=self._file.skipped if self._number == 1 else {},
            source=str(self._file.path),
            project=self._project,
        )


_PARSERS: Final[
    Mapping[str, Callable[[_Rollout, Mapping[str, Any], float | None], Iterator[Recording]]]
] = {
    "session_meta": _Rollout.take_meta,
    "turn_context": _Rollout.take_context,
    "response_item": _Rollout.take_item,
    "event_msg": _Rollout.take_event,
    "token_usage_record": _Rollout.take_usage,
    "compacted": _Rollout.take_compacted,
}
