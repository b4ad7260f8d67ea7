"""What all stores do alike with the rows that each writes and reads its way.

`SessionReader` is what a store reads of one session; `verify` reads by the same. `BaseStore`
makes of it what the protocol promises.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from windlass.errors import StoreError, UsageError, did_you_mean
from windlass.history import packing
from windlass.history._blobs import BlobPlace, remove_visible
from windlass.history._lost import Lost, damaged, lost, once_each
from windlass.history._numbering import Numbered, Prepared, SessionHead, SessionReader, prepare
from windlass.history.base import (
    EVERY_SESSION,
    LATEST,
    Batch,
    CallRecord,
    Discrepancy,
    EditRecord,
    Outcome,
    Pruned,
    SessionFilter,
    SessionInfo,
    SessionStart,
    ShownMessage,
    StateChange,
    StoredRow,
)
from windlass.history.packing import (
    DIGESTED,
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
)
from windlass.messages import Message, from_dict

_Session = TypeVar("_Session", bound=SessionReader)

PORTION: Final = 500
"""Rows read at a time: no reader holds a snapshot open while its caller thinks."""

_KEYS: Final = 1_000
"""Keys of bodies asked for at a time."""

_CANDIDATES: Final = 10
"""Sessions that a message about an ambiguous beginning names."""

_REMEMBERED: Final = 256
"""Sessions whose last numbers and window are kept at hand between appends."""

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""


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


def changed_batches(where: str, session: SessionReader) -> Iterator[Discrepancy]:
    """The batches of a session that are not what was appended, by their chain of digests."""
    tables: list[Iterable[Any]] = [log_rows(session)]
    tables += [session.table(kind) for kind in DIGESTED[1:]]
    parts: defaultdict[int, tuple[list[Any], ...]] = defaultdict(lambda: ([], [], [], [], []))
    for place, rows in enumerate(tables):
        for row in rows:
            parts[row.batch][place].append(row)
    digests = session.digests()
    before = session.start().digest
    last = max([0, *digests, *parts])
    if not last:
        yield Discrepancy(where, "has no batch")
    for number in range(1, last + 1):
        part = parts[number]
        log = part[0]
        span = f" (rows {log[0].seq} to {log[-1].seq})" if log else ""
        if number not in digests:
            yield Discrepancy(f"{where}, batch {number}{span}", "is missing from batches")
            continue
        if packing.batch_digest(before, *part) != digests[number]:
            yield Discrepancy(
                f"{where}, batch {number}{span}",
                "is not what was appended: a row of it was changed, added or removed",
            )
        before = digests[number]


def read_head(session: SessionReader) -> SessionHead:
    """What an appender must know of a session, read anew."""
    last = session.last_batch()
    if last is None:
        raise damaged(f"session number {session.number} has no batch")
    head = SessionHead(session, *last, tools=set(session.tool_lists()))
    for row in log_rows(session):
        head.numbers[LogRow] = row.seq
        if row.key is not None and row.occurrence is not None:
            head.counts[row.key[:16]] = row.occurrence
    for call in windows(session.table(CallRow)):
        head.numbers[CallRow], head.window, head.bodies = call.row.number, call.shown, call.bodies
    for kind in DIGESTED[2:]:
        head.numbers[kind] = max((row.number for row in session.table(kind)), default=0)
    return head


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
        reason=row.reason,
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


class BaseStore(ABC):
    """What stores do alike. A subclass opens sessions, and writes and prunes its way.

    `blobs` is where large bodies and pictures lie; of those that nothing names, `prune` takes
    what was written longer than `grace_s` seconds ago.
    """

    def __init__(self, folder: Path, blobs: BlobPlace, *, grace_s: float = 0.0) -> None:
        self.folder = folder.absolute()
        self.blobs = blobs
        self._grace_s = grace_s
        self._heads: dict[str, SessionHead] = {}

    # ---- what a store does its way --------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""

    @abstractmethod
    def _use(self) -> AbstractContextManager[Any]:
        """Hold the store's lock, and translate what its parts raise."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """`_use`, for what is written together."""

    @abstractmethod
    def _find(self, session_id: str) -> SessionReader | None: ...

    @abstractmethod
    def _recent(self) -> Iterable[str]:
        """Names of recent sessions, for a message about an unknown one."""

    @abstractmethod
    def sessions(
        self, which: SessionFilter = EVERY_SESSION, *, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions that fit, newest first, `limit` of them at most."""

    @abstractmethod
    def fetch_bodies(self, keys: list[str]) -> Iterable[tuple[str, str | None]]:
        """Key and body of those that are stored."""

    @abstractmethod
    def _append(self, prepared: Prepared) -> Numbered: ...

    @abstractmethod
    def _begin(self, row: SessionRow) -> SessionReader:
        """A session that is not there yet."""

    @abstractmethod
    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        """Record the visible name of a result, and make it where its `body` is given by key."""

    @abstractmethod
    def _older(self, before: float) -> list[tuple[int, str]]:
        """Number and name of the sessions, but for memory banks, without a row since."""

    @abstractmethod
    def _forget(self, sessions: list[int], *, dry_run: bool) -> tuple[int, int, set[str]]:
        """Remove sessions and what no other uses; how many rows and bodies, and the blobs left."""

    @abstractmethod
    def used_blobs(self) -> set[str]:
        """The blobs that the record names."""

    @abstractmethod
    def visible_names(self) -> set[str]:
        """The visible names of pictures and results, as paths under the store's folder."""

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
        return tuple(self._append(prepare(batch)).ids)

    def _head(self, prepared: Prepared) -> SessionHead:
        """What there is of the batch's session; one that begins is begun."""
        begins = prepared.batch.start is not None
        head = self._heads.get(prepared.session_id)
        if head is not None and not begins and head.is_current:
            return head
        session = self._find(prepared.session_id)
        if begins:
            if session is not None:
                raise prepared.refusal("a session of that name is in the store already")
            row = prepared.session_row()
            return SessionHead(self._begin(row), 0, row.digest)
        if session is None:
            raise prepared.refusal("the first batch of a session must carry its start")
        return read_head(session)

    def _remember(self, numbered: Numbered) -> None:
        """Keep what is needed for the next batch, now that this one is committed."""
        numbered.settle()
        name = numbered.prepared.session_id
        self._heads.pop(name, None)
        self._heads[name] = numbered.head
        if len(self._heads) > _REMEMBERED:
            del self._heads[next(iter(self._heads))]

    def _link_images(self, numbered: Numbered) -> None:
        """Make the visible files of the pictures whose bytes there are."""
        for image in numbered.rows[ImageRow]:
            if image.sha256 not in numbered.prepared.batch.lost or self.blobs.has(image.sha256):
                self.blobs.link(image.sha256, self.folder, image.name)

    def store_tool_result(self, session_id: str, ref: str, key: str) -> Path:
        """Make the visible file `storage/tool_results/{ref}.json` of a stored body.

        Doing it again changes nothing. Raises StoreError where `ref` stands for another
        body already, or there is no such body.
        """
        path = self.folder / packing.tool_result_name(ref)
        with self._use():
            message = self.messages([key])[key]
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
        (never a memory bank), or the one named; with each go its sub-cascades. With `dry_run`
        nothing changes. Raises UsageError for an unknown session, or when neither or both are
        given.
        """
        if (older_than_s is None) == (session_id is None):
            raise UsageError("prune needs either an age or a session, and not both")

        # The database forgets first, then the files go. A crash between the two leaves files
        # that nothing names; the next prune takes whatever is not named.
        with self._transaction():
            if session_id is not None:
                chosen = [(self._known(session_id, self._find(session_id)).number, session_id)]
            else:
                chosen = self._older(now - (older_than_s or 0.0))
            chosen = self._with_children(chosen)
            rows, bodies, used = self._forget([number for number, _ in chosen], dry_run=dry_run)
            files = self._unused(used, now)
            size = sum(self.blobs.size(sha) for sha in files)
        if not dry_run:
            # In a transaction of its own: whoever appends looks, under the same lock,
            # whether the files it names are there.
            with self._transaction():
                for sha in self._unused(self.used_blobs(), now):
                    self.blobs.remove(sha)
                self.blobs.remove_unfinished(now - _STALE_S)
                remove_visible(self.folder, self.visible_names())
        return Pruned(tuple(name for _, name in chosen), rows, bodies, len(files), size)

    def _with_children(self, chosen: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """These sessions, and all that ran under them."""
        named = {name: number for number, name in chosen}
        above = tuple(named)
        while above:
            under = [info.session_id for info in self.sessions(SessionFilter(under=above))]
            above = tuple(name for name in under if name not in named)
            named |= {name: self._known(name, self._find(name)).number for name in above}
        return [(number, name) for name, number in named.items()]

    def _unused(self, used: set[str], now: float) -> list[str]:
        return [
            sha
            for sha in list(self.blobs.list())
            if sha not in used
            and not (self._grace_s and self.blobs.written(sha) > now - self._grace_s)
        ]

    def _known(self, session_id: str, session: _Session | None) -> _Session:
        if session is None:
            raise self._unknown(session_id)
        return session

    def _unknown(self, session_id: str) -> UsageError:
        hint = did_you_mean(session_id, self._recent())
        return UsageError(f"no session {session_id!r} in this store: {hint}")

    def messages(self, keys: Iterable[str | None]) -> dict[str | None, Message]:
        """The messages with these keys.

        Raises StoreError for one that is missing or changed, where no stand-in is wanted.
        """
        messages: dict[str | None, Message] = {}
        distinct = [key for key in dict.fromkeys(keys) if key is not None]
        for at in range(0, len(distinct), _KEYS):
            for key, body in self.fetch_bodies(distinct[at : at + _KEYS]):
                if key not in messages:
                    messages[key] = decode(key, body, self.blobs)
        for key in distinct:
            if key not in messages:
                messages[key] = lost(key, "is missing", self.blobs, "")
        return messages

    def changed(self, session_id: str) -> Sequence[Discrepancy]:
        """What of a session, and of those that ran under it, is not as it was appended.

        Raises UsageError for an unknown session.
        """
        found: list[Discrepancy] = []
        with self._transaction():  # nobody appends meanwhile
            first = self._known(session_id, self._find(session_id)).number
            for _, name in self._with_children([(first, session_id)]):
                where = f"session {name!r}"
                try:
                    found += changed_batches(where, self._known(name, self._find(name)))
                except (TypeError, ValueError, IndexError) as error:
                    found.append(Discrepancy(where, f"cannot be read to its end: {error}"))
        return found

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in for a message that cannot be read, and tell of each once."""
        self.blobs.on_lost = once_each(tell)

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
                messages = self.messages(row.key for row in portion)
            for row in portion:
                yield stored_row(session_id, row, messages.get(row.key))
            if len(portion) < PORTION:
                return
            after = portion[-1].seq

    def message(self, key: str) -> Message:
        """The message body with this key. Raises StoreError where there is none."""
        with self._use():
            return self.messages([key])[key]

    def picture(self, sha256: str) -> bytes:
        """The bytes of a picture. Raises StoreError where they are missing or changed."""
        with self._use():
            try:
                return self.blobs.read(sha256)
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
            messages = self.messages(chain.from_iterable(call.bodies for call in stored))
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
                bodies=tuple(map(messages.__getitem__, bodies)),
                details=json.loads(row.details_json),
            )
            for row, shown, bodies in stored
        ]

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """The committed edits of a session, in order; none where it is unknown."""
        with self._use():
            session = self._find(session_id)
            stored = [] if session is None else session.table(EditRow)
            messages = self.messages(row.replacement for row in stored)
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

    def find_session(self, name: str) -> str:
        """The id of the session that `name` means: an id, the beginning of one, or `latest`.

        A whole id goes before a beginning. `latest` is the newest run, whether it has ended or
        not. Memory banks go by their whole names. Raises UsageError where `name` fits no session,
        or several.
        """
        with self._use():
            if self._find(name) is not None:
                return name
        latest = name == LATEST
        prefix, under = ("", ()) if latest else (name, None)
        which = SessionFilter(prefix=prefix, banks=False, under=under)
        listed = self.sessions(which, limit=1 if latest else _CANDIDATES + 1) if name else ()
        fitting = [info.session_id for info in listed]
        match fitting:
            case [session_id]:
                return session_id
            case [] if latest:
                raise UsageError("there is no latest session: no session is in this store yet")
            case []:
                with self._use():
                    raise self._unknown(name)
            case _:
                more = ", …" if len(fitting) > _CANDIDATES else ""
                raise UsageError(
                    f"{name!r} is the beginning of several sessions:"
                    f" {', '.join(fitting[:_CANDIDATES])}{more}"
                )

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
            parent_id=row.parent_id,
            parent_phase=row.parent_phase,
            sounding_index=row.sounding_index,
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
