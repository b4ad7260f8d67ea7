"""The store in ClickHouse: a server's database, or an engine in process, and a place for blobs.

    <database>.record, .bodies, .context_cards           tables and views (tables.py)
    <blobs>/aa/<sha256>                                  large bodies, pictures
    <folder>/images/…, <folder>/storage/tool_results/…   visible files, on this machine

There are no transactions: bodies are written first, then a batch's rows, its commit last
(appending.py). Any number of processes and machines may use one store.

The number of a batch is also the token of its last insert, and the server drops an insert whose
token it has seen. So of two writers of one session one finds that it was second, and numbers
its batch anew; and what was sent twice because an answer was lost is written once.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import errno
import json
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history._base_store import BaseStore
from windlass.history._blobs import BlobPlace
from windlass.history._numbering import NumberedBatch, PreparedBatch, reference_taken
from windlass.history._proof import Checks, StoreProof
from windlass.history._session_locks import HeldSessions
from windlass.history.base import (
    BANK,
    Batch,
    Discrepancy,
    Holder,
    OnProgress,
    Outcome,
    SessionFilter,
    SessionInfo,
)
from windlass.history.clickhouse._appending import (
    HOLDER,
    batch_rows,
    body_columns,
    body_rows,
    check,
    portions,
    result_row,
)
from windlass.history.clickhouse._holders import Holders
from windlass.history.clickhouse._listing import listed_sessions, newest_endings
from windlass.history.clickhouse._queries import select
from windlass.history.clickhouse._rows import MESSAGE_ID, ClickHouseSession
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.layout import (
    BODIES,
    RECORD,
    VISIBLE,
    TableOptions,
    prepare_tables,
)
from windlass.history.packing import SessionRow
from windlass.messages import Message
from windlass.selection.card import Card

GRACE_S: Final = 900.0
"""Seconds for which `prune` leaves alone what no row names yet."""

_TRIES: Final = 20
"""How often a batch is numbered anew because others append to its session at the same time."""

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""

_PORTION: Final = 1_000
"""Names that one statement removes, and rows that `verify` reads at a time."""

_NAMED: Final = (
    "SELECT key FROM record WHERE kind IN ('row', 'made', 'result') "
    "AND session_no NOT IN {chosen:Array(UInt64)}"
)
_YOUNG: Final = "written > now() - {grace:Float64}"


class ClickHouseStore(BaseStore[ClickHouseSession]):
    """The store behind `client`, with blobs at `blobs` and visible files in `folder`.

    Tables are made where they are missing, by these `options` (`existing`: UsageError then).
    Threads may share a store, and any number of processes a server. Raises UsageError for a
    wrong address, user, password or database and StoreError where the server fails. An append
    that raises LostConnectionError may have been written; doing it again with the same store
    does not write it twice. Of what no session uses, `prune` takes only what was written longer
    than `grace_s` seconds ago: nobody holds a lock while it runs, and it may belong to an append
    that has not committed yet.
    """

    remote = True

    def __init__(
        self,
        client: ClickHouseClient,
        blobs: BlobPlace,
        folder: Path,
        *,
        options: TableOptions | None = None,
        grace_s: float = GRACE_S,
        existing: bool = False,
    ) -> None:
        super().__init__(folder, blobs, grace_s=grace_s)
        self.client = client
        # For cards, so that no append waits for them.
        self._beside = client.beside()
        self._lock = threading.RLock()
        self._unsure: dict[str, tuple[Batch, NumberedBatch]] = {}
        # The engine in process is one process's alone.
        self._on_server = Holders(client, self._locks) if client.target.path is None else None
        with self._use():
            prepare_tables(client, options or TableOptions(), existing=existing)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        self._beside.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
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

    _transaction = _use

    def _find(
        self, session_id: str, client: ClickHouseClient | None = None
    ) -> ClickHouseSession | None:
        client = client or self.client
        stored = client.select(
            "SELECT session_no, started, cascade_id FROM record WHERE session_id = {name:String} "
            f"AND kind = 'start' AND {VISIBLE} ORDER BY written LIMIT 1",
            name=packing.text(session_id),
        )
        return ClickHouseSession(client, session_id, *stored[0]) if stored else None

    def _recent(self) -> Iterable[str]:
        sql = f"SELECT session_id FROM sessions ORDER BY written DESC LIMIT {_RECENT}"
        return [name for (name,) in self.client.select(sql)]

    def fetch_bodies(self, keys: list[str]) -> list[tuple[Any, ...]]:
        """Return key and body of those that are stored, first those that stand in the table."""
        return self.client.select(
            "SELECT key, body FROM bodies WHERE key IN {keys:Array(String)} ORDER BY isNull(body)",
            keys=keys,
        )

    # ---- appending ------------------------------------------------------------------

    def _append(self, prepared: PreparedBatch) -> NumberedBatch:
        check(prepared)
        with self._use():
            numbered = self._done_before(prepared)
            if numbered is None:
                numbered = self._write_often(prepared)
            self._remember(numbered)
            return numbered

    def _done_before(self, prepared: PreparedBatch) -> NumberedBatch | None:
        """This very batch, where it was written by an append whose answer was lost."""
        batch, numbered = self._unsure.pop(prepared.session_id, (None, None))
        if numbered is None:
            return None
        self._heads.pop(prepared.session_id, None)
        return numbered if batch == prepared.batch and numbered.head.is_current else None

    def _write_often(self, prepared: PreparedBatch) -> NumberedBatch:
        for _ in range(_TRIES):
            head = self._head(prepared)
            for trace in head.session.traces_among(prepared.traces):
                raise prepared.refusal(
                    f"the batch does not fit the record (it has a row {trace!r} already)"
                )
            numbered = NumberedBatch(prepared, head)
            self._store_bodies(prepared)
            if self._write(numbered):
                return numbered
            self._heads.pop(prepared.session_id, None)
        raise prepared.refusal("others keep appending to it")

    def _begin(self, row: SessionRow) -> ClickHouseSession:
        number = secrets.randbits(62)
        started = row.started or 0.0
        return ClickHouseSession(self.client, row.session_id, number, started, row.cascade_id)

    def _store_bodies(self, prepared: PreparedBatch) -> None:
        """Bodies and blobs first: a commit must never name what is not there."""
        self.blobs.write(prepared.blobs, renew=True)
        for sha in prepared.needed - prepared.blobs.keys():
            try:
                self.blobs.renew(sha)
            except FileNotFoundError:
                raise prepared.missing_picture(sha) from None
        stored = {key for key, _ in self.fetch_bodies(list(prepared.lost))}
        lost: list[list[Any]] = [
            [*values, []] for key, values in prepared.lost.items() if key not in stored
        ]
        for portion in portions(iter([*body_rows(prepared), *lost])):
            self.client.insert("bodies", BODIES, portion, f"bodies/{secrets.token_hex(16)}")

    def _write(self, numbered: NumberedBatch) -> bool:
        """Send the rows and their commit; False where another writer was first."""
        self._link_images(numbered)
        prepared, write = numbered.prepared, secrets.token_hex(16)
        *early, last = batch_rows(numbered, write)
        for at, portion in enumerate(early):
            self.client.insert("record", RECORD, portion, f"{write}/{at}")
        self._unsure[prepared.session_id] = prepared.batch, numbered
        is_first = self._commit(numbered, last) == write
        del self._unsure[prepared.session_id]
        return is_first

    def _commit(self, numbered: NumberedBatch, rows: list[list[Any]]) -> str:
        """Insert the last rows; the `write` that the server has for this batch then."""
        head, prepared = numbered.head, numbered.prepared
        begins = prepared.batch.start is not None
        # The name of a pruned session may come again, while the server still drops its token.
        for again in range(_TRIES if begins else 1):
            token = f"{head.session.number}/{head.batch}"
            if begins:
                token = f"begin/{prepared.session_id}/{again}"
            self.client.insert("record", RECORD, rows, token)
            written = self.client.select(
                "SELECT write FROM record WHERE session_id = {name:String} AND kind = 'commit' "
                "AND number = {number:UInt32}"
                + ("" if begins else " AND session_no = {no:UInt64}"),
                name=prepared.session_id,
                number=head.batch,
                no=head.session.number,
            )
            if len(written) > 1:
                raise StoreError(
                    f"{self.client.target.shown} took batch {head.batch} of session "
                    f"{prepared.session_id!r} twice: it does not drop repeated inserts "
                    "(see non_replicated_deduplication_window of the table record)"
                )
            if written:
                return str(written[0][0])
        raise prepared.refusal(
            "the session was pruned, or the server dropped the batch as a repeated one"
        )

    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        name = packing.tool_result_name(ref)
        session = self._known(session_id)
        taken = self.client.select(
            "SELECT session_no, key FROM record WHERE kind = 'result' AND trace_id = {name:String}",
            name=name,
        )
        for _, other in taken:
            if other != key:
                raise reference_taken(ref, other)
        self.blobs.write(body, renew=True)
        if all(number != session.number for number, _ in taken):
            row = result_row(session, ref, key, name)
            self.client.insert("record", RECORD, [row], f"result/{session.number}/{name}/{key}")
        if body:
            self.blobs.link(key, self.folder, name)

    def _held_here(self, session_id: str) -> AbstractContextManager[None]:
        return (self._on_server or self._locks).hold(session_id)

    def _holders(self) -> Mapping[str, Holder]:
        return self._locks.holders() if self._on_server is None else self._on_server.all()

    # ---- pruning --------------------------------------------------------------------

    def _older(self, before: float) -> list[tuple[int, str]]:
        stored = self.client.select(
            "SELECT session_no, any(session_id) FROM record "
            f"WHERE {VISIBLE} GROUP BY session_no "
            "HAVING greatest(any(started), maxIf(at, kind = 'row')) < {before:Float64} "
            "AND NOT startsWith(any(session_id), {bank:String}) "
            "ORDER BY min(written)",
            before=before,
            bank=BANK,
        )
        return [(int(number), str(name)) for number, name in stored]

    def _forget(self, sessions: list[int], *, dry_run: bool) -> tuple[int, int, set[str]]:
        ((rows,),) = self.client.select(
            "SELECT count() FROM record WHERE kind = 'row' "
            f"AND session_no IN {{chosen:Array(UInt64)}} AND {VISIBLE}",
            chosen=sessions,
        )
        bodies = self.client.select(
            f"SELECT key FROM bodies WHERE key NOT IN ({_NAMED}) "
            f"GROUP BY key HAVING NOT ({_YOUNG.replace('written', 'max(written)')})",
            chosen=sessions,
            grace=self._grace_s,
        )
        used = self.used_blobs(sessions)
        if dry_run:
            return int(rows), len(bodies), used
        # Rows of large batches that never came to their commit.
        writes = self.client.select(
            f"SELECT DISTINCT write FROM record WHERE early = 1 AND kind != '{HOLDER}' "
            "AND write NOT IN (SELECT write FROM record WHERE kind = 'commit' AND early = 1) "
            f"AND NOT ({_YOUNG})",
            grace=self._grace_s,
        )
        pruned = self.client.select(
            "SELECT session_id FROM record WHERE kind = 'start' "
            "AND session_no IN {chosen:Array(UInt64)}",
            chosen=sessions,
        )
        self._delete("record", "session_no IN {these:Array(UInt64)}", sessions)
        if sessions:
            where = f"kind = '{HOLDER}' AND session_id IN {{these:Array(String)}}"
            self._delete("record", where, [name for (name,) in pruned])
            # Cards that are left over: no record has their sessions any more.
            names = self.client.select(
                "SELECT DISTINCT session_id FROM context_cards "
                "WHERE session_id NOT IN (SELECT session_id FROM record WHERE kind = 'start')"
            )
            self._delete(
                "context_cards", "session_id IN {these:Array(String)}", [name for (name,) in names]
            )
        self._delete("record", "write IN {these:Array(String)}", [write for (write,) in writes])
        self._delete("bodies", "key IN {these:Array(String)}", [key for (key,) in bodies])
        return int(rows), len(bodies), used

    def _delete(self, table: str, where: str, these: Sequence[Any]) -> None:
        for at in range(0, len(these), _PORTION):
            portion = list(these[at : at + _PORTION])
            self.client.command(f"DELETE FROM {table} WHERE {where}", these=portion)

    def used_blobs(self, sessions: Sequence[int] = ()) -> set[str]:
        """Return the blobs that the record names, but for those that only these sessions use."""
        stored = self.client.select(
            "SELECT arrayJoin(arrayConcat(pictures, if(body IS NULL, [key], []))) AS sha "
            f"FROM bodies WHERE key IN ({_NAMED}) "
            "UNION DISTINCT SELECT key FROM record WHERE kind = 'result' "
            "AND session_no NOT IN {chosen:Array(UInt64)}",
            chosen=list(sessions),
        )
        return {str(sha) for (sha,) in stored}

    def visible_names(self) -> set[str]:
        """Return the visible names of pictures and results, as paths under the store's folder."""
        stored = self.client.select(
            f"SELECT json FROM record WHERE kind IN ('image', 'result') AND {VISIBLE}"
        )
        return {json.loads(values)[-1] for (values,) in stored}

    # ---- lists, cards, SQL ----------------------------------------------------------

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order; the files are made."""
        named = super().picture_names(session_id, phase)
        with self._use():
            for sha, path in named:
                if not path.is_file() and self.blobs.has(sha):
                    self.blobs.link(sha, self.folder, path.relative_to(self.folder).as_posix())
        return named

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """Return how the last so many sessions ended, newest first.

        None: it runs yet, or was killed.
        """
        return newest_endings(self.client, sessions)

    def _listed(
        self, which: SessionFilter, held: HeldSessions, limit: int | None, offset: int
    ) -> Sequence[SessionInfo]:
        return listed_sessions(self.client, which, held, limit, offset)

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        Cards of messages that are not there are left out. Raises UsageError for an unknown
        session, LostConnectionError where no answer came: they may be put again.
        """
        with self._find_for_cards(session_id) as session:
            if session is None:
                raise self._unknown(session_id)
            session.put_cards(cards)

    @contextmanager
    def _find_for_cards(self, session_id: str) -> Iterator[ClickHouseSession | None]:
        yield self._find(session_id, self._beside)

    def _query(self, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
        return select(self.client, sql, params)

    def verify(self, on_progress: OnProgress | None = None) -> Iterator[Discrepancy]:
        """Derive hashes, ids, windows and links again and yield what disagrees."""
        return ClickHouseProof(self, self.client, on_progress).findings()


class ClickHouseProof(StoreProof[ClickHouseSession]):
    """One reading of a store.

    Visible files are made on each machine when they are asked for, so one that is not there is
    no discrepancy; one with other bytes is.
    """

    names_are_kept = False

    def __init__(
        self,
        store: ClickHouseStore,
        client: ClickHouseClient,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__(store, on_progress)
        self.client = client

    def _contents(self, listed: list[str]) -> Checks:
        yield "blobs", self._blob_files(listed)
        yield "table bodies", self._bodies()
        yield "record", self._beginnings()

    def _more_of(self, where: str, session: ClickHouseSession) -> Checks:
        yield f"{where}, log", self._shown(where, session)
        yield f"{where}, batches", self._twice(where, session)

    def _bodies(self) -> Iterator[Discrepancy]:
        ((total,),) = self.client.select("SELECT count(DISTINCT key) FROM bodies")
        for key, *values, pictures in self.counted("messages", self._stored_bodies(), int(total)):
            yield from self._body(key, *values)
            if key in self.pictures and set(self.pictures[key]) != set(pictures):
                yield Discrepancy(f"message {key}", "its pictures are not those in bodies")

    def _stored_bodies(self) -> Iterator[tuple[Any, ...]]:
        after = ""
        stored: list[tuple[Any, ...]] = [()]
        while stored:
            stored = self.client.select(
                "SELECT key, role, chars, tool_calls, body, pictures FROM bodies FINAL "
                f"WHERE key > {{after:String}} ORDER BY key LIMIT {_PORTION}",
                after=after,
            )
            yield from stored
            after = stored[-1][0] if stored else after

    def _sessions(self) -> Iterator[tuple[str, ClickHouseSession]]:
        for name, *values in self.client.select(
            "SELECT session_id, session_no, started, cascade_id FROM record "
            f"WHERE kind = 'start' AND {VISIBLE} ORDER BY written"
        ):
            yield name, ClickHouseSession(self.client, name, *values)

    def _beginnings(self) -> Iterator[Discrepancy]:
        """Yield each session begins once."""
        names = Counter(name for name, _ in self._sessions())
        for name in sorted(name for name, count in names.items() if count > 1):
            yield Discrepancy(f"session {name!r}", "begins more than once")
        for (name,) in self.client.select(
            f"SELECT DISTINCT session_id FROM record WHERE {VISIBLE} AND session_no NOT IN "
            "(SELECT session_no FROM record WHERE kind = 'start')"
        ):
            yield Discrepancy(f"session {name!r}", "has rows, and no beginning")

    def _shown(self, where: str, session: ClickHouseSession) -> Iterator[Discrepancy]:
        """Yield what SQL shows of the messages is what their bodies say."""
        columns = "number, key, role, content_json, content_chars, tool_calls_json, preview"
        more = "AND key != '' AND number > {after:UInt32} ORDER BY number LIMIT "
        after = 0
        stored: list[tuple[Any, ...]] = [()]
        while stored:
            stored = session.select(columns, "row", f"{more}{_PORTION}", after=after)
            messages = self._readable({key for _, key, *_ in stored} & self.bodies)
            for after, key, *shown in stored:
                if key in messages and shown != list(body_columns(messages[key]).values()):
                    yield Discrepancy(
                        f"{where}, row {after}", "shows other words than its message has"
                    )

    def _readable(self, keys: set[str]) -> dict[str | None, Message]:
        try:
            return self.store.messages(keys)
        except StoreError:
            return {}  # told where the bodies were read

    def _twice(self, where: str, session: ClickHouseSession) -> Iterator[Discrepancy]:
        for batch, count in Counter(batch for batch, _ in session.commits()).items():
            if count > 1:
                yield Discrepancy(f"{where}, batch {batch}", "is there more than once")

    def _cards(self) -> Iterator[Discrepancy]:
        """Yield cards that no selection will ever see."""
        lost = self.client.select(
            "SELECT DISTINCT session_id, message_id FROM context_cards "
            "WHERE (session_id, message_id) NOT IN (SELECT session_id, "
            f"{MESSAGE_ID} FROM record WHERE kind = 'row' AND key != '' AND {VISIBLE})"
        )
        for session_id, message_id in lost:
            where = f"session {session_id!r}, card {message_id}"
            yield Discrepancy(where, "is of no message", "note")
