"""What a store reads of one session, put together: windows of calls, rows, digests, messages.

A store's own `SessionReader` gives the rows; here they become what readers and `verify` get.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from windlass.history import packing
from windlass.history.base import Discrepancy, ShownMessage, StoredRow
from windlass.history.blobs import BlobPlace, LostMessage, damage_error, stand_in_for
from windlass.history.numbering import SessionHead, SessionReader
from windlass.history.packing import DIGESTED, CallRow, LogRow
from windlass.messages import Message, from_dict
from windlass.selection.card import Card

PORTION: Final = 500
"""Rows read at a time: no reader holds a snapshot open while its caller thinks."""


class StoredWindow(NamedTuple):
    """A call with its whole window, and the keys of the bodies it brought."""

    row: CallRow
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()


def windows(calls: Iterable[CallRow]) -> Iterator[StoredWindow]:
    """Yield the windows of a session's calls.

    Raises StoreError where one cannot be put together.
    """
    shown: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()
    for row in calls:
        follows = (row.base or 0) == row.number - 1
        try:
            if follows:
                shown = packing.unpack_window(shown, row.window_json)
                bodies = packing.unpack_keys(bodies, row.bodies_json)
        except (TypeError, ValueError) as error:
            raise damage_error(
                f"the window of call {row.number} does not hold together ({error})"
            ) from error
        if not follows or len(shown) != row.entries:
            raise damage_error(
                f"the window of call {row.number} does not hold together "
                f"({len(shown)} of {row.entries} entries, told against call {row.base})"
            )
        yield StoredWindow(row, shown, bodies)


def log_rows(session: SessionReader) -> Iterator[LogRow]:
    """Yield all rows of a session."""
    after = 0
    while portion := session.log(after):
        yield from portion
        after = portion[-1].seq


def changed_batches(where: str, session: SessionReader) -> Iterator[Discrepancy]:
    """Yield the batches of a session that are not what was appended, by their chain of digests."""
    tables: list[Iterable[Any]] = [log_rows(session)]
    tables += [session.table(kind) for kind in DIGESTED[1:]]
    parts: defaultdict[int, tuple[list[Any], ...]] = defaultdict(lambda: ([], [], [], [], []))
    for place, rows in enumerate(tables):
        for row in rows:
            parts[row.batch][place].append(row)
    digests = session.digests()
    before = session.start().digest
    last = max([0, *digests, *parts])
    if not last:
        yield Discrepancy(where, "has no batch")
    for number in range(1, last + 1):
        part = parts[number]
        log = part[0]
        span = f" (rows {log[0].seq} to {log[-1].seq})" if log else ""
        if number not in digests:
            yield Discrepancy(f"{where}, batch {number}{span}", "is missing from batches")
            continue
        if packing.batch_digest(before, *part) != digests[number]:
            yield Discrepancy(
                f"{where}, batch {number}{span}",
                "is not what was appended: a row of it was changed, added or removed",
            )
        before = digests[number]


def read_head(session: SessionReader) -> SessionHead:
    """Return what an appender must know of a session, read anew."""
    last = session.last_batch()
    if last is None:
        raise damage_error(f"session number {session.number} has no batch")
    head = SessionHead(session, *last, tools=set(session.tool_lists()))
    for row in log_rows(session):
        head.numbers[LogRow] = row.seq
        if row.key is not None and row.occurrence is not None:
            head.counts[row.key[:16]] = row.occurrence
    for call in windows(session.table(CallRow)):
        head.numbers[CallRow], head.window, head.bodies = call.row.number, call.shown, call.bodies
    for kind in DIGESTED[2:]:
        head.numbers[kind] = max((row.number for row in session.table(kind)), default=0)
    return head


def stored_row(session_id: str, row: LogRow, message: Message | None) -> StoredRow:
    """Return a row as readers get it."""
    if isinstance(message, LostMessage):
        message = message.in_row(row.node_type)
    return StoredRow(
        seq=row.seq,
        session_id=session_id,
        id=None if row.occurrence is None else packing.occurrence_id(row.key or "", row.occurrence),
        key=row.key,
        row=packing.row_of(row, message),
    )


def decode(key: str, body: str | None, blobs: BlobPlace) -> Message:
    """Return the message of a body row, or its stand-in where `blobs` says that one is wanted.

    Raises StoreError when it is not what `key` is the hash of.
    """
    try:
        data = blobs.read(key, check=False) if body is None else str(body).encode()
    except FileNotFoundError:
        return stand_in_for(key, "is missing", blobs)
    except OSError as error:
        if blobs.on_lost is None:
            raise
        return stand_in_for(key, f"cannot be read ({error.strerror})", blobs)
    if hashlib.sha256(data).hexdigest() != key:
        return stand_in_for(key, "has been changed", blobs, "stored text" if body else "file")
    return from_dict(json.loads(data))


def card_of(
    values: Sequence[Any],
    keywords: Callable[[Any], Iterable[str]],
    embedding: Callable[[Any], Sequence[float]],
) -> Card:
    """Return the card whose fields `values` are, in their order.

    `keywords` and `embedding` read those two fields as the store has them.
    """
    columns = dict(zip(Card.__dataclass_fields__, values, strict=True))
    vector = embedding(columns["embedding"])
    return Card(
        **columns
        | {
            "keywords": tuple(keywords(columns["keywords"])),
            "is_anchor": bool(columns["is_anchor"]),
            "embedding": array("f", vector) if len(vector) else (),
        }
    )


_COMMENTS: Final = re.compile(r"\s+|--[^\n]*(\n|$)|/\*.*?(\*/|$)", re.DOTALL)
_SELECT: Final = re.compile(r"(select|with|values)\b", re.IGNORECASE)


def is_select(sql: str) -> bool:
    """Return whether the text begins with SELECT, WITH or VALUES, comments aside."""
    at = 0
    while comment := _COMMENTS.match(sql, at):
        at = comment.end()
    return _SELECT.match(sql, at) is not None
