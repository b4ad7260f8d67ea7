"""What a store of histories is handed and gives back: the one protocol.

One verb writes: `append` takes a batch, which is in the record whole or not at
all once it returns. Nothing is changed afterwards; `prune` is the only thing
that deletes. A store knows no provider and no rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias

from windlass.history.details import CallDetails
from windlass.messages import Message, canonical_json
from windlass.selection.card import Card


class NodeType(StrEnum):
    """What a row of the record is."""

    SYSTEM = "system"
    USER = "user"
    AGENT = "agent"
    """The reply to the first call of a turn sequence: the phase's own words asked for it."""
    FOLLOW_UP = "follow_up"
    """The reply to a call that followed tool results."""
    TOOL_RESULT = "tool_result"
    VALIDATION = "validation"
    CONTEXT_INJECTION = "context_injection"
    CONTEXT_SELECTION = "context_selection"
    DECISION = "decision"
    ERROR = "error"


BORN: Final = frozenset({NodeType.USER, NodeType.AGENT, NodeType.FOLLOW_UP, NodeType.TOOL_RESULT})
"""Rows that are said in a session: what a snowball carries on. System prompts and
injected copies are made anew for each phase."""

SAVINGS: Final = "windows"
"""Of the details of a session's outcome: what its windows saved and cost."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row to append. `trace_id` is unique; `parent_id` the trace it came out of.

    `timestamp` is in seconds since 1970; tokens as the provider reported them; cost
    in US dollars (None: no price known); `duration_ms` in milliseconds.
    `full_history_size` and `context_size` count messages: those a snowball would have
    sent, and those sent. `tokens_saved` is the difference in tokens, and may be negative.
    `pictures` are the bytes of pictures in `message`, by SHA-256; a picture that this
    phase made (`keep_pictures`) also gets a visible name `images/{session}/{phase}/`.
    `sounding_index` counts a phase's soundings from 0 (None: it has none).
    """

    node_type: NodeType
    trace_id: str
    timestamp: float
    message: Message | None = None
    parent_id: str | None = None
    phase: str | None = None
    turn: int | None = None
    attempt: int | None = None
    sounding_index: int | None = None
    model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost: float | None = None
    duration_ms: float | None = None
    full_history_size: int | None = None
    context_size: int | None = None
    tokens_saved: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pictures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    keep_pictures: bool = False


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of a window, in place: what it stands for, and why it is there.

    `message_id` is the occurrence it stands for. `shown_as` is the key of the body
    that was sent, where an edit changed it (None: the original), `because` the
    edit's name then. `reason` is one clause for people; `tokens` what it cost.
    """

    message_id: str
    reason: str
    tokens: int
    shown_as: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What one call saw. `trace_id` is that of the reply's row.

    `request_hash` is the SHA-256 over the keys of the messages sent, in order,
    and the canonical JSON of the tools: `verify` derives it again. `tools` are the
    definitions sent, in OpenAI form. `bodies` are messages shown that are no occurrence of
    their own (edited forms); `full_tokens` is what a snowball would have sent,
    `sent_tokens` what was sent, both by the engine's count.
    """

    trace_id: str
    model: str
    shown: tuple[ShownMessage, ...]
    request_hash: str
    tools: tuple[Mapping[str, Any], ...]
    sent_tokens: int
    full_tokens: int
    bodies: tuple[Message, ...] = ()
    details: CallDetails = field(default_factory=CallDetails)


@dataclass(frozen=True, slots=True)
class EditRecord:
    """A committed edit: which message, how it is shown from then on, and why."""

    message_id: str
    kind: Literal["replace", "drop"]
    because: str
    reason: str
    replacement: Message | None = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """A state key set during a phase; `value` is any JSON value."""

    phase: str
    key: str
    value: Any


BANK: Final = "memory:"
"""What the name of a history begins with that is a memory bank and no run of a cascade.

Ages do not remove it: `prune` by age leaves it alone, `prune` by name takes it."""

Status: TypeAlias = Literal["completed", "incomplete", "failed", "interrupted", "waiting"]

Reason: TypeAlias = Literal[
    "turns", "length", "empty", "refusal", "filter", "money", "tokens", "time"
]
"""Why a phase or session is `incomplete`: turns or attempts used up, a reply cut at its output
limit or where the model's window was full, an empty one, one that the model refused or the provider
held back, or another limit."""


class Ending(NamedTuple):
    """How a phase, a task or a session ended; `reason` where it is `incomplete`."""

    status: Status
    reason: Reason | None = None


COMPLETED: Final = Ending("completed")


def ending_of(parts: Iterable[Ending]) -> Ending:
    """How parts ended together: as the first that is not completed."""
    return next((part for part in parts if part.status != "completed"), COMPLETED)


def in_words(status: str, reason: str | None) -> str:
    """A status for people, with the reason where it has one.

    >>> in_words("incomplete", "turns")
    'incomplete (turns)'
    """
    return f"{status} ({reason})" if reason else status


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The first thing known of a session. `cascade` is its definition as JSON.

    `parent_id` is the session whose phase `parent_phase` ran it as a sub-cascade, or which has it
    as the sounding with this index (None: it is neither).
    """

    cascade_id: str
    model: str
    input: Mapping[str, Any]
    cascade: Mapping[str, Any]
    timestamp: float
    parent_id: str | None = None
    parent_phase: str | None = None
    sounding_index: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a phase ended (`phase` given) or the session (`phase` None).

    `output_trace` is the trace of the row whose message is the output (None: no
    text). `hidden`: later windows see the phase's output only (`context_retention:
    output_only`). `reason` says why it is `incomplete` (None: an older Windlass wrote it).
    """

    status: Status
    timestamp: float
    phase: str | None = None
    output_trace: str | None = None
    error: str | None = None
    hidden: bool = False
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What is appended together: whole or not at all."""

    session_id: str
    rows: Sequence[Row] = ()
    calls: Sequence[CallRecord] = ()
    edits: Sequence[EditRecord] = ()
    state: Sequence[StateChange] = ()
    outcomes: Sequence[Outcome] = ()
    start: SessionStart | None = None
    lost: frozenset[str] = frozenset()
    """Pictures, by SHA-256, whose bytes the store that it is copied from has no more."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it is read back: `id` is the message's occurrence id (hash and running number).

    `seq` counts the session's rows from 1. `row.message` is None only where the row has
    none; `row.pictures` is empty: `Store.picture` fetches bytes when they are wanted.
    """

    seq: int
    session_id: str
    id: str | None
    key: str | None
    row: Row


RAN: Final = "$run"
"""In the definition that a session begins with: what a resumed run needs beside it."""
FORKED_FROM: Final = "forked_from"
"""There: the session that it was forked from."""
CHAT: Final = "chat"
"""The name and the instructions of a phase that answers messages; nobody wrote them."""
SOUNDINGS: Final = "soundings"
"""The kind of the decision among a phase's soundings: `winner` is the index of the one taken."""


SOUNDING: Final = "sounding"
"""The kind of the decision that tells how one of them ended, and its `round` (0: no reforge)."""

EVALUATION: Final = "evaluation"
"""The kind of the decisions on which of them is taken; with tokens where a model was asked."""


def standing(rows: Iterable[StoredRow], own: tuple[str, int] | None = None) -> Iterator[StoredRow]:
    """The rows that count for what comes later: those of soundings only where they won.

    `own` is the phase and the index of a sounding that still runs, whose rows count for itself.
    Rows are those of a session, or of a phase, in order.
    """
    listed = list(rows)
    taken = {own} if own is not None else set()
    for stored in listed:
        row = stored.row
        if row.node_type == NodeType.DECISION and row.metadata.get("kind") == SOUNDINGS:
            taken.add((row.phase or "", row.metadata.get("winner", -1)))
    for stored in listed:
        index = stored.row.sounding_index
        if index is None or (stored.row.phase or "", index) in taken:
            yield stored


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as `windlass sessions` lists it. Times in seconds since 1970.

    `reason` says why it is `incomplete`. `parent_id` is the session whose phase `parent_phase` ran
    it as a sub-cascade, or which has it as the sounding with this index; tokens and cost are its
    own, without those of the sessions under it.
    """

    session_id: str
    cascade_id: str
    model: str
    started: float
    ended: float | None
    status: str
    calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float | None
    error: str | None
    reason: str | None = None
    parent_id: str | None = None
    parent_phase: str | None = None
    sounding_index: int | None = None


LATEST: Final = "latest"
"""What the newest run of a store is called, besides its name."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions are listed: those that fit every value given.

    `prefix` is the beginning of the id, `status` a `Status` or `running`, `since` and `until`
    are seconds since 1970 between which a session began. `banks`: memory banks, too. `under` are
    the sessions of which it is a sub-cascade; of none of them (): only those that are none.
    """

    prefix: str = ""
    cascade: str | None = None
    status: str | None = None
    since: float | None = None
    until: float | None = None
    banks: bool = True
    under: tuple[str, ...] | None = None


EVERY_SESSION: Final = SessionFilter()


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something `verify` found: `where` names the thing, `what` how it disagrees."""

    where: str
    what: str
    severity: Literal["damage", "note"] = "damage"


OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Told what is read (`blobs`, `messages`, `sessions`), how many were, and how many there are."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune` removed, or would remove; `bytes` are those of blob files."""

    sessions: tuple[str, ...]
    rows: int
    bodies: int
    blobs: int
    bytes: int


def request_hash(keys: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> str:
    """What a call was sent, in 64 hex digits: the keys of its messages in order, and its tools.

    SHA-256 over the canonical JSON of `{"messages": [keys], "tools": [tools]}`; `tools`
    are the definitions in OpenAI form.
    """
    sent = canonical_json({"messages": list(keys), "tools": [dict(tool) for tool in tools]})
    return hashlib.sha256(sent.encode("ascii")).hexdigest()


class Store(Protocol):
    """A place that keeps histories. Raises StoreError when it cannot."""

    folder: Path
    """The folder of its visible files, on this machine."""

    remote: bool
    """Whether an answer takes a network's time, so that work beside a run asks from a thread."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Write a batch, durably, and return the occurrence id of each row's message.

        When this returns, the batch survives a kill of the process; when it raises,
        nothing of it is in the record.
        """

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in (`lost.py`) for a message that is missing or changed.

        `tell` hears of each, once. Without this such a message is a StoreError.
        """

    def rows(self, session_id: str, *, phase: str | None = None) -> Iterator[StoredRow]:
        """A session's rows in order, with their messages."""

    def message(self, key: str) -> Message:
        """The message body with this key."""

    def picture(self, sha256: str) -> bytes:
        """The bytes of a picture."""

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """The committed edits of a session, in order."""

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """The session's calls in order, each with its whole window."""

    def state(self, session_id: str) -> Sequence[StateChange]:
        """The state changes of a session, in order."""

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """How the phases, and at last the session, ended."""

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """How the last so many runs ended, newest first; None: it runs yet, or was killed.

        Costs the same however many sessions there are.
        """

    def start(self, session_id: str) -> SessionStart:
        """How a session began. Raises UsageError naming recent sessions where it is unknown."""

    def find_session(self, name: str) -> str:
        """The id of the session that `name` means: an id, the beginning of one, or `latest`.

        `latest` is the newest run. Raises UsageError where `name` fits no session, or several.
        """

    def sessions(
        self, which: SessionFilter = EVERY_SESSION, *, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions that fit, newest first, `limit` of them at most."""

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of one SELECT on a read-only connection.

        Raises UsageError for anything else, and for SQL that the engine refuses.
        """

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order."""

    def store_tool_result(self, session_id: str, ref: str, key: str) -> Path:
        """Make the visible file `storage/tool_results/{ref}.json` of a shortened result."""

    def results(self, session_id: str) -> Sequence[tuple[str, str]]:
        """(Reference, key) of the results that `store_tool_result` made files of, by reference."""

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one (`generated_at`).

        Cards are derived data and the one thing that is replaced. One of a message that is not
        there is never given back. Raises UsageError for an unknown session.
        """

    def cards(self, session_id: str) -> Sequence[Card]:
        """The cards of a session, in the order of its messages; [] where there are none."""

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """The first rows behind number `after` whose messages may have a card and have none.

        This is the queue of cards: whether a message wants one (`wants_card`) is for the caller.
        """

    def verify(self, on_progress: OnProgress | None = None) -> Iterator[Discrepancy]:
        """Derive hashes, windows and links again and yield what disagrees."""

    def changed(self, session_id: str) -> Sequence[Discrepancy]:
        """What of a session, and of those that ran under it, is not as it was appended.

        `verify` reads the whole store; this reads the rows of these sessions alone. Raises
        UsageError for an unknown session.
        """

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        session_id: str | None = None,
        now: float,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove sessions, and the bodies and blobs that no other session uses."""

    def close(self) -> None:
        """Close connections."""
