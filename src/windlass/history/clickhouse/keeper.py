"""The keeper in ClickHouse: a server's database, or an engine in process, and a place for blobs.

    <database>.record, .bodies, .context_cards           tables and views (tables.py)
    <blobs>/aa/<sha256>                                  large bodies, pictures
    <folder>/images/…, <folder>/storage/tool_results/…   visible files, on this machine

There are no transactions: a batch counts from its last row on (appending.py). Any number of
processes and machines may use one store.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from windlass.cards.card import Card
from windlass.errors import StoreError, UsageError
from windlass.history import packing
from windlass.history import reading as values_of
from windlass.history.base import (
    Batch,
    CallRecord,
    Discrepancy,
    EditRecord,
    Outcome,
    Pruned,
    SessionInfo,
    SessionStart,
    StateChange,
    StoredRow,
)
from windlass.history.blob_places import BlobPlace
from windlass.history.clickhouse import asking, pruning, reading, writing
from windlass.history.clickhouse import cards as kept
from windlass.history.clickhouse.appending import GRACE_S, Appender
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.proving import Proof
from windlass.history.clickhouse.tables import RECORD, TableOptions, prepare_tables
from windlass.history.lost import Lost, once_each
from windlass.messages import Message


class ClickHouseKeeper:
    """The store behind `client`, with blobs at `blobs` and visible files in `folder`.

    Tables are made where they are missing, in that `shape` (`existing`: UsageError then).
    Threads may share a keeper, and any number of processes a server. Raises UsageError for a
    wrong address, user, password or database and StoreError where the server fails. An append
    that raises LostConnectionError may have been written; doing it again with the same keeper
    does not write it twice.
    """

    remote = True

    def __init__(
        self,
        client: ClickHouseClient,
        blobs: BlobPlace,
        folder: Path,
        *,
        shape: TableOptions | None = None,
        grace_s: float = GRACE_S,
        existing: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self._client = client
        self._beside = client.beside()
        self._blobs = blobs
        self._grace_s = grace_s
        self._lock = threading.RLock()
        self._appender = Appender(client, blobs, self.folder, grace_s)
        with self._errors():
            prepare_tables(client, shape or TableOptions(), existing=existing)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._beside.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shown(self) -> str:
        """The store's address for people, without secrets."""
        return self._client.target.shown

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate what the place of the blobs raises."""
        with self._lock:
            try:
                yield
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                raise StoreError(
                    "no space is left for the blobs, and nothing of this step was recorded"
                    if full
                    else f"the place of the blobs failed ({error}): see that it is there and may "
                    "be written"
                ) from error

    # ---- writing --------------------------------------------------------------------

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Write a batch, whole or not at all, and return the ids of its rows' messages.

        As in the protocol; LostConnectionError says that no answer came, and that the same
        batch may be handed over again.
        """
        parts = (batch.rows, batch.calls, batch.edits, batch.state, batch.outcomes)
        if batch.start is None and not any(parts):
            return ()
        with self._errors():
            return self._appender.append(batch)

    def store_tool_result(self, session_id: str, ref: str, key: str) -> Path:
        """Make the visible file `storage/tool_results/{ref}.json` of a stored body.

        Doing it again changes nothing. Raises StoreError where `ref` stands for another
        body already, or there is no such body.
        """
        name = packing.tool_result_name(ref)
        with self._errors():
            found = reading.message(self._client, self._blobs, key)
            # What is lost keeps its name, for `verify` to tell.
            body = {} if isinstance(found, Lost) else {key: found.canonical.encode("ascii")}
            session, started, cascade_id = reading.must_find(self._client, session_id)
            taken = self._client.select(
                "SELECT session_no, json FROM record WHERE kind = 'result' "
                "AND trace_id = {name:String}",
                name=name,
            )
            for _, stored in taken:
                if json.loads(stored)[1] != key:
                    raise StoreError(
                        f"the reference {ref!r} stands for message {json.loads(stored)[1]!r} "
                        "already: a reference must not be given twice"
                    )
            self._blobs.write(body, renew=True)
            if all(number != session for number, _ in taken):
                fixed = {
                    "session_id": packing.text(session_id),
                    "started": started,
                    "cascade_id": cascade_id,
                    "write": "",
                    "trace_id": name,
                }
                row = writing.result_row(fixed, session, packing.text(ref), key, name)
                self._client.insert("record", RECORD, [row], f"result/{session}/{name}/{key}")
            if body:
                self._blobs.link(key, self.folder / name)
        return self.folder / name

    def prune(
        self,
        *,
        older_than_s: float | None = None,
        session_id: str | None = None,
        now: float,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove whole sessions, and the bodies and blobs that no other session uses.

        As in the protocol. Of what no session uses, only that goes which was written longer
        than `grace_s` seconds ago.
        """
        if (older_than_s is None) == (session_id is None):
            raise UsageError("prune needs either an age or a session, and not both")
        with self._errors():
            chosen = pruning.choose(self._client, older_than_s, session_id, now)
            told = pruning.prune(
                self._client,
                self._blobs,
                self.folder,
                chosen,
                now=now,
                grace_s=self._grace_s,
                dry_run=dry_run,
            )
            if not dry_run:
                self._appender.forget()
            return told

    # ---- reading --------------------------------------------------------------------

    def _number(self, session_id: str) -> int | None:
        found = reading.find(self._client, session_id)
        return None if found is None else found[0]

    def rows(self, session_id: str, *, phase: str | None = None) -> Iterator[StoredRow]:
        """A session's rows in order, with their messages; none where it is unknown."""
        session = self._number(session_id)
        if session is not None:
            yield from reading.rows(self._client, self._blobs, session_id, session, phase)

    def mark_lost(self, tell: Callable[[str], None]) -> None:
        """From now on give a stand-in for a message that cannot be read, and tell of each once."""
        self._blobs.on_lost = once_each(tell)

    def message(self, key: str) -> Message:
        """The message body with this key. Raises StoreError where there is none."""
        with self._errors():
            return reading.message(self._client, self._blobs, key)

    def picture(self, sha256: str) -> bytes:
        """The bytes of a picture. Raises StoreError where they are missing or changed."""
        with self._errors():
            return values_of.picture(self._blobs, sha256)

    def edits(self, session_id: str) -> Sequence[EditRecord]:
        """The committed edits of a session, in order; none where it is unknown."""
        session = self._number(session_id)
        with self._errors():
            if session is None:
                return []
            return reading.edits(self._client, self._blobs, session_id, session)

    def calls(self, session_id: str) -> Sequence[CallRecord]:
        """The session's calls in order, each with its whole window."""
        session = self._number(session_id)
        with self._errors():
            if session is None:
                return []
            return reading.calls(self._client, self._blobs, session_id, session)

    def state(self, session_id: str) -> Sequence[StateChange]:
        """The state changes of a session, in order."""
        session = self._number(session_id)
        return [] if session is None else reading.state(self._client, session_id, session)

    def outcomes(self, session_id: str) -> Sequence[Outcome]:
        """How the phases, and at last the session, ended."""
        session = self._number(session_id)
        return [] if session is None else reading.outcomes(self._client, session_id, session)

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """How the last so many sessions ended, newest first; None: it runs yet, or was killed."""
        return reading.endings(self._client, sessions)

    def start(self, session_id: str) -> SessionStart:
        """How a session began. Raises UsageError naming recent sessions where it is unknown."""
        return reading.start(self._client, session_id)

    def sessions(self, *, limit: int | None = None) -> Sequence[SessionInfo]:
        """Sessions, newest first; tokens and costs summed over all their rows."""
        return reading.sessions(self._client, limit)

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order; the files are made."""
        session = self._number(session_id)
        if session is None:
            return []
        with self._errors():
            stored = reading.of_kind(
                self._client, session_id, session, "image",
                "AND phase_name = {phase:String}", phase=packing.text(phase),
            )  # fmt: skip
            named = [(str(sha), self.folder / name) for *_, sha, name in stored]
            for sha, path in named:
                if not path.is_file() and self._blobs.has(sha):
                    self._blobs.link(sha, path)
            return named

    def results(self, session_id: str) -> Sequence[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file, by reference."""
        session = self._number(session_id)
        if session is None:
            return []
        return [(ref, key) for ref, key, _ in reading.results(self._client, session_id, session)]

    # ---- cards, by a connection of their own: no append waits for them ---------------

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        Cards of messages that are not there are left out. Raises UsageError for an unknown
        session, LostConnectionError where no answer came: they may be put again.
        """
        session, _, _ = reading.must_find(self._beside, session_id)
        kept.put(self._beside, session_id, session, cards)

    def cards(self, session_id: str) -> Sequence[Card]:
        """The cards of a session, in the order of its messages; [] where there are none."""
        found = reading.find(self._beside, session_id)
        return [] if found is None else kept.cards(self._beside, session_id, found[0])

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """The first rows behind number `after` whose messages may have a card and have none."""
        found = reading.find(self._beside, session_id)
        if found is None:
            return []
        return kept.waiting(
            self._beside, self._blobs, session_id, found[0], after=after, limit=limit
        )

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of one SELECT with bound parameters, as a query that cannot write.

        Raises UsageError for anything else, and for SQL that ClickHouse refuses.
        """
        return asking.select(self._client, sql, params)

    def verify(self) -> Iterator[Discrepancy]:
        """Derive hashes, ids, windows and links again and yield what disagrees."""
        return Proof(self._client, self._blobs, self.folder).findings()
