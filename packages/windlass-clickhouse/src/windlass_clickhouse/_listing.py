"""The list of the sessions of a ClickHouse store, and how they ended."""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from windlass.public import BANK, HeldSessions, Outcome, SessionFilter, SessionInfo, packing
from windlass_clickhouse.client import ClickHouseClient, Parameter
from windlass_clickhouse.layout import VISIBLE

_OUTCOME: Final = "argMaxIf(json, number, kind = 'outcome' AND phase_name IS NULL)"
_ENDED: Final = f"if({_OUTCOME} = '', '', JSONExtract({_OUTCOME}, 5, 'String'))"
_STANDS: Final = (
    "multiIf(has({running:Array(String)}, session_id), 'running', "
    f"{_ENDED} = 'completed', 'completed', "
    "has({unknown:Array(String)}, session_id), 'unknown', "
    f"{_ENDED} = '' OR has({{left:Array(String)}}, session_id), 'broken off', {_ENDED})"
)
_NO_BANK: Final = "NOT startsWith(session_id, {bank:String})"
_PARENT: Final = "JSONExtract(json, 6, 'Nullable(String)')"
_FILTERS: Final = {
    "prefix": "startsWith(session_id, {prefix:String})",
    "cascade": "cascade_id = {cascade:String}",
    "status": (
        f"(session_id, session_no) IN (SELECT session_id, session_no FROM record WHERE {VISIBLE} "
        f"GROUP BY session_id, session_no HAVING {_STANDS} = {{status:String}})"
    ),
    "since": "started >= {since:Float64}",
    "until": "started < {until:Float64}",
    "under": f"has({{under:Array(String)}}, {_PARENT})",
    "name": (
        "(positionCaseInsensitive(session_id, {name:String}) > 0"
        " OR positionCaseInsensitive(cascade_id, {name:String}) > 0)"
    ),
    "model": "positionCaseInsensitive(JSONExtract(json, 2, 'String'), {model:String}) > 0",
    "with_key": "JSONHas(JSONExtract(json, 5, 'String'), {with_key:String})",
    "without_keys": (
        "NOT arrayExists(key -> JSONHas(JSONExtract(json, 5, 'String'), key),"
        " {without_keys:Array(String)})"
    ),
}
"""What the fields of a `SessionFilter` ask of the row with which a session began."""


def _newest(
    client: ClickHouseClient,
    columns: str,
    limit: int | None,
    more: str,
    offset: int = 0,
    **values: Parameter,
) -> list[tuple[Any, ...]]:
    """Return these sums over each of the newest sessions, newest first."""
    last = "" if limit is None else f"LIMIT {limit:d}"
    last += f" OFFSET {offset:d}" if offset else ""
    return client.select(
        f"SELECT {columns} FROM record WHERE (session_id, session_no) IN (SELECT session_id, "
        f"session_no FROM record WHERE kind = 'start' AND {VISIBLE} {more} "
        f"ORDER BY started DESC, written DESC {last}) AND {VISIBLE} GROUP BY session_no "
        "ORDER BY any(started) DESC, minIf(written, kind = 'start') DESC",
        bank=BANK,
        **values,
    )


def newest_endings(client: ClickHouseClient, sessions: int) -> Sequence[Outcome | None]:
    """Return how the last so many sessions ended, newest first; None: it has not."""
    return [
        packing.read_outcome(packing.OutcomeRow(*json.loads(values))) if values else None
        for (values,) in _newest(client, _OUTCOME, sessions, f"AND {_NO_BANK}")
    ]


def listed_sessions(
    client: ClickHouseClient,
    which: SessionFilter,
    held: HeldSessions,
    limit: int | None,
    offset: int,
) -> list[SessionInfo]:
    """Return the sessions that fit, as `BaseStore` asks for them."""
    values = {
        name: value
        for name, value in asdict(which).items()
        if name in _FILTERS and value not in (None, "", ())
    }
    for name in ("under", "without_keys"):
        if name in values:
            values[name] = list(values[name])
    if "status" in values:
        values |= {
            "running": held.named("running"),
            "unknown": held.named("unknown"),
            "left": held.named("broken off"),
        }
    filters = [_FILTERS[name] for name in values if name in _FILTERS]
    filters += [_NO_BANK] * (not which.banks) + [f"isNull({_PARENT})"] * (which.under == ())
    stored = _newest(
        client,
        "any(session_id), anyIf(json, kind = 'start'), "
        f"{_OUTCOME}, countIf(kind = 'call'), ifNull(sum(tokens_in), 0), "
        "ifNull(sum(tokens_out), 0), ifNull(sum(tokens_cached), 0), sum(cost)",
        limit,
        "".join(f"AND {each} " for each in filters),
        offset,
        **values,
    )
    return [_info(each) for each in stored]


def _info(stored: tuple[Any, ...]) -> SessionInfo:
    name, start, outcome, calls, tokens_in, tokens_out, tokens_cached, cost = stored
    began = packing.SessionRow(name, *json.loads(start))
    ended = packing.OutcomeRow(*json.loads(outcome)) if outcome else None
    return SessionInfo(
        session_id=name,
        cascade_id=began.cascade_id,
        model=began.model,
        started=began.started,
        ended=ended.timestamp if ended else None,
        status=ended.status if ended else "",
        calls=calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=tokens_cached,
        cost=cost,
        error=ended.error if ended else None,
        reason=ended.reason if ended else None,
        parent_id=began.parent_id,
        parent_phase=began.parent_phase,
        sounding_index=began.sounding_index,
    )
