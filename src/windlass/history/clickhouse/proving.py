"""The proof of a ClickHouse store.

Visible files are made on each machine when they are asked for, so one that is not there is no
discrepancy; one with other bytes is.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history.base import Discrepancy
from windlass.history.blobs import BlobPlace
from windlass.history.clickhouse import cards, pruning, reading
from windlass.history.clickhouse.appending import body_columns
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.reading import ClickHouseSession
from windlass.history.clickhouse.tables import VISIBLE
from windlass.history.proof import Checks, StoreProof
from windlass.history.reading import read_messages
from windlass.messages import Message

_PORTION: Final = 1_000


class ClickHouseProof(StoreProof[ClickHouseSession]):
    """One reading of a store."""

    names_are_kept = False

    def __init__(self, client: ClickHouseClient, blobs: BlobPlace, folder: Path) -> None:
        super().__init__(blobs, folder)
        self.client = client

    def _contents(self, listed: list[str]) -> Checks:
        yield "blobs", self._blob_files(listed)
        yield "table bodies", self._bodies()
        yield "record", self._beginnings()

    def _more_of(self, where: str, session: ClickHouseSession) -> Checks:
        yield f"{where}, log", self._shown(where, session)
        yield f"{where}, batches", self._twice(where, session)

    def _bodies(self) -> Iterator[Discrepancy]:
        after = ""
        stored: list[tuple[Any, ...]] = [()]
        while stored:
            stored = self.client.select(
                "SELECT key, role, chars, tool_calls, body, pictures FROM bodies FINAL "
                "WHERE key > {after:String} ORDER BY key LIMIT {portion:UInt32}",
                after=after,
                portion=_PORTION,
            )
            for after, *values, pictures in stored:
                yield from self._body(after, *values)
                if after in self.pictures and set(self.pictures[after]) != set(pictures):
                    yield Discrepancy(f"message {after}", "its pictures are not those in bodies")

    def _sessions(self) -> Iterator[tuple[str, ClickHouseSession]]:
        for name, *values in self.client.select(
            "SELECT session_id, session_no, started, cascade_id FROM record "
            f"WHERE kind = 'start' AND {VISIBLE} ORDER BY written"
        ):
            yield name, ClickHouseSession(self.client, name, *values)

    def _beginnings(self) -> Iterator[Discrepancy]:
        """Each session begins once."""
        names = Counter(name for name, _ in self._sessions())
        for name in sorted(name for name, count in names.items() if count > 1):
            yield Discrepancy(f"session {name!r}", "begins more than once")
        for (name,) in self.client.select(
            f"SELECT DISTINCT session_id FROM record WHERE {VISIBLE} AND session_no NOT IN "
            "(SELECT session_no FROM record WHERE kind = 'start')"
        ):
            yield Discrepancy(f"session {name!r}", "has rows, and no beginning")

    def _shown(self, where: str, session: ClickHouseSession) -> Iterator[Discrepancy]:
        """What SQL shows of the messages is what their bodies say."""
        columns = "number, key, role, content_json, content_chars, tool_calls_json, preview"
        more = "AND key != '' AND number > {after:UInt32} ORDER BY number LIMIT {portion:UInt32}"
        after = 0
        stored: list[tuple[Any, ...]] = [()]
        while stored:
            stored = session.select(columns, "row", more, after=after, portion=_PORTION)
            messages = self._readable({key for _, key, *_ in stored} & self.bodies)
            for after, key, *shown in stored:
                if key in messages and shown != list(body_columns(messages[key]).values()):
                    yield Discrepancy(
                        f"{where}, row {after}", "shows other words than its message has"
                    )

    def _readable(self, keys: set[str]) -> dict[str | None, Message]:
        try:
            return read_messages(keys, partial(reading.bodies, self.client), self.blobs)
        except StoreError:
            return {}  # told where the bodies were read

    def _twice(self, where: str, session: ClickHouseSession) -> Iterator[Discrepancy]:
        batches = Counter(commit.batch for commit in session.commits())
        for batch, count in batches.items():
            if count > 1:
                yield Discrepancy(f"{where}, batch {batch}", "is there more than once")

    def _used_blobs(self) -> set[str]:
        return pruning.used_blobs(self.client)

    def _cards(self) -> Iterator[Discrepancy]:
        return cards.verify(self.client)

    def _results(self) -> Iterator[tuple[str, str]]:
        for (values,) in self.client.select(
            f"SELECT DISTINCT json FROM record WHERE kind = 'result' AND {VISIBLE}"
        ):
            _, key, name = json.loads(values)
            yield key, name

    def _visible_names(self) -> set[str]:
        return pruning.visible_names(self.client)
