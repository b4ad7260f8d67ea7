"""How a batch comes into a ClickHouse store: bodies first, then its rows, its commit last.

The number of a batch is also the token of its last insert, and the server drops an insert whose
token it has seen. So of two writers of one session one finds that it was second, and numbers
its batch anew; and what was sent twice because an answer was lost is written once.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from windlass.errors import StoreError
from windlass.history import numbering, packing
from windlass.history.appending import Prepared, prepare
from windlass.history.base import Batch, Status
from windlass.history.blob_places import BlobPlace
from windlass.history.clickhouse import reading, writing
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.reading import Session
from windlass.history.clickhouse.tables import BODIES, RECORD
from windlass.history.clickhouse.views import VISIBLE
from windlass.history.numbering import Numbered, SessionHead

_REMEMBERED: Final = 16
"""Sessions whose last numbers and window are kept at hand between appends."""

_TRIES: Final = 20
"""How often a batch is numbered anew because others append to its session at the same time."""

GRACE_S: Final = 900.0
"""Seconds for which `prune` leaves alone what no row names yet."""

_HAS_BODY: Final = "SELECT 1 FROM bodies WHERE key = {key:String} LIMIT 1"


@dataclass(slots=True)
class _Unsure:
    """An append whose answer was lost: what it was, and what was made of it."""

    batch: Batch
    session: Session
    numbered: Numbered


class Appender:
    """Appends to the store behind `client`; to be used by one thread at a time.

    What it wrote itself within a quarter of `grace_s` seconds it does not write again, since
    no `prune` takes it sooner.
    """

    def __init__(
        self, client: ClickHouseClient, blobs: BlobPlace, folder: Path, grace_s: float
    ) -> None:
        self._client = client
        self._blobs = blobs
        self._folder = folder
        self._known: dict[str, Session] = {}
        self._unsure: dict[str, _Unsure] = {}
        self._fresh: dict[str, float] = {}
        self._fresh_s = grace_s / 4

    def forget(self) -> None:
        """Take nothing for stored any more: something was removed."""
        self._fresh.clear()

    def append(self, batch: Batch) -> tuple[str | None, ...]:
        """Write a batch, whole or not at all, and return the ids of its rows' messages.

        Raises StoreError, and LostConnectionError where no answer came: the same batch may
        be handed over again, and is not written twice.
        """
        prepared = prepare(batch)
        _check(prepared)
        done = self._done_before(batch, prepared)
        if done is not None:
            return done
        for _ in range(_TRIES):
            session = self._session(prepared)
            numbered = numbering.number(prepared, session.known, _Looks(self._client, prepared))
            self._store_bodies(prepared)
            if self._write(prepared, session, numbered):
                self._remember(prepared.session_id, session, numbered)
                return numbered.ids
            self._known.pop(prepared.session_id, None)
            if batch.start is not None:
                raise _exists(prepared)
        raise numbering.refusal(prepared, "others keep appending to it")

    def _remember(self, name: str, session: Session, numbered: Numbered) -> None:
        session.known = numbered.known
        session.known.settle()
        session.tools.update(numbered.tools)
        self._known.pop(name, None)
        self._known[name] = session
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _done_before(self, batch: Batch, prepared: Prepared) -> tuple[str | None, ...] | None:
        """The ids, where this very batch was written by an append whose answer was lost."""
        name = prepared.session_id
        unsure = self._unsure.pop(name, None)
        if unsure is None:
            return None
        self._known.pop(name, None)
        if unsure.batch != batch:
            return None
        known = unsure.numbered.known
        if reading.last_commit(self._client, name, known.session_no) != (known.batch, known.digest):
            return None
        self._remember(name, unsure.session, unsure.numbered)
        return unsure.numbered.ids

    def _session(self, prepared: Prepared) -> Session:
        """What is known of the session, with what others have appended since."""
        name = prepared.session_id
        traces = [values[0] for values in prepared.log]
        start = prepared.batch.start
        remembered = self._known.get(name)
        if start is None and remembered is not None:  # noqa: SIM102 - asked in this order
            if self._is_last(name, remembered.known, traces):
                return remembered
        found = reading.find(self._client, name)
        if start is not None:
            if found is not None:
                raise _exists(prepared)
            session_no = secrets.randbits(62)
            started = packing.real(start.timestamp) or 0.0
            known = numbering.begun(session_no, prepared)
            return Session(known, started, packing.text(start.cascade_id))
        if found is None:
            raise numbering.refusal(prepared, "the first batch of a session must carry its start")
        for _ in range(_TRIES):
            session = reading.load(self._client, name, found)
            if self._is_last(name, session.known, traces):
                return session
            # Others appended while it was read, so that its pieces may not belong together.
        raise numbering.refusal(prepared, "others keep appending to it")

    def _is_last(self, name: str, known: SessionHead, traces: list[str]) -> bool:
        """Whether nobody has appended since; refuses traces that the session has already."""
        last = None
        for kind, number, key, trace in self._client.select(
            "SELECT kind, number, key, trace_id FROM record WHERE session_id = {name:String} "
            "AND session_no = {no:UInt64} AND ((kind = 'commit' AND number >= {last:UInt32}) OR "
            f"(kind = 'row' AND trace_id IN {{traces:Array(String)}})) AND {VISIBLE} "
            "ORDER BY number",
            name=name,
            no=known.session_no,
            last=known.batch,
            traces=traces,
        ):
            if kind == "row":
                raise StoreError(
                    f"the batch does not fit the record (it has a row {trace!r} already) "
                    f"(session {name!r}): nothing was recorded"
                )
            last = number, key
        return last == (known.batch, known.digest)

    def _store_bodies(self, prepared: Prepared) -> None:
        """Bodies and blobs first: a commit must never name what is not there."""
        now = time.monotonic()
        self._fresh = {key: at for key, at in self._fresh.items() if now - at < self._fresh_s}
        given: dict[str, bytes] = {}
        for sha in prepared.needed:
            if f"blob {sha}" in self._fresh:
                continue
            if sha in prepared.blobs:
                given[sha] = prepared.blobs[sha]
                continue
            try:
                self._blobs.renew(sha)
            except FileNotFoundError:
                raise numbering.refusal(
                    prepared, f"the bytes of picture {sha!r} are neither given nor stored"
                ) from None
        self._blobs.write(given, renew=True)
        pictures: dict[str, list[str]] = {}
        for key, sha in prepared.body_pictures:
            pictures.setdefault(key, []).append(sha)
        rows: list[list[Any]] = [
            [*values, pictures.get(key, [])]
            for key, values in prepared.bodies.items()
            if key not in self._fresh
        ]
        rows += [
            [*values, []]
            for key, values in prepared.lost.items()
            if not self._client.select(_HAS_BODY, key=key)
        ]
        for portion in writing.portions(iter(rows)):
            self._client.insert("bodies", BODIES, portion, f"bodies/{secrets.token_hex(16)}")
        for key in (*prepared.bodies, *(f"blob {sha}" for sha in prepared.needed)):
            self._fresh[key] = now

    def _write(self, prepared: Prepared, session: Session, numbered: Numbered) -> bool:
        """Send the rows and their commit; False where another writer was first."""
        for *_, sha, name in numbered.images:
            if sha not in prepared.batch.lost or self._blobs.has(sha):
                self._blobs.link(sha, self._folder / name)
        write = secrets.token_hex(16)
        fixed = {
            "session_id": prepared.session_id,
            "started": session.started,
            "cascade_id": session.cascade_id,
            "write": write,
        }
        rows = writing.rows_of(prepared, numbered, fixed, session.tools)
        *early, last = writing.portions(rows)
        for at, portion in enumerate(early):
            self._client.insert("record", RECORD, writing.mark_early(portion), f"{write}/{at}")
        last.append(writing.commit_row(fixed, numbered, several=bool(early)))
        self._unsure[prepared.session_id] = _Unsure(prepared.batch, session, numbered)
        won = self._commit(prepared, numbered, last) == write
        del self._unsure[prepared.session_id]
        return won

    def _commit(self, prepared: Prepared, numbered: Numbered, rows: list[list[Any]]) -> str:
        """Insert the last rows; the `write` that the server has for this batch then."""
        known = numbered.known
        begins = prepared.batch.start is not None
        # The name of a pruned session may come again, while the server still drops its token.
        for again in range(_TRIES):
            token = f"{known.session_no}/{known.batch}"
            if begins:
                token = f"begin/{prepared.session_id}/{again}"
            self._client.insert("record", RECORD, rows, token)
            written = self._client.select(
                "SELECT write FROM record WHERE session_id = {name:String} AND kind = 'commit' "
                "AND number = {number:UInt32}"
                + ("" if begins else " AND session_no = {no:UInt64}"),
                name=prepared.session_id,
                number=known.batch,
                no=known.session_no,
            )
            if len(written) > 1:
                raise StoreError(
                    f"{self._client.target.shown} took batch {known.batch} of session "
                    f"{prepared.session_id!r} twice: it does not drop repeated inserts "
                    "(see non_replicated_deduplication_window of the table record)"
                )
            if written:
                return str(written[0][0])
            if not begins:
                break
        raise numbering.refusal(
            prepared, "the session was pruned, or the server dropped the batch as a repeated one"
        )


class _Looks:
    """What numbering asks of the store."""

    def __init__(self, client: ClickHouseClient, prepared: Prepared) -> None:
        self.client = client
        self.name = prepared.session_id

    def _finds(self, where: str, known: SessionHead, **bound: Any) -> int:
        ((count,),) = self.client.select(
            "SELECT count() FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND {where} AND {VISIBLE}",
            name=self.name,
            no=known.session_no,
            **bound,
        )
        return int(count)

    def images(self, known: SessionHead, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        where = "kind = 'image' AND phase_name = {phase:String}"
        return self._finds(where, known, phase=phase)

    def has_body(self, known: SessionHead, key: str) -> bool:
        """Whether the store has a body of that key."""
        del known
        return bool(self.client.select(_HAS_BODY, key=key))

    def has_row(self, known: SessionHead, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        where = "kind = 'row' AND trace_id = {trace:String}"
        return self._finds(where, known, trace=trace_id) > 0


def _exists(prepared: Prepared) -> StoreError:
    return numbering.refusal(prepared, "a session of that name is in the store already")


def _check(prepared: Prepared) -> None:
    """What a database with constraints would refuse."""
    traces = [values[0] for values in prepared.log]
    wrong = None
    if len(set(traces)) < len(traces):
        wrong = "it has a trace twice"
    for outcome in prepared.batch.outcomes:
        if outcome.status not in get_args(Status):
            wrong = f"{outcome.status!r} is no status"
    for edit in prepared.batch.edits:
        if edit.kind not in ("replace", "drop"):
            wrong = f"{edit.kind!r} is no kind of edit"
    if wrong is not None:
        raise numbering.refusal(prepared, f"the batch does not fit the record ({wrong})")
