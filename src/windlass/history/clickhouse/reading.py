"""What is read of a ClickHouse store: a session's rows, lists of sessions, bodies.

Only what counts is read: rows whose batch is committed.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from windlass.history import packing
from windlass.history.base import BANK, Outcome, SessionInfo
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.tables import LOG_PHYSICAL, VISIBLE
from windlass.history.packing import (
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.history.reading import PORTION, outcome_of

_SESSIONS: Final = 1_000
"""Sessions whose sums are asked for at a time."""

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""

_KINDS: Final = {
    CallRow: "call", EditRow: "edit", StateRow: "state", OutcomeRow: "outcome", ImageRow: "image",
}  # fmt: skip
_HIGHEST: Final = {
    "rows": "row", "calls": "call", "edits": "edit", "state": "state", "outcomes": "outcome",
}  # fmt: skip


class Commit(NamedTuple):
    """The row that commits a batch."""

    batch: int
    digest: str
    write: str


class ClickHouseSession:
    """One session, as `reading.SessionReader` has it.

    `started` (seconds since 1970) and `cascade_id` stand in each of its rows.
    """

    def __init__(
        self, client: ClickHouseClient, name: str, number: int, started: float, cascade_id: str
    ) -> None:
        self.client = client
        self.name = packing.text(name)
        self.number = number
        self.started = started
        self.cascade_id = cascade_id

    def select(self, what: str, kind: str, more: str = "", **values: Any) -> list[tuple[Any, ...]]:
        """These columns of its rows of a kind."""
        return self.client.select(
            f"SELECT {what} FROM record WHERE session_id = {{name:String}} "
            f"AND session_no = {{no:UInt64}} AND kind = {{kind:String}} AND {VISIBLE} {more}",
            name=self.name,
            no=self.number,
            kind=kind,
            **values,
        )

    def start(self) -> SessionRow:
        """How it began."""
        ((values,),) = self.select("json", "start", "ORDER BY written LIMIT 1")
        return SessionRow(self.name, *json.loads(values))

    def log(self, after: int = 0, phase: str | None = None) -> list[LogRow]:
        """The first rows behind number `after`."""
        more = f"AND number > {{after:UInt32}} ORDER BY number LIMIT {PORTION}"
        bound: dict[str, Any] = {"after": after}
        if phase is not None:
            more = "AND phase_name = {phase:String} " + more
            bound["phase"] = packing.text(phase)
        return [log_row(values) for values in self.select(LOG_PHYSICAL, "row", more, **bound)]

    def table(self, kind: type[TableRow]) -> list[TableRow]:
        """Its rows of another table."""
        columns = self.select("json", _KINDS[kind], "ORDER BY number")
        rows = [kind._make(json.loads(values)) for (values,) in columns]
        return sorted(rows, key=attrgetter("seq", "number")) if kind is ImageRow else rows

    def results(self) -> list[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file."""
        stored = [json.loads(values) for (values,) in self.select("json", "result")]
        return sorted((ref, key) for ref, key, _ in stored)

    def extra_bodies(self) -> set[str]:
        """The bodies that calls and edits brought."""
        return {key for (key,) in self.select("key", "made")}

    def tool_lists(self) -> dict[str, str]:
        """The tools that its calls sent."""
        return dict(self.select("key, json", "tools"))

    def commits(self) -> list[Commit]:
        """The rows that commit its batches."""
        stored = self.select("batch, key, write", "commit", "ORDER BY number, written")
        return [Commit._make(values) for values in stored]

    def digests(self) -> dict[int, str]:
        """The digest of each batch."""
        return {commit.batch: commit.digest for commit in self.commits()}

    def last_batch(self) -> tuple[int, str] | None:
        """Number and digest of the last batch."""
        last = self.select("batch, key", "commit", "ORDER BY number DESC LIMIT 1")
        return (int(last[0][0]), str(last[0][1])) if last else None

    def highest(self) -> dict[str, int]:
        """The highest number of each kind."""
        stored = self.client.select(
            "SELECT kind, max(number) FROM record WHERE session_id = {name:String} "
            f"AND session_no = {{no:UInt64}} AND {VISIBLE} GROUP BY kind",
            name=self.name,
            no=self.number,
        )
        numbers = Counter(dict(stored))
        return {name: numbers[kind] for name, kind in _HIGHEST.items()}

    def occurrences(self) -> dict[str, int]:
        """How often each message occurs."""
        columns = "substring(key, 1, 16), max(occurrence)"
        return dict(self.select(columns, "row", "AND key != '' GROUP BY 1"))

    def image_count(self, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        return len(self.select("1", "image", "AND phase_name = {phase:String}", phase=phase))

    def has_body(self, key: str) -> bool:
        """Whether the store has a body of that key."""
        return has_body(self.client, key)

    def has_row(self, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        return bool(self.select("1", "row", "AND trace_id = {trace:String}", trace=trace_id))


def log_row(values: Sequence[Any]) -> LogRow:
    """A row of the log as `record` has it, with None where it has no message."""
    row = LogRow._make(values)
    return row._replace(key=row.key or None, occurrence=row.occurrence or None)


def find(client: ClickHouseClient, session_id: str) -> ClickHouseSession | None:
    """A session; None where there is none of that name."""
    stored = client.select(
        "SELECT session_no, started, cascade_id FROM record WHERE session_id = {name:String} "
        f"AND kind = 'start' AND {VISIBLE} ORDER BY written LIMIT 1",
        name=packing.text(session_id),
    )
    return ClickHouseSession(client, session_id, *stored[0]) if stored else None


def recent(client: ClickHouseClient) -> Iterator[str]:
    """Names of the newest sessions."""
    for (name,) in client.select(
        f"SELECT session_id FROM sessions ORDER BY written DESC LIMIT {_RECENT}"
    ):
        yield name


def has_body(client: ClickHouseClient, key: str) -> bool:
    """Whether the store has a body of that key."""
    return bool(client.select("SELECT 1 FROM bodies WHERE key = {key:String} LIMIT 1", key=key))


def bodies(client: ClickHouseClient, keys: list[str]) -> list[tuple[Any, ...]]:
    """Key and body of those that are stored, first those that stand in the table."""
    return client.select(
        "SELECT key, body FROM bodies WHERE key IN {keys:Array(String)} ORDER BY isNull(body)",
        keys=keys,
    )


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
    ended = {number: outcome_of(OutcomeRow(*json.loads(values))) for number, values in last}
    return [ended.get(number) for _, number in picked]


def sessions(client: ClickHouseClient, limit: int | None) -> list[SessionInfo]:
    """Sessions, newest first; tokens and costs summed over all their rows."""
    picked = client.select(
        f"SELECT session_id, session_no, json FROM record WHERE kind = 'start' AND {VISIBLE} "
        "ORDER BY started DESC, written DESC" + ("" if limit is None else " LIMIT {limit:UInt64}"),
        **({} if limit is None else {"limit": limit}),
    )
    sums: dict[int, list[Any]] = {}
    for at in range(0, len(picked), _SESSIONS):
        some = picked[at : at + _SESSIONS]
        for number, *values in client.select(
            "SELECT session_no, countIf(kind = 'call'), ifNull(sum(tokens_in), 0), "
            "ifNull(sum(tokens_out), 0), ifNull(sum(tokens_cached), 0), sum(cost), "
            "argMaxIf(json, number, kind = 'outcome' AND phase_name IS NULL) "
            "FROM record WHERE session_id IN {names:Array(String)} "
            f"AND session_no IN {{numbers:Array(UInt64)}} AND {VISIBLE} GROUP BY session_no",
            names=[name for name, _, _ in some],
            numbers=[number for _, number, _ in some],
        ):
            sums[number] = values
    return [
        _info(SessionRow(name, *json.loads(start)), sums[number]) for name, number, start in picked
    ]


def _info(start: SessionRow, sums: list[Any]) -> SessionInfo:
    calls, tokens_in, tokens_out, tokens_cached, cost, outcome = sums
    ended = OutcomeRow(*json.loads(outcome)) if outcome else None
    return SessionInfo(
        session_id=start.session_id,
        cascade_id=start.cascade_id,
        model=start.model,
        started=start.started,
        ended=ended.timestamp if ended else None,
        status=ended.status if ended else "running",
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=tokens_cached,
        cost=cost,
        error=ended.error if ended else None,
    )
