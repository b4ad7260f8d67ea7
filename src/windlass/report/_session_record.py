"""A session as its store has it, read once: its rows, its calls, and what each was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import is_not
from typing import Any, Final, TypeVar

from windlass.history.base import (
    BORN,
    NodeType,
    Row,
    ShownMessage,
    Store,
    StoredRow,
)
from windlass.history.decisions import (
    Evaluation,
    SoundingEnded,
    SoundingsDecided,
    ValidatorAsked,
    VisitBegun,
    window_selection,
)
from windlass.history.details import PlainRequest
from windlass.history.row_details import ReplyDetails, continued
from windlass.importing.recording import without_signatures
from windlass.importing.storing import imported_from
from windlass.ledger.charges import is_free
from windlass.messages import Message, ToolSpec
from windlass.text.tokens import FamilyCounter

_Item = TypeVar("_Item")
_REPLIES: Final = frozenset({NodeType.AGENT, NodeType.FOLLOW_UP})
"""The types of rows that are replies; of one that was not recorded the row has no message."""


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
    plain: PlainRequest | None = None
    """The request as it came, where a wrapped client sent something else."""

    @property
    def reply(self) -> ReplyDetails | None:
        """What the record says of the reply (None: the call has none in the session)."""
        return ReplyDetails.read(self.row)

    @property
    def inherited(self) -> bool:
        """Whether the session that this one was forked from paid for it."""
        return self.reply is not None and self.reply.inherited is not None

    @property
    def free(self) -> bool:
        """Whether it cost nothing because the model is not sold, rather than sold for nothing."""
        return is_free(self.model, self.row.cost)


class SessionRecord:
    """A session, read once: its rows, its messages by key, and those said in it in order."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.start = store.start(session_id)  # an unknown session is told here
        self.store = store
        self.session_id = session_id
        self.sent_calls = store.calls(session_id)
        self.rows = list(store.rows(session_id))
        self._grade = imported_from(self.start.cascade).get("grade")
        self._missing: int | None = None
        self._refined = {
            (stored.row.phase, stored.row.sounding_index)
            for stored in self.rows
            if (ended := SoundingEnded.read(stored.row)) is not None and ended.round
        }
        self._called: Mapping[str, str] | None = None
        self.by_id: dict[str, StoredRow] = {}
        bodies = new_in_each([call.bodies for call in self.sent_calls])
        self._messages = {body.key: body for _, body in bodies}
        for stored in self.rows:
            message = stored.row.message
            if message is not None and stored.id is not None and stored.key is not None:
                self._messages[stored.key] = message
                self.by_id[stored.id] = stored

    @property
    def has_windows(self) -> bool:
        """Whether a policy was in force at any call."""
        return any(window_selection(stored.row) is not None for stored in self.rows)

    def calls(self) -> Iterator[SessionCall]:
        """The session's calls in order."""
        system: StoredRow | None = None
        said: list[StoredRow] = []
        apart: dict[tuple[str | None, int | None], list[StoredRow]] = {}
        replaced = continued(self.rows)
        numbered = {call.trace_id: (at, call) for at, call in enumerate(self.sent_calls, start=1)}
        for stored in self.rows:
            row, index = stored.row, stored.row.sounding_index
            is_prompt = row.node_type == NodeType.SYSTEM
            if is_prompt and self._grade is None:
                system = stored
            if VisitBegun.read(row) is not None:
                apart = {key: kept for key, kept in apart.items() if key[0] != row.phase}
            if index is not None and (row.phase, index) not in apart:
                apart[row.phase, index] = said.copy()
            if row.trace_id in numbered and row.node_type in _REPLIES:
                number, call = numbered[row.trace_id]
                prompt = system if system and system.row.phase == row.phase else None
                now = said if index is None else apart[row.phase, index]
                yield SessionCall(
                    number,
                    row,
                    call.model,
                    call.tools,
                    call.shown,
                    prompt,
                    now,
                    len(now),
                    call.sent_tokens,
                    call.full_tokens,
                    call.details.get("plain"),
                )
            # Another program's list has its system messages where they were sent.
            is_said = row.node_type in BORN or (is_prompt and self._grade is not None)
            is_said = is_said and stored.id not in replaced
            if is_said and row.message is not None:
                (said if index is None else apart[row.phase, index]).append(stored)
            if (decided := SoundingsDecided.read(row)) is not None:
                said = apart.get((row.phase, decided.winner), said)

    def tokens(self, counter: FamilyCounter, message: Message) -> int:
        """A message by our count; of an imported one's thinking the words, not the signature."""
        return counter.message(without_signatures(message) if self._grade else message)

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
        """The line that a row counts in.

        Soundings, refinements, evaluations and searches of the web stand apart.
        """
        name = row.phase or "-"
        if row.sounding_index is not None:
            refined = (row.phase, row.sounding_index) in self._refined
            return f"{name}, {'reforge' if refined else 'soundings'}"
        if row.node_type == NodeType.TOOL_RESULT and row.model is not None:
            return f"{name}, searches of the web"
        if ValidatorAsked.read(row) is not None:
            return f"{name}, validators"
        return f"{name}, evaluator" if Evaluation.read(row) is not None else name

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


def new_in_each(lists: Sequence[Sequence[_Item]]) -> Iterator[tuple[int, _Item]]:
    """What each list has that the one before it has not at the same place, with its number from 1.

    A thousand windows of a thousand messages differ in a few: the others are not looked at.
    """
    before: Sequence[_Item] = ()
    for number, items in enumerate(lists, start=1):
        yield from zip(
            repeat(number), compress(items, map(is_not, items, chain(before, repeat(None))))
        )
        before = items


def tokens_of_tools(counter: FamilyCounter, tools: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of the definitions of tools, with those that open every answer."""
    return counter.tools([ToolSpec(**tool["function"]) for tool in tools]) + counter.opening
