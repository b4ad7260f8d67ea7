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
    MALFORMED,
    Answers,
    Records,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of_counts,
)
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.importing.tree import ConversationTree, Node
from windlass.messages import canonical_json
from windlass.safety.foreign import parse_recorded
from windlass.wire.base import Usage


def beside(file: RecordedFile) -> list[Path]:
    """Return the rollouts of the session's subagents, which lie in the same folder as it does."""
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


def recognises(records: Records) -> bool:
    """Return whether these are the first records of a rollout."""
    types = {"session_meta", "turn_context", "response_item", "event_msg", "compacted"}
    return any(
        (text_of(one, "type") in types and isinstance(one.get("payload"), Mapping))
        or one.keys() >= CODEX_HEADER
        for one in records
    )


def scan(file: RecordedFile, answers: Answers) -> None:
    """Take in the name of the session: its events may be in another file, too."""
    answers.threads.add(text_of(object_of(file.head[0].get("payload", file.head[0])), "id"))


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the conversation, and another one after each compaction."""
    rollout = _Rollout(file)
    for record in file.records():
        kind, payload = _payload_of(record)
        parser = _PARSERS.get(kind)
        if parser is None or not isinstance(payload, Mapping):
            file.skipped[f"records of the unknown type {kind!r}"] += 1
            continue
        try:
            parser(rollout, payload, time_of(record.get("timestamp")))
        except MALFORMED:
            file.skipped[f"records of type {kind!r} that are malformed"] += 1
    rollout.end()
    yield from rollout.tree.recordings(
        answers, rollout.name or file.path.stem, rollout.parent, rollout.project
    )


def _payload_of(record: Mapping[str, Any]) -> tuple[str, object]:
    """Return the type of a record and what it holds; an older one holds itself."""
    kind = str(record.get("type"))
    if "payload" in record:
        return kind, record["payload"]
    if "record_type" in record:  # a mark of the client's own state
        return "event_msg", record
    return ("session_meta" if record.keys() >= CODEX_HEADER else "response_item"), record


def _with_readable_pictures(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the item with a word for each picture that the client did not keep."""
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
    """Return a usage in Codex's words; like OpenAI's, its input includes what was cached."""
    if not isinstance(counts, Mapping) or "input_tokens" not in counts:
        return None
    return usage_of_counts(*(counts.get(key) for key in _COUNTS))


_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens"),
)


class _Rollout:
    """The records of a file, as far as they were read."""

    def __init__(self, file: RecordedFile) -> None:
        self.tree = ConversationTree(file, "codex", "responses")
        self.name = ""
        self.project = ""
        self.parent: str | None = None
        self._file = file
        self._origin = ""
        """The session that a fork of forks began as: its answers are counted once."""
        self._model = ""
        self._total: object = None
        self._open: Node | None = None
        """The answer whose usage is yet to come."""
        self._last: Node | None = None
        """The answer whose usage came last."""
        self._early: tuple[str, Usage | None, float | None] | None = None
        """A usage that came before its answer."""

    def take_meta(self, payload: Mapping[str, Any], at: float | None) -> None:
        """The session's own; copies of others' follow where it is a fork, and of what they hold."""
        del at
        self._origin = text_of(payload, "id") or text_of(payload, "session_id") or self._origin
        if not self.name:
            self.project, self.parent = text_of(payload, "cwd"), _parent_of(payload)
            self.name = self._origin or self._file.path.stem
            prompt = payload.get("base_instructions") or payload.get("instructions")
            text = text_of(prompt, "text") if isinstance(prompt, Mapping) else prompt
            if isinstance(text, str) and text:
                self.tree.say({"role": "developer", "content": text})

    def take_context(self, payload: Mapping[str, Any], at: float | None) -> None:
        """The settings of a turn: the model."""
        del at
        self._model = text_of(payload, "model") or self._model

    def take_item(self, payload: Mapping[str, Any], at: float | None) -> None:
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
        node = self.tree.say(_with_readable_pictures(payload))
        if node is None or node.call is not None or node.messages[0].role != "assistant":
            return
        node.call = RecordedCall(0, model_of(self._model, "openai"), time=at)
        self._open = node
        if self._early is not None:
            early, self._early = self._early, None
            self._count(*early)

    def take_usage(self, payload: Mapping[str, Any], at: float | None) -> None:
        """What an answer used."""
        self._count(text_of(payload, "response_id"), usage_of_codex(payload.get("usage")), at)

    def take_event(self, payload: Mapping[str, Any], at: float | None) -> None:
        """A message to the screen; older clients report the usage of an answer in one."""
        kind, info = text_of(payload, "type"), payload.get("info")
        if kind == "token_count" and isinstance(info, Mapping):
            total = info.get("total_token_usage")
            if self._open is not None and total != self._total:
                self._count("", usage_of_codex(info.get("last_token_usage")), at)
            self._total = total
        self._file.skipped["events of the screen"] += 1

    def _count(self, ident: str, usage: Usage | None, at: float | None) -> None:
        node, last = self._open, self._last
        if node is None or node.call is None:
            call = None if last is None else last.call
            if last is not None and call is not None and not call.id and call.usage == usage:
                # It was reported to the screen first.
                last.call, last.claim = replace(call, id=ident), ("", "")
                return
            self._early = ident, usage, at
            return
        self._open, self._last = None, node
        node.is_open = False  # what the model says next is another answer
        node.call = replace(node.call, usage=usage, id=ident)
        if not ident:
            told = [self._origin, node.depth, node.said[0].content_hash]
            node.claim = canonical_json([*told, usage and astuple(usage)]), ""

    def take_compacted(self, payload: Mapping[str, Any], at: float | None) -> None:
        """The conversation begins again with what it was cut to."""
        del at
        self.end()
        self.tree.tails.clear()
        history = payload.get("replacement_history")
        if not isinstance(history, list):
            history = [{"role": "user", "content": text_of(payload, "message")}]
        begun = len(self.tree.nodes)
        for item in history:
            self.tree.say(item)
        for node in self.tree.nodes[begun:]:
            node.is_compacted, node.is_open = True, False  # no answer is joined to a summary

    def end(self) -> None:
        """End the conversation."""
        if self._early is not None:  # of the call that wrote the summary
            ident, usage, when = self._early
            call = RecordedCall(0, model_of(self._model, "openai"), usage, None, when, ident)
            self.tree.add((), self.tree.tails.get(""), call=call)
        self._open = self._last = self._early = None


_PARSERS: Final[Mapping[str, Callable[[_Rollout, Mapping[str, Any], float | None], None]]] = {
    "session_meta": _Rollout.take_meta,
    "turn_context": _Rollout.take_context,
    "response_item": _Rollout.take_item,
    "event_msg": _Rollout.take_event,
    "token_usage_record": _Rollout.take_usage,
    "compacted": _Rollout.take_compacted,
}
