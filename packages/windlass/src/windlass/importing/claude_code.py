"""Claude Code: session files and `stream-json` logs, one JSON record a line.

The vendor does not promise the layout: each type of record has a parser, and records of other types
are counted and left out. Records form a tree by `parentUuid`, which branches where a user went
back. Each path to an end on which calls were made becomes a recording, and a call belongs to the
first recording that has it. The records of one answer share a `message.id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.importing import claude_requests
from windlass.importing.base import (
    COUNTED,
    MALFORMED,
    Answers,
    Records,
    dollars_of,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.claude_requests import TYPES, RecordedRequests
from windlass.importing.exchanges import Exchanges
from windlass.importing.json_files import NamedFile, RecordedFile
from windlass.importing.recording import Kind, RecordedCall, Recording
from windlass.importing.tree import ConversationTree, Node
from windlass.messages import Message, Opaque, user

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


def recognises(records: Records) -> bool:
    """Return whether these are the first records of a session of Claude Code."""
    return any(
        (
            one.get("type") in ("user", "assistant")
            and isinstance(one.get("message"), Mapping)
            and one["message"].get("role") in ("user", "assistant")
        )
        or (one.get("type") == "system" and "claude_code_version" in (one.get("message") or one))
        or (
            text_of(one, "type") in (*_UNSENT, *claude_requests.SUM_TYPES)
            and ("sessionId" in one or "messageId" in one)
        )
        for one in records
    )


def side_chains(file: NamedFile) -> list[Path]:
    """Return the files of a session's side chains."""
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
    """Yield the conversations of a file: the session, its branches and its side chains."""
    transcript = ClaudeTranscript(file)
    requests = RecordedRequests()
    has_requests = any(text_of(record, "type") in TYPES for record in file.head)
    for record in file.records():
        if not has_requests and transcript.is_over(record):
            yield from transcript.recordings(answers)
            file.skipped.clear()
            transcript = ClaudeTranscript(file)
        if has_requests:
            with suppress(*MALFORMED):  # a request that is missing makes it a transcript
                requests.add(record)
        if text_of(record, "type") not in TYPES:
            transcript.add(record)
    exchanges = None
    if has_requests:
        with suppress(*MALFORMED):
            exchanges = requests.exchanges(transcript.name)
    if has_requests and exchanges is None:
        file.skipped["records of requests that cannot be rebuilt: the session is a transcript"] += 1
    if exchanges:
        rebuilt = Exchanges(file, answers, "claude-code")
        for exchange in exchanges:
            rebuilt.add(exchange)
        yield from rebuilt.recordings("B")
    yield from transcript.recordings(answers, transcript.name if exchanges else "")


def _is_local(record: Record, answer: Record) -> bool:
    """Whether the client itself wrote an answer, such as an "API Error", which costs nothing."""
    if answer.get("model") == _LOCAL or record.get("isApiErrorMessage") is True:
        return True
    usage = usage_of(answer.get("usage"))
    return bool(text_of(record, "error")) and (usage is None or not usage.tokens_in)


def _of_progress(record: Record) -> Record:
    """Return the record of a subagent inside one of its progress; empty where there is none."""
    progress = object_of(record.get("data"))
    inner = progress.get("message")
    if (
        record.get("type") != "progress"
        or progress.get("type") != "agent_progress"
        or not isinstance(inner, Mapping)
    ):
        return {}
    return {**inner, "agentId": progress.get("agentId") or "agent", "uuid": None}


class ClaudeTranscript:
    """The records of a session as a tree, which may grow."""

    def __init__(self, file: NamedFile) -> None:
        self.tree = ConversationTree(file, "claude-code", "anthropic")
        self.cleared: set[str] = set()
        """The calls whose results the client took out of what the model sees."""
        self._file = file
        self._of_record: dict[str, Node | None] = {}
        """The node of each record by its id; a record without a node stands for its parent's."""
        self._of_content: dict[tuple[Node | None, str, str], Node] = {}
        self._early: dict[str, Record] = {}
        """Attachments whose parents are still to come, by their own ids."""
        self.callers: dict[str, Node] = {}
        """The answer that made each call of a tool."""
        self._records = 0
        self._session = ""
        self._project = ""
        self._sums = claude_requests.ClosingSums()
        self._compactions = 0
        self._is_built = False
        """Whether a conversation begins anew, and no model has answered in it yet."""

    # ---- in -------------------------------------------------------------------------

    def is_over(self, record: Record) -> bool:
        """Return whether a record begins another session: a file may hold several."""
        inner = _inner(record)
        kind = text_of(record, "type")
        begins = (kind == "system" and inner.get("subtype") == "init") or (
            kind in _PARSERS
            and record.get("parentUuid", "") is None
            and record.get("isSidechain") is not True
        )
        named = text_of(record, "session_id", "sessionId") or text_of(inner, "session_id")
        return bool(begins and self.tree.nodes and named and named != self._session)

    def add(self, record: Record) -> Node | None:
        """Take in the next record; its node, or that of the record before it.

        The client may write what it adds behind results before the last of these. It waits for its
        parent, or for the first record that goes on from it.
        """
        ident, above = text_of(record, "uuid"), record.get("parentUuid")
        is_early = isinstance(above, str) and above not in self._of_record
        if record.get("type") == "attachment" and is_early and ident and self._of_record:
            self._early[ident] = record
            return self._parent(record)
        if early := self._early.pop(str(above), None):
            self._take(early)
        node = self._take(record)
        for name, one in [*self._early.items()] if ident else ():
            if one.get("parentUuid") == ident:
                self._take(self._early.pop(name))
        return node

    def _take(self, record: Record) -> Node | None:
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
                self._file.skipped[f"records of type {kind!r} that are malformed"] += 1
        elif kind in claude_requests.SUM_TYPES:
            if not self._sums.take(record):
                self._file.skipped["sums at the end of a run"] += 1
        else:
            unknown = f"records of the unknown type {kind!r}"
            self._file.skipped[_UNSENT.get(kind, unknown)] += 1
        ident = record.get("uuid")
        node = self._parent(record) if node is None else node
        if isinstance(ident, str) and ident:
            self._of_record[ident] = node
        return node

    def lane_of(self, record: Record) -> str:
        """Get the conversation of the file to which a record belongs; empty: the session itself."""
        agent = text_of(record, "parent_tool_use_id", "agentId")
        if agent:
            return agent
        if record.get("isSidechain") is True:
            above = self._parent(record, "side chain")
            inherited = "" if above is None else above.lane
            return inherited or f"side chain {record.get('uuid')}"
        return ""

    def _parent(self, record: Record, lane: str = "") -> Node | None:
        if "parentUuid" in record:
            above = record["parentUuid"]
            if above is None:
                return None
            if isinstance(above, str) and above in self._of_record:
                return self._of_record[above]
        tail = self.tree.tails.get(lane)
        # The record before is missing: an answer's last part may stand behind its first results.
        return self._of_content.get((tail, "results", ""), tail)

    def _node(self, record: Record, parent: Node | None, kind: str, content: str) -> Node:
        """Return the node of a record; equal content at the same place has the same node."""
        key = (parent, kind, content)
        if key not in self._of_content:
            self._of_content[key] = self.tree.add((), parent, self.lane_of(record))
        node = self._of_content[key]
        self.tree.reach(node)
        return node

    def take_user(self, record: Record) -> Node | None:
        """Return words of a user, or results of tools."""
        words = record.get("message")
        if record.get("isVisibleInTranscriptOnly") or not isinstance(words, Mapping):
            self._file.skipped["words that only people see"] += 1
            return None
        node: Node | None = None
        parent = self._parent(record, self.lane_of(record))
        for message in self.tree.read({"role": "user", "content": words.get("content")}).messages:
            content = message.tool_call_id or message.content_hash
            if message.role == "tool":
                caller = self.callers.get(message.tool_call_id or "", parent)
                node = self._node(record, caller, "results", "")
            elif record.get("isCompactSummary"):
                parent = None
                node = self._node(record, None, "summary", content)
                node.is_compacted = True
            else:
                node = self._node(record, node or parent, "user", content)
                node.is_compacted = node.is_compacted or (self._is_built and node.parent is None)
            self.tree.extend(node, message, content)
        return node

    def take_answer(self, record: Record) -> Node | None:
        """Return an answer, or a part of one."""
        answer = record.get("message")
        if not isinstance(answer, Mapping):
            self._file.skipped["answers that say nothing"] += 1
            return None
        if _is_local(record, answer):
            if self._is_built and record.get("isApiErrorMessage") is not True:
                return self._take_built(record, answer)
            self._file.skipped["words of the client's own"] += 1
            return None
        self._is_built = False
        ident = text_of(answer, "id") or f"{record.get('uuid') or self._records}"
        key = (None, "answer", ident)
        if key not in self._of_content:
            parent = self._parent(record, self.lane_of(record))
            node = self._of_content[key] = self.tree.add((), parent, self.lane_of(record))
            model = model_of(answer.get("model"), "anthropic")
            when = time_of(record.get("timestamp"))
            node.call, node.is_whole = RecordedCall(0, model, time=when, id=ident), False
        node = self._of_content[key]
        self.tree.reach(node)
        node.claim = ident, node.claim[1] or text_of(record, "requestId")
        node.is_whole = node.is_whole or bool(answer.get("stop_reason"))
        if node.call and (dollars := dollars_of(record.get("costUSD"))):
            node.call = replace(node.call, cost=max(node.call.cost or 0.0, dollars))
        content = answer.get("content")
        for block in content if isinstance(content, list) else [content]:
            blocks = [{"type": "text", "text": block}] if isinstance(block, str) else [block]
            for message in self.tree.read({"role": "assistant", "content": blocks}).messages:
                if message.parts or message.tool_calls:
                    self.tree.extend(node, message, _key_of_block(message))
                for call in message.tool_calls:
                    self.callers.setdefault(call.id, node)
        return node

    def _take_built(self, record: Record, answer: Record) -> Node | None:
        """Return what stands for an earlier answer behind a compaction; nobody was asked for it."""
        node: Node | None = None
        parent = self._parent(record, self.lane_of(record))
        content = {"role": "assistant", "content": answer.get("content")}
        for message in self.tree.read(content).messages:
            if message.parts or message.tool_calls:
                node = node or self._node(record, parent, "built", message.content_hash)
                self.tree.extend(node, message, message.content_hash)
                self.callers |= dict.fromkeys([call.id for call in message.tool_calls], node)
        return node

    def take_attachment(self, record: Record) -> Node | None:
        """Return what the client added for the model: a listing, a reminder, a file."""
        text = text_of(object_of(record.get("attachment")), "rendered", "content")
        if not text:
            self._file.skipped["attachments without their text"] += 1
            return None
        message = user(text)
        parent = self._parent(record, self.lane_of(record))
        node = self._node(record, parent, "user", message.content_hash)
        self.tree.extend(node, message, message.content_hash)
        return node

    def take_system(self, record: Record) -> Node | None:
        """Return notes of the client; the first record of a `stream-json` log names the session."""
        note = _inner(record)
        self._session = self._session or text_of(note, "session_id", "sessionId")
        self._project = self._project or text_of(note, "cwd")
        kind = text_of(note, "subtype") or "without a subtype"
        if kind == "compact_boundary":
            self.tree.tails.pop("", None)
            self._compactions += 1
            self._is_built = True
        cleared = object_of(record.get("microcompactMetadata")).get("compactedToolIds")
        self.cleared |= set(map(str, cleared if isinstance(cleared, list) else ()))
        self._file.skipped[f"notes of the client ({kind})"] += 1
        return None

    def take_progress(self, record: Record) -> Node | None:
        """Return what a tool reports while it runs; a subagent reports its messages."""
        inner = _of_progress(record)
        parser = _PARSERS.get(str(inner.get("type")))
        if parser is None:
            self._file.skipped["progress of tools"] += 1
        else:
            parser(self, inner)
        return None

    # ---- out ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Return the name of the session."""
        return self._session or self._file.path.stem

    def recordings(self, answers: Answers, main: str = "") -> Iterator[Recording]:
        """Yield a recording of each path with calls that no other recording counts.

        `main` is the name of the session's own recording, if there is one already.
        """
        while self._early:
            self._take(self._early.pop(next(iter(self._early))))
        has_summaries = any(one.match(_COMPACTING) for one in side_chains(self._file))
        if self._compactions and not self._sums and not has_summaries:
            self._file.skipped[_UNTOLD] += self._compactions
        counted = self._file.skipped[COUNTED]
        # The session first; among ends with the same beginning, the one that was reached last.
        paths = self.tree.paths(answers, lambda one: (one.lane != "", one.root, -one.last))
        if main:
            self._file.skipped[COUNTED] = counted
        recordings: list[Recording] = []
        own = self.name
        for one in paths:
            kind: Kind = "session"
            name = own
            if one.lane:
                kind, name = "side chain", f"{own}/{one.lane.removeprefix('side chain ')}"
            elif main:
                is_compacted = any(node.is_compacted for node in one.nodes[:2])
                kind = "after compaction" if is_compacted else "branch"
                name = f"{own}/{one.calls[0].id}"
            main = main or own
            parent = None if kind == "session" else own
            recording = self.tree.recording(one, name, kind, parent)
            recordings.append(replace(recording, project=self._project))
        nodes = self.tree.nodes
        begun = {node.call.id for node in nodes if node.call is not None and not node.is_whole}
        yield from self._sums.complete(recordings, answers, self._session, begun)


def _inner(record: Record) -> Record:
    """Return the message inside a record; the record itself where there is none."""
    inner = record.get("message")
    return inner if isinstance(inner, Mapping) else record


def _key_of_block(message: Message) -> str:
    """Return the key by which a block of an answer is recognised when it is recorded again."""
    if message.tool_calls:
        return message.tool_calls[0].id
    part = message.parts[0] if message.parts else None
    return part.data if isinstance(part, Opaque) else message.content_hash


_PARSERS: Final[Mapping[str, Callable[[ClaudeTranscript, Record], Node | None]]] = {
    "user": ClaudeTranscript.take_user,
    "assistant": ClaudeTranscript.take_answer,
    "attachment": ClaudeTranscript.take_attachment,
    "system": ClaudeTranscript.take_system,
    "progress": ClaudeTranscript.take_progress,
}
