"""The proof of a ClickHouse store: read everything back, derive it again, name what disagrees.

It reads only. Visible files are made on each machine when they are asked for, so one that is
not there is no finding; one with other bytes is.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Discrepancy
from windlass.history.blob_places import BlobPlace
from windlass.history.blobs import file_digest
from windlass.history.clickhouse import cards, pruning, reading
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.views import VISIBLE
from windlass.history.clickhouse.writing import body_columns
from windlass.history.proof import SessionProof, first_digest
from windlass.history.pruning import visible_files
from windlass.messages import Message, from_dict

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_PORTION: Final = 1_000
_KINDS: Final = {"calls": "call", "edits": "edit", "state": "state", "outcomes": "outcome"}
_SHOWN: Final = ("role", "content_json", "content_chars", "tool_calls_json", "preview")

# What damaged values lead to when they are read as what they should be.
_BROKEN: Final = (OSError, StoreError, ValueError, TypeError, KeyError, IndexError)


class _Reader:
    """A session of a ClickHouse store, as `proof.py` asks for it."""

    def __init__(self, client: ClickHouseClient, session_id: str, session: int) -> None:
        self.client = client
        self.session_id = session_id
        self.session = session

    def log(self) -> Iterator[tuple[Any, ...]]:
        """Its rows in order."""
        for portion in reading.log(self.client, self.session_id, self.session):
            yield from portion

    def table(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of calls, edits, state or outcomes."""
        return reading.of_kind(self.client, self.session_id, self.session, _KINDS[name])

    def digests(self) -> dict[int, str]:
        """The digest of each batch."""
        found = reading.commits(self.client, self.session_id, self.session)
        return {number: digest for number, digest, _ in found}

    def images(self) -> list[tuple[int, str, str]]:
        """The pictures its phases made."""
        stored = reading.of_kind(self.client, self.session_id, self.session, "image")
        stored.sort(key=lambda image: (image[3], image[2]))
        return [(seq, sha, name) for _, _, _, seq, sha, name in stored]

    def made(self) -> set[str]:
        """The bodies that calls and edits brought."""
        stored = self.client.select(
            "SELECT key FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND kind = 'made' AND {VISIBLE}",
            name=packing.text(self.session_id),
            no=self.session,
        )
        return {str(key) for (key,) in stored}

    @cached_property
    def _tools(self) -> dict[str, str]:
        return reading.tool_lists(self.client, self.session_id, self.session)

    def tools(self, sha256: str) -> str | None:
        """The JSON of a tool list."""
        return self._tools.get(sha256)


class Proof:
    """One reading of a store."""

    def __init__(self, client: ClickHouseClient, blobs: BlobPlace, folder: Path) -> None:
        self.client = client
        self.blobs = blobs
        self.folder = folder
        self.sound: set[str] = set()
        self.bodies: set[str] = set()
        self.pictures: dict[str, list[str]] = {}

    def findings(self) -> Iterator[Discrepancy]:
        """Everything that disagrees; nothing for a sound store."""
        # Listed before the database is read: a blob that is written meanwhile is then not
        # taken for one that nothing names.
        listed: list[str] = []
        yield from self._guarded("blobs", self._listed(listed))
        yield from self._guarded("blobs", self._blob_files(listed))
        yield from self._guarded("table bodies", self._bodies())
        sessions: list[tuple[Any, ...]] = []
        yield from self._guarded("record", self._sessions(sessions))
        for name, number, values in sessions:
            where = f"session {name!r}"
            reader = _Reader(self.client, name, number)
            first = first_digest((name, *values))
            proof = SessionProof(where, reader, first, self.bodies, self.pictures, {})
            for place, check in proof.checks(self._link):
                yield from self._guarded(place, check)
            yield from self._guarded(f"{where}, log", self._shown(where, name, number))
            yield from self._guarded(f"{where}, batches", self._twice(where, name, number))
        yield from self._guarded("context_cards", cards.verify(self.client))
        yield from self._guarded("storage/tool_results", self._tool_results())
        yield from self._guarded("visible files", self._visible_files())

    def _guarded(self, where: str, check: Iterator[Discrepancy]) -> Iterator[Discrepancy]:
        try:
            yield from check
        except _BROKEN as error:
            yield Discrepancy(where, f"cannot be read to its end: {error}")

    # ---- blobs and bodies -----------------------------------------------------------

    def _listed(self, listed: list[str]) -> Iterator[Discrepancy]:
        listed.extend(sorted(self.blobs.list()))
        yield from ()

    def _blob_files(self, listed: list[str]) -> Iterator[Discrepancy]:
        used = pruning.used_blobs(self.client)
        for sha in listed:
            where = f"blob {sha}"
            if not _NAME.fullmatch(sha):
                yield Discrepancy(where, "is no file of the store", "note")
                continue
            try:
                changed = self.blobs.digest(sha) != sha
            except FileNotFoundError:
                continue  # removed since it was listed; who needs it will say so
            if changed:
                yield Discrepancy(where, "holds other bytes than its name says")
            else:
                self.sound.add(sha)
            if sha not in used:
                yield Discrepancy(where, "is named by nothing", "note")
        for sha in sorted(used.difference(listed)):
            if not self.blobs.has(sha):
                yield Discrepancy(f"blob {sha}", "is missing")

    def _bodies(self) -> Iterator[Discrepancy]:
        after = ""
        while True:
            stored = self.client.select(
                "SELECT key, role, chars, tool_calls, body, pictures FROM bodies FINAL "
                "WHERE key > {after:String} ORDER BY key LIMIT {portion:UInt32}",
                after=after,
                portion=_PORTION,
            )
            for key, role, chars, calls, body, pictures in stored:
                yield from self._body(key, (role, chars, calls), body, list(pictures))
                after = key
            if len(stored) < _PORTION:
                return

    def _body(
        self, key: str, told: tuple[Any, ...], body: str | None, pictures: list[str]
    ) -> Iterator[Discrepancy]:
        where = f"message {key}"
        self.bodies.add(key)
        if body is None and key not in self.sound:
            return  # the blob has a finding of its own
        data = self.blobs.read(key, check=False) if body is None else body.encode()
        if hashlib.sha256(data).hexdigest() != key:
            yield Discrepancy(where, "its text is not what its key is the hash of")
            return
        message = from_dict(json.loads(data))
        if told != (message.role, message.chars, len(message.tool_calls)):
            yield Discrepancy(where, "its role, length or number of tool calls is wrong in bodies")
        shas = [picture.sha256 for picture in message.pictures if picture.sha256]
        if shas:
            self.pictures[key] = shas
        if set(shas) != set(pictures):
            yield Discrepancy(where, "its pictures are not those in bodies")

    # ---- sessions -------------------------------------------------------------------

    def _sessions(self, found: list[tuple[Any, ...]]) -> Iterator[Discrepancy]:
        stored = self.client.select(
            f"SELECT session_id, session_no, json FROM record WHERE kind = 'start' AND {VISIBLE} "
            "ORDER BY written"
        )
        found += [(name, number, json.loads(values)) for name, number, values in stored]
        names = [name for name, _, _ in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Discrepancy(f"session {name!r}", "begins more than once")
        for (name,) in self.client.select(
            f"SELECT DISTINCT session_id FROM record WHERE {VISIBLE} AND session_no NOT IN "
            "(SELECT session_no FROM record WHERE kind = 'start')"
        ):
            yield Discrepancy(f"session {name!r}", "has rows, and no beginning")

    def _shown(self, where: str, name: str, number: int) -> Iterator[Discrepancy]:
        """What SQL shows of the messages is what their bodies say."""
        after = 0
        while True:
            stored = self.client.select(
                f"SELECT number, key, {', '.join(_SHOWN)} FROM record "
                "WHERE session_id = {name:String} AND session_no = {no:UInt64} "
                "AND kind = 'row' AND key != '' AND number > {after:UInt32} "
                f"AND {VISIBLE} ORDER BY number LIMIT {{portion:UInt32}}",
                name=packing.text(name),
                no=number,
                after=after,
                portion=_PORTION,
            )
            there = self._readable({key for _, key, *_ in stored} & self.bodies)
            for seq, key, *shown in stored:
                after = seq
                if key in there and shown != list(body_columns(there[key]).values()):
                    yield Discrepancy(
                        f"{where}, row {seq}", "shows other words than its message has"
                    )
            if len(stored) < _PORTION:
                return

    def _readable(self, keys: set[str]) -> dict[str, Message]:
        try:
            return reading.messages(self.client, self.blobs, keys)
        except StoreError:
            return {}  # told where the bodies were read

    def _twice(self, where: str, name: str, number: int) -> Iterator[Discrepancy]:
        seen: set[int] = set()
        for batch, _, _ in reading.commits(self.client, name, number):
            if batch in seen:
                yield Discrepancy(f"{where}, batch {batch}", "is there more than once")
            seen.add(batch)

    # ---- visible names --------------------------------------------------------------

    def _link(self, sha: str, name: str) -> Iterator[Discrepancy]:
        path = self.folder / name
        if path.is_file() and file_digest(path) != sha:
            yield Discrepancy(name, f"holds other bytes than blob {sha}, which it shows")

    def _names(self, kind: str) -> list[list[Any]]:
        return [
            json.loads(values)
            for (values,) in self.client.select(
                f"SELECT DISTINCT json FROM record WHERE kind = {{kind:String}} AND {VISIBLE}",
                kind=kind,
            )
        ]

    def _tool_results(self) -> Iterator[Discrepancy]:
        for _, key, name in self._names("result"):
            yield from self._link(key, name)

    def _visible_files(self) -> Iterator[Discrepancy]:
        names = {values[-1] for kind in ("image", "result") for values in self._names(kind)}
        for path in visible_files(self.folder):
            name = path.relative_to(self.folder).as_posix()
            if name not in names:
                yield Discrepancy(name, "is named by nothing", "note")
