"""How a session is read back out of a ClickHouse store: functions from a client to values.

Only what counts is read: rows whose batch is committed.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.errors import UsageError, did_you_mean
from windlass.history import packing, reading
from windlass.history.base import (
    BANK,
    CallRecord,
    EditRecord,
    Outcome,
    SessionInfo,
    SessionStart,
    StateChange,
    StoredRow,
)
from windlass.history.blob_places import BlobPlace
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.views import VISIBLE
from windlass.history.clickhouse.writing import LOG_PHYSICAL
from windlass.history.lost import damaged, lost
from windlass.history.numbering import SessionHead
from windlass.messages import Message

_PORTION: Final = 500
"""Rows read at a time."""

_KEYS: Final = 1_000
"""Keys asked for at a time."""

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""


@dataclass(slots=True)
class Session:
    """A session as the store has it, up to one batch.

    `started` (seconds since 1970) and `cascade_id` stand in each of its rows; `tools` are the
    hashes of the tool lists it has.
    """

    known: SessionHead
    started: float
    cascade_id: str
    tools: set[str] = field(default_factory=set[str])


def find(client: ClickHouseClient, session_id: str) -> tuple[int, float, str] | None:
    """Number, beginning and cascade of a session; None where there is none of that name."""
    found = client.select(
        "SELECT session_no, started, cascade_id FROM record WHERE session_id = {name:String} "
        f"AND kind = 'start' AND {VISIBLE} ORDER BY written LIMIT 1",
        name=packing.text(session_id),
    )
    return None if not found else (int(found[0][0]), float(found[0][1]), str(found[0][2]))


def must_find(client: ClickHouseClient, session_id: str) -> tuple[int, float, str]:
    """`find`. Raises UsageError that names recent sessions where it is unknown."""
    found = find(client, session_id)
    if found is None:
        recent = client.select(
            "SELECT session_id FROM sessions ORDER BY written DESC LIMIT {limit:UInt32}",
            limit=_RECENT,
        )
        hint = did_you_mean(session_id, (name for (name,) in recent))
        raise UsageError(f"no session {session_id!r} in this store: {hint}")
    return found


def of_kind(
    client: ClickHouseClient, session_id: str, session: int, kind: str, more: str = "", **bound: Any
) -> list[tuple[Any, ...]]:
    """The values of a session's rows of a kind, in order."""
    stored = client.select(
        "SELECT json FROM record WHERE session_id = {name:String} AND session_no = {no:UInt64} "
        f"AND kind = {{kind:String}} AND {VISIBLE} {more} ORDER BY number",
        name=packing.text(session_id),
        no=session,
        kind=kind,
        **bound,
    )
    return [tuple(json.loads(values)) for (values,) in stored]


# ---- messages -----------------------------------------------------------------------


def messages(
    client: ClickHouseClient, blobs: BlobPlace, keys: Collection[str]
) -> dict[str, Message]:
    """The messages with these keys. Raises StoreError for one that is missing or changed."""
    found: dict[str, Message] = {}
    wanted = list(dict.fromkeys(keys))
    for at in range(0, len(wanted), _KEYS):
        stored = client.select(
            "SELECT key, body FROM bodies WHERE key IN {keys:Array(String)} ORDER BY isNull(body)",
            keys=wanted[at : at + _KEYS],
        )
        for key, body in stored:
            if key not in found:
                found[key] = reading.decode(key, body, blobs)
    for key in wanted:
        if key not in found:
            found[key] = lost(key, "is missing", blobs, "")
    return found


def message(client: ClickHouseClient, blobs: BlobPlace, key: str) -> Message:
    """The message with this key. Raises StoreError where there is none."""
    return messages(client, blobs, [key])[key]


# ---- a session ----------------------------------------------------------------------


def log(
    client: ClickHouseClient, session_id: str, session: int, phase: str | None = None
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a session in portions, in the order of `packing.LOG_COLUMNS`."""
    after = 0
    columns = ", ".join(LOG_PHYSICAL)
    where = "AND phase_name = {phase:String}" if phase is not None else ""
    bound = {"phase": packing.text(phase)} if phase is not None else {}
    while True:
        stored = client.select(
            f"SELECT {columns} FROM record WHERE session_id = {{name:String}} "
            "AND session_no = {no:UInt64} AND kind = 'row' AND number > {after:UInt32} "
            f"AND {VISIBLE} {where} ORDER BY number LIMIT {{portion:UInt32}}",
            name=packing.text(session_id),
            no=session,
            after=after,
            portion=_PORTION,
            **bound,
        )
        if stored:
            yield [log_values(values) for values in stored]
            after = stored[-1][1]
        if len(stored) < _PORTION:
            return


_KEY: Final = packing.LOG_COLUMNS.index("key")
_OCCURRENCE: Final = packing.LOG_COLUMNS.index("occurrence")


def log_values(stored: tuple[Any, ...]) -> tuple[Any, ...]:
    """The columns of a row, with None where it has no message."""
    values = list(stored)
    values[_KEY] = values[_KEY] or None
    values[_OCCURRENCE] = values[_OCCURRENCE] or None
    return tuple(values)


def rows(
    client: ClickHouseClient, blobs: BlobPlace, session_id: str, session: int, phase: str | None
) -> Iterator[StoredRow]:
    """The rows of a session in order, with their messages."""
    for portion in log(client, session_id, session, phase):
        found = messages(client, blobs, [one[_KEY] for one in portion if one[_KEY]])
        for _, seq, _, *values in portion:
            key = values[packing.OCCURRENCE - 1]
            yield reading.stored_row(session_id, seq, values, found.get(key))


def tool_lists(client: ClickHouseClient, session_id: str, session: int) -> dict[str, str]:
    """The tools that the session's calls sent: JSON by its SHA-256."""
    return {
        str(sha): str(tools)
        for sha, tools in client.select(
            "SELECT key, json FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND kind = 'tools' AND {VISIBLE}",
            name=packing.text(session_id),
            no=session,
        )
    }


def calls(
    client: ClickHouseClient, blobs: BlobPlace, session_id: str, session: int
) -> list[CallRecord]:
    """The calls of a session in order, each with its whole window."""
    stored = list(reading.unpacked(of_kind(client, session_id, session, "call")))
    if not stored:
        return []
    tools = tool_lists(client, session_id, session)
    found = messages(client, blobs, [key for _, _, keys in stored for key in keys])
    made: list[CallRecord] = []
    for values, shown, keys in stored:
        if values[8] not in tools:
            raise damaged(f"the tools of call {values[1]} are missing")
        sent = tuple(json.loads(tools[values[8]]))
        made.append(reading.call_record(values, shown, sent, tuple(found[key] for key in keys)))
    return made


def edits(
    client: ClickHouseClient, blobs: BlobPlace, session_id: str, session: int
) -> list[EditRecord]:
    """The committed edits of a session, in order."""
    stored = of_kind(client, session_id, session, "edit")
    found = messages(client, blobs, [values[7] for values in stored if values[7] is not None])
    return [
        EditRecord(message_id, kind, because, reason, found.get(key))
        for _, _, _, message_id, kind, because, reason, key in stored
    ]


def state(client: ClickHouseClient, session_id: str, session: int) -> list[StateChange]:
    """The state changes of a session, in order."""
    return [
        StateChange(phase, key, json.loads(value))
        for *_, phase, key, value in of_kind(client, session_id, session, "state")
    ]


def outcomes(client: ClickHouseClient, session_id: str, session: int) -> list[Outcome]:
    """How the phases of a session, and at last it itself, ended."""
    return [
        Outcome(status, at, phase, trace, error, bool(hidden), json.loads(details))
        for _, _, _, phase, status, at, trace, error, hidden, details in of_kind(
            client, session_id, session, "outcome"
        )
    ]


def endings(client: ClickHouseClient, sessions: int) -> list[Outcome | None]:
    """How the last so many sessions ended, newest first; None: there is no word of it."""
    picked = client.select(
        f"SELECT session_id, session_no FROM record WHERE kind = 'start' AND {VISIBLE} "
        "AND NOT startsWith(session_id, {bank:String}) "
        "ORDER BY started DESC, written DESC LIMIT {limit:UInt64}",
        bank=BANK,
        limit=sessions,
    )
    last = client.select(
        "SELECT session_no, argMax(json, number) FROM record "
        "WHERE session_id IN {names:Array(String)} AND session_no IN {numbers:Array(UInt64)} "
        f"AND kind = 'outcome' AND phase_name IS NULL AND {VISIBLE} GROUP BY session_no",
        names=[name for name, _ in picked],
        numbers=[number for _, number in picked],
    )
    ended: dict[int, Outcome] = {}
    for number, values in last:
        _, _, _, _, status, at, _, error, _, details = json.loads(values)
        ended[number] = Outcome(status, at, error=error, details=json.loads(details))
    return [ended.get(number) for _, number in picked]


def start(client: ClickHouseClient, session_id: str) -> SessionStart:
    """How a session began. Raises UsageError naming recent sessions where it is unknown."""
    session, _, _ = must_find(client, session_id)
    cascade_id, model, started, given, cascade = of_kind(client, session_id, session, "start")[0]
    return SessionStart(cascade_id, model, json.loads(given), json.loads(cascade), started)


def results(client: ClickHouseClient, session_id: str, session: int) -> list[tuple[str, str, str]]:
    """(reference, key, visible name) of the session's stored results, in order."""
    return sorted(
        (ref, key, name) for ref, key, name in of_kind(client, session_id, session, "result")
    )


def sessions(client: ClickHouseClient, limit: int | None) -> list[SessionInfo]:
    """Sessions, newest first; tokens and costs summed over all their rows."""
    picked = client.select(
        f"SELECT session_id, session_no, json FROM record WHERE kind = 'start' AND {VISIBLE} "
        "ORDER BY started DESC, written DESC" + ("" if limit is None else " LIMIT {limit:UInt64}"),
        **({} if limit is None else {"limit": limit}),
    )
    sums: dict[int, tuple[Any, ...]] = {}
    for at in range(0, len(picked), _KEYS):
        some = picked[at : at + _KEYS]
        for values in client.select(
            "SELECT session_no, countIf(kind = 'call'), ifNull(sum(tokens_in), 0), "
            "ifNull(sum(tokens_out), 0), ifNull(sum(tokens_cached), 0), sum(cost), "
            "argMaxIf(json, number, kind = 'outcome' AND phase_name IS NULL) "
            "FROM record WHERE session_id IN {names:Array(String)} "
            f"AND session_no IN {{numbers:Array(UInt64)}} AND {VISIBLE} GROUP BY session_no",
            names=[name for name, _, _ in some],
            numbers=[number for _, number, _ in some],
        ):
            sums[values[0]] = values
    return [_info(name, json.loads(started), sums[number]) for name, number, started in picked]


def _info(name: str, started: list[Any], sums: tuple[Any, ...]) -> SessionInfo:
    _, calls, tokens_in, tokens_out, cached, cost, outcome = sums
    ended = json.loads(outcome) if outcome else None
    return SessionInfo(
        session_id=name,
        cascade_id=started[0],
        model=started[1],
        started=started[2],
        ended=ended[5] if ended else None,
        status=ended[4] if ended else "running",
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=cached,
        cost=cost,
        error=ended[7] if ended else None,
    )


# ---- for the writer -----------------------------------------------------------------


def commits(client: ClickHouseClient, session_id: str, session: int) -> list[tuple[int, str, str]]:
    """(batch, digest, write) of a session's committed batches, in order."""
    return [
        (int(batch), str(digest), str(write))
        for batch, digest, write in client.select(
            "SELECT batch, key, write FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND kind = 'commit' AND {VISIBLE} "
            "ORDER BY number, written",
            name=packing.text(session_id),
            no=session,
        )
    ]


def last_commit(client: ClickHouseClient, session_id: str, session: int) -> tuple[int, str] | None:
    """Number and digest of a session's last batch."""
    found = client.select(
        "SELECT batch, key FROM record WHERE session_id = {name:String} "
        "AND session_no = {no:UInt64} AND kind = 'commit' ORDER BY number DESC LIMIT 1",
        name=packing.text(session_id),
        no=session,
    )
    return (int(found[0][0]), str(found[0][1])) if found else None


def load(client: ClickHouseClient, session_id: str, found: tuple[int, float, str]) -> Session:
    """What an appender must know of a session, read anew."""
    number, started, cascade_id = found
    last = last_commit(client, session_id, number)
    if last is None:
        raise damaged(f"session {session_id!r} has no batch")
    name = packing.text(session_id)
    highest: defaultdict[str, int] = defaultdict(
        int,
        client.select(
            "SELECT kind, max(number) FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND {VISIBLE} GROUP BY kind",
            name=name,
            no=number,
        ),
    )
    counts = dict(
        client.select(
            "SELECT substring(key, 1, 16), max(occurrence) FROM record "
            "WHERE session_id = {name:String} AND session_no = {no:UInt64} AND kind = 'row' "
            f"AND key != '' AND {VISIBLE} GROUP BY 1",
            name=name,
            no=number,
        )
    )
    # Only the last one is wanted, but each is told against the one before.
    windows = reading.unpacked(of_kind(client, session_id, number, "call"))
    ends = deque(windows, maxlen=1)
    _, window, bodies = ends[0] if ends else ((), (), ())
    known = SessionHead(
        session_no=number,
        batch=last[0],
        digest=last[1],
        rows=highest["row"],
        calls=highest["call"],
        edits=highest["edit"],
        state=highest["state"],
        outcomes=highest["outcome"],
        counts=counts,
        window=window,
        bodies=bodies,
    )
    return Session(known, started, cascade_id, set(tool_lists(client, session_id, number)))
