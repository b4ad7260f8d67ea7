"""Events of `codex exec --json`: what a run said and did, one event a line.

They tell neither the model nor the user's words, and usage only as the sum of a thread, at the end
of each turn: it is shared out evenly over the turn's answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any, Final

from windlass.importing.base import (
    MALFORMED,
    UNRECORDED,
    Answers,
    RecordedList,
    chat_call,
    chat_result,
    object_of,
    text_of,
)
from windlass.importing.codex import usage_of_codex
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import canonical_json
from windlass.wire.base import Usage

EVENTS: Final = ("thread.started", "turn.started", "turn.completed", "item.completed")
_UNTOLD: Final = "usage of answers, which such events tell for a whole turn: it is shared out"
_NO_MODEL: Final = "models of calls, which such events do not name: no price is known"


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The threads, in the order in which they began."""
    threads: dict[str, _Thread] = {}
    thread = _Thread(file, answers)
    for record in file.records():
        kind = text_of(record, "type")
        if kind == "thread.started":
            name = text_of(record, "thread_id")
            thread = threads.setdefault(name, _Thread(file, answers))
            continue
        threads = threads or {"": thread}
        try:
            thread.take(kind, record)
        except MALFORMED:
            file.skipped[f"events of type {kind!r} that are malformed"] += 1
    for name, one in threads.items():
        one.end_turn(None)
        if calls := len(one.transcript.calls):
            file.skipped[_UNTOLD] += calls
            file.skipped[_NO_MODEL] += calls
        yield from one.transcript.recordings(name or file.path.stem)


class _Thread:
    """A conversation, as far as its events were read."""

    def __init__(self, file: RecordedFile, answers: Answers) -> None:
        self.transcript = RecordedList(file, answers, "openai", "codex-exec")
        self._file = file
        self._total = Usage(0, 0)
        self._first = 0
        """The first call of the turn."""
        self._words: list[str] = []
        self._calls: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """The calls of the answer that is being read, and their results."""
        self._running: set[str] = set()

    def take(self, kind: str, record: Mapping[str, Any]) -> None:
        """The next event."""
        item = object_of(record.get("item"))
        ident = text_of(item, "id")
        if kind == "turn.started":
            self.transcript.add({"role": "user", "content": UNRECORDED})
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
        ident = f"{ident or 'item'}-{len(self.transcript.messages) + len(self._calls)}"
        failed = item.get("status") in ("failed", "declined") or bool(item.get("exit_code"))
        self._calls.append(
            (chat_call(ident, name, arguments), chat_result(ident, result, failed=failed))
        )

    def _end_answer(self) -> None:
        if self._words or self._calls:
            answer: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(self._words)}
            if self._calls:
                answer["tool_calls"] = [call for call, _ in self._calls]
            self.transcript.add(answer, RecordedCall(0, "openai/unknown"))
            for _, result in self._calls:
                self.transcript.add(result)
        self._words, self._calls = [], []

    def end_turn(self, total: Usage | None) -> None:
        """Share out what the thread used since the turn before."""
        self._end_answer()
        calls = self.transcript.calls
        turn, self._first = slice(self._first, None), len(calls)
        if total is None or not calls[turn]:
            return
        before, self._total = astuple(self._total)[:4], total
        after = astuple(total)[:4]
        is_sum = all(old <= new for old, new in zip(before, after, strict=True))
        used = [new - old if is_sum else new for old, new in zip(before, after, strict=True)]
        share = len(calls[turn])
        calls[turn] = [
            replace(
                call,
                usage=Usage(*((at + 1) * one // share - at * one // share for one in used)),
            )
            for at, call in enumerate(calls[turn])
        ]


_TOOLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "command_execution": ("shell", ("command",)),
    "file_change": ("apply_patch", ("changes",)),
    "mcp_tool_call": ("", ()),
    "collab_tool_call": ("", ("prompt", "receiver_thread_ids")),
    "web_search": ("web_search", ("query",)),
}
"""What each kind of item is a call of (empty: of what it names), and what it was given."""
