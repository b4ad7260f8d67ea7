"""The proof of one session, whatever keeper has it: numbers, digests, windows, edits, outputs.

Each check reads for itself and stands alone, so that one that cannot be finished leaves the
others. Nothing here knows a database.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol

from windlass.history import packing, reading
from windlass.history.base import Discrepancy, request_hash

_TABLES: Final = ("calls", "edits", "state", "outcomes")
_SEQ: Final = packing.LOG_COLUMNS.index("seq")
_BATCH: Final = packing.LOG_COLUMNS.index("batch")
_TRACE: Final = packing.LOG_COLUMNS.index("trace_id")
_KEY: Final = packing.LOG_COLUMNS.index("key")
_OCCURRENCE: Final = packing.LOG_COLUMNS.index("occurrence")
_KEEP: Final = packing.LOG_COLUMNS.index("keep_pictures")


class SessionReader(Protocol):
    """What a keeper reads of a session, anew at each call."""

    def log(self) -> Iterable[tuple[Any, ...]]:
        """Its rows in order: `packing.LOG_COLUMNS`."""
        ...

    def table(self, name: str) -> Iterable[tuple[Any, ...]]:
        """The rows of calls, edits, state or outcomes in order, with the columns in `packing`."""
        ...

    def digests(self) -> Mapping[int, str]:
        """The digest of each batch by its number."""
        ...

    def images(self) -> Iterable[tuple[int, str, str]]:
        """(Row, SHA-256, visible name) of the pictures that its phases made, in order."""
        ...

    def made(self) -> set[str]:
        """The keys of bodies that calls and edits brought or show."""
        ...

    def tools(self, sha256: str) -> str | None:
        """The JSON of a tool list."""
        ...


@dataclass(slots=True)
class SessionProof:
    """The checks of one session. `first` is the digest before its first batch.

    `bodies` are the keys of all bodies in the store, `pictures` those they show, by key.
    `keys`, filled by `log`, has the body of each occurrence id.
    """

    where: str
    reader: SessionReader
    first: str
    bodies: set[str]
    pictures: Mapping[str, list[str]]
    keys: dict[str, str]

    def checks(
        self, link: Callable[[str, str], Iterator[Discrepancy]]
    ) -> Iterator[tuple[str, Iterator[Discrepancy]]]:
        """Each check with the place that it is about; `link` checks a visible file."""
        yield f"{self.where}, log", self.log()
        yield f"{self.where}, batches", self.batches()
        yield f"{self.where}, calls", self.calls()
        yield f"{self.where}, edits", self.edits()
        yield f"{self.where}, outcomes", self.outcomes()
        yield f"{self.where}, images", self.images(link)

    def log(self) -> Iterator[Discrepancy]:
        """Rows without a gap, bodies that are there, occurrences counted right."""
        counts: Counter[str] = Counter()
        expected = 1
        for values in self.reader.log():
            seq, key, occurrence = values[_SEQ], values[_KEY], values[_OCCURRENCE]
            if seq != expected:
                lost = (
                    f"row {expected} is"
                    if seq == expected + 1
                    else f"rows {expected} to {seq - 1} are"
                )
                yield Discrepancy(self.where, f"{lost} missing")
            expected = seq + 1
            if key is None:
                continue
            if key not in self.bodies:
                yield Discrepancy(f"{self.where}, row {seq}", f"its message {key} is missing")
            counts[key[:16]] += 1
            self.keys[packing.occurrence_id(key, occurrence)] = key
            if occurrence != counts[key[:16]]:
                yield Discrepancy(
                    f"{self.where}, row {seq}",
                    f"is counted as occurrence {occurrence} of its message, but is number "
                    f"{counts[key[:16]]}",
                )
                counts[key[:16]] = occurrence

    def batches(self) -> Iterator[Discrepancy]:
        """Each batch is what was appended: its digest follows from its rows."""
        parts: defaultdict[int, dict[str, list[Any]]] = defaultdict(
            lambda: {"log": [], **{table: [] for table in _TABLES}}
        )
        for table in _TABLES:
            for row in self.reader.table(table):
                parts[row[2]][table].append(row)
        digests = self.reader.digests()
        for number, rows in groupby(self.reader.log(), itemgetter(_BATCH)):
            parts[number]["log"].extend(rows)
        before = self.first
        last = max([0, *digests, *parts])
        if not last:
            yield Discrepancy(self.where, "has no batch")
        for number in range(1, last + 1):
            part = parts[number]
            seqs = [row[_SEQ] for row in part["log"]]
            span = f" (rows {seqs[0]} to {seqs[-1]})" if seqs else ""
            if number not in digests:
                yield Discrepancy(f"{self.where}, batch {number}{span}", "is missing from batches")
                continue
            if packing.digest(before, *part.values()) != digests[number]:
                yield Discrepancy(
                    f"{self.where}, batch {number}{span}",
                    "is not what was appended: a row of it was changed, added or removed",
                )
            before = digests[number]

    def calls(self) -> Iterator[Discrepancy]:
        """Windows hold together, show what is there, and have the hash that was sent."""
        traces = {values[_TRACE] for values in self.reader.log()}
        made = self.reader.made()
        tools: dict[str, list[Any]] = {}
        for values, shown, bodies in reading.unpacked(self.reader.table("calls")):
            call = f"{self.where}, call {values[1]}"
            if values[3] not in traces:
                yield Discrepancy(call, f"has no row {values[3]!r} for its reply", "note")
            sent: list[str] = []
            for entry in shown:
                key = self.keys.get(entry.message_id)
                if key is None:
                    yield Discrepancy(
                        call, f"shows {entry.message_id!r}, which is not in the session"
                    )
                    continue
                sent.append(entry.shown_as or key)
            for key in {*sent, *bodies} - self.bodies:
                yield Discrepancy(call, f"shows message {key}, which is missing")
            edited = {entry.shown_as for entry in shown if entry.shown_as is not None}
            for key in (edited | set(bodies)) - made:
                yield Discrepancy(call, f"shows message {key}, which made_bodies does not list")
            if values[8] not in tools:
                stored = self.reader.tools(values[8])
                if stored is None:
                    yield Discrepancy(call, f"sent tools {values[8]}, which are missing")
                    continue
                tools[values[8]] = json.loads(stored)
            if len(sent) == len(shown) and request_hash(sent, tools[values[8]]) != values[5]:
                yield Discrepancy(call, "its request_hash is not that of its window and tools")

    def edits(self) -> Iterator[Discrepancy]:
        """Edits are of messages that are there."""
        for values in self.reader.table("edits"):
            if values[3] not in self.keys:
                yield Discrepancy(
                    f"{self.where}, edit {values[1]}",
                    f"is of {values[3]!r}, which is not in the session",
                )

    def outcomes(self) -> Iterator[Discrepancy]:
        """Outputs are rows that are there."""
        traces = {values[_TRACE] for values in self.reader.log()}
        for values in self.reader.table("outcomes"):
            if values[6] is not None and values[6] not in traces:
                yield Discrepancy(
                    f"{self.where}, outcome {values[1]}",
                    f"its output, row {values[6]!r}, is missing",
                )

    def images(self, link: Callable[[str, str], Iterator[Discrepancy]]) -> Iterator[Discrepancy]:
        """Pictures that phases made are listed, and their files show them."""
        named: defaultdict[int, list[str]] = defaultdict(list)
        for seq, sha, name in self.reader.images():
            named[seq].append(sha)
            yield from link(sha, name)
        for values in self.reader.log():
            key = values[_KEY]
            if not values[_KEEP] or key not in self.bodies:
                continue
            if named[values[_SEQ]] != self.pictures.get(key, []):
                yield Discrepancy(
                    f"{self.where}, row {values[_SEQ]}",
                    "its pictures are not those listed in images",
                )


def first_digest(values: Sequence[Any]) -> str:
    """The digest before a session's first batch, of the values of its own row."""
    return packing.digest(*values)
