"""The proof of a store: everything read back, derived again, and named where it disagrees.

It reads only, and it goes on where something is broken: each check stands alone, and one that
cannot be finished becomes a discrepancy itself. Nothing here knows a database.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Discrepancy, OnProgress, request_hash
from windlass.history.base_session import changed_batches, log_rows, windows
from windlass.history.base_store import BaseStore
from windlass.history.blobs import file_digest, visible_files
from windlass.history.numbering import SessionReader
from windlass.history.packing import CallRow, EditRow, ImageRow, OutcomeRow
from windlass.messages import from_dict

_Item = TypeVar("_Item")
_Session = TypeVar("_Session", bound=SessionReader)

_NAME: Final = re.compile(r"[0-9a-f]{64}")

# What damaged values lead to when they are read as what they should be.
_BROKEN: Final = (sqlite3.Error, OSError, StoreError, ValueError, TypeError, KeyError, IndexError)

Checks = Iterable[tuple[str, Iterator[Discrepancy]]]
"""Places, each with the check that is about it."""


class StoreProof(ABC, Generic[_Session]):
    """One reading of a store.

    `sound` are the blobs whose bytes are right, `bodies` the keys of all bodies, `pictures`
    those they show, by key.
    """

    names_are_kept = True
    """Whether a visible file that is missing is damage, and not made when it is wanted."""

    def __init__(self, store: BaseStore[_Session], on_progress: OnProgress | None = None) -> None:
        self.store = store
        self._on_progress = on_progress
        self.sound: set[str] = set()
        self.bodies: set[str] = set()
        self.pictures: dict[str, list[str]] = {}

    # ---- what a store does its way --------------------------------------------------

    @abstractmethod
    def _contents(self, listed: list[str]) -> Checks:
        """The checks before those of sessions: of blobs, then of bodies, and what else there is."""

    @abstractmethod
    def _sessions(self) -> Iterable[tuple[str, _Session]]:
        """Return sessions by name."""

    def _more_of(self, where: str, session: _Session) -> Checks:
        """Checks of a session that no other store needs; none here."""
        del where, session
        return ()

    @abstractmethod
    def _cards(self) -> Iterator[Discrepancy]: ...

    # ---- and what all do alike ------------------------------------------------------

    def findings(self) -> Iterator[Discrepancy]:
        """Yield everything that disagrees; nothing for a sound store."""
        # Listed before the database is read: a blob that is written meanwhile is then not
        # taken for one that nothing names.
        listed: list[str] = []
        yield from _guarded("blobs", _gather(lambda: sorted(self.store.blobs.list()), listed))
        for place, check in self._contents(listed):
            yield from _guarded(place, check)
        sessions: list[tuple[str, _Session]] = []
        yield from _guarded("sessions", _gather(self._sessions, sessions))
        for name, session in self.counted("sessions", sessions, len(sessions)):
            where = f"session {name!r}"
            proof = SessionProof(where, session, self)
            for place, check in chain(proof.checks(), self._more_of(where, session)):
                yield from _guarded(place, check)
        yield from _guarded("cards", self._cards())
        yield from _guarded("storage/tool_results", self._result_files(sessions))
        yield from _guarded("visible files", self._visible_files())

    def counted(self, what: str, items: Iterable[_Item], total: int) -> Iterator[_Item]:
        """Yield the items; who watches is told of each how many there were."""
        for number, item in enumerate(items, start=1):
            yield item
            if self._on_progress is not None:
                self._on_progress(what, number, total)

    def _blob_files(self, listed: list[str]) -> Iterator[Discrepancy]:
        used = self.store.used_blobs()
        for sha in self.counted("blobs", listed, len(listed)):
            where = f"blob {sha}"
            if not _NAME.fullmatch(sha):
                yield Discrepancy(where, "is not a file of the store", "note")
                continue
            try:
                changed = self.store.blobs.digest(sha) != sha
            except FileNotFoundError:
                continue  # removed since it was listed; who needs it will say so
            if changed:
                yield Discrepancy(where, "holds other bytes than its name says")
            else:
                self.sound.add(sha)
            if sha not in used:
                yield Discrepancy(where, "is named by nothing", "note")
        for sha in sorted(used.difference(listed)):
            if self.store.blobs.has(sha):
                self.sound.add(sha)  # written while we were reading
            else:
                yield Discrepancy(f"blob {sha}", "is missing")

    def _body(
        self, key: str, role: str, chars: int, tool_calls: int, body: str | None
    ) -> Iterator[Discrepancy]:
        """Yield one body, and which pictures it shows."""
        where = f"message {key}"
        self.bodies.add(key)
        if body is None and key not in self.sound:
            return  # its blob is missing or changed, which has been said
        data = self.store.blobs.read(key, check=False) if body is None else str(body).encode()
        if hashlib.sha256(data).hexdigest() != key:
            yield Discrepancy(where, "its text is not what its key is the hash of")
            return
        message = from_dict(json.loads(data))
        if message.key != key:
            yield Discrepancy(where, "its text is not in canonical form")
        if (role, chars, tool_calls) != (message.role, message.chars, len(message.tool_calls)):
            yield Discrepancy(where, "its role, length or number of tool calls is wrong in bodies")
        self.pictures[key] = [picture.sha256 for picture in message.pictures if picture.sha256]

    def link(self, sha256: str, name: str) -> Iterator[Discrepancy]:
        """Yield whether a visible file is there and shows its blob."""
        path = self.store.folder / name
        if not path.is_file():
            if self.names_are_kept:
                yield Discrepancy(name, f"is missing (it shows blob {sha256})")
        elif file_digest(path) != sha256:
            yield Discrepancy(name, f"holds other bytes than blob {sha256}, which it shows")

    def _result_files(self, sessions: list[tuple[str, _Session]]) -> Iterator[Discrepancy]:
        results = {result for _, session in sessions for result in session.results()}
        for ref, key in sorted(results):
            yield from self.link(key, packing.tool_result_name(ref))

    def _visible_files(self) -> Iterator[Discrepancy]:
        names = self.store.visible_names()
        for path in visible_files(self.store.folder):
            name = path.relative_to(self.store.folder).as_posix()
            if name not in names:
                yield Discrepancy(name, "is named by nothing", "note")


def _guarded(where: str, check: Iterator[Discrepancy]) -> Iterator[Discrepancy]:
    try:
        yield from check
    except _BROKEN as error:
        yield Discrepancy(where, f"cannot be read to its end: {error}")


def _gather(read: Callable[[], Iterable[_Item]], into: list[_Item]) -> Iterator[Discrepancy]:
    """Yield a check that fills a list, and finds nothing but that it cannot."""
    into.extend(read())
    yield from ()


@dataclass(slots=True)
class SessionProof:
    """The checks of one session, each of which reads for itself and stands alone.

    `store` is the proof of its store. `keys`, filled by `log`, has the body of each
    occurrence id.
    """

    where: str
    session: SessionReader
    store: StoreProof[Any]
    keys: dict[str, str] = field(default_factory=dict[str, str])

    def checks(self) -> Checks:
        """Yield each check with the place that it is about."""
        yield f"{self.where}, log", self.log()
        yield f"{self.where}, batches", self.batches()
        yield f"{self.where}, calls", self.calls()
        yield f"{self.where}, edits", self.edits()
        yield f"{self.where}, outcomes", self.outcomes()
        yield f"{self.where}, images", self.images()

    def log(self) -> Iterator[Discrepancy]:
        """Yield rows without a gap, bodies that are there, occurrences counted right."""
        counts: Counter[str] = Counter()
        expected = 1
        for row in log_rows(self.session):
            seq, key = row.seq, row.key
            if seq != expected:
                lost = (
                    f"row {expected} is"
                    if seq == expected + 1
                    else f"rows {expected} to {seq - 1} are"
                )
                yield Discrepancy(self.where, f"{lost} missing")
            expected = seq + 1
            if key is None or row.occurrence is None:
                continue
            if key not in self.store.bodies:
                yield Discrepancy(f"{self.where}, row {seq}", f"its message {key} is missing")
            counts[key[:16]] += 1
            self.keys[packing.occurrence_id(key, row.occurrence)] = key
            if row.occurrence != counts[key[:16]]:
                yield Discrepancy(
                    f"{self.where}, row {seq}",
                    f"is counted as occurrence {row.occurrence} of its message, but is number "
                    f"{counts[key[:16]]}",
                )
                counts[key[:16]] = row.occurrence

    def batches(self) -> Iterator[Discrepancy]:
        """Return each batch is what was appended: its digest follows from its rows."""
        return changed_batches(self.where, self.session)

    def calls(self) -> Iterator[Discrepancy]:
        """Yield windows hold together, show what is there, and have the hash that was sent."""
        traces = {row.trace_id for row in log_rows(self.session)}
        extra = self.session.extra_bodies()
        tools = self.session.tool_lists()
        for row, shown, bodies in windows(self.session.table(CallRow)):
            call = f"{self.where}, call {row.number}"
            if row.trace_id not in traces:
                yield Discrepancy(call, f"has no row {row.trace_id!r} for its reply", "note")
            sent: list[str] = []
            for entry in shown:
                key = self.keys.get(entry.message_id)
                if key is None:
                    yield Discrepancy(
                        call, f"shows {entry.message_id!r}, which is not in the session"
                    )
                    continue
                sent.append(entry.shown_as or key)
            for key in {*sent, *bodies} - self.store.bodies:
                yield Discrepancy(call, f"shows message {key}, which is missing")
            edited = {entry.shown_as for entry in shown if entry.shown_as is not None}
            for key in (edited | set(bodies)) - extra:
                yield Discrepancy(call, f"shows message {key}, which made_bodies does not list")
            if row.tools not in tools:
                yield Discrepancy(call, f"sent tools {row.tools}, which are missing")
                continue
            if len(sent) != len(shown):
                continue
            if request_hash(sent, json.loads(tools[row.tools])) != row.request_hash:
                yield Discrepancy(call, "its request_hash is not that of its window and tools")

    def edits(self) -> Iterator[Discrepancy]:
        """Yield edits are of messages that are there."""
        for row in self.session.table(EditRow):
            if row.message_id not in self.keys:
                yield Discrepancy(
                    f"{self.where}, edit {row.number}",
                    f"is of {row.message_id!r}, which is not in the session",
                )

    def outcomes(self) -> Iterator[Discrepancy]:
        """Outputs are rows that are there."""
        traces = {row.trace_id for row in log_rows(self.session)}
        for row in self.session.table(OutcomeRow):
            if row.output_trace is not None and row.output_trace not in traces:
                yield Discrepancy(
                    f"{self.where}, outcome {row.number}",
                    f"its output, row {row.output_trace!r}, is missing",
                )

    def images(self) -> Iterator[Discrepancy]:
        """Yield pictures that phases made are listed, and their files show them."""
        named: defaultdict[int, list[str]] = defaultdict(list)
        for image in self.session.table(ImageRow):
            named[image.seq].append(image.sha256)
            yield from self.store.link(image.sha256, image.name)
        for row in log_rows(self.session):
            if not row.keep_pictures or row.key is None or row.key not in self.store.bodies:
                continue
            if named[row.seq] != self.store.pictures.get(row.key, []):
                yield Discrepancy(
                    f"{self.where}, row {row.seq}", "its pictures are not those listed in images"
                )
