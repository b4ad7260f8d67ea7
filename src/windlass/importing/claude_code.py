"""Claude Code: session files and `stream-json` logs, one JSON record a line.

The vendor does not promise the layout: each type of record has a parser, and records of other types
are counted and left out. Records form a tree by `parentUuid`, which branches where a user went
back. Each path to an end on which calls were made becomes a recording, and a call belongs to the
first recording that has it. The records of one answer share a `message.id`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.importing import claude_sums
from windlass.importing.base import (
    COUNTED,
    MALFORMED,
    Answers,
    dollars_of,
    model_of,
    object_of,
    read_list,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.claude_requests import TYPES, RecordedRequests
from windlass.importing.exchanges import Exchanges
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import Kind, RecordedCall, Recording
from windlass.messages import Message, Opaque, ToolCall, user
from windlass.wire.openai_responses import joined

SIDE_CHAINS: Final = "subagents"
"""The folder with a session's side chains; it lies in a folder named as the session's file is."""

SIDE_CHAIN: Final = "agent-"
"""How the name of a side chain's file begins, which may lie beside that of its session."""

Record: TypeAlias = Mapping[str, Any]

_COMPACTING: Final = f"{SIDE_CHAIN}acompact-*.jsonl"
"""The files of side chains that wrote the summary of a session."""
_UNTOLD: Final = "calls that wrote a summary, of which transcripts without sums say nothing"
_LOCAL: Final = "<synthetic>"
"""The model that the client names for words of its own."""
_UNSENT: Final[Mapping[str, str]] = {
    "file-history-snapshot": "file snapshots, which no model sees",
    "queue-operation": "notes of the queue of prompts",
    "last-prompt": "notes of the last prompt",
    "summary": "titles of sessions",
    "custom-title": "titles of sessions",
    "ai-title": "titles of sessions",
    "agent-name": "titles of sessions",
    "agent-setting": "notes of settings",
    "permission-mode": "notes of settings",
    "mode": "notes of settings",
    "stream_event": "pieces of answers, which stand whole beside them",
    **dict.fromkeys(
        (
            *("file-history-delta", "relocated", "continued-in", "fork-context-ref", "frame-link"),
            *("ended-by-model", "agent-color", "worktree-state", "bridge-session", "memory-mode"),
            *("attribution-snapshot", "isolation-latch", "dev-mods", "observer-ref"),
            *("atis-latch", "tools-used"),
        ),
        "notes of the client that no model sees",
    ),
    "tag": "notes of users",
    "pr-link": "notes of users",
}


def recognises(records: Sequence[Record]) -> bool:
    """Whether these are the first records of a session of Claude Code."""
    return any(
        (
            one.get("type") in ("user", "assistant")
            and isinstance(one.get("message"), Mapping)
            and one["message"].get("role") in ("user", "assistant")
        )
        or (one.get("type") == "system" and "claude_code_version" in (one.get("message") or one))
        or (
            text_of(one, "type") in (*_UNSENT, *claude_sums.TYPES)
            and ("sessionId" in one or "messageId" in one)
        )
        for one in records
    )


def side_chains(file: RecordedFile) -> list[Path]:
    """The files of a session's side chains."""
    return sorted((file.path.with_suffix("") / SIDE_CHAINS).glob("*.jsonl"))


def scan(file: RecordedFile, answers: Answers) -> None:
    """Take in the answers of a file before any is read."""
    for record in file.lines_with(b'"usage"'):
        for inner in (record, _of_progress(record)):
            message = inner.get("message")
            if inner.get("type") != "assistant" or not isinstance(message, Mapping):
                continue
            if (ident := text_of(message, "id")) and not _is_local(inner, message):
                answers.note(ident, text_of(inner, "requestId"), usage_of(message.get("usage")))
                session = text_of(record, "sessionId", "session_id")
                answers.note_session(session, ident, text_of(message, "model"))


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The conversations of a file: the session, its branches and its side chains."""
    tree = _Tree(file)
    requests = RecordedRequests()
    has_requests = any(text_of(record, "type") in TYPES for record in file.head)
    for record in file.records():
        if not has_requests and tree.is_over(record):
            yield from tree.recordings(answers)
            file.skipped = Counter()
            tree = _Tree(file)
        if has_requests:
            with suppress(*MALFORMED):  # a request that is missing makes it a transcript
                requests.add(record)
        if text_of(record, "type") not in TYPES:
            tree.add(record)
    exchanges = None
    if has_requests:
        with suppress(*MALFORMED):
            exchanges = requests.exchanges(tree.name)
    if has_requests and exchanges is None:
        file.skipped["records of requests that cannot be rebuilt: the session is a transcript"] += 1
    if exchanges:
        rebuilt = Exchanges(file.path, answers, file.skipped)
        for exchange in exchanges:
            rebuilt.add(exchange)
        yield from rebuilt.recordings("claude-code", "B")
    yield from tree.recordings(answers, tree.name if exchanges else "")


def _is_local(record: Record, answer: Record) -> bool:
    """Whether the client itself wrote an answer, such as an "API Error", which costs nothing."""
    if answer.get("model") == _LOCAL or record.get("isApiErrorMessage") is True:
        return True
    usage = usage_of(answer.get("usage"))
    return bool(text_of(record, "error")) and (usage is None or not usage.tokens_in)


def _of_progress(record: Record) -> Record:
    """The record of a subagent inside one of its progress; empty where there is none."""
    progress = object_of(record.get("data"))
    inner = progress.get("message")
    if (
        record.get("type") != "progress"
        or progress.get("type") != "agent_progress"
        or not isinstance(inner, Mapping)
    ):
        return {}
    return {**inner, "agentId": progress.get("agentId") or "agent", "uuid": None}


@dataclass(slots=True)
class _Node:
    """One step of a conversation: an answer, the results of its calls, or words of a user."""

    parent: int | None
    chain: str
    root: int
    """The first node of its path."""
    messages: list[Message] = field(default_factory=list[Message])
    answer: str = ""
    request: str = ""
    model: str = ""
    time: float | None = None
    cost: float | None = None
    last: int = 0
    compacted: bool = False
    blocks: set[str] = field(default_factory=set[str])
    stopped: bool = False
    """Whether it is recorded why the answer ended: only then its usage is that of the whole."""
    ended: bool = True
    """Whether no node follows."""


class _Tree:
    """The records of a file as a tree."""

    def __init__(self, file: RecordedFile) -> None:
        self._file = file
        self._limit = MemoryLimit(file.path)
        self._skipped: Counter[str] = file.skipped
        self._nodes: list[_Node] = []
        self._of_record: dict[str, int | None] = {}
        """The node of each record by its id; a record without a node stands for its parent's."""
        self._of_content: dict[tuple[int | None, str, str], int] = {}
        self._of_answer: dict[str, int] = {}
        self._of_call: dict[str, int] = {}
        self._tails: dict[str, int] = {}
        """The last node of each chain: a record without a parent follows it."""
        self._records = 0
        self._session = ""
        self._project = ""
        self._sums = claude_sums.ClosingSums()
        self._compactions = 0

    # ---- in -------------------------------------------------------------------------

    def is_over(self, record: Record) -> bool:
        """Whether a record begins another session: a file may hold several."""
        inner = _inner(record)
        kind = text_of(record, "type")
        begins = (kind == "system" and inner.get("subtype") == "init") or (
            kind in _PARSERS
            and record.get("parentUuid", "") is None
            and record.get("isSidechain") is not True
        )
        named = text_of(record, "session_id", "sessionId") or text_of(inner, "session_id")
        return bool(begins and self._nodes and named and named != self._session)

    def add(self, record: Record) -> None:
        """Take in the next record."""
        self._records += 1
        self._session = self._session or text_of(record, "sessionId", "session_id")
        self._project = self._project or text_of(record, "cwd")
        kind = str(record.get("type"))
        parser = _PARSERS.get(kind)
        node = None
        if parser is not None:
            try:
                node = parser(self, record)
            except MALFORMED:
                self._skipped[f"records of type {kind!r} that are malformed"] += 1
        elif kind in claude_sums.TYPES:
            if not self._sums.take(record):
                self._skipped["sums at the end of a run"] += 1
        elif kind in _UNSENT:
            self._skipped[_UNSENT[kind]] += 1
        else:
            self._skipped[f"records of the unknown type {kind!r}"] += 1
        ident = record.get("uuid")
        if isinstance(ident, str) and ident:
            self._of_record.setdefault(ident, self._parent(record) if node is None else node)

    def _chain(self, record: Record) -> str:
        """The conversation of the file to which a record belongs; empty: the session itself."""
        agent = text_of(record, "parent_tool_use_id", "agentId")
        if agent:
            return agent
        if record.get("isSidechain") is True:
            above = self._parent(record, "side chain")
            inherited = "" if above is None else self._nodes[above].chain
            return inherited or f"side chain {record.get('uuid')}"
        return ""

    def _parent(self, record: Record, chain: str = "") -> int | None:
        if "parentUuid" in record:
            above = record["parentUuid"]
            if above is None:
                return None
            if isinstance(above, str) and above in self._of_record:
                return self._of_record[above]
        return self._tails.get(chain)

    def _node(self, record: Record, parent: int | None, kind: str, content: str) -> int:
        """The node of a record; equal content at the same place has the same node."""
        key = (parent, kind, content)
        at = self._of_content.get(key)
        if at is None:
            at = self._of_content[key] = len(self._nodes)
            chain = self._chain(record)
            root = at if parent is None else self._nodes[parent].root
            self._nodes.append(_Node(parent, chain, root, time=time_of(record.get("timestamp"))))
            if parent is not None:
                self._nodes[parent].ended = False
        node = self._nodes[at]
        node.last = self._records
        self._tails[node.chain] = at
        return at

    def _read(self, message: object) -> list[Message]:
        """The messages of a record."""
        return read_list("anthropic", [message], self._skipped)

    def take_user(self, record: Record) -> int | None:
        """Words of a user, or results of tools."""
        words = record.get("message")
        if record.get("isVisibleInTranscriptOnly") or not isinstance(words, Mapping):
            self._skipped["words that only people see"] += 1
            return None
        at: int | None = None
        parent = self._parent(record, self._chain(record))
        for message in self._read({"role": "user", "content": words.get("content")}):
            if message.role == "tool":
                caller = self._of_call.get(message.tool_call_id or "")
                at = self._node(record, parent if caller is None else caller, "results", "")
                content = message.tool_call_id or ""
            elif record.get("isCompactSummary"):
                parent, content = None, message.content_hash
                at = self._node(record, None, "summary", content)
                self._nodes[at].compacted = True
            else:
                content = message.content_hash
                at = self._node(record, parent if at is None else at, "user", content)
            self._append(at, message, content)
        return at

    def _append(self, at: int, message: Message, content: str) -> None:
        """Add a message to a node, once."""
        node = self._nodes[at]
        if content not in node.blocks:
            self._limit.take(message)
            node.blocks.add(content)
            node.messages.append(message)

    def take_answer(self, record: Record) -> int | None:
        """An answer, or a part of one."""
        answer = record.get("message")
        if not isinstance(answer, Mapping):
            self._skipped["answers that say nothing"] += 1
            return None
        if _is_local(record, answer):
            self._skipped["words of the client's own"] += 1
            return None
        ident = text_of(answer, "id") or f"{record.get('uuid') or self._records}"
        at = self._of_answer.get(ident)
        if at is None:
            parent = self._parent(record, self._chain(record))
            at = self._of_answer[ident] = self._node(record, parent, "answer", ident)
            node = self._nodes[at]
            node.answer, node.request = ident, text_of(record, "requestId")
            node.model = model_of(answer.get("model"), "anthropic")
        node = self._nodes[at]
        node.request = node.request or text_of(record, "requestId")
        node.stopped = node.stopped or bool(answer.get("stop_reason"))
        node.last = self._records
        if dollars := dollars_of(record.get("costUSD")):
            node.cost = max(node.cost or 0.0, dollars)
        self._tails[node.chain] = at
        content = answer.get("content")
        for block in content if isinstance(content, list) else [content]:
            blocks = [{"type": "text", "text": block}] if isinstance(block, str) else [block]
            for message in self._read({"role": "assistant", "content": blocks}):
                self._extend(at, message)
        return at

    def _extend(self, at: int, message: Message) -> None:
        """Add a block to an answer, once."""
        node = self._nodes[at]
        call = message.tool_calls[0] if message.tool_calls else None
        content = _key_of_block(message, call)
        if content in node.blocks or not (message.parts or message.tool_calls):
            return
        node.blocks.add(content)
        self._limit.take(message)
        if call is not None:
            self._of_call.setdefault(call.id, at)
        node.messages.append(message)

    def take_attachment(self, record: Record) -> int | None:
        """What the client added for the model: a listing, a reminder, a file."""
        text = text_of(object_of(record.get("attachment")), "rendered", "content")
        if not text:
            self._skipped["attachments without their text"] += 1
            return None
        message = user(text)
        at = self._node(
            record, self._parent(record, self._chain(record)), "user", message.content_hash
        )
        self._append(at, message, message.content_hash)
        return at

    def take_system(self, record: Record) -> int | None:
        """Notes of the client; the first record of a `stream-json` log names the session."""
        note = _inner(record)
        self._session = self._session or text_of(note, "session_id", "sessionId")
        self._project = self._project or text_of(note, "cwd")
        kind = text_of(note, "subtype") or "without a subtype"
        if kind == "compact_boundary":
            self._tails.pop("", None)
            self._compactions += 1
        self._skipped[f"notes of the client ({kind})"] += 1
        return None

    def take_progress(self, record: Record) -> int | None:
        """What a tool reports while it runs; a subagent reports its messages."""
        inner = _of_progress(record)
        parser = _PARSERS.get(str(inner.get("type")))
        if parser is None:
            self._skipped["progress of tools"] += 1
        else:
            parser(self, inner)
        return None

    # ---- out ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._session or self._file.path.stem

    def recordings(self, answers: Answers, main: str = "") -> Iterator[Recording]:
        """A recording of each path with calls that no other recording counts.

        `main` is the name of the session's own recording, if there is one already.
        """
        for node in self._nodes:
            if node.answer and len(node.messages) > 1:
                node.messages = [joined(*node.messages)]
        ends = [at for at, node in enumerate(self._nodes) if node.ended]
        # The session first; among ends with the same beginning, the one that was reached last.
        ends.sort(
            key=lambda at: (
                self._nodes[at].chain != "",
                self._nodes[at].root,
                -self._nodes[at].last,
            )
        )
        own, has_main = self.name, bool(main)
        recordings: list[Recording] = []
        seen: set[int] = set()
        elsewhere = 0
        for end in ends:
            path = self._path(end)
            messages: list[Message] = []
            calls: list[RecordedCall] = []
            for at in path:
                node = self._nodes[at]
                if node.answer and at not in seen:
                    seen.add(at)
                    if (answer := answers.claim(node.answer, node.request)) is None:
                        elsewhere += 1
                    else:
                        call = RecordedCall(
                            len(messages),
                            node.model,
                            answer.usage,
                            node.cost,
                            node.time,
                            node.answer,
                        )
                        is_whole = node.stopped or not node.messages
                        calls.append(call if is_whole else call.with_output(node.messages[0]))
                messages += node.messages
            if not calls:
                continue
            self._limit.take_again(len(messages))
            kind: Kind = "session"
            name = own
            chain = self._nodes[end].chain
            if chain:
                kind, name = "side chain", f"{own}/{chain.removeprefix('side chain ')}"
            elif main and any(self._nodes[at].compacted for at in path[:2]):
                kind, name = "after compaction", f"{own}/{calls[0].id}"
            elif main:
                kind, name = "branch", f"{own}/{calls[0].id}"
            recordings.append(
                Recording(
                    name,
                    "claude-code",
                    "C",
                    calls[0].model,
                    tuple(messages),
                    tuple(calls),
                    kind=kind,
                    parent=None if kind == "session" else own,
                    skipped={} if main else self._skipped,
                    source=str(self._file.path),
                    project=self._project,
                )
            )
            main = main or own
        if elsewhere and not has_main:
            self._skipped[COUNTED] += elsewhere
        has_summaries = any(one.match(_COMPACTING) for one in side_chains(self._file))
        if self._compactions and not self._sums and not has_summaries:
            self._skipped[_UNTOLD] += self._compactions
        begun = {node.answer for node in self._nodes if node.answer and not node.stopped}
        yield from self._sums.complete(recordings, answers, self._session, begun)

    def _path(self, end: int) -> list[int]:
        path: list[int] = []
        at: int | None = end
        while at is not None:
            path.append(at)
            at = self._nodes[at].parent
        return path[::-1]


def _inner(record: Record) -> Record:
    """The message inside a record; the record itself where there is none."""
    inner = record.get("message")
    return inner if isinstance(inner, Mapping) else record


def _key_of_block(message: Message, call: ToolCall | None) -> str:
    """The key by which a block of an answer is recognised when it is recorded again."""
    if call is not None:
        return call.id
    part = message.parts[0] if message.parts else None
    return part.data if isinstance(part, Opaque) else message.content_hash


_PARSERS: Final[Mapping[str, Callable[[_Tree, Record], int | None]]] = {
    "user": _Tree.take_user,
    "assistant": _Tree.take_answer,
    "attachment": _Tree.take_attachment,
    "system": _Tree.take_system,
    "progress": _Tree.take_progress,
}
