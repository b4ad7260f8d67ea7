"""Recordings as sessions of a store, so that everything that reads sessions reads them.

A session is known by what it begins with: the same recording adds nothing the second time, and one
that grew adds what is new.

Imports a file or folder into a store, for `import_sessions` and `windlass import`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from windlass.caching.meter import PrefixDetails
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    Row,
    SessionFilter,
    SessionStart,
    ShownMessage,
    Store,
    request_hash,
)
from windlass.history.details import CallDetails
from windlass.history.row_details import ReplyDetails
from windlass.importing.base import COUNTED
from windlass.importing.recording import GRADES, RecordedCall, Recording, RecordingFacts
from windlass.importing.streams import recordings
from windlass.messages import Message, canonical_json
from windlass.text.tokens import FamilyCounter
from windlass.wire.calls import with_own_ids

PHASE: Final = "conversation"
"""The one phase of an imported session."""
IMPORTED: Final = "imported"
"""The key in a session's definition under which it says from what it was imported."""
WRAPPED: Final = "wrap"
"""The format of a session whose calls a wrapped client made."""
HELD_OUT: Final = "held_out"
"""The key below `IMPORTED` that says that it was left as it was, for comparison."""
RESULTS_AS_WORDS: Final = "results_as_words"
"""The key below `IMPORTED` that says that results of commands were sent as words of the user."""
PROJECT: Final = "project"
"""The key below `IMPORTED` with the folder in which the program worked, where it was recorded."""
_AT_ONCE: Final = 50
"""The most calls of one batch: each has its whole window."""
_WHY: Final = "as it was recorded"


@dataclass(frozen=True, slots=True)
class ShownShort:
    """A result that was shortened before its model saw it: the transcript has the short form."""

    original: Message
    because: str
    """The name of the rule."""
    reason: str


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A recording in the store, with the calls that no other session there has."""

    session_id: str
    state: Literal["new", "grew", "unchanged"]
    """`grew`: messages were added to those of an earlier import; `unchanged`: nothing was added."""
    recording: Recording


def imported_from(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a session's definition (`SessionStart.cascade`) says of its import; empty: no import."""
    origin = definition.get(IMPORTED)
    return origin if isinstance(origin, Mapping) else {}


def evidence_text(definition: Mapping[str, Any]) -> str:
    """Say what a session was imported from, and how good its evidence is; empty: not imported."""
    origin = imported_from(definition)
    if not origin:
        return ""
    if origin["format"] == WRAPPED:
        kind = "a conversation that is held out" if origin.get(HELD_OUT) else "a conversation"
        return f"{kind} of a wrapped client: {GRADES[origin['grade']]}"
    text = f"imported from {origin['format']}: {GRADES[origin['grade']]}"
    if origin["grade"] == "C":
        text += "; tools, and often the system prompt, were not recorded"
    return text


def session_id_of(recording: Recording) -> str:
    """Return the name of a recording's session, which stays the same while the recording grows."""
    first = recording.messages[0].key if recording.messages else ""
    call = recording.calls[0].id if recording.calls else ""
    text = canonical_json([recording.format, recording.name, recording.kind, first, call])
    return f"{recording.format}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def answers_in(store: Store) -> dict[str, str]:
    """Give the session that has each answer of another program's recording, by the answer's id."""
    rows = store.query(
        "SELECT session_id, metadata_json FROM unified_logs"
        " WHERE node_type IN ('agent', 'follow_up') AND metadata_json LIKE '%\"answer\":%'"
    )
    answers: dict[str, str] = {}
    for row in rows:
        if answer := json.loads(row["metadata_json"]).get("answer"):
            answers.setdefault(answer, row["session_id"])
    return answers


def store_recording(
    store: Store,
    recording: Recording,
    parents: Mapping[str, str] | None = None,
    shortened: Mapping[str, ShownShort] | None = None,
    answers: dict[str, str] | None = None,
) -> StoredSession:
    """Store a recording as a session, or the part of it that is not stored yet.

    A call whose answer another session has is counted there, and not here. `parents` are the
    sessions of recordings that were stored before, by the recordings' names; `shortened` are
    results that stand in the recording in a short form, by the ids of their calls; `answers` are
    those that `answers_in` found, to which these are added.
    """
    known = answers_in(store) if answers is None else answers
    messages = with_own_ids(recording.messages)
    edits: dict[int, EditRecord] = {}
    for at, message in enumerate(messages):
        short = (shortened or {}).get(message.tool_call_id or "")
        if message.role == "tool" and short is not None:
            edits[at] = EditRecord("", "replace", short.because, short.reason, message)
            messages[at] = short.original
    recording = replace(recording, messages=tuple(messages))
    session = session_id_of(recording)
    stored = _read(store, session)
    keys = [message.key for message in recording.messages]
    if recording.calls and recording.calls[-1].at == len(keys):
        keys.append(_UNANSWERED)
    grew = stored is not None
    if stored is not None and stored.has_older(keys, recording.calls):
        return StoredSession(session, "unchanged", recording)
    if stored is not None and stored.begins(keys):
        if stored.lacks_tokens(_calls_of(recording, session, known).calls):
            store.prune(session_id=session, now=0)  # its program told them later
            stored = None
    elif stored is not None:
        if stored.was_being_written(keys, recording.calls):  # there is a whole answer now
            store.prune(session_id=session, now=0)
            stored = None
        else:  # it differs from what was imported before: both are kept
            digest = hashlib.sha256(canonical_json(keys).encode()).hexdigest()[:6]
            session = f"{session}-{digest}"
            stored = _read(store, session)
            grew = stored is not None
    own = _calls_of(recording, session, known)
    if stored is not None and len(stored.keys) == len(keys):
        return StoredSession(session, "unchanged", own)
    if recording.calls and not own.calls:
        holder = known[recording.calls[0].id]
        held = _read(store, holder)
        if held is not None and held.begins_with(keys):
            return StoredSession(holder, "unchanged", own)
    known.update((call.id, session) for call in own.calls if call.id)
    first = None if stored is None else len(stored.keys)
    _Writer(store, own, session, first, edits).write((parents or {}).get(recording.parent or ""))
    return StoredSession(session, "grew" if grew else "new", own)


def _calls_of(recording: Recording, session: str, answers: Mapping[str, str]) -> Recording:
    """Return the recording with the calls whose answers no other session has."""
    calls = tuple(
        call for call in recording.calls if answers.get(call.id or "", session) == session
    )
    if left_out := len(recording.calls) - len(calls):
        skipped = Counter(recording.skipped)
        skipped[COUNTED] += left_out
        return replace(recording, calls=calls, skipped=dict(skipped))
    return recording


_UNANSWERED: Final = ""
"""What stands for a call at the end whose answer was not recorded."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """The keys of a stored session's messages, and the ids of its answers.

    An id is empty where the session was imported before ids were kept, and None where a message is
    no answer.
    """

    keys: Sequence[str]
    answers: Sequence[str | None]
    counts: Sequence[int | None]
    """The tokens that each call sent (None: the recording did not say, or there was no call)."""

    def begins(self, keys: Sequence[str]) -> bool:
        """Return whether a list with these keys begins with all of it."""
        return keys[: len(self.keys)] == self.keys

    def begins_with(self, keys: Sequence[str]) -> bool:
        """Return whether it begins with all of a list with these keys."""
        return self.keys[: len(keys)] == keys

    def was_being_written(self, keys: Sequence[str], calls: Sequence[RecordedCall]) -> bool:
        """Whether it ends in the middle of an answer that a recording with these keys has whole."""
        last = len(self.keys) - 1
        return last >= 0 and keys[:last] == self.keys[:last] and self._has(last, calls)

    def has_older(self, keys: Sequence[str], calls: Sequence[RecordedCall]) -> bool:
        """Whether a shorter recording is a copy of it, which may end in the middle of an answer."""
        last = len(keys) - 1
        if len(keys) >= len(self.keys) or keys[:last] != self.keys[:last]:
            return False
        return self.begins_with(keys) or self._has(last, calls)

    def lacks_tokens(self, calls: Sequence[RecordedCall]) -> bool:
        """Whether a recording tells the tokens of an answer that it has without."""
        told = {call.at: call.id for call in calls if call.usage is not None and call.id}
        return any(
            count is None and answer and told.get(at) == answer
            for at, (answer, count) in enumerate(zip(self.answers, self.counts, strict=True))
        )

    def _has(self, at: int, calls: Sequence[RecordedCall]) -> bool:
        """Return whether its answer at a place may be the one that a recording has there."""
        ident = next((call.id for call in calls if call.at == at), "")
        return self.answers[at] in ("", ident)


def _read(store: Store, session: str) -> _Stored | None:
    """Return what a session holds; None where there is no such session."""
    sessions = store.sessions(SessionFilter(prefix=session), limit=None)
    if all(info.session_id != session for info in sessions):
        return None
    rows = list(store.rows(session))
    replies = (ReplyDetails.read(stored.row) for stored in rows)
    return _Stored(
        [stored.key or _UNANSWERED for stored in rows],
        [None if reply is None else reply.answer for reply in replies],
        [stored.row.tokens_in for stored in rows],
    )


class _Writer:
    """Writes a recording from its message `first` on (None: all of it, as a new session)."""

    def __init__(
        self,
        store: Store,
        recording: Recording,
        session: str,
        first: int | None,
        edits: Mapping[int, EditRecord],
    ) -> None:
        self._edits = edits
        """Those of the messages that were shown in another form, by their places."""
        self._forms: list[tuple[Message, int]] = []
        """These forms, and the tokens that each saves."""
        self._store = store
        self._recording = recording
        self._session = session
        self._first = first
        self._counter = FamilyCounter(recording.model)
        self._calls = {call.at: call for call in recording.calls}
        self._times = self._clock()
        self._counts: Counter[str] = Counter()
        self._shown: list[ShownMessage] = []
        self._turn = 0
        self._tools = tuple(spec.to_openai() for spec in recording.tools or ())
        self._keys: list[str] = []
        """Of what later calls see."""
        self._tokens = self._counter.opening + self._counter.tools(recording.tools or ())
        """Of a call that sees it all."""
        self._before = 0
        """Of the call before."""

    def write(self, parent: str | None) -> None:
        """Append batch by batch."""
        recording, rows, calls = self._recording, list[Row](), list[CallRecord]()
        edits = list[EditRecord]()
        start = self._start(parent) if self._first is None else None
        first = self._first or 0
        output: str | None = None
        for at in range(len(recording.messages) + 1):
            call = self._calls.get(at)
            self._turn += call is not None
            if call is not None:
                record = self._call(at, call)
                calls += [record] if at >= first else []
            if at < len(recording.messages) or call is not None:
                row = self._row(at, call)
                if row.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP):
                    output = row.trace_id
                if at >= first:
                    rows.append(row)
                    if at in self._edits:
                        ident = self._shown[-1].message_id
                        edits.append(replace(self._edits[at], message_id=ident))
            if len(calls) >= _AT_ONCE:
                self._store.append(
                    Batch(self._session, rows=rows, calls=calls, edits=edits, start=start)
                )
                rows, calls, edits, start = [], [], [], None
        ended = self._times[-1]
        outcomes = (
            Outcome("completed", ended, phase=PHASE, output_trace=output),
            Outcome("completed", ended, output_trace=output),
        )
        batch = Batch(self._session, rows, calls, edits, outcomes=outcomes, start=start)
        self._store.append(batch)

    @property
    def _saved(self) -> int:
        return sum(saved for _, saved in self._forms)

    def _start(self, parent: str | None) -> SessionStart:
        recording = self._recording
        definition = {
            "cascade_id": recording.name,
            "phases": [{"name": PHASE}],
            IMPORTED: {
                "format": recording.format,
                "grade": recording.grade,
                "kind": recording.kind,
                "file": Path(recording.source).name,
                "skipped": dict(recording.skipped),
                **({PROJECT: recording.project} if recording.project else {}),
                **({RESULTS_AS_WORDS: True} if recording.results_as_words else {}),
            },
        }
        return SessionStart(
            cascade_id=recording.name,
            model=recording.model,
            input={},
            cascade=definition,
            timestamp=self._times[0],
            parent_id=parent,
            parent_phase=None if parent is None else PHASE,
        )

    def _clock(self) -> list[float]:
        """Get the time of each message: that of the next call; at the end, that of the last one."""
        of_calls = [call.time for call in self._recording.calls if call.time is not None]
        now = of_calls[-1] if of_calls else _changed(self._recording.source)
        times = [now] * (len(self._recording.messages) + 1)
        for at in range(len(times) - 1, -1, -1):
            call = self._calls.get(at)
            if call is not None and call.time is not None:
                now = min(now, call.time)
            times[at] = now
        return times

    def _row(self, at: int, call: RecordedCall | None) -> Row:
        messages = self._recording.messages
        message = messages[at] if at < len(messages) else None
        row = Row(
            node_type=self._kind(at),
            trace_id=f"{self._session}-{at}",
            timestamp=self._times[at],
            message=message,
            phase=PHASE,
            turn=self._turn,
            attempt=1,
        )
        if call is not None:
            row = replace(
                row,
                model=call.model,
                cost=call.dollars,
                full_history_size=at,
                context_size=at,
            )
            if call.id:
                row = replace(row, details=ReplyDetails(answer=call.id))
            if (used := call.usage) is not None:
                row = replace(
                    row,
                    tokens_in=used.tokens_in,
                    tokens_out=used.tokens_out,
                    tokens_cached=used.tokens_cached,
                    tokens_saved=self._saved,
                    details=ReplyDetails(
                        tokens_written=used.tokens_written,
                        tokens_written_long=used.tokens_written_long,
                        tokens_out_estimated=call.estimated,
                        searches=used.searches,
                        tier=used.tier,
                        answer=call.id,
                    ),
                )
        if message is not None:
            short = message.content_hash
            self._counts[short] += 1
            self._show(f"{short}-{self._counts[short]}", message, self._edits.get(at))
            bytes_of = {one.sha256: one.data for one in message.pictures if one.data is not None}
            row = replace(row, pictures=bytes_of)
        return row

    def _show(self, ident: str, message: Message, edit: EditRecord | None) -> None:
        """Let later calls see a message, in the form that an edit gave it."""
        form = message if edit is None or edit.replacement is None else edit.replacement
        tokens = self._counter.message(form)
        self._keys.append(form.key)
        self._tokens += tokens
        if form is message or edit is None:
            self._shown.append(ShownMessage(ident, _WHY, tokens))
            return
        self._forms.append((form, self._counter.message(message) - tokens))
        self._shown.append(ShownMessage(ident, edit.reason, tokens, form.key, edit.because))

    def _kind(self, at: int) -> NodeType:
        messages = self._recording.messages
        before = messages[at - 1].role if at else "user"
        role = messages[at].role if at < len(messages) else "assistant"
        if role == "assistant":
            return NodeType.FOLLOW_UP if before == "tool" else NodeType.AGENT
        if role == "tool":
            return NodeType.TOOL_RESULT
        return NodeType.USER if role == "user" else NodeType.SYSTEM

    def _call(self, at: int, call: RecordedCall) -> CallRecord:
        # A recording is one list that only grew: each call sees all that the one before saw.
        details = CallDetails(prefix=PrefixDetails(self._before))
        self._before = self._tokens
        return CallRecord(
            trace_id=f"{self._session}-{at}",
            model=call.model,
            shown=tuple(self._shown),
            request_hash=request_hash(self._keys, self._tools),
            tools=self._tools,
            sent_tokens=self._tokens,
            full_tokens=self._tokens + self._saved,
            bodies=tuple(form for form, _ in self._forms),
            details=details,
        )


def _changed(source: str) -> float:
    """When a file was changed, in seconds since 1970."""
    try:
        return Path(source).stat().st_mtime
    except OSError:
        return 0.0


@dataclass(frozen=True, slots=True)
class ImportedSession(RecordingFacts):
    """A session that came from a file of another program."""

    session_id: str
    state: str
    """`new`, `grew` (messages were added to it) or `unchanged` (all of it was stored already)."""
    parent: str | None
    """The session whose side chain or branch it is."""
    calls: int
    tokens_in: int
    """The provider's count, as are the tokens cached, written and out."""
    tokens_cached: int
    tokens_written: int
    tokens_out: int
    cost: float | None
    """US dollars (None: the usage or the price of a call is unknown)."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: the sessions, in the order in which they were read."""

    sessions: tuple[ImportedSession, ...]

    def by_format(self) -> list[list[ImportedSession]]:
        """Return the sessions of each format and grade."""
        groups: dict[tuple[str, str], list[ImportedSession]] = {}
        for session in self.sessions:
            groups.setdefault((session.format, session.grade), []).append(session)
        return list(groups.values())


def import_into(
    store: Store, path: str | Path, form: str | None, on_skip: Callable[[str], None] | None
) -> ImportResult:
    """Store each recording of a file or folder. Raises UsageError as `recordings` does."""
    sessions: list[ImportedSession] = []
    names: dict[str, str] = {}
    answers = answers_in(store)
    for recording in recordings(path, form, on_skip):
        parent = names.get(recording.parent or "")
        stored = store_recording(store, recording, names, answers=answers)
        recording = stored.recording  # noqa: PLW2901  # without calls that count elsewhere
        names.setdefault(recording.name, stored.session_id)
        used = recording.usage
        sessions.append(
            ImportedSession(
                stored.session_id,
                stored.state,
                parent,
                len(recording.calls),
                used.tokens_in,
                used.tokens_cached,
                used.tokens_written,
                used.tokens_out,
                recording.dollars,
                name=recording.name,
                format=recording.format,
                grade=recording.grade,
                kind=recording.kind,
                model=recording.model,
                skipped=dict(recording.skipped),
                estimated=recording.estimated,
            )
        )
    return ImportResult(tuple(sessions))
