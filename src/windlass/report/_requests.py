"""The requests of a session, each told as what is new in it against the one before.

As they were sent, and as a plain snowball would have sent them; `shortened.py` has them under a
policy. So bills of a long session take as long as its messages, and not as the sum of its requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from windlass.caching.meter import Weighed
from windlass.caching.rates import is_local, rate
from windlass.history.base import (
    BORN,
    EVALUATION,
    SOUNDING,
    SOUNDINGS,
    NodeType,
    Row,
    ShownMessage,
    Store,
    StoredRow,
)
from windlass.history.row_details import ReplyDetails, continued
from windlass.importing.recording import spoken
from windlass.importing.storing import grade_of
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.text.tokens import FamilyCounter
from windlass.window.entries import INJECT

TOOLS: Final = "tools"
"""What the definitions of the tools are called among the pieces of a request."""


@dataclass(frozen=True, slots=True)
class SessionCall:
    """One call: its number in its session, its reply, what it sent, and what a snowball would have.

    That is the system prompt, and the first `born` messages of those `said` in the session: to a
    sounding nothing is said in the others.
    """

    number: int
    row: Row
    model: str
    tools: Sequence[Mapping[str, Any]]
    shown: Sequence[ShownMessage]
    prompt: StoredRow | None
    said: Sequence[StoredRow]
    born: int
    sent_tokens: int
    full_tokens: int

    @property
    def reply(self) -> ReplyDetails | None:
        """What the record says of the reply (None: the call has none in the session)."""
        return ReplyDetails.of(self.row)

    @property
    def inherited(self) -> bool:
        """Whether the session that this one was forked from paid for it."""
        return self.reply is not None and self.reply.inherited is not None

    @property
    def free(self) -> bool:
        """Whether it cost nothing because the model is not sold, rather than sold for nothing."""
        return self.row.cost == 0 and (is_local(self.model) or rate(self.model) is None)


class SessionRecord:
    """A session, read once: its rows, its messages by key, and those said in it in order."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.start = store.start(session_id)  # an unknown session is told here
        self.store = store
        self.session_id = session_id
        self._calls = {call.trace_id: call for call in store.calls(session_id)}
        self.rows = list(store.rows(session_id))
        self._grade = grade_of(self.start.cascade)
        self._missing: int | None = None
        self._refined = {
            (stored.row.phase, stored.row.sounding_index)
            for stored in self.rows
            if stored.row.metadata.get("kind") == SOUNDING and stored.row.metadata["round"]
        }
        self._called: Mapping[str, str] | None = None
        self.by_id: dict[str, StoredRow] = {}
        self._messages = {body.key: body for call in self._calls.values() for body in call.bodies}
        for stored in self.rows:
            message = stored.row.message
            if message is not None and stored.id is not None and stored.key is not None:
                self._messages[stored.key] = message
                self.by_id[stored.id] = stored

    @property
    def has_windows(self) -> bool:
        """Whether a policy was in force at any call."""
        return any(
            stored.row.node_type == NodeType.CONTEXT_SELECTION
            and stored.row.metadata.get("selection_type") == "intra_phase"
            for stored in self.rows
        )

    def calls(self) -> Iterator[SessionCall]:
        """The session's calls in order."""
        system: StoredRow | None = None
        said: list[StoredRow] = []
        apart: dict[tuple[str | None, int], list[StoredRow]] = {}
        replaced = continued(self.rows)
        numbers = {trace: number for number, trace in enumerate(self._calls, start=1)}
        for stored in self.rows:
            row, index = stored.row, stored.row.sounding_index
            if row.node_type == NodeType.SYSTEM:
                system = stored
            if index is not None and (row.phase, index) not in apart:
                apart[row.phase, index] = said.copy()
            call = self._calls.get(row.trace_id)
            if call is not None and row.message is not None:
                prompt = system if system and system.row.phase == row.phase else None
                now = said if index is None else apart[row.phase, index]
                yield SessionCall(
                    numbers[row.trace_id],
                    row,
                    call.model,
                    call.tools,
                    call.shown,
                    prompt,
                    now,
                    len(now),
                    call.sent_tokens,
                    call.full_tokens,
                )
            is_said = row.node_type in BORN and stored.id not in replaced
            if is_said and row.message is not None:
                (said if index is None else apart[row.phase, index]).append(stored)
            if row.node_type == NodeType.DECISION and row.metadata.get("kind") == SOUNDINGS:
                said = apart.get((row.phase, row.metadata.get("winner", -1)), said)

    def tokens(self, counter: FamilyCounter, message: Message) -> int:
        """A message by our count; of an imported one's thinking the words, not the signature."""
        return counter.message(spoken(message) if self._grade else message)

    def missing(self, counter: FamilyCounter) -> int:
        """Tokens in front of each request that were not recorded, by the provider's first count.

        0 where all was recorded, or the provider's count is not known.
        """
        if self._grade != "C":
            return 0
        if self._missing is None:
            self._missing = max(0, self._unseen(counter))
        return self._missing

    def _unseen(self, counter: FamilyCounter) -> int:
        for call in self.calls():
            if told := call.row.tokens_in:
                sent = (self.sent(shown)[1] for shown in call.shown)
                ours = sum(self.tokens(counter, message) for message in sent)
                return told - ours - tokens_of_tools(counter, call.tools)
        return 0

    def line(self, row: Row) -> str:
        """The line that a row counts in: soundings, refinements and evaluations stand apart."""
        name = row.phase or "-"
        if row.sounding_index is not None:
            refined = (row.phase, row.sounding_index) in self._refined
            return f"{name}, {'reforge' if refined else 'soundings'}"
        return f"{name}, evaluator" if row.metadata.get("kind") == EVALUATION else name

    def tool_of(self, message: Message) -> str | None:
        """The name of the tool whose result a message is; None where its call is not there."""
        if self._called is None:
            messages = (stored.row.message for stored in self.rows)
            calls = (call for message in messages if message for call in message.tool_calls)
            self._called = {call.id: call.name for call in calls}
        return self._called.get(message.tool_call_id or "")

    def sent(self, shown: ShownMessage) -> tuple[str, Message]:
        """What was sent for an entry of a window, and its key."""
        key = shown.shown_as or str(self.by_id[shown.message_id].key)
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = self.store.message(key)
        return key, message


class NewPieces(NamedTuple):
    """What a request says that the one before did not: it goes on from its first `kept` pieces.

    `names` are the ids of the messages that the pieces stand for.
    """

    kept: int
    pieces: Weighed
    names: Sequence[str]


class Requests(ABC):
    """The requests of a model."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        self.record = record
        self.counter = counter
        self._tools: Sequence[Mapping[str, Any]] | None = None
        self._head = ("", 0)

    def weighed(self, key: str, message: Message) -> tuple[str, int]:
        """A message as a piece."""
        return key, self.record.tokens(self.counter, message)

    def is_same_head(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the tools, which stand first, are those of the request before."""
        if self._tools is not None and (tools is self._tools or tools == self._tools):
            return True
        tokens = tokens_of_tools(self.counter, tools) + self.record.missing(self.counter)
        self._tools, self._head = tools, (f"tools:{canonical_json(list(tools))}", tokens)
        return False

    def with_head(self, kept: int, pieces: Weighed, names: list[str], *, same: bool) -> NewPieces:
        """The pieces behind the tools, or with them where they are new."""
        if same:
            return NewPieces(1 + kept, pieces, names)
        return NewPieces(0, [self._head, *pieces], [TOOLS, *names])

    @abstractmethod
    def new(self, call: SessionCall) -> NewPieces:
        """What is new in the request of a call."""


class SentRequests(Requests):
    """What was sent; `because` names what edited each message that was not sent as it was said."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        super().__init__(record, counter)
        self._shown: Sequence[ShownMessage] = ()
        self.because: dict[str, str] = {}

    def new(self, call: SessionCall) -> NewPieces:
        """What is new in the request of a call."""
        same = 0
        if has_same_head := self.is_same_head(call.tools):
            pairs = zip(call.shown, self._shown, strict=False)
            differing = (at for at, (now, was) in enumerate(pairs) if now is not was and now != was)
            same = next(differing, min(len(call.shown), len(self._shown)))
        self._shown = call.shown
        more = call.shown[same:]
        for shown in more:
            if shown.because is not None:
                edits = [name for name in shown.because.split(", ") if name != INJECT]
                self.because.update((shown.message_id, name) for name in edits)
        pieces = [self.weighed(*self.record.sent(shown)) for shown in more]
        return self.with_head(
            same, pieces, [shown.message_id for shown in more], same=has_same_head
        )


class SnowballRequests(Requests):
    """What a snowball would have sent."""

    _prompt: str | None = None
    _born = 0
    _said: Sequence[StoredRow] = ()

    def new(self, call: SessionCall) -> NewPieces:
        """What is new in the request of a call."""
        prompt = None if call.prompt is None else call.prompt.key
        goes_on = self.is_same_head(call.tools) and prompt == self._prompt
        goes_on = goes_on and call.said is self._said
        head = [] if call.prompt is None else [call.prompt]
        begin = self._born if goes_on else 0
        more = [*([] if goes_on else head), *call.said[begin : call.born]]
        pieces = [self.weighed(str(each.key), _message(each)) for each in more]
        self._prompt, self._born, self._said = prompt, call.born, call.said
        return self.with_head(
            len(head) + begin, pieces, [str(each.id) for each in more], same=goes_on
        )


def _message(stored: StoredRow) -> Message:
    return stored.row.message or Message("user")


def tokens_of_tools(counter: FamilyCounter, tools: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of the definitions of tools, with those that open every answer."""
    return counter.tools([ToolSpec(**tool["function"]) for tool in tools]) + counter.opening
