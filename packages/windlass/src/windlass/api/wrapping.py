"""The library door for official clients: `wrap`, and saving what a wrapped client did.

A wrapped client's calls as sessions of a store: each conversation is one, as a run is.

A call is known by its number in its session, and a message by its occurrence, so that what is
stored already is not added again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from windlass.caching.meter import prefix_report
from windlass.caching.prices import Prices
from windlass.context.wrap import WrapOptions, wrapped
from windlass.context.wrapped_calls import CallContents, WrappedCall, WrapReport
from windlass.errors import UsageError
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    Row,
    SessionStart,
    ShownMessage,
    Store,
    request_hash,
)
from windlass.history.decisions import ErrorDetails
from windlass.history.details import CallDetails, PlainRequest
from windlass.history.row_details import ReplyDetails, RowDetails
from windlass.history.window_rows import edit_records, window_selection_of
from windlass.importing.storing import HELD_OUT, IMPORTED, PHASE, WRAPPED
from windlass.messages import Message, canonical_json
from windlass.text.tokens import FamilyCounter
from windlass.window.options import Policy

if TYPE_CHECKING:
    from windlass.settings.settings import Settings


Client = TypeVar("Client")

_BESIDE: Final = ("blobs", "hooks", "images", "storage")
"""What may stand in the folder of a store before there is one."""


def wrap(
    client: Client,
    policy: str | Mapping[str, Any] | Policy | None = "default",
    *,
    provider: str | None = None,
    prices: Prices | None = None,
    max_input_tokens: int | None = None,
    holdout: float = 0.0,
) -> Client:
    """Return a client that sends the window of each conversation in place of all of it.

    It is used as before: `messages.create` and `stream` of `anthropic`, `chat.completions` and
    `responses` of `openai`, `models.generate_content` and `chats` of `google-genai`, each sync,
    async and streamed. Conversations are told apart by their longest common beginning. What the
    provider counts is planned by. The client that was handed over is not changed.

    What a window shows as it was said is sent as it came, cache marks included. A request that
    cannot be read, or that the vendor would refuse, is sent as it is. The attribute `windlass` of
    the new client is a `ClientReport`: what each call did, and what it cost beside the plain
    request; its `save` puts the calls into a store.

    Where the tools of a request have `recall_tool(...)`, shortened results name it, and
    `client.windlass.answer(...)` answers its calls. Otherwise only results are shortened that a
    tool gives again, and say which.

    Args:
        client: `Anthropic`, `OpenAI`, `genai.Client`, their async forms, and those derived.
        policy: A profile's name, a dict of options, or a `Policy`.
        provider: Whose prices and cache rules hold (None: the vendor's of the client); for a
            client whose `base_url` leads elsewhere, such as `openrouter`.
        prices: What the prompt cache charges; default those of each request's model, or of the
            one of its vendor that is most like it.
        max_input_tokens: Most tokens of a window (None: no limit).
        holdout: The share of conversations that are left as they are, from 0 to 1, so that the
            report can compare them with the others.

    Raises UsageError for another client, one that is wrapped, and a policy that is none.
    """
    options = WrapOptions(Policy.of(policy), provider, prices, max_input_tokens, holdout)
    return wrapped(client, options, ClientReport())


@dataclass(frozen=True, slots=True)
class SavedCalls:
    """What a store holds of a client: its sessions, and how many calls were added this time.

    `bare` of these calls have no messages: their requests could not be read, or their conversation
    was let go for lack of room.
    """

    sessions: tuple[str, ...]
    calls: int
    bare: int


@dataclass
class ClientReport(WrapReport):
    """What a wrapped client sent so far, which can be saved."""

    _name: str = field(default_factory=lambda: f"wrap-{uuid4().hex[:10]}", repr=False)
    """What the names of its sessions begin with."""
    _saving: Lock = field(default_factory=Lock, repr=False)
    _saved: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)
    """How many calls are saved, by store and session."""

    def save(self, store: str | Path | None = None) -> SavedCalls:
        """Put all calls that are over into a store, where everything reads them as a run's.

        Each conversation is a session, with what its calls were sent, hidden and answered, why, and
        what they cost. What is stored already is not added again, so it may be called at any time,
        also while requests are under way. Headers and keys are not written.

        Args:
            store: The folder of the history, or its address, as in `run`; made where it is missing.

        Raises UsageError for a place that is no store, and StoreError where it cannot be written.
        """
        from windlass.api.opening import shared_store
        from windlass.history.base import SessionFilter
        from windlass.settings.settings import Settings

        settings = Settings.read({"store": store})
        _check_place(settings)
        with self._saving, shared_store(settings) as history:
            calls, contents = self._now()
            sessions: dict[str, list[WrappedCall]] = {}
            for call in calls:
                sessions.setdefault(f"{self._name}-{call.thread}", []).append(call)
            ours = SessionFilter(prefix=self._name)
            there = {info.session_id for info in history.sessions(ours, limit=None)}
            added: list[WrappedCall] = []
            for session, own in sessions.items():
                place = str(settings.store), session
                if session in there and self._saved.get(place) == len(own):
                    continue
                conversation = SavedConversation(history, session, is_new=session not in there)
                added += conversation.add(own, contents)
                self._saved[place] = len(own)
        bare = sum(call.number not in contents for call in added)
        return SavedCalls(tuple(sessions), len(added), bare)

    def _now(self) -> tuple[list[WrappedCall], Mapping[int, CallContents]]:
        """Return the calls that are over, and what was said in them, as they are now."""
        if self.conversations is None:
            return [], {}
        with self.conversations.lock:
            calls = [replace(call) for call in self.calls if call.is_over]
            return calls, self.conversations.contents()


def _check_place(settings: Settings) -> None:
    """Raise UsageError for a folder of other files, in which a store would get lost."""
    from windlass.api.opening import open_store

    folder = settings.store
    if not isinstance(folder, Path) or not folder.is_dir():
        return
    if any(one.name not in _BESIDE for one in folder.iterdir()):
        try:
            open_store(settings, existing=True, reading=True).close()
        except UsageError:
            raise UsageError(
                f"{str(folder)!r} holds other files and no store: name a store, or a folder that"
                " is not there yet"
            ) from None


_AT_ONCE: Final = 50
"""The most calls of one batch: each has its whole window."""
_TOOLS: Final = "tools"
_NO_CONTENTS: Final = "what was said is not kept"
_NODES: Final = {
    "system": NodeType.SYSTEM,
    "developer": NodeType.SYSTEM,
    "assistant": NodeType.AGENT,
    "tool": NodeType.TOOL_RESULT,
}


class SavedConversation:
    """A conversation of a wrapped client in a store.

    Args:
        store: Where it is saved.
        session: Its session, which may be there already.
        is_new: Whether it is not.
    """

    def __init__(self, store: Store, session: str, *, is_new: bool) -> None:
        self._store = store
        self._session = session
        self._is_new = is_new
        self._traces: set[str] = set()
        self._ids: dict[str, str] = {}
        """What a message is called in the store, by what its conversation calls it."""
        self._keys: dict[str, str] = {}
        """The keys of the messages, by what they are called in the store."""
        self._replies: dict[str, str] = {}
        """The key of each reply that no list had so far."""
        self._changed: dict[str, str] = {}
        """Replies that came back with a change, by the key that they had then."""
        self._last: tuple[int, str] | None = None
        """How many messages the last call's list had, and its reply."""
        self._counts: Counter[str] = Counter()
        self._sent: list[tuple[str, int]] = []
        """The last request, piece by piece."""
        self._as_it_came = ""
        self._turn = self._edits = 0
        if not self._is_new:
            self._go_on()

    def _go_on(self) -> None:
        """Read what is stored."""
        store, session = self._store, self._session
        for stored in store.rows(session):
            trace = stored.row.trace_id
            self._traces.add(trace)
            if stored.id is not None and stored.key is not None:
                self._counts[stored.key[:16]] += 1
                self._keys[stored.id] = stored.key
                if stored.row.full_history_size is not None:
                    self._last = stored.row.full_history_size, stored.id
                if trace.startswith(f"{session}:"):
                    self._ids[trace.removeprefix(f"{session}:")] = stored.id
                else:
                    self._replies[stored.id] = stored.key
        self._edits = len(store.edits(session))
        calls = store.calls(session)
        for shown in (shown for call in calls for shown in call.shown if shown.shown_as):
            if shown.because is None:  # a reply that the caller handed back with a change
                self._changed[str(shown.shown_as)] = shown.message_id
        self._turn = len(calls)
        if calls:
            self._sent = self._pieces(calls[-1])
            self._as_it_came = calls[-1].details.as_it_came or ""

    def add(
        self, calls: Iterable[WrappedCall], contents: Mapping[int, CallContents]
    ) -> list[WrappedCall]:
        """Save the calls that are not stored yet; returns these."""
        new = [call for call in calls if self._trace(call) not in self._traces]
        for first in range(0, len(new), _AT_ONCE):
            portion = new[first : first + _AT_ONCE]
            batches = [self._batch(call, contents.get(call.number)) for call in portion]
            ended = Outcome("completed", _end(portion[-1]))
            if portion[-1].failed:
                ended = replace(ended, status="failed", error=portion[-1].failed)
            self._store.append(
                Batch(
                    self._session,
                    rows=[row for batch in batches for row in batch.rows],
                    calls=[call for batch in batches for call in batch.calls],
                    edits=[edit for batch in batches for edit in batch.edits],
                    outcomes=[replace(ended, phase=PHASE), ended],
                    start=self._start(portion[0]) if self._is_new else None,
                )
            )
            self._is_new = False
        return new

    def _trace(self, call: WrappedCall) -> str:
        return f"{self._session}#{call.number}"

    def _start(self, call: WrappedCall) -> SessionStart:
        definition = {
            "cascade_id": WRAPPED,
            "phases": [{"name": PHASE}],
            IMPORTED: {
                "format": WRAPPED,
                "grade": "A",
                "kind": "session",
                "file": "",
                "skipped": {},
                **({HELD_OUT: True} if call.held_out else {}),
            },
        }
        return SessionStart(WRAPPED, call.model, {}, definition, call.timing.at)

    def _batch(self, call: WrappedCall, contents: CallContents | None) -> Batch:
        """Return what a call adds to the session."""
        rows: list[Row] = []
        if contents is not None:
            rows += self._new_rows(call, contents)
        if not call.counts:
            return Batch(self._session, rows=[*rows, self._failure(call, self._trace(call))])
        self._turn += 1
        edits = self._new_edits(contents.edits if contents else ())
        record = self._record(call, contents)
        if call.passed_because != self._as_it_came:
            self._as_it_came = call.passed_because
            rows.append(self._note(call))
        rows.append(self._reply(call, contents, record))
        if contents is not None and contents.policy is not None:
            rows.append(self._selection(call, contents, record))
        if call.failed:
            rows.append(self._failure(call, f"{self._trace(call)}!"))
        return Batch(self._session, rows=rows, calls=[record], edits=edits)

    def _row(
        self,
        call: WrappedCall,
        node: NodeType,
        trace: str,
        message: Message | None = None,
        details: RowDetails | None = None,
    ) -> Row:
        """Return a row of the session, which every row begins as."""
        pictures = message.pictures if message is not None else ()
        return Row(
            node_type=node,
            trace_id=trace,
            timestamp=call.timing.at,
            message=message,
            phase=PHASE,
            turn=max(1, self._turn),
            attempt=1,
            details=details,
            pictures={one.sha256: one.data for one in pictures if one.data is not None},
        )

    def _new_rows(self, call: WrappedCall, contents: CallContents) -> list[Row]:
        """Return the messages of a call that the session does not hold, as rows."""
        rows: list[Row] = []
        said = list(contents.said)
        for at, item in enumerate([*said, *(entry.item for entry in contents.shown)]):
            if item.id in self._ids:
                continue
            if item.message.role == "assistant" and (reply := self._heard(item.message, at)):
                self._ids[item.id] = reply
                continue
            self._ids[item.id] = self._numbered(item.message)
            node = _NODES.get(item.message.role, NodeType.USER)
            if at >= len(said):
                node = NodeType.CONTEXT_INJECTION
            rows.append(self._row(call, node, f"{self._session}:{item.id}", item.message))
        return rows

    def _heard(self, message: Message, at: int) -> str | None:
        """The reply that a message of a list is, as the model gave it; perhaps with a change."""
        same = next((name for name, key in self._replies.items() if key == message.key), None)
        same = same or self._changed.get(message.key)
        if same is None and self._last is not None and self._last[0] == at:
            same = self._last[1] if self._last[1] in self._replies else None
        if same is not None:
            self._replies.pop(same, None)
        return same

    def _numbered(self, message: Message) -> str:
        """Return the name that the store gives to the next occurrence of a message."""
        short = message.content_hash
        self._counts[short] += 1
        ident = f"{short}-{self._counts[short]}"
        self._keys[ident] = message.key
        return ident

    def _new_edits(self, edits: Sequence[Any]) -> list[EditRecord]:
        records = [
            replace(record, message_id=self._ids[record.message_id])
            for record in edit_records(edits)
            if record.message_id in self._ids
        ]
        self._edits += len(records)
        return records

    def _record(self, call: WrappedCall, contents: CallContents | None) -> CallRecord:
        """Return what a call was sent, and what the request as it came would have cost."""
        counter = FamilyCounter(call.model)
        used = call.plain_usage
        details = CallDetails(
            assumed=(*call.assumed, *([_NO_CONTENTS] if contents is None else [])),
            edits=self._edits,
            as_it_came=call.passed_because or None,
            plain=None if used is None else PlainRequest(used.tokens_in, call.plain_cost),
        )
        if contents is None:
            saved = call.tokens + call.saved_tokens
            empty = request_hash((), ())
            return CallRecord(
                self._trace(call), call.model, (), empty, (), call.tokens, saved, details=details
            )
        shown, bodies = list[ShownMessage](), dict[str, Message]()
        for entry in contents.shown:
            ident, key = self._ids[entry.item.id], entry.message.key
            changed = key if key != self._keys[ident] else None
            if changed is not None:
                bodies[key] = entry.message
            tokens = counter.message(entry.message)
            because = ", ".join(entry.causes) or None
            shown.append(ShownMessage(ident, entry.reason, tokens, changed, because))
        tools = tuple(spec.to_openai() for spec in contents.tools)
        head = counter.opening + counter.tools(contents.tools)
        record = CallRecord(
            trace_id=self._trace(call),
            model=call.model,
            shown=tuple(shown),
            request_hash=request_hash([entry.message.key for entry in contents.shown], tools),
            tools=tools,
            sent_tokens=head + sum(one.tokens for one in shown),
            full_tokens=head + sum(counter.message(item.message) for item in contents.said),
            bodies=tuple(bodies.values()),
        )
        sent = self._pieces(record)
        details = replace(details, prefix=prefix_report(self._sent, sent))
        self._sent = sent
        return replace(record, details=details)

    def _pieces(self, record: CallRecord) -> list[tuple[str, int]]:
        """Return a request as its prefix is compared: its tools, then its messages."""
        messages = [
            (shown.shown_as or self._keys[shown.message_id], shown.tokens) for shown in record.shown
        ]
        head = record.sent_tokens - sum(tokens for _, tokens in messages)
        return [(f"{_TOOLS}:{canonical_json(list(record.tools))}", head), *messages]

    def _reply(self, call: WrappedCall, contents: CallContents | None, record: CallRecord) -> Row:
        """Return the reply of a call, with what the provider counted."""
        said = list(contents.said) if contents else []
        node = NodeType.FOLLOW_UP if said and said[-1].message.role == "tool" else NodeType.AGENT
        message = contents.reply if contents else None
        if message is not None:
            ident = self._numbered(message)
            self._replies[ident] = message.key
            self._last = len(said), ident
        used, details = call.usage, None
        if used is not None:
            details = ReplyDetails(
                tokens_written=used.tokens_written,
                tokens_written_long=used.tokens_written_long,
                searches=used.searches,
                tier=used.tier,
            )
        return replace(
            self._row(call, node, record.trace_id, message, details),
            model=call.model,
            tokens_in=None if used is None else used.tokens_in,
            tokens_out=None if used is None else used.tokens_out,
            tokens_cached=None if used is None else used.tokens_cached,
            cost=call.cost,
            duration_ms=1_000 * (call.timing.seconds or 0.0),
            full_history_size=len(said),
            context_size=len(record.shown),
            tokens_saved=record.full_tokens - record.sent_tokens,
        )

    def _selection(self, call: WrappedCall, contents: CallContents, record: CallRecord) -> Row:
        """By which rules the window of a call was made."""
        assert contents.policy is not None
        head = {entry.item.id for entry in contents.shown if entry.message.is_system}
        row = replace(
            self._row(call, NodeType.CONTEXT_SELECTION, f"{record.trace_id}~"),
            parent_id=record.trace_id,
            full_history_size=len(contents.said),
            context_size=len(record.shown),
            tokens_saved=record.full_tokens - record.sent_tokens,
        )
        details = window_selection_of(contents.policy, contents.shown, head, self._turn, row)
        return replace(row, details=details)

    def _note(self, call: WrappedCall) -> Row:
        """From which call on requests go out as they came, or do no more."""
        text = f"from call {self._turn} on windows are sent"
        if call.passed_because:
            text = f"from call {self._turn} on requests go out as they came: {call.passed_because}"
        return replace(self._row(call, NodeType.DECISION, f"{self._trace(call)}?"), text=text)

    def _failure(self, call: WrappedCall, trace: str) -> Row:
        text = f"call {call.number} of the client failed: {call.failed}"
        if call.passed_because:
            text += f"; it went out as it came: {call.passed_because}"
        details = ErrorDetails("ProviderError", text)
        return replace(self._row(call, NodeType.ERROR, trace, None, details), text=details.text)


def _end(call: WrappedCall) -> float:
    """When a call was over, in seconds since 1970."""
    return call.timing.at + (call.timing.seconds or 0.0)
