"""The store in ClickHouse: a server's database, or an engine in process, and a place for blobs.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Discrepancy, Outcome, Pruned, SessionInfo, StoredRow
from windlass.history.blobs import BlobPlace
from windlass.history.clickhouse import asking, pruning, reading
from windlass.history.clickhouse import cards as card_table
from windlass.history.clickhouse.appending import GRACE_S, Appender, result_row
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.proving import ClickHouseProof
from windlass.history.clickhouse.reading import ClickHouseSession
from windlass.history.clickhouse.tables import RECORD, TableOptions, prepare_tables
from windlass.history.numbering import Prepared
from windlass.history.reading import BaseStore, read_messages, reference_taken, stored_row
from windlass.selection.card import Card


class ClickHouseStore(BaseStore):
    """The store behind `client`, with blobs at `blobs` and visible files in `folder`.

    Tables are made where they are missing, by these `options` (`existing`: UsageError then).
    Threads may share a store, and any number of processes a server. Raises UsageError for a
    wrong address, user, password or database and StoreError where the server fails. An append
    that raises LostConnectionError may have been written; doing it again with the same store
    does not write it twice. Of what no session uses, `prune` takes only what was written longer
    than `grace_s` seconds ago.
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
        self.folder = folder.absolute()
        self._client = client
        # For cards, so that no append waits for them.
        self._beside = client.beside()
        self._blobs = blobs
        self._grace_s = grace_s
        self._lock = threading.RLock()
        self._appender = Appender(client, blobs, self.folder, grace_s)
        with self._use():
            prepare_tables(client, options or TableOptions(), existing=existing)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._beside.close()

    @property
    def shown(self) -> str:
        """The store's address for people, without secrets."""
        return self._client.target.shown

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

    def _find(self, session_id: str) -> ClickHouseSession | None:
        return reading.find(self._client, session_id)

    def _recent(self) -> Iterable[str]:
        return reading.recent(self._client)

    def _fetch_bodies(self, keys: list[str]) -> list[tuple[str, str | None]]:
        return reading.bodies(self._client, keys)

    def _append(self, prepared: Prepared) -> tuple[str | None, ...]:
        with self._use():
            return self._appender.append(prepared)

    def _name_result(self, session_id: str, ref: str, key: str, body: Mapping[str, bytes]) -> None:
        name = packing.tool_result_name(ref)
        session = self._known(session_id, self._find(session_id))
        taken = self._client.select(
            "SELECT session_no, json FROM record "
            "WHERE kind = 'result' AND trace_id = {name:String}",
            name=name,
        )
        for _, stored in taken:
            if (other := json.loads(stored)[1]) != key:
                raise reference_taken(ref, other)
        self._blobs.write(body, renew=True)
        if all(number != session.number for number, _ in taken):
            row = result_row(session, ref, key, name)
            self._client.insert("record", RECORD, [row], f"result/{session.number}/{name}/{key}")
        if body:
            self._blobs.link(key, self.folder / name)

    def _older(self, before: float) -> list[tuple[int, str]]:
        return pruning.older(self._client, before)

    def _prune(
        self, choose: Callable[[], list[tuple[int, str]]], *, now: float, dry_run: bool
    ) -> Pruned:
        pruned = pruning.prune(
            self._client,
            self._blobs,
            self.folder,
            choose(),
            now=now,
            grace_s=self._grace_s,
            dry_run=dry_run,
        )
        if not dry_run:
            self._appender.forget()
        return pruned

    def picture_names(self, session_id: str, phase: str) -> Sequence[tuple[str, Path]]:
        """(SHA-256, visible file) of the pictures a phase made, in order; the files are made."""
        named = super().picture_names(session_id, phase)
        with self._use():
            for sha, path in named:
                if not path.is_file() and self._blobs.has(sha):
                    self._blobs.link(sha, path)
        return named

    def endings(self, sessions: int) -> Sequence[Outcome | None]:
        """How the last so many sessions ended, newest first; None: it runs yet, or was killed."""
        return reading.endings(self._client, sessions)

    def sessions(self, *, limit: int | None = None) -> Sequence[SessionInfo]:
        """Sessions, newest first; tokens and costs summed over all their rows."""
        return reading.sessions(self._client, limit)

    def put_cards(self, session_id: str, cards: Sequence[Card]) -> None:
        """Keep cards of a session's messages, each in place of an older one.

        Cards of messages that are not there are left out. Raises UsageError for an unknown
        session, LostConnectionError where no answer came: they may be put again.
        """
        session = self._known(session_id, reading.find(self._beside, session_id))
        card_table.put(session, cards)

    def cards(self, session_id: str) -> Sequence[Card]:
        """The cards of a session, in the order of its messages; [] where there are none."""
        session = reading.find(self._beside, session_id)
        return [] if session is None else card_table.cards(session)

    def without_cards(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredRow]:
        """The first rows behind number `after` whose messages may have a card and have none."""
        session = reading.find(self._beside, session_id)
        rows = [] if session is None else card_table.without_cards(session, after, limit)
        fetch = partial(reading.bodies, self._beside)
        messages = read_messages((row.key for row in rows), fetch, self._blobs)
        return [stored_row(session_id, row, messages[row.key]) for row in rows]

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of one SELECT with bound parameters, as a query that cannot write.

        Raises UsageError for anything else, and for SQL that ClickHouse refuses.
        """
        return asking.select(self._client, sql, params)

    def verify(self) -> Iterator[Discrepancy]:
        """Derive hashes, ids, windows and links again and yield what disagrees."""
        return ClickHouseProof(self._client, self._blobs, self.folder).findings()
