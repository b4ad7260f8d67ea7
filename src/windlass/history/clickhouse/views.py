"""The views of a ClickHouse store: what counts of `record`, as the document names it, and more.

unified_logs, sessions, calls, edits, state, outcomes, images   what was appended
conversation, call_list, lineage, session_list                  for people
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from typing import Final

from windlass.history import packing
from windlass.history.clickhouse.client import quoted

VISIBLE: Final = (
    "(early = 0 OR write IN (SELECT write FROM record WHERE kind = 'commit' AND early = 1))"
)
"""True of rows that count: their batch is committed (the commit of a batch of several
inserts bears `early` itself, so that the list of them stays short)."""

_JSON_TYPES: Final = {
    "sent_tokens": "Int64", "full_tokens": "Int64", "base": "Nullable(UInt32)",
    "entries": "UInt32", "hidden": "UInt8", "timestamp": "Float64", "seq": "UInt32",
    "replacement": "Nullable(String)", "output_trace": "Nullable(String)",
    "error": "Nullable(String)",
}  # fmt: skip

IMAGE_COLUMNS: Final = ("session_no", "phase", "number", "seq", "sha256", "name")
START_COLUMNS: Final = ("cascade_id", "model", "started", "input_json", "cascade_json")


_PLAIN: Final = frozenset({"session_no", "number", "batch"})


def _of_json(kind: str, columns: tuple[str, ...], nullable: frozenset[str] = frozenset()) -> str:
    """A view of the rows of a kind whose values stand in `json`."""
    fields = ["session_id"]
    for place, name in enumerate(columns, 1):
        default = "Nullable(String)" if name in nullable else "String"
        of_json = f"JSONExtract(json, {place}, '{_JSON_TYPES.get(name, default)}') AS {name}"
        fields.append(name if name in _PLAIN else of_json)
    return (
        f"SELECT {', '.join(fields)} FROM record WHERE record.kind = '{kind}' AND {VISIBLE} "
        "ORDER BY session_id, session_no, number"
    )


def _views() -> dict[str, str]:
    row = "kind = 'row' AND " + VISIBLE
    in_order = "ORDER BY session_id, session_no, number"
    iso = "concat(replaceOne(toString({}), ' ', 'T'), 'Z')"
    return {
        "unified_logs": (
            "SELECT session_id, cascade_id, trace_id, parent_id, timestamp, node_type, "
            "phase_name, turn_number, attempt_number, sounding_index, role, content_hash, "
            "content_json, content_chars, tool_calls_json, model, tokens_in, tokens_out, "
            "tokens_cached, cost, duration_ms, full_history_size, context_size, tokens_saved, "
            f"metadata_json FROM record WHERE {row} {in_order}"
        ),
        "sessions": (
            "SELECT session_id, session_no, cascade_id, JSONExtract(json, 2, 'String') AS model, "
            "started, JSONExtract(json, 4, 'String') AS input_json, "
            "JSONExtract(json, 5, 'String') AS cascade_json, written "
            f"FROM record WHERE kind = 'start' AND {VISIBLE} ORDER BY session_id, session_no"
        ),
        "calls": _of_json("call", packing.CALL_COLUMNS),
        "edits": _of_json("edit", packing.EDIT_COLUMNS),
        "state": _of_json("state", packing.STATE_COLUMNS),
        "outcomes": _of_json("outcome", packing.OUTCOME_COLUMNS, frozenset({"phase"})),
        "images": _of_json("image", IMAGE_COLUMNS),
        "conversation": (
            "SELECT session_id, number AS seq, phase_name AS phase, turn_number AS turn, "
            "attempt_number AS attempt, node_type, role, "
            "concat(content_hash, '-', toString(occurrence)) AS id, content_chars AS chars, "
            f"preview FROM record WHERE {row} {in_order}"
        ),
        "call_list": (
            "SELECT c.session_id AS session_id, c.number AS call, l.phase_name AS phase, "
            "l.turn_number AS turn, c.model AS model, l.tokens_in AS tokens_in, "
            "l.tokens_cached AS tokens_cached, l.tokens_out AS tokens_out, l.cost AS cost, "
            "c.sent_tokens AS sent_tokens, c.full_tokens AS snowball_tokens FROM calls AS c "
            f"LEFT JOIN (SELECT * FROM record WHERE {row}) AS l "
            "ON l.session_id = c.session_id AND l.trace_id = c.trace_id "
            "ORDER BY session_id, call"
        ),
        "lineage": (
            "SELECT o.session_id AS session_id, o.phase AS phase, o.status AS status, "
            "l.preview AS output, l.content_hash AS content_hash, o.error AS error "
            f"FROM outcomes AS o LEFT JOIN (SELECT *, content_hash FROM record WHERE {row}) AS l "
            "ON l.session_id = o.session_id AND l.trace_id = o.output_trace "
            "ORDER BY session_id, o.number"
        ),
        "session_list": (
            "SELECT session_id, any(cascade_id) AS cascade_id, "
            "anyIf(JSONExtract(json, 2, 'String'), kind = 'start') AS model, "
            + iso.format("fromUnixTimestamp64Micro(toInt64(round(any(started) * 1000000)), 'UTC')")
            + " AS started, if(countIf(kind = 'outcome' AND phase_name IS NULL) = 0, NULL, "
            + iso.format(
                "fromUnixTimestamp64Micro(toInt64(round(argMaxIf(at, number, "
                "kind = 'outcome' AND phase_name IS NULL) * 1000000)), 'UTC')"
            )
            + ") AS ended, if(countIf(kind = 'outcome' AND phase_name IS NULL) = 0, 'running', "
            "argMaxIf(JSONExtract(json, 5, 'String'), number, kind = 'outcome' AND "
            "phase_name IS NULL)) AS status, countIf(kind = 'call') AS calls, "
            "ifNull(sum(tokens_in), 0) AS tokens_in, ifNull(sum(tokens_out), 0) AS tokens_out, "
            "ifNull(sum(tokens_cached), 0) AS tokens_cached, sum(cost) AS cost, "
            "nullIf(argMaxIf(JSONExtract(json, 8, 'String'), number, kind = 'outcome' AND "
            "phase_name IS NULL), '') AS error "
            f"FROM record WHERE {VISIBLE} GROUP BY session_id ORDER BY started DESC, session_id"
        ),
    }


VIEWS: Final = _views()


def views(cluster: str | None) -> list[str]:
    """The statements that make the views, in order; on a `cluster` on all its servers."""
    where = f" ON CLUSTER {quoted(cluster)}" if cluster is not None else ""
    made = [f"CREATE OR REPLACE VIEW {name}{where} AS {select}" for name, select in VIEWS.items()]
    if cluster is None:
        return made
    # Each shard would else look for commits among its own, and joins would be refused.
    return [
        one.replace(" IN (SELECT", " GLOBAL IN (SELECT").replace("LEFT JOIN", "GLOBAL LEFT JOIN")
        for one in made
    ]
