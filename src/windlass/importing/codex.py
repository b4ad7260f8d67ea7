"""Rollouts of Codex: one record a line, each with a type and a payload.

The items of the conversation are those of OpenAI's Responses, as they were sent. Tools are recorded
only where the client sends them as an item, so that it is a transcript. Until autumn 2025 records
had no payload: a header, then the items themselves.

Events of `codex exec --json`: what a run said and did, one event a line.

They tell neither the model nor the user's words, and usage only as the sum of a thread, at the end
of each turn. What a turn used is shared out over its calls by what each of them was sent and said.
A thread whose rollout is read, too, is counted there.
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
    UNRECORDED,
    Answers,
    Records,
    chat_call,
    chat_result,
    model_of,
    object_of,
    shares,
    text_of,
    time_of,
    usage_of_counts,
)
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.importing.tree import ConversationTree, Node
from windlass.messages import canonical_json
from windlass.safety.foreign import parse_recorded
from windlass.text.tokens import FamilyCounter
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
    """Return the session whose subagent a rollout is, empty where it is not told.

    None: it is its own.
    """
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


_UNTOLD: Final = "usage of answers, which such events tell for a whole turn: it is shared out"
_NO_MODEL: Final = "models of calls, which such events do not name: no price is known"
_MODEL: Final = "openai/unknown"


def recognises_events(records: Records) -> bool:
    """Return whether these are the first events of a run."""
    return any(text_of(one, "type") in ("thread.started", "turn.started") for one in records)


def read_events(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the threads, in the order in which they began."""
    threads: dict[str, _Thread] = {}
    thread = _Thread(file)
    for record in file.records():
        kind = text_of(record, "type")
        if kind == "thread.started":
            name = text_of(record, "thread_id")
            thread = threads.setdefault(name, _Thread(file))
            continue
        threads = threads or {"": thread}
        try:
            thread.take(kind, record)
        except MALFORMED:
            file.skipped[f"events of type {kind!r} that are malformed"] += 1
    for name, one in threads.items():
        one.end_turn(None)
        calls = [node.call for node in one.tree.nodes if node.call is not None]
        if name and name in answers.threads:
            file.skipped[COUNTED] += len(calls)
            continue
        file.skipped[_UNTOLD] += sum(call.estimated for call in calls)
        file.skipped[_NO_MODEL] += len(calls)
        yield from one.tree.recordings(answers, name or file.path.stem)


class _Thread:
    """A conversation, as far as its events were read."""

    def __init__(self, file: RecordedFile) -> None:
        self.tree = ConversationTree(file, "codex-exec", "openai")
        self._file = file
        self._counter = FamilyCounter(_MODEL)
        self._sent = 0
        """Tokens of the messages so far."""
        self._total = Usage(0, 0)
        self._turn: list[tuple[Node, int, int]] = []
        """The answers of the turn: the tokens before each, and its own."""
        self._words: list[str] = []
        self._calls: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """The calls of the answer that is being read, and their results."""
        self._running: set[str] = set()

    def _say(self, item: dict[str, Any], call: RecordedCall | None = None) -> None:
        node = self.tree.say(item, call)
        tokens = sum(map(self._counter.message, node.messages)) if node is not None else 0
        if node is not None and call is not None:
            self._turn.append((node, self._sent, tokens))
        self._sent += tokens

    def take(self, kind: str, record: Mapping[str, Any]) -> None:
        """The next event."""
        item = object_of(record.get("item"))
        ident = text_of(item, "id")
        if kind == "turn.started":
            self._say({"role": "user", "content": UNRECORDED})
        elif kind == "item.started":
            if self._calls and not self._running:
                self._end_answer()
            self._running.add(ident)
        elif kind == "item.completed":
            if self._calls and not self._running:
                self._end_answer()
            self._running.discard(ident)
            self._take_item(item, ident)
        elif kind in ("turn.completed", "turn.failed"):
            self.end_turn(usage_of_codex(record.get("usage")))
        else:
            self._file.skipped["events of the screen"] += 1

    def _take_item(self, item: Mapping[str, Any], ident: str) -> None:
        kind = text_of(item, "type", "item_type")
        if kind in ("agent_message", "assistant_message"):
            self._words.append(text_of(item, "text"))
            return
        if kind not in _TOOLS:
            self._file.skipped["events of the screen"] += 1
            return
        tool, given = _TOOLS[kind]
        name = tool or "__".join(filter(None, (text_of(item, "server"), text_of(item, "tool"))))
        arguments = item.get("arguments") or {key: item[key] for key in given if key in item}
        result = item.get("aggregated_output")
        if result is None:
            result = item.get("error") or item.get("result") or {"status": item.get("status")}
        if isinstance(result, Mapping):
            texts = [text_of(object_of(one), "text") for one in result.get("content") or ()]
            result = "\n".join(texts) or text_of(result, "message") or canonical_json(result)
        # Ids begin anew with each run of a thread.
        ident = f"{ident or 'item'}-{len(self.tree.nodes) + len(self._calls)}"
        failed = item.get("status") in ("failed", "declined") or bool(item.get("exit_code"))
        self._calls.append(
            (chat_call(ident, name, arguments), chat_result(ident, result, failed=failed))
        )

    def _end_answer(self) -> None:
        if self._words or self._calls:
            answer: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(self._words)}
            if self._calls:
                answer["tool_calls"] = [call for call, _ in self._calls]
            self._say(answer, RecordedCall(0, _MODEL))
            for _, result in self._calls:
                self._say(result)
        self._words, self._calls = [], []

    def end_turn(self, total: Usage | None) -> None:
        """Share out what the thread used since the turn before."""
        self._end_answer()
        turn, self._turn = self._turn, []
        if total is None:
            return
        before, self._total = astuple(self._total)[:4], total
        after = astuple(total)[:4]
        is_sum = all(old <= new for old, new in zip(before, after, strict=True))
        used = Usage(*(b - a if is_sum else b for a, b in zip(before, after, strict=True)))
        if not turn and any(astuple(used)[:4]):  # nothing was said, but it was paid for
            turn = [(self.tree.add((), self.tree.tails.get("")), 1, 1)]
        if not turn:
            return
        # What each call is sent beside the messages is the same: the system prompt and tools.
        beside = max(0, used.tokens_in - sum(sent for _, sent, _ in turn)) // len(turn)
        tokens_in = shares(used.tokens_in, [sent + beside for _, sent, _ in turn])
        cached = shares(used.tokens_cached, tokens_in)
        fresh = [all_ - read for all_, read in zip(tokens_in, cached, strict=True)]
        written = shares(used.tokens_written, fresh)
        out = shares(used.tokens_out, [said for _, _, said in turn])
        counts = zip(tokens_in, out, cached, written, strict=True)
        for (node, _, _), count in zip(turn, counts, strict=True):
            call = node.call or RecordedCall(0, _MODEL)
            node.call = replace(call, usage=Usage(*count), estimated=len(turn) > 1)


_TOOLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "command_execution": ("shell", ("command",)),
    "file_change": ("apply_patch", ("changes",)),
    "mcp_tool_call": ("", ()),
    "collab_tool_call": ("", ("prompt", "receiver_thread_ids")),
    "web_search": ("web_search", ("query",)),
}
"""What each kind of item is a call of (empty: of what it names), and what it was given."""
