"""Events of `codex exec --json`: what a run said and did, one event a line.

They tell neither the model nor the user's words, and usage only as the sum of a thread, at the end
of each turn. What a turn used is shared out over its calls by what each of them was sent and said.
A thread whose rollout is read, too, is counted there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any, Final

from windlass.public import (
    COUNTED,
    MALFORMED,
    UNRECORDED,
    Answers,
    ConversationTree,
    FamilyCounter,
    Node,
    RecordedCall,
    RecordedFile,
    Recording,
    Records,
    Usage,
    canonical_json,
    chat_call,
    chat_result,
    object_of,
    shares,
    text_of,
    usage_of_codex,
)

_UNTOLD: Final = "usage of answers, which such events tell for a whole turn: it is shared out"
_NO_MODEL: Final = "models of calls, which such events do not name: no price is known"
_MODEL: Final = "openai/unknown"


def recognises(records: Records) -> bool:
    """Return whether these are the first events of a run."""
    return any(text_of(one, "type") in ("thread.started", "turn.started") for one in records)


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
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
