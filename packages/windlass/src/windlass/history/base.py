"""What a store of histories is handed and gives back: the one protocol.

One verb writes: `append` takes a batch, which is in the record whole or not at
all once it returns. Nothing is changed afterwards; `prune` is the only thing
that deletes. A store knows no provider and no rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    get_args,
)

from windlass.history.details import CallDetails, OutcomeDetails
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


class Details(Protocol):
    """What a row says besides its columns: one of the types in `row_details.py`."""

    @property
    def tag(self) -> str:
        """Return its kind."""

    def as_json(self) -> dict[str, Any]:
        """Return the details as a row keeps them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row to append."""

    node_type: NodeType
    trace_id: str = ""
    """Its own name, which no other row of the session has (a recorder gives it one)."""
    timestamp: float = 0.0
    """Seconds since 1970 (0: a recorder writes the time that it is)."""
    message: Message | None = None
    parent_id: str | None = None
    """The trace that it came out of."""
    phase: str | None = None
    turn: int | None = None
    attempt: int | None = None
    sounding_index: int | None = None
    """Which sounding of the phase it belongs to, from 0 (None: to none)."""
    model: str | None = None
    tokens_in: int | None = None
    """Tokens in, out and cached are those that the provider reported."""
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost: float | None = None
    """US dollars (None: no price is known)."""
    duration_ms: float | None = None
    """Milliseconds."""
    full_history_size: int | None = None
    """Messages that a snowball would have sent."""
    context_size: int | None = None
    """Messages that were sent."""
    tokens_saved: int | None = None
    """Tokens that a snowball would have sent in addition; negative where it would have sent fewer.
    """
    text: str = ""
    """What people read of it beside the message."""
    details: Details | None = None
    """What it says besides, by its kind (None: nothing, or what this version does not know)."""
    stored_json: str = field(default="", compare=False, repr=False)
    """Text and details as the store that it was read from has them: a copy is written so."""
    pictures: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of pictures in `message`, by SHA-256."""
    keep_pictures: bool = False
    """Whether the phase made the pictures: each then gets a visible name
    `images/{session}/{phase}/`."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of a window, in its place."""

    message_id: str
    """The occurrence that it stands for."""
    reason: str
    """Why it is there, in a clause for people."""
    tokens: int
    """The tokens that were sent of it."""
    shown_as: str | None = None
    """The key of the body that was sent, where an edit changed it (None: the original was)."""
    because: str | None = None
    """The name of that edit."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What one call saw."""

    trace_id: str
    """The trace of the reply's row."""
    model: str
    shown: tuple[ShownMessage, ...]
    request_hash: str
    """What was sent, as `request_hash` gives it: `verify` derives it again."""
    tools: tuple[Mapping[str, Any], ...]
    """The definitions that were sent, in OpenAI form."""
    sent_tokens: int
    """What was sent, by the engine's count."""
    full_tokens: int
    """What a snowball would have sent, by the engine's count."""
    bodies: tuple[Message, ...] = ()
    """Messages shown that are no occurrence of their own: the edited forms."""
    details: CallDetails = field(default_factory=CallDetails)
    stored_json: str = field(default="", compare=False, repr=False)
    """The details as the store that it was read from has them: a copy is written so."""


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
    """Return how parts ended together: as the first that is not completed."""
    return next((part for part in parts if part.status != "completed"), COMPLETED)


def in_words(status: str, reason: str | None) -> str:
    """Return a status for people, with the reason where it has one.

    >>> in_words("incomplete", "turns")
    'incomplete (turns)'
    """
    return f"{status} ({reason})" if reason else status


Open: TypeAlias = Literal["running", "broken off", "unknown"]
"""How a session stands that has not ended: somebody runs it, nobody does, or it was begun on
another machine, where nobody can see from here whether it still runs."""

STATES: Final = (*get_args(Status), *get_args(Open))
"""How sessions stand, as they are listed."""

SILENT_S: Final = 86_400.0
"""Seconds without a row after which nobody on another machine runs a session any more."""


class Holder(NamedTuple):
    """Who runs a session, or did and was killed: a process (its number), and its machine.

    `machine` is empty where it is this one.
    """

    state: Open
    process: str = ""
    machine: str = ""

    @property
    def place(self) -> str:
        """Where it runs, or may run, in words (empty: nowhere)."""
        if self.state == "broken off":
            return ""
        process = f"in process {self.process or 'unknown'}"
        return f"perhaps {process} of machine {self.machine!r}" if self.machine else process


class SessionStatus(NamedTuple):
    """How a session stands: how it ended, or who runs it."""

    status: Status | Open
    reason: Reason | None = None
    error: str | None = None
    holder: Holder | None = None


def status_by_record(ended: Outcome | None, holder: Holder | None) -> SessionStatus:
    """Say how a session stands by its record, which says how it `ended` last, and by who holds it.

    One that was taken up again after it ended counts as it does now, but for what completed.
    """
    completed = ended is not None and ended.status == "completed"
    if holder is not None and (holder.state == "running" or not completed):
        return SessionStatus(holder.state, holder=holder)
    if ended is None:
        return SessionStatus("broken off")
    return SessionStatus(ended.status, ended.reason, ended.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParent:
    """What a session hangs under, if it is a part of another."""

    parent_id: str | None = None
    """The session that ran it as a sub-cascade, or has it as a sounding (None: no session did)."""
    parent_phase: str | None = None
    """The phase of that session which ran it."""
    sounding_index: int | None = None
    """Which sounding of that session it is, from 0 (None: it is a sub-cascade)."""


@dataclass(frozen=True, slots=True)
class SessionStart(SessionParent):
    """The first thing known of a session."""

    cascade_id: str
    model: str
    input: Mapping[str, Any]
    cascade: Mapping[str, Any]
    """The definition of the cascade, as JSON."""
    timestamp: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a phase ended, or the session."""

    status: Status
    timestamp: float
    phase: str | None = None
    """The phase (None: this is how the session ended)."""
    output_trace: str | None = None
    """The trace of the row whose message is the output (None: there was no text)."""
    error: str | None = None
    hidden: bool = False
    """Whether later windows see the phase's output only (`context_retention: output_only`)."""
    details: OutcomeDetails = field(default_factory=OutcomeDetails)
    reason: Reason | None = None
    """Why it is `incomplete` (None: it is not, or an older Windlass wrote it)."""
    stored_json: str = field(default="", compare=False, repr=False)
    """The details as the store that it was read from has them: a copy is written so."""


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
    """A row as it is read back."""

    seq: int
    """Its number in the session, from 1."""
    session_id: str
    id: str | None
    """The occurrence of its message: the message's hash and a running number."""
    key: str | None
    row: Row
    """Its `message` is None only where the row has none; its `pictures` are empty: `Store.picture`
    reads them when they are wanted."""


RAN: Final = "$run"
"""In the definition that a session begins with: what a resumed run needs beside it."""
FORKED_FROM: Final = "forked_from"
"""There: the session that it was forked from."""
CHAT: Final = "chat"
"""The name and the instructions of a phase that answers messages; nobody wrote them."""


@dataclass(frozen=True, slots=True)
class SessionInfo(SessionParent):
    """A session as `windlass sessions` lists it.

    Tokens and cost are its own, without those of the sessions under it.
    """

    session_id: str
    cascade_id: str
    model: str
    started: float
    """Seconds since 1970, as `ended` is."""
    ended: float | None
    status: str
    calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float | None
    error: str | None
    reason: str | None = None
    """Why it is `incomplete`."""


LATEST: Final = "latest"
"""What the newest run of a store is called, besides its name."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions are listed: those that fit every value given."""

    prefix: str = ""
    """How the id begins."""
    cascade: str | None = None
    status: str | None = None
    """One of `STATES`."""
    since: float | None = None
    """Seconds since 1970: it began then or later."""
    until: float | None = None
    """Seconds since 1970: it began before."""
    banks: bool = True
    """Whether memory banks are listed, too."""
    under: tuple[str, ...] | None = None
    """The sessions that it ran under; (): only those that ran under none."""
    name: str = ""
    """What its id or its cascade holds, in small or capital letters."""
    model: str = ""
    """What the names of its models hold, in small or capital letters."""
    with_key: str = ""
    """A key at the top of its definition (`SessionStart.cascade`)."""
    without_keys: tuple[str, ...] = ()
    """Keys that its definition has not."""


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
class PruneResult:
    """What `prune` removed, or would remove; `bytes` are those of blob files.

    `running` are sessions of that age which it left alone.
    """

    sessions: tuple[str, ...]
    rows: int
    bodies: int
    blobs: int
    bytes: int
    running: tuple[str, ...] = ()


def request_hash(keys: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> str:
    """Say what a call was sent, in 64 hex digits: the keys of its messages in order, and its tools.

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
        """Return a session's rows in order, with their messages."""

    def message(self, key: str) -> Message:
        """Return the message body with this key."""

    def picture(self, sha256: str) -> bytes:
        """Return the bytes of a picture."""

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """Return the committed edits of a session, in order."""

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Return the session's calls in order, each with its whole window."""

    def state(self, session_id: str) -> Sequence[StateChange]:
        """Return the state changes of a session, in order."""

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """Return how the phases, and at last the session, ended."""

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """Return how the last so many runs ended, newest first; None: it runs yet, or was killed.

        Costs the same however many sessions there are.
        """

    def start(self, session_id: str) -> SessionStart:
        """Return how a session began.

        Raises UsageError naming recent sessions where it is unknown.
        """

    def batches(self, session_id: str) -> int:
        """Return how many batches were appended to a session (0: there is none of that name)."""

    def hold(self, session_id: str) -> AbstractContextManager[None]:
        """Let nobody else run a session, or one above or below it, nor prune it, meanwhile.

        Raises SessionHeld where somebody else does. A process that is killed holds nothing.
        """

    def session_status(self, session_id: str) -> SessionStatus:
        """Return how a session stands: how it ended, or who runs it.

        Raises UsageError as `start`.
        """

    def find_session(self, name: str) -> str:
        """Return the id of the session that `name` means: an id, the beginning of one, or `latest`.

        `latest` is the newest run. Raises UsageError where `name` fits no session, or several.
        """

    def sessions(
        self, which: SessionFilter = EVERY_SESSION, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[SessionInfo]:
        """The sessions that fit, newest first, `limit` of them at most, without the first ones."""

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return rows of one SELECT on a read-only connection.

        Raises UsageError for anything else, and for SQL that the engine refuses.
        """

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """Return (SHA-256, visible file) of the pictures a phase made, in order."""

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
        """Return the cards of a session, in the order of its messages; [] where there are none."""

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """Return the first rows behind number `after` whose messages may have a card and have none.

        This is the queue of cards: whether a message wants one (`wants_card`) is for the caller.
        """

    def verify(self, on_progress: OnProgress | None = None) -> Iterator[Discrepancy]:
        """Derive hashes, windows and links again and yield what disagrees."""

    def changed(self, session_id: str) -> Sequence[Discrepancy]:
        """Return what of a session, and of those that ran under it, is not as it was appended.

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
    ) -> PruneResult:
        """Remove sessions, and the bodies and blobs that no other session uses.

        Raises SessionHeld for one that is named and that somebody runs.
        """

    def close(self) -> None:
        """Close connections."""
