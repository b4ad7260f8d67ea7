"""A session as its store has it, read once: its rows, its lanes, and its calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, repeat
from operator import is_not
from typing import Any, Final, TypeVar

from windlass.errors import UsageError
from windlass.history.base import (
    BORN,
    CallRecord,
    NodeType,
    Row,
    ShownMessage,
    Store,
    StoredRow,
)
from windlass.history.decisions import (
    Evaluation,
    SoundingEnded,
    TaskSection,
    ValidatorAsked,
    WindowSelection,
)
from windlass.history.details import CallDetails, PlainRequest
from windlass.history.lanes import History, Lane, Lanes
from windlass.history.marks import Callout, find_callouts
from windlass.history.packing import call_json
from windlass.history.row_details import ReplyDetails
from windlass.importing.recording import without_signatures
from windlass.importing.storing import imported_from
from windlass.ledger.charges import is_free
from windlass.messages import Message, ToolSpec
from windlass.tasks.model import OPERATORS
from windlass.text.tokens import FamilyCounter
from windlass.window.entries import INJECT

_Item = TypeVar("_Item")
_IN_JSON: Final = (
    *("number", "phase", "turn", "sounding_index", "model", "cost", "seconds"),
    *("tokens_in", "tokens_cached", "tokens_out", "sent_tokens", "snowball_tokens"),
    *("seen", "reply", "hidden"),
)
_NUMBERS: Final = re.compile(r"\[[\d-]+\]")


def without_numbers(phase: str) -> str:
    """Return a phase's name without the numbers of inputs: inner tasks of a reduce share it."""
    return _NUMBERS.sub("[]", phase)


def edits_in(because: str | None) -> Sequence[str]:
    """Return the names of the edits among what changed an entry; a block of injectors is none."""
    return [name for name in (because or INJECT).split(", ") if name != INJECT]


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """One message of a call's window."""

    position: int
    message_id: str
    role: str
    phase: str | None
    """Where it was said, as `turn` is."""
    turn: int | None
    reason: str
    tokens: int
    """What was sent of it, by the engine's count."""
    message: Message
    """What was sent."""
    because: str | None = None
    """The names of the edits that changed it, with commas between."""
    original: Message | None = None
    """What was said, where an edit changed it."""
    callout: str | None = None
    """Its name, where it is called out."""

    @property
    def edit(self) -> str | None:
        """Return the name of the edit that changed the message.

        None where only a block was added.
        """
        return ", ".join(edits_in(self.because)) or None

    @property
    def has_block(self) -> bool:
        """Return whether a block of injectors stands at the end of the message."""
        return INJECT in (self.because or "").split(", ")


@dataclass(frozen=True, eq=False)
class Call:
    """A call, read back: the row of its reply, what it was sent, and what stood before it.

    `number` is its number in its session, from 1. `head` stands in front of all that was said: the
    system prompt, and the sections of a task.
    """

    session: SessionRecord
    number: int
    stored: StoredRow
    sent: CallRecord
    head: Sequence[StoredRow]

    @property
    def row(self) -> Row:
        """The row of its reply: tokens in, cached and out are those that the provider reported."""
        return self.stored.row

    @property
    def phase(self) -> str | None:
        """Return the phase, or the task."""
        return self.row.phase

    @property
    def turn(self) -> int | None:
        """Return the turn of the phase, from 1."""
        return self.row.turn

    @property
    def sounding_index(self) -> int | None:
        """Return which sounding of the phase made it, from 0 (None: none)."""
        return self.row.sounding_index

    @property
    def place(self) -> str:
        """Where it stands, in words: its phase, turn and attempt, and its sounding."""
        sounding = "" if self.sounding_index is None else f"sounding {self.sounding_index}, "
        return f"phase {self.phase}, {sounding}turn {self.turn}, attempt {self.row.attempt}"

    @property
    def model(self) -> str:
        """Return the model that was asked."""
        return self.sent.model

    @property
    def tokens_in(self) -> int:
        """Return tokens in by the provider's count, as `tokens_cached` and `tokens_out` are."""
        return self.row.tokens_in or 0

    @property
    def tokens_cached(self) -> int:
        """Return those of them that were read from a cache."""
        return self.row.tokens_cached or 0

    @property
    def tokens_out(self) -> int:
        """Return tokens out."""
        return self.row.tokens_out or 0

    @property
    def cost(self) -> float | None:
        """Return what it cost in US dollars (None: no price is known)."""
        return self.row.cost

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return (self.row.duration_ms or 0.0) / 1_000

    @property
    def sent_tokens(self) -> int:
        """Return what was sent, by the engine's count."""
        return self.sent.sent_tokens

    @property
    def snowball_tokens(self) -> int:
        """Return what a snowball would have sent, by the engine's count."""
        return self.sent.full_tokens

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the definitions that were sent, in OpenAI form."""
        return self.sent.tools

    @property
    def tool_names(self) -> Sequence[str]:
        """Return the names of the tools that were sent."""
        return tuple(tool["function"]["name"] for tool in self.tools)

    @property
    def details(self) -> CallDetails:
        """Return what else the record says of it."""
        return self.sent.details

    @property
    def shown(self) -> Sequence[ShownMessage]:
        """Return its window, as the record has it."""
        return self.sent.shown

    @property
    def seen(self) -> Sequence[SeenMessage]:
        """Return its window; `see` puts one message of it together."""
        return [self.see(at) for at in range(len(self.shown))]

    def see(self, at: int) -> SeenMessage:
        """Return the message at a position of its window, from 0."""
        shown = self.shown[at]
        source = self.session.by_id[shown.message_id].row
        message = self.session.sent(shown)[1]
        return SeenMessage(
            position=at,
            message_id=shown.message_id,
            role=message.role,
            phase=source.phase,
            turn=source.turn,
            reason=shown.reason,
            tokens=shown.tokens,
            message=message,
            because=shown.because,
            original=source.message if shown.shown_as is not None else None,
            callout=self.session.callout_names.get(shown.message_id),
        )

    @property
    def reply(self) -> Message:
        """Return what came back; an empty answer where that was not recorded."""
        return self.row.message or Message("assistant")

    @cached_property
    def reply_details(self) -> ReplyDetails:
        """Return what the record says of the reply."""
        return ReplyDetails.read(self.row) or ReplyDetails()

    @property
    def inherited(self) -> bool:
        """Return whether the session that this one was forked from paid for it."""
        return self.reply_details.inherited is not None

    @property
    def free(self) -> bool:
        """Whether it cost nothing because the model is not sold, rather than sold for nothing."""
        return is_free(self.model, self.cost)

    def as_json(self) -> dict[str, Any]:
        """Return the call for programs."""
        return {
            **{name: getattr(self, name) for name in _IN_JSON},
            "details": json.loads(call_json(self.sent)),
            "tools": self.tool_names,
            "lane": str(self.lane),
            **{name: getattr(self.row, name) for name in ("node_type", "attempt")},
        }

    @property
    def plain(self) -> PlainRequest | None:
        """Return the request as it came, where a wrapped client sent something else."""
        return self.details.plain

    @property
    def lane(self) -> Lane:
        """Return the lane that it belongs to."""
        return self.session.lanes.lane(self.stored)

    @property
    def history(self) -> History:
        """Return what stood before it."""
        return self.session.lanes.before(self.stored)

    @property
    def hidden(self) -> Mapping[str, int]:
        """Return how many messages were said before it and not seen by it, by their phase.

        To a sounding nothing was said in the others; of tasks that of all others counts.
        """
        seen = {shown.message_id for shown in self.shown}
        said = self.session.heard.before(self.stored).messages
        return Counter(
            without_numbers(stored.row.phase or "-")
            for stored in said
            if stored.row.node_type in BORN and stored.id not in seen
        )


class SessionRecord:
    """A session, read once: its rows, its messages by key, its lanes and its calls."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.start = store.start(session_id)  # an unknown session is told here
        self.store = store
        self.session_id = session_id
        self.sent_calls = store.calls(session_id)
        self.rows = list(store.rows(session_id))
        self._grade = imported_from(self.start.cascade).get("grade")
        self._missing: int | None = None
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
        """Return whether a policy was in force at any call."""
        return any(WindowSelection.read(stored.row) is not None for stored in self.rows)

    @property
    def has_short_forms(self) -> bool:
        """Return whether a recording has messages that a hook gave its model in a shorter form."""
        return self._grade is not None and any(call.bodies for call in self.sent_calls)

    @cached_property
    def lanes(self) -> Lanes:
        """Return its lanes. Another program's list has its system messages where they were sent."""
        kinds = BORN if self._grade is None else BORN | {NodeType.SYSTEM}
        return Lanes(self.rows, kinds=kinds, tasks=self._has_tasks)

    @cached_property
    def heard(self) -> Lanes:
        """Return its lanes, where a task hears all others."""
        return Lanes(self.rows) if self._has_tasks else self.lanes

    @property
    def _has_tasks(self) -> bool:
        return OPERATORS in self.start.cascade

    @cached_property
    def callouts(self) -> Sequence[Callout]:
        """Return the messages that were marked as important."""
        return find_callouts(self.heard.standing().rows)

    @cached_property
    def callout_names(self) -> Mapping[str, str]:
        """Return the names of these, by the ids of the messages."""
        return {callout.message_id: callout.name for callout in self.callouts}

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Return its calls in order."""
        replies = {stored.row.trace_id: stored for stored in self.rows}
        heads: dict[Lane, Sequence[StoredRow]] = {}
        calls: list[Call] = []
        for number, sent in enumerate(self.sent_calls, start=1):
            stored = replies[sent.trace_id]
            lane = self.lanes.lane(stored)
            if lane not in heads:
                heads[lane] = self._head(sent)
            calls.append(Call(self, number, stored, sent, heads[lane]))
        return tuple(calls)

    def call(self, number: int) -> Call:
        """Return a call by its number, from 1. Raises UsageError naming the range."""
        if not 1 <= number <= len(self.calls):
            there = f"it has calls 1 to {len(self.calls)}" if self.calls else "it made none"
            raise UsageError(f"session {self.session_id!r} has no call {number}; {there}")
        return self.calls[number - 1]

    def _head(self, sent: CallRecord) -> Sequence[StoredRow]:
        if self._grade is not None:
            return ()
        rows = (self.by_id[shown.message_id] for shown in sent.shown)
        return [
            stored
            for stored in rows
            if stored.row.node_type == NodeType.SYSTEM
            or (self._has_tasks and TaskSection.read(stored.row) is not None)
        ]

    @cached_property
    def _refined(self) -> frozenset[tuple[str | None, int | None]]:
        """Return the soundings that refine others."""
        ended = ((stored.row, SoundingEnded.read(stored.row)) for stored in self.rows)
        return frozenset(
            (row.phase, row.sounding_index) for row, end in ended if end is not None and end.round
        )

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
        for call in self.calls:
            if call.tokens_in:
                sent = (self.sent(shown)[1] for shown in call.shown)
                ours = sum(self.tokens(counter, message) for message in sent)
                return call.tokens_in - ours - tokens_of_tools(counter, call.tools)
        return 0

    def line(self, row: Row) -> str:
        """Return the line that a row counts in.

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

    @cached_property
    def _called(self) -> Mapping[str, str]:
        messages = (stored.row.message for stored in self.rows)
        calls = (call for message in messages if message for call in message.tool_calls)
        return {call.id: call.name for call in calls}

    def tool_of(self, message: Message) -> str | None:
        """Return the name of the tool whose result a message is.

        None where its call is not there.
        """
        return self._called.get(message.tool_call_id or "")

    def key(self, shown: ShownMessage) -> str:
        """Return the key of what was sent for an entry of a window."""
        return shown.shown_as or str(self.by_id[shown.message_id].key)

    def sent(self, shown: ShownMessage) -> tuple[str, Message]:
        """Return what was sent for an entry of a window, and its key."""
        key = self.key(shown)
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
    """Return tokens of the definitions of tools, with those that open every answer."""
    return counter.tools([ToolSpec(**tool["function"]) for tool in tools]) + counter.opening
