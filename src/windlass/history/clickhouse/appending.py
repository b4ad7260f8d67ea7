"""How a batch comes into a ClickHouse store: bodies first, then its rows, its commit last.

The last insert is one block: the server takes it whole or not at all. Its last row commits the
batch. A batch too large for one insert sends the rest before, marked `early`: they count only
when a commit names them.

The number of a batch is also the token of its last insert, and the server drops an insert whose
token it has seen. So of two writers of one session one finds that it was second, and numbers
its batch anew; and what was sent twice because an answer was lost is written once.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Batch, Status
from windlass.history.blobs import BlobPlace
from windlass.history.clickhouse import reading
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.reading import ClickHouseSession
from windlass.history.clickhouse.tables import BODIES, LOG_COLUMNS, RECORD, VISIBLE
from windlass.history.numbering import Numbered, Prepared, SessionHead, number
from windlass.history.reading import read_head
from windlass.messages import Message

_REMEMBERED: Final = 16
"""Sessions whose last numbers and window are kept at hand between appends."""

_TRIES: Final = 20
"""How often a batch is numbered anew because others append to its session at the same time."""

GRACE_S: Final = 900.0
"""Seconds for which `prune` leaves alone what no row names yet."""

INSERT_ROWS: Final = 2_000
"""Rows that one insert may have."""

INSERT_CHARS: Final = 4_000_000
"""Characters of texts that one insert may have (a single row may have more)."""

_PLACES: Final = {name: place for place, (name, _) in enumerate(RECORD)}
_EMPTY: Final[list[Any]] = [
    None if "Nullable" in kind else "" if "String" in kind or "Enum" in kind else 0
    for _, kind in RECORD
]


@dataclass(slots=True)
class _Open:
    """A session that is appended to: what it has so far, and its tool lists by hash."""

    session: ClickHouseSession
    head: SessionHead
    tools: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class _Unsure:
    """An append whose answer was lost: what it was, and what was made of it."""

    batch: Batch
    open: _Open
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
        self._open: dict[str, _Open] = {}
        self._unsure: dict[str, _Unsure] = {}
        self._fresh: dict[str, float] = {}
        self._fresh_s = grace_s / 4

    def forget(self) -> None:
        """Take nothing for stored any more: something was removed."""
        self._fresh.clear()

    def append(self, prepared: Prepared) -> tuple[str | None, ...]:
        """Write a batch, whole or not at all, and return the ids of its rows' messages.

        Raises StoreError, and LostConnectionError where no answer came: the same batch may
        be handed over again, and is not written twice.
        """
        _check(prepared)
        numbered = self._done_before(prepared)
        if numbered is None:
            numbered = self._try_often(prepared)
        return tuple(numbered.ids)

    def _try_often(self, prepared: Prepared) -> Numbered:
        for _ in range(_TRIES):
            opened = self._opened(prepared)
            numbered = number(prepared, opened.head, opened.session)
            self._store_bodies(prepared)
            if self._write(prepared, opened, numbered):
                self._remember(opened, numbered)
                return numbered
            self._open.pop(prepared.session_id, None)
            if prepared.batch.start is not None:
                raise _exists(prepared)
        raise prepared.refusal("others keep appending to it")

    def _remember(self, opened: _Open, numbered: Numbered) -> None:
        numbered.head.settle()
        opened.head = numbered.head
        opened.tools.update(numbered.tools)
        name = opened.session.name
        self._open.pop(name, None)
        self._open[name] = opened
        if len(self._open) > _REMEMBERED:
            del self._open[next(iter(self._open))]

    def _done_before(self, prepared: Prepared) -> Numbered | None:
        """This very batch, where it was written by an append whose answer was lost."""
        unsure = self._unsure.pop(prepared.session_id, None)
        if unsure is None:
            return None
        self._open.pop(prepared.session_id, None)
        head = unsure.numbered.head
        written = unsure.open.session.last_batch()
        if unsure.batch != prepared.batch or written != (head.batch, head.digest):
            return None
        self._remember(unsure.open, unsure.numbered)
        return unsure.numbered

    def _opened(self, prepared: Prepared) -> _Open:
        """What is known of the session, with what others have appended since."""
        name = prepared.session_id
        start = prepared.batch.start
        opened = self._open.get(name)
        if start is None and opened is not None and self._is_last(opened, prepared):
            return opened
        session = reading.find(self._client, name)
        if start is not None:
            if session is not None:
                raise _exists(prepared)
            row = prepared.session_row()
            session_no = secrets.randbits(62)
            begun = ClickHouseSession(
                self._client, name, session_no, row.started or 0.0, row.cascade_id
            )
            return _Open(begun, SessionHead(session_no, 0, packing.digest(*row)))
        if session is None:
            raise prepared.refusal("the first batch of a session must carry its start")
        for _ in range(_TRIES):
            opened = _Open(session, read_head(session), set(session.tool_lists()))
            if self._is_last(opened, prepared):
                return opened
            # Others appended while it was read, so that its pieces may not belong together.
        raise prepared.refusal("others keep appending to it")

    def _is_last(self, opened: _Open, prepared: Prepared) -> bool:
        """Whether nobody has appended since; refuses traces that the session has already."""
        head, last = opened.head, None
        for kind, batch, key, trace in self._client.select(
            "SELECT kind, number, key, trace_id FROM record WHERE session_id = {name:String} "
            "AND session_no = {no:UInt64} AND ((kind = 'commit' AND number >= {last:UInt32}) OR "
            f"(kind = 'row' AND trace_id IN {{traces:Array(String)}})) AND {VISIBLE} "
            "ORDER BY number",
            name=prepared.session_id,
            no=head.session_no,
            last=head.batch,
            traces=[row.trace_id for row in prepared.log],
        ):
            if kind == "row":
                raise prepared.refusal(
                    f"the batch does not fit the record (it has a row {trace!r} already)"
                )
            last = batch, key
        return last == (head.batch, head.digest)

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
                raise prepared.refusal(
                    f"the bytes of picture {sha!r} are neither given nor stored"
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
            if not reading.has_body(self._client, key)
        ]
        for portion in _portions(iter(rows)):
            self._client.insert("bodies", BODIES, portion, f"bodies/{secrets.token_hex(16)}")
        for key in (*prepared.bodies, *(f"blob {sha}" for sha in prepared.needed)):
            self._fresh[key] = now

    def _write(self, prepared: Prepared, opened: _Open, numbered: Numbered) -> bool:
        """Send the rows and their commit; False where another writer was first."""
        for image in numbered.images:
            if image.sha256 not in prepared.batch.lost or self._blobs.has(image.sha256):
                self._blobs.link(image.sha256, self._folder / image.name)
        write = secrets.token_hex(16)
        fixed = _fixed(opened.session, write)
        *early, last = _portions(_rows_of(prepared, numbered, fixed, opened.tools))
        for at, portion in enumerate(early):
            for row in portion:
                row[_PLACES["early"]] = 1
            self._client.insert("record", RECORD, portion, f"{write}/{at}")
        last.append(_commit_row(fixed, numbered, several=bool(early)))
        self._unsure[prepared.session_id] = _Unsure(prepared.batch, opened, numbered)
        won = self._commit(prepared, numbered, last) == write
        del self._unsure[prepared.session_id]
        return won

    def _commit(self, prepared: Prepared, numbered: Numbered, rows: list[list[Any]]) -> str:
        """Insert the last rows; the `write` that the server has for this batch then."""
        head = numbered.head
        begins = prepared.batch.start is not None
        # The name of a pruned session may come again, while the server still drops its token.
        for again in range(_TRIES):
            token = f"{head.session_no}/{head.batch}"
            if begins:
                token = f"begin/{prepared.session_id}/{again}"
            self._client.insert("record", RECORD, rows, token)
            written = self._client.select(
                "SELECT write FROM record WHERE session_id = {name:String} AND kind = 'commit' "
                "AND number = {number:UInt32}"
                + ("" if begins else " AND session_no = {no:UInt64}"),
                name=prepared.session_id,
                number=head.batch,
                no=head.session_no,
            )
            if len(written) > 1:
                raise StoreError(
                    f"{self._client.target.shown} took batch {head.batch} of session "
                    f"{prepared.session_id!r} twice: it does not drop repeated inserts "
                    "(see non_replicated_deduplication_window of the table record)"
                )
            if written:
                return str(written[0][0])
            if not begins:
                break
        raise prepared.refusal(
            "the session was pruned, or the server dropped the batch as a repeated one"
        )


def _exists(prepared: Prepared) -> StoreError:
    return prepared.refusal("a session of that name is in the store already")


def _check(prepared: Prepared) -> None:
    """What a database with constraints would refuse."""
    traces = [row.trace_id for row in prepared.log]
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
        raise prepared.refusal(f"the batch does not fit the record ({wrong})")


# ---- rows of `record` ---------------------------------------------------------------


def _row(**values: Any) -> list[Any]:
    row = _EMPTY.copy()
    for name, value in values.items():
        row[_PLACES[name]] = value
    return row


def _shown_json(value: Any) -> str | None:
    """Content or tool calls as SQL shows them: the JSON that people read, or NULL."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def body_columns(message: Message) -> dict[str, Any]:
    """What `unified_logs` and the views for people show of a message."""
    stored = json.loads(message.canonical)
    return {
        "role": message.role,
        "content_json": packing.optional(_shown_json(stored["content"])),
        "content_chars": message.chars,
        "tool_calls_json": packing.optional(_shown_json(stored.get("tool_calls"))),
        "preview": packing.text(packing.preview(message)),
    }


def _rows_of(
    prepared: Prepared, numbered: Numbered, fixed: dict[str, Any], known_tools: set[str]
) -> Iterator[list[Any]]:
    """The rows of a batch but for its commit. `fixed` are the columns that all of them share."""
    common = {**fixed, "session_no": numbered.head.session_no, "batch": numbered.head.batch}
    if prepared.batch.start is not None:
        yield _row(**common, kind="start", json=_json(prepared.session_row()[1:]))
    for row, values in zip(prepared.batch.rows, numbered.log, strict=True):
        stored = values._replace(key=values.key or "", occurrence=values.occurrence or 0)
        columns = dict(zip(LOG_COLUMNS, stored, strict=True))
        body = {} if row.message is None else body_columns(row.message)
        yield _row(**{**common, **columns, **body}, kind="row")
    for sha, tools_json in numbered.tools.items():
        if sha not in known_tools:
            yield _row(**common, kind="tools", key=sha, json=tools_json)
    for key in numbered.extra_bodies:
        yield _row(**common, kind="made", key=key)
    for call in numbered.calls:
        yield _row(
            **common, kind="call", number=call.number, trace_id=call.trace_id, json=_json(call)
        )
    for edit in numbered.edits:
        yield _row(**common, kind="edit", number=edit.number, json=_json(edit))
    for change in numbered.state:
        yield _row(
            **common, kind="state", number=change.number, phase_name=change.phase,
            json=_json(change),
        )  # fmt: skip
    for end in numbered.outcomes:
        yield _row(
            **common, kind="outcome", number=end.number, phase_name=end.phase, at=end.timestamp,
            trace_id=end.output_trace or "", json=_json(end),
        )  # fmt: skip
    for image in numbered.images:
        yield _row(
            **common, kind="image", number=image.number, phase_name=image.phase,
            key=image.sha256, json=_json(image),
        )  # fmt: skip


def result_row(session: ClickHouseSession, ref: str, key: str, name: str) -> list[Any]:
    """The row of a shortened result's visible name; it needs no commit."""
    return _row(
        **_fixed(session, ""), session_no=session.number, trace_id=name, kind="result", key=key,
        json=_json((ref, key, name)),
    )  # fmt: skip


def _fixed(session: ClickHouseSession, write: str) -> dict[str, Any]:
    """The columns that all rows of an append share."""
    return {
        "session_id": session.name,
        "started": session.started,
        "cascade_id": session.cascade_id,
        "write": write,
    }


def _commit_row(fixed: dict[str, Any], numbered: Numbered, *, several: bool) -> list[Any]:
    """The row that makes a batch count; `several`: some of it was sent before."""
    head = numbered.head
    return _row(
        **{**fixed, "early": int(several)},
        session_no=head.session_no,
        batch=head.batch,
        kind="commit",
        number=head.batch,
        key=head.digest,
    )


def _json(values: Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _portions(rows: Iterator[list[Any]]) -> list[list[list[Any]]]:
    """The rows in inserts, in order; at least one, which may be empty."""
    inserts: list[list[list[Any]]] = [[]]
    chars = 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str))
        if inserts[-1] and (len(inserts[-1]) >= INSERT_ROWS or chars + size > INSERT_CHARS):
            inserts.append([])
            chars = 0
        inserts[-1].append(row)
        chars += size
    return inserts
