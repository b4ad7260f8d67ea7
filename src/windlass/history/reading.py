"""How a history is read back: what all stores do alike with the rows that each reads its way.

`SessionReader` is what a store reads of one session; `verify` reads by the same. `BaseStore`
makes of it what the protocol promises.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

from windlass.errors import StoreError, UsageError, did_you_mean
from windlass.history import packing
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    Outcome,
    Pruned,
    SessionStart,
    ShownMessage,
    StateChange,
    StoredRow,
)
from windlass.history.blobs import BlobPlace
from windlass.history.lost import Lost, damaged, lost, once_each
from windlass.history.numbering import Lookups, Prepared, SessionHead, prepare
from windlass.history.packing import (
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.messages import Message, from_dict

_Session = TypeVar("_Session", bound="SessionReader")

PORTION: Final = 500
"""Rows read at a time: no reader holds a snapshot open while its caller thinks."""

_KEYS: Final = 1_000
"""Keys of bodies asked for at a time."""


class SessionReader(Lookups, Protocol):
    """What a store reads of one session, anew at each call; all in order."""

    number: int
    """The session's number in its store."""

    def start(self) -> SessionRow:
        """How it began."""
        ...

    def log(self, after: int = 0, phase: str | None = None) -> list[LogRow]:
        """The first `PORTION` rows behind number `after`."""
        ...

    def table(self, kind: type[TableRow]) -> list[TableRow]:
        """Its rows of another table; images by the row that shows them."""
        ...

    def results(self) -> list[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file."""
        ...

    def extra_bodies(self) -> set[str]:
        """The keys of bodies that calls and edits brought or show."""
        ...

    def tool_lists(self) -> dict[str, str]:
        """The tools that its calls sent: JSON by its SHA-256."""
        ...

    def digests(self) -> dict[int, str]:
        """The digest of each batch by its number."""
        ...

    def last_batch(self) -> tuple[int, str] | None:
        """Number and digest of the last batch."""
        ...

    def highest(self) -> Mapping[str, int]:
        """The highest numbers of its rows, calls, edits, state and outcomes (0: none)."""
        ...

    def occurrences(self) -> dict[str, int]:
        """How often each message occurs, by content hash."""
        ...


class CallWindow(NamedTuple):
    """A call with its whole window, and the keys of the bodies it brought."""

    row: CallRow
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()


def windows(calls: Iterable[CallRow]) -> Iterator[CallWindow]:
    """The windows of a session's calls. Raises StoreError where one cannot be put together."""
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()
    for row in calls:
        follows = (row.base or 0) == row.number - 1
        try:
            if follows:
                shown = packing.unpack_window(shown, row.window_json)
                bodies = packing.unpack_keys(bodies, row.bodies_json)
        except (TypeError, ValueError) as error:
            raise damaged(
                f"the window of call {row.number} does not hold together ({error})"
            ) from error
        if not follows or len(shown) != row.entries:
            raise damaged(
                f"the window of call {row.number} does not hold together "
                f"({len(shown)} of {row.entries} entries, told against call {row.base})"
            )
        yield CallWindow(row, shown, bodies)


def log_rows(session: SessionReader) -> Iterator[LogRow]:
    """All rows of a session."""
    after = 0
    while portion := session.log(after):
        yield from portion
        after = portion[-1].seq


def read_head(session: SessionReader) -> SessionHead:
    """What an appender must know of a session, read anew."""
    last = session.last_batch()
    if last is None:
        raise damaged(f"session number {session.number} has no batch")
    numbers = session.highest()
    # Only the last window is wanted, but each is told against the one before.
    ends = deque(windows(session.table(CallRow)), maxlen=1)
    return SessionHead(
        session.number,
        *last,
        rows=numbers["rows"],
        calls=numbers["calls"],
        edits=numbers["edits"],
        state=numbers["state"],
        outcomes=numbers["outcomes"],
        counts=session.occurrences(),
        window=ends[0].shown if ends else (),
        bodies=ends[0].bodies if ends else (),
    )


def stored_row(session_id: str, row: LogRow, message: Message | None) -> StoredRow:
    """A row as readers get it."""
    if isinstance(message, Lost):
        message = message.in_row(row.node_type)
    return StoredRow(
        seq=row.seq,
        session_id=session_id,
        id=None if row.occurrence is None else packing.occurrence_id(row.key or "", row.occurrence),
        key=row.key,
        row=packing.row_of(row, message),
    )


def outcome_of(row: OutcomeRow) -> Outcome:
    """An outcome as readers get it."""
    return Outcome(
        status=row.status,
        timestamp=row.timestamp,
        phase=row.phase,
        output_trace=row.output_trace,
        error=row.error,
        hidden=bool(row.hidden),
        details=json.loads(row.details_json),
    )


def decode(key: str, body: str | None, blobs: BlobPlace) -> Message:
    """The message of a body row, or its stand-in where `blobs` says that one is wanted.

    Raises StoreError when it is not what `key` is the hash of.
    """
    try:
        data = blobs.read(key, check=False) if body is None else str(body).encode()
    except FileNotFoundError:
        return lost(key, "is missing", blobs)
    except OSError as error:
        if blobs.on_lost is None:
            raise
        return lost(key, f"cannot be read ({error.strerror})", blobs)
    if hashlib.sha256(data).hexdigest() != key:
        return lost(key, "has been changed", blobs, "stored text" if body else "file")
    return from_dict(json.loads(data))


def read_messages(
    keys: Iterable[str | None],
    fetch: Callable[[list[str]], Iterable[tuple[str, str | None]]],
    blobs: BlobPlace,
) -> dict[str | None, Message]:
    """The messages with these keys; `fetch` gives key and body of those that are stored.

    Raises StoreError for one that is missing or changed, where no stand-in is wanted.
    """
    messages: dict[str | None, Message] = {}
    distinct = [key for key in dict.fromkeys(keys) if key is not None]
    for at in range(0, len(distinct), _KEYS):
        for key, body in fetch(distinct[at : at + _KEYS]):
            if key not in messages:
                messages[key] = decode(key, body, blobs)
    for key in distinct:
        if key not in messages:
            messages[key] = lost(key, "is missing", blobs, "")
    return messages


class BaseStore(ABC):
    """What stores do alike. A subclass opens sessions, and writes and prunes its way."""

    folder: Path
    _blobs: BlobPlace

    # ---- what a store does its way --------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""

    @abstractmethod
    def _use(self) -> AbstractContextManager[Any]:
        """Hold the store's lock, and translate what its parts raise."""

    @abstractmethod
    def _find(self, session_id: str) -> SessionReader | None: ...

    @abstractmethod
    def _recent(self) -> Iterable[str]:
        """Names of recent sessions, for a message about an unknown one."""

    @abstractmethod
    def _fetch_bodies(self, keys: list[str]) -> Iterable[tuple[str, str | None]]: ...

    @abstractmethod
    def _append(self, prepared: Prepared) -> tuple[str | None, ...]: ...

    @abstractmethod
    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        """Record the visible name of a result, and make it where its `body` is given by key."""

    @abstractmethod
    def _older(self, before: float) -> list[tuple[int, str]]:
        """Number and name of the sessions, but for memory banks, without a row since."""

    @abstractmethod
    def _prune(
        self, choose: Callable[[], list[tuple[int, str]]], *, now: float, dry_run: bool
    ) -> Pruned: ...

    # ---- and what all do alike ------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Write a batch, whole or not at all, and return the ids of its rows' messages.

        The session's first batch must carry `start`, and no other may. Messages that
        edits and calls name must be in the session (or in this batch). Raises
        StoreError; nothing of the batch is in the record then.
        """
        parts = (batch.rows, batch.calls, batch.edits, batch.state, batch.outcomes)
        if batch.start is None and not any(parts):
            return ()
        return self._append(prepare(batch))

    def store_tool_result(self, session_id: str, ref: str, key: str) -> Path:
        """Make the visible file `storage/tool_results/{ref}.json` of a stored body.

        Doing it again changes nothing. Raises StoreError where `ref` stands for another
        body already, or there is no such body.
        """
        path = self.folder / packing.tool_result_name(ref)
        with self._use():
            message = self._messages([key])[key]
            # What is lost keeps its name, for `verify` to tell.
            body = {} if isinstance(message, Lost) else {key: message.canonical.encode("ascii")}
            self._name_result(session_id, packing.text(ref), key, body)
        return path

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        session_id: str | None = None,
        now: float,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove whole sessions, and the bodies and files that no other session uses.

        Chosen are those whose last row is more than `older_than_s` seconds before `now`
        (never a memory bank), or the one named. With `dry_run` nothing changes. Raises
        UsageError for an unknown session, or when neither or both are given.
        """
        if (older_than_s is None) == (session_id is None):
            raise UsageError("prune needs either an age or a session, and not both")

        def choose() -> list[tuple[int, str]]:
            if session_id is not None:
                return [(self._known(session_id, self._find(session_id)).number, session_id)]
            return self._older(now - (older_than_s or 0.0))

        with self._use():
            return self._prune(choose, now=now, dry_run=dry_run)

    def _known(self, session_id: str, session: _Session | None) -> _Session:
        if session is None:
            hint = did_you_mean(session_id, self._recent())
            raise UsageError(f"no session {session_id!r} in this store: {hint}")
        return session

    def _messages(self, keys: Iterable[str | None]) -> dict[str | None, Message]:
        return read_messages(keys, self._fetch_bodies, self._blobs)

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in for a message that cannot be read, and tell of each once."""
        self._blobs.on_lost = once_each(tell)

    def rows(self, session_id: str, *, phase: str | None = None) -> Iterator[StoredRow]:
        """A session's rows in order, with their messages; none where it is unknown.

        Bytes of pictures are not among them: `picture` fetches them.
        """
        with self._use():
            session = self._find(session_id)
        after = 0
        while session is not None:
            with self._use():
                portion = session.log(after, phase)
                messages = self._messages(row.key for row in portion)
            for row in portion:
                yield stored_row(session_id, row, messages.get(row.key))
            if len(portion) < PORTION:
                return
            after = portion[-1].seq

    def message(self, key: str) -> Message:
        """The message body with this key. Raises StoreError where there is none."""
        with self._use():
            return self._messages([key])[key]

    def picture(self, sha256: str) -> bytes:
        """The bytes of a picture. Raises StoreError where they are missing or changed."""
        with self._use():
            try:
                return self._blobs.read(sha256)
            except FileNotFoundError as error:
                raise damaged(f"the file of picture {sha256!r} is missing") from error
            except ValueError as error:
                raise damaged(f"the file of picture {sha256!r} has been changed") from error

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """The session's calls in order, each with its whole window."""
        with self._use():
            session = self._find(session_id)
            stored = [] if session is None else list(windows(session.table(CallRow)))
            if session is None or not stored:
                return []
            tools = {sha: tuple(json.loads(text)) for sha, text in session.tool_lists().items()}
            messages = self._messages(key for call in stored for key in call.bodies)
        for row, _, _ in stored:
            if row.tools not in tools:
                raise damaged(f"the tools of call {row.number} are missing")
        return [
            CallRecord(
                trace_id=row.trace_id,
                model=row.model,
                shown=shown,
                request_hash=row.request_hash,
                tools=tools[row.tools],
                sent_tokens=row.sent_tokens,
                full_tokens=row.full_tokens,
                bodies=tuple(messages[key] for key in bodies),
                details=json.loads(row.details_json),
            )
            for row, shown, bodies in stored
        ]

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """The committed edits of a session, in order; none where it is unknown."""
        with self._use():
            session = self._find(session_id)
            stored = [] if session is None else session.table(EditRow)
            messages = self._messages(row.replacement for row in stored)
        return [
            EditRecord(
                row.message_id, row.kind, row.because, row.reason, messages.get(row.replacement)
            )
            for row in stored
        ]

    def state(self, session_id: str) -> Sequence[StateChange]:
        """The state changes of a session, in order."""
        with self._use():
            session = self._find(session_id)
            stored = [] if session is None else session.table(StateRow)
        return [StateChange(row.phase, row.key, json.loads(row.value_json)) for row in stored]

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """How the phases, and at last the session, ended."""
        with self._use():
            session = self._find(session_id)
            return [] if session is None else [outcome_of(row) for row in session.table(OutcomeRow)]

    def start(self, session_id: str) -> SessionStart:
        """How a session began. Raises UsageError naming recent sessions where it is unknown."""
        with self._use():
            row = self._known(session_id, self._find(session_id)).start()
        return SessionStart(
            cascade_id=row.cascade_id,
            model=row.model,
            input=json.loads(row.input_json),
            cascade=json.loads(row.cascade_json),
            timestamp=row.started,
        )

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order."""
        with self._use():
            session = self._find(session_id)
            images = [] if session is None else session.table(ImageRow)
        name = packing.text(phase)
        return [(row.sha256, self.folder / row.name) for row in images if row.phase == name]

    def results(self, session_id: str) -> Sequence[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file, by reference."""
        with self._use():
            session = self._find(session_id)
            return [] if session is None else session.results()


def reference_taken(ref: str, key: str) -> StoreError:
    """The error for a reference that stands for another message."""
    return StoreError(
        f"the reference {ref!r} stands for message {key!r} already: "
        "a reference must not be given twice"
    )
