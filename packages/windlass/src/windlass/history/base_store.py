"""What every store does alike, whatever database it writes to and reads from."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from windlass.errors import SessionHeld, UsageError, did_you_mean
from windlass.history import packing
from windlass.history.base import (
    EVERY_SESSION,
    LATEST,
    Batch,
    CallRecord,
    Discrepancy,
    EditRecord,
    Holder,
    Outcome,
    PruneResult,
    SessionFilter,
    SessionInfo,
    SessionStart,
    SessionStatus,
    StateChange,
    StoredRow,
    status_by_record,
)
from windlass.history.base_session import (
    PORTION,
    changed_batches,
    decode,
    is_select,
    read_head,
    stored_row,
    windows,
)
from windlass.history.blobs import (
    BlobPlace,
    LostMessage,
    damage_error,
    remove_visible,
    stand_in_for,
    tell_once,
)
from windlass.history.numbering import (
    NumberedBatch,
    PreparedBatch,
    SessionHead,
    SessionReader,
    prepare,
)
from windlass.history.packing import (
    CallRow,
    EditRow,
    ImageRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.history.session_locks import HeldSessions, SessionLocks
from windlass.messages import Message
from windlass.selection.card import Card

_Session = TypeVar("_Session", bound=SessionReader)

_KEYS: Final = 1_000
"""Keys of bodies asked for at a time."""

_CANDIDATES: Final = 10
"""Sessions that a message about an ambiguous beginning names."""

_REMEMBERED: Final = 256
"""Sessions whose last numbers and window are kept at hand between appends."""

_STALE_S: Final = 3600.0
"""Seconds after which an unfinished file belongs to no living process."""


class BaseStore(ABC, Generic[_Session]):
    """What stores do alike. A subclass opens sessions, and writes and prunes its way.

    `blobs` is where large bodies and pictures lie; of those that nothing names, `prune` takes
    what was written longer than `grace_s` seconds ago.
    """

    def __init__(self, folder: Path, blobs: BlobPlace, *, grace_s: float = 0.0) -> None:
        self.folder = folder.absolute()
        self.blobs = blobs
        self._grace_s = grace_s
        self._heads: dict[str, SessionHead] = {}
        self._locks = SessionLocks(self.folder)

    # ---- what a store does its way --------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""

    @abstractmethod
    def _use(self) -> AbstractContextManager[Any]:
        """Hold the store's lock, and translate what its parts raise."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """Return `_use`, for what is written together."""

    @abstractmethod
    def _find(self, session_id: str) -> _Session | None: ...

    @abstractmethod
    def _recent(self) -> Iterable[str]:
        """Return names of recent sessions, for a message about an unknown one."""

    @abstractmethod
    def _listed(
        self, which: SessionFilter, held: HeldSessions, limit: int | None, offset: int
    ) -> Sequence[SessionInfo]:
        """Return what `sessions` lists, each with what its record says.

        A status that is empty: nothing.

        A filter by status goes by how they stand, with these holders.
        """

    @abstractmethod
    def fetch_bodies(self, keys: list[str]) -> Iterable[tuple[str, str | None]]:
        """Return key and body of those that are stored."""

    @abstractmethod
    def _append(self, prepared: PreparedBatch) -> NumberedBatch: ...

    @abstractmethod
    def _begin(self, row: SessionRow) -> _Session:
        """Return a session that is not there yet."""

    @abstractmethod
    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        """Record the visible name of a result, and make it where its `body` is given by key."""

    @abstractmethod
    def _older(self, before: float) -> list[tuple[int, str]]:
        """Return number and name of the sessions, but for memory banks, without a row since."""

    @abstractmethod
    def _forget(self, sessions: list[int], *, dry_run: bool) -> tuple[int, int, set[str]]:
        """Remove sessions and what no other uses; how many rows and bodies, and the blobs left."""

    @abstractmethod
    def _query(self, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the rows of a text that begins as a SELECT does."""

    @abstractmethod
    def used_blobs(self) -> set[str]:
        """Return the blobs that the record names."""

    @abstractmethod
    def visible_names(self) -> set[str]:
        """Return the visible names of pictures and results, as paths under the store's folder."""

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

    def _head(self, prepared: PreparedBatch) -> SessionHead:
        """Return the stored state of the batch's session; a batch that begins it makes it."""
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

    def _remember(self, numbered: NumberedBatch) -> None:
        """Keep what is needed for the next batch, now that this one is committed."""
        numbered.settle()
        name = numbered.prepared.session_id
        self._heads.pop(name, None)
        self._heads[name] = numbered.head
        if len(self._heads) > _REMEMBERED:
            del self._heads[next(iter(self._heads))]

    def _link_images(self, numbered: NumberedBatch) -> None:
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
            body = (
                {} if isinstance(message, LostMessage) else {key: message.canonical.encode("ascii")}
            )
            self._name_result(session_id, packing.text(ref), key, body)
        return path

    # ---- who runs what --------------------------------------------------------------

    @contextmanager
    def hold(self, session_id: str) -> Iterator[None]:
        """Let nobody else run a session, or one above or below it, nor prune it, meanwhile.

        Raises SessionHeld where somebody else does, and StoreError for a folder that cannot be
        written.
        """
        with self._held_here(self._topmost(session_id)):
            yield

    def _held_here(self, session_id: str) -> AbstractContextManager[None]:
        """Hold a session that is under none."""
        return self._locks.hold(session_id)

    def _holders(self) -> Mapping[str, Holder]:
        """Return who holds which session that is under none, or did until he was killed."""
        return self._locks.holders()

    def _topmost(self, session_id: str) -> str:
        """Return the session under which one runs, and which is under none."""
        met = {session_id}
        with self._use():
            while (session := self._find(session_id)) is not None:
                above = session.start().parent_id
                if above is None or above in met:
                    break
                met.add(session_id := above)
        return session_id

    def session_status(self, session_id: str) -> SessionStatus:
        """Return how a session stands: how it ended, or who runs it.

        Raises UsageError as `start`.
        """
        with self._use():
            self._known(session_id)
        ended = [each for each in self.outcomes(session_id) if each.phase is None]
        holder = self._holders().get(packing.text(self._topmost(session_id)))
        return status_by_record(ended[-1] if ended else None, holder)

    def sessions(
        self, which: SessionFilter = EVERY_SESSION, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[SessionInfo]:
        """Return sessions, newest first; tokens and costs summed over all their rows."""
        held = HeldSessions({**self._holders()})
        above = tuple(held.holders)
        while above:
            below = self._listed(SessionFilter(under=above), HeldSessions(), None, 0)
            new = [each for each in below if each.session_id not in held.holders]
            for each in new:
                held.holders[each.session_id] = held.holders[each.parent_id or ""]
            above = tuple(each.session_id for each in new)
        return [held.with_status(each) for each in self._listed(which, held, limit, offset)]

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        session_id: str | None = None,
        now: float,
        dry_run: bool = False,
    ) -> PruneResult:
        """Remove whole sessions, and the bodies and files that no other session uses.

        Chosen are those whose last row is more than `older_than_s` seconds before `now`
        (never a memory bank), or the one named; with each go its sub-cascades. One that somebody
        runs stays. With `dry_run` nothing changes. Raises UsageError for an unknown session, or
        when neither or both are given, and SessionHeld for one that is named and that somebody
        runs.
        """
        if (older_than_s is None) == (session_id is None):
            raise UsageError("prune needs either an age or a session, and not both")

        # The database forgets first, then the files go. A crash between the two leaves files
        # that nothing names; the next prune takes whatever is not named.
        with self._locks.closed(), self._transaction():
            running: list[str] = []
            if session_id is not None:
                chosen = [(self._known(session_id).number, session_id)]
                self._check_free(session_id)
            else:
                chosen = self._older(now - (older_than_s or 0.0))
                chosen, running = self._without_running(chosen)
            chosen = self._with_children(chosen)
            rows, bodies, used = self._forget([number for number, _ in chosen], dry_run=dry_run)
            files = self._unused(used, now)
            size = sum(self.blobs.size(sha) for sha in files)
        if not dry_run:
            # In a transaction of its own: whoever appends looks, under the same lock,
            # whether the files it names are there.
            left: list[str] = []
            with self._transaction():
                for sha in self._unused(self.used_blobs(), now):
                    self.blobs.remove(sha)
                self.blobs.remove_unfinished(now - _STALE_S)
                remove_visible(self.folder, self.visible_names())
                for name, holder in self._locks.holders().items():
                    gone = holder.state == "broken off" and self._find(name) is None
                    left += [name] * gone
            for name in left:
                self._locks.forget(name)
        names = tuple(name for _, name in chosen)
        return PruneResult(names, rows, bodies, len(files), size, tuple(running))

    def _check_free(self, session_id: str) -> None:
        """Raise SessionHeld for a session that somebody runs."""
        topmost = self._topmost(session_id)
        holder = self._holders().get(packing.text(topmost))
        if holder is not None and holder.state != "broken off":
            raise SessionHeld(topmost, holder.process, holder.machine)

    def _without_running(
        self, chosen: list[tuple[int, str]]
    ) -> tuple[list[tuple[int, str]], list[str]]:
        """Return these sessions without those that somebody runs, and which he runs."""
        holders = self._holders()
        held = {name for name, each in holders.items() if each.state != "broken off"}
        above = [(each, self._topmost(each[1])) for each in chosen if held]
        running = dict.fromkeys(name for _, name in above if packing.text(name) in held)
        if not running:
            return chosen, []
        return [each for each, name in above if name not in running], [*running]

    def _with_children(self, chosen: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return these sessions, and all that ran under them."""
        named = {name: number for number, name in chosen}
        above = tuple(named)
        while above:
            under = [info.session_id for info in self.sessions(SessionFilter(under=above))]
            above = tuple(name for name in under if name not in named)
            named |= {name: self._known(name).number for name in above}
        return [(number, name) for name, number in named.items()]

    def _unused(self, used: set[str], now: float) -> list[str]:
        return [
            sha
            for sha in list(self.blobs.list())
            if sha not in used
            and not (self._grace_s and self.blobs.written(sha) > now - self._grace_s)
        ]

    def _known(self, session_id: str) -> _Session:
        if (session := self._find(session_id)) is None:
            raise self._unknown(session_id)
        return session

    def _table(self, session_id: str, kind: type[TableRow]) -> list[TableRow]:
        """Return the rows of a session in a table; none where it is unknown."""
        session = self._find(session_id)
        return [] if session is None else session.table(kind)

    def _unknown(self, session_id: str) -> UsageError:
        hint = did_you_mean(session_id, self._recent())
        return UsageError(f"no session {session_id!r} in this store: {hint}")

    def messages(self, keys: Iterable[str | None]) -> dict[str | None, Message]:
        """Return the messages with these keys.

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
                messages[key] = stand_in_for(key, "is missing", self.blobs, "")
        return messages

    def changed(self, session_id: str) -> Sequence[Discrepancy]:
        """Return what of a session, and of those that ran under it, is not as it was appended.

        Raises UsageError for an unknown session.
        """
        found: list[Discrepancy] = []
        with self._transaction():  # nobody appends meanwhile
            first = self._known(session_id).number
            for _, name in self._with_children([(first, session_id)]):
                where = f"session {name!r}"
                try:
                    found += changed_batches(where, self._known(name))
                except (TypeError, ValueError, IndexError) as error:
                    found.append(Discrepancy(where, f"cannot be read to its end: {error}"))
        return found

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in for a message that cannot be read, and tell of each once."""
        self.blobs.on_lost = tell_once(tell)

    def rows(self, session_id: str, *, phase: str | None = None) -> Iterator[StoredRow]:
        """Yield a session's rows in order, with their messages; none where it is unknown.

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
        """Return the message body with this key. Raises StoreError where there is none."""
        with self._use():
            return self.messages([key])[key]

    def picture(self, sha256: str) -> bytes:
        """Return the bytes of a picture. Raises StoreError where they are missing or changed."""
        with self._use():
            try:
                return self.blobs.read(sha256)
            except FileNotFoundError as error:
                raise damage_error(f"the file of picture {sha256!r} is missing") from error
            except ValueError as error:
                raise damage_error(f"the file of picture {sha256!r} has been changed") from error

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """Return the session's calls in order, each with its whole window."""
        with self._use():
            session = self._find(session_id)
            stored = [] if session is None else list(windows(session.table(CallRow)))
            if session is None or not stored:
                return []
            tools = {sha: tuple(json.loads(text)) for sha, text in session.tool_lists().items()}
            messages = self.messages(chain.from_iterable(call.bodies for call in stored))
        for row, _, _ in stored:
            if row.tools not in tools:
                raise damage_error(f"the tools of call {row.number} are missing")
        return [
            packing.read_call(
                row, shown, tools[row.tools], tuple(map(messages.__getitem__, bodies))
            )
            for row, shown, bodies in stored
        ]

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """Return the committed edits of a session, in order; none where it is unknown."""
        with self._use():
            stored = self._table(session_id, EditRow)
            messages = self.messages(row.replacement for row in stored)
        return [
            EditRecord(
                row.message_id, row.kind, row.because, row.reason, messages.get(row.replacement)
            )
            for row in stored
        ]

    def state(self, session_id: str) -> Sequence[StateChange]:
        """Return the state changes of a session, in order."""
        with self._use():
            stored = self._table(session_id, StateRow)
        return [StateChange(row.phase, row.key, json.loads(row.value_json)) for row in stored]

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """Return how the phases, and at last the session, ended."""
        with self._use():
            return [packing.read_outcome(row) for row in self._table(session_id, OutcomeRow)]

    def find_session(self, name: str) -> str:
        """Return the id of the session that `name` means: an id, the beginning of one, or `latest`.

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
        """Return how a session began; UsageError names recent sessions where it is unknown."""
        with self._use():
            row = self._known(session_id).start()
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

    def batches(self, session_id: str) -> int:
        """Return how many batches were appended to a session (0: there is none of that name)."""
        with self._use():
            session = self._find(session_id)
            last = None if session is None else session.last_batch()
        return 0 if last is None else last[0]

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """Return (SHA-256, visible file) of the pictures a phase made, in order."""
        with self._use():
            images = self._table(session_id, ImageRow)
        name = packing.text(phase)
        return [(row.sha256, self.folder / row.name) for row in images if row.phase == name]

    def results(self, session_id: str) -> Sequence[tuple[str, str]]:
        """Return (Reference, key) of the results that have a visible file, by reference."""
        with self._use():
            session = self._find(session_id)
            return [] if session is None else session.results()

    @contextmanager
    def _find_for_cards(self, session_id: str) -> Iterator[_Session | None]:
        """A session whose cards are read or written; no append needs to wait for them."""
        with self._use():
            yield self._find(session_id)

    def cards(self, session_id: str) -> Sequence[Card]:
        """Return the cards of a session, in the order of its messages; [] where there are none."""
        with self._find_for_cards(session_id) as session:
            return [] if session is None else session.cards()

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """Get the first rows behind number `after` whose messages may have a card and have none."""
        with self._find_for_cards(session_id) as session:
            rows = [] if session is None else session.without_cards(after, limit)
            messages = self.messages(row.key for row in rows)
        return [stored_row(session_id, row, messages[row.key]) for row in rows]

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return rows of one SELECT with bound parameters, on a connection that cannot write.

        Raises UsageError for anything else, and for SQL that the database refuses.
        """
        if not is_select(sql):
            raise UsageError("only one SELECT can be run here: the record is never changed by SQL")
        return self._query(sql, params)
