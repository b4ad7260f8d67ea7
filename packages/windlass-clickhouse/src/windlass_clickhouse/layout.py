"""The tables of a ClickHouse store.

    record          one row for everything an append holds, and one that commits it
    bodies          each message body once, by its hash
    context_cards   as the document has it, with the index arguments of today's ClickHouse
    unified_logs and others                              views of `record`

A row of `record` counts once its batch is committed. The commit is the last row of the
batch's last insert, which is one block and so whole or not at all; rows of earlier inserts
of a large batch (`early`) count when a commit names their `write`. Data stand in plain
columns where SQL asks for them (kind `row`), else as a JSON list in the order of the
columns in `packing.py`.

Everything of a session lies in the partition of the month it began in, so that a TTL takes
sessions whole.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windlass.public import BANK, NodeType, StoreError, UsageError, packing
from windlass_clickhouse.client import ClickHouseClient, quoted

VERSION: Final = 3
"""The version of these tables; it stands in the comment of `record`."""

COMMENT: Final = "windlass history, version "

WINDOW: Final = 10_000
"""Inserts a table remembers, so that one sent twice is written once."""

_NODE_TYPES: Final = ", ".join(
    f"'{name}' = {number}" for number, name in enumerate(("", *(kind.value for kind in NodeType)))
)

_SHOWN_AS: Final = {
    "seq": "number", "timestamp": "at", "phase": "phase_name", "turn": "turn_number",
    "attempt": "attempt_number",
}  # fmt: skip
_TYPES: Final[dict[type, str]] = {int: "Int64", float: "Float64", str: "String"}


def _kind_of(kind: type, optional: bool) -> str:
    return f"Nullable({_TYPES[kind]})" if optional else _TYPES[kind]


# The columns of `record` that hold those of `packing.LogRow`, in their order.
LOG_COLUMNS: Final = {
    _SHOWN_AS.get(name, name): _kind_of(*kind)
    for name, kind in packing.column_types(packing.LogRow).items()
}
LOG_PHYSICAL: Final = ", ".join(LOG_COLUMNS)

# What is inserted, in this order. Times are seconds since 1970, exactly as given;
# `timestamp` is made of `at` for people and their SQL.
RECORD: Final = tuple(
    {
        "session_id": "String",
        **LOG_COLUMNS,
        "session_no": "UInt64",
        "number": "UInt32",
        "batch": "UInt32",
        "node_type": f"Enum8({_NODE_TYPES})",
        "key": "String",
        "occurrence": "UInt32",
        "model": "LowCardinality(Nullable(String))",
        "keep_pictures": "UInt8",
        "started": "Float64",
        "cascade_id": "LowCardinality(String)",
        "write": "String",
        "early": "UInt8",
        "kind": "LowCardinality(String)",
        "role": "LowCardinality(Nullable(String))",
        "content_json": "Nullable(String)",
        "content_chars": "Nullable(Int64)",
        "tool_calls_json": "Nullable(String)",
        "preview": "Nullable(String)",
        "json": "String",
    }.items()
)

_PACKED: Final = frozenset({"content_json", "tool_calls_json", "metadata_json", "json"})
"""Columns of long texts: packed closer, since they are read one session at a time."""

BODIES: Final = (
    ("key", "String"),
    ("role", "LowCardinality(String)"),
    ("chars", "UInt64"),
    ("tool_calls", "UInt32"),
    ("preview", "Nullable(String)"),
    ("body", "Nullable(String)"),
    ("pictures", "Array(String)"),
)

CARDS: Final = (
    ("session_id", "String"),
    ("content_hash", "String"),
    ("summary", "String"),
    ("keywords", "Array(String)"),
    ("embedding", "Array(Float32)"),
    ("embedding_model", "String"),
    ("estimated_tokens", "UInt32"),
    ("role", "String"),
    ("phase_name", "String"),
    ("turn_number", "Nullable(UInt32)"),
    ("is_anchor", "Bool DEFAULT false"),
    ("is_callout", "Bool DEFAULT false"),
    ("callout_name", "Nullable(String)"),
    ("generated_at", "DateTime DEFAULT now()"),
    ("generator_model", "String"),
    ("message_timestamp", "DateTime"),
    # A card belongs to an occurrence; the document's key knows bodies only.
    ("message_id", "String DEFAULT concat(content_hash, '-1')"),
)


_MICROS: Final = "fromUnixTimestamp64Micro(toInt64(round(at * 1000000)), 'UTC')"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How the tables are made.

    `ttl_days`: sessions vanish so many days after they began (None: never by themselves); memory
    banks stay.
    `vectors`: the dimensions of the index on embeddings (None: no index; every embedding
    must then have so many).
    """

    ttl_days: int | None = None
    vectors: int | None = None


def literal(value: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _columns(columns: tuple[tuple[str, str], ...]) -> list[str]:
    return [
        f"{quoted(name)} {kind}" + (" CODEC(ZSTD(3))" if name in _PACKED else "")
        for name, kind in columns
    ]


def _table(
    name: str,
    lines: list[str],
    engine: str,
    order: str,
    *,
    options: TableOptions,
    partition: str = "",
    expires: str = "",
    comment: str = "",
) -> str:
    """Return the statement that makes a table."""
    window = f"non_replicated_deduplication_window = {WINDOW}"
    body = ",\n    ".join(lines)
    parts = [f"CREATE TABLE IF NOT EXISTS {name} (\n    {body}\n)", f"ENGINE = {engine}"]
    if partition:
        parts.append(f"PARTITION BY {partition}")
    parts.append(f"ORDER BY {order}")
    if expires and options.ttl_days is not None:
        kept = f"NOT startsWith(session_id, {literal(BANK)})"
        parts.append(f"TTL {expires} + INTERVAL {options.ttl_days} DAY DELETE WHERE {kept}")
    parts.append(f"SETTINGS {window}, fsync_after_insert = 1, fsync_part_directory = 1")
    if comment:
        parts.append(f"COMMENT {literal(comment)}")
    return "\n".join(parts)


def tables(options: TableOptions) -> list[str]:
    """Return the statements that make the tables, in order."""
    record = [
        *_columns(RECORD),
        f"`timestamp` DateTime64(6, 'UTC') MATERIALIZED {_MICROS}",
        "`content_hash` Nullable(String) MATERIALIZED if(key = '', NULL, substring(key, 1, 16))",
        "`day` Date MATERIALIZED toDate(toDateTime64(started, 0, 'UTC'))",
        "`written` DateTime64(6, 'UTC') DEFAULT now64(6, 'UTC')",
        "INDEX content_hash_idx content_hash TYPE bloom_filter(0.01) GRANULARITY 1",
        "INDEX key_idx key TYPE bloom_filter(0.01) GRANULARITY 1",
        "INDEX trace_idx trace_id TYPE bloom_filter(0.01) GRANULARITY 1",
        "INDEX time_idx timestamp TYPE minmax GRANULARITY 1",
        "INDEX early_idx early TYPE minmax GRANULARITY 1",
    ]
    bodies = [*_columns(BODIES), "`written` DateTime DEFAULT now()"]
    cards = [
        *_columns(CARDS),
        "INDEX keywords_idx keywords TYPE bloom_filter(0.01) GRANULARITY 1",
    ]
    if options.vectors is not None:
        cards.append(
            "INDEX embedding_idx embedding TYPE "
            f"vector_similarity('hnsw', 'cosineDistance', {options.vectors})"
        )
    # Who names a body may outlive it: `prune` removes it.
    return [
        _table(
            "record",
            record,
            "MergeTree()",
            "(session_id, session_no, kind, number)",
            options=options,
            partition="toYYYYMM(day)",
            expires="day",
            comment=f"{COMMENT}{VERSION}",
        ),
        _table("bodies", bodies, "ReplacingMergeTree(written)", "key", options=options),
        _table(
            "context_cards",
            cards,
            "ReplacingMergeTree(generated_at)",
            "(session_id, content_hash, message_id)",
            options=options,
            partition="toYYYYMM(message_timestamp)",
            expires="toDate(message_timestamp)",
        ),
    ]


# ---- views --------------------------------------------------------------------------
# unified_logs, sessions, calls, edits, state, outcomes, images   what was appended
# conversation, call_list, lineage, session_list                  for people

VISIBLE: Final = (
    "(early = 0 OR write IN (SELECT write FROM record WHERE kind = 'commit' AND early = 1))"
)
"""True of rows that count: their batch is committed (the commit of a batch of several
inserts bears `early` itself, so that the list of them stays short)."""

_PLAIN: Final = frozenset({"session_no", "number", "batch"})


def _of_json(kind: str, row: type[Any]) -> str:
    """Return a view of the rows of a kind whose values stand in `json`."""
    fields = ["session_id"]
    for place, (name, of) in enumerate(packing.column_types(row).items(), 1):
        of_json = f"JSONExtract(json, {place}, '{_kind_of(*of)}') AS {name}"
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
            "JSONExtract(json, 5, 'String') AS cascade_json, written, "
            "JSONExtract(json, 6, 'Nullable(String)') AS parent_id, "
            "JSONExtract(json, 7, 'Nullable(String)') AS parent_phase, "
            "JSONExtract(json, 8, 'Nullable(Int64)') AS sounding_index "
            f"FROM record WHERE kind = 'start' AND {VISIBLE} ORDER BY session_id, session_no"
        ),
        "calls": _of_json("call", packing.CallRow),
        "edits": _of_json("edit", packing.EditRow),
        "state": _of_json("state", packing.StateRow),
        "outcomes": _of_json("outcome", packing.OutcomeRow),
        "images": _of_json("image", packing.ImageRow),
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
            "l.preview AS output, l.content_hash AS content_hash, o.error AS error, "
            "o.reason AS reason "
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
            "phase_name IS NULL), '') AS error, "
            "argMaxIf(JSONExtract(json, 11, 'Nullable(String)'), number, kind = 'outcome' AND "
            "phase_name IS NULL) AS reason, "
            "anyIf(JSONExtract(json, 6, 'Nullable(String)'), kind = 'start') AS parent_id, "
            "anyIf(JSONExtract(json, 7, 'Nullable(String)'), kind = 'start') AS parent_phase, "
            "anyIf(JSONExtract(json, 8, 'Nullable(Int64)'), kind = 'start') AS sounding_index "
            f"FROM record WHERE {VISIBLE} GROUP BY session_id ORDER BY started DESC, session_id"
        ),
    }


VIEWS: Final = _views()


def views() -> list[str]:
    """Return the statements that make the views, in order."""
    return [f"CREATE OR REPLACE VIEW {name} AS {select}" for name, select in VIEWS.items()]


def script(options: TableOptions) -> str:
    """Return all statements as one text, for `windlass schema clickhouse`."""
    statements = (*tables(options), *views())
    return "\n\n".join(f"{statement};" for statement in statements) + "\n"


def prepare_tables(
    client: ClickHouseClient, options: TableOptions, *, existing: bool = False
) -> None:
    """Make the tables and views where they are missing.

    With `existing` UsageError is raised instead. Tables that somebody made with the printed
    script are taken as they are. Raises StoreError for tables of a newer Windlass, and
    UsageError where they expire otherwise than `options` say.
    """
    tables_there = client.select(
        "SELECT name, engine_full, comment FROM system.tables "
        "WHERE database = currentDatabase() AND name IN ('record', 'unified_logs')"
    )
    existing_tables = {
        str(name): (str(engine), str(comment)) for name, engine, comment in tables_there
    }
    if "record" not in existing_tables:
        if existing:
            raise UsageError(
                f"there is no store at {client.target.shown}: run a cascade first, or name "
                "another with --store"
            )
        for statement in (*tables(options), *views()):
            client.command(statement)
        return
    engine, comment = existing_tables["record"]
    if not comment.startswith(COMMENT):
        raise StoreError(
            f"the database of {client.target.shown} has a table record of something else: "
            "name another database"
        )
    if (version := int(comment.removeprefix(COMMENT))) > VERSION:
        raise StoreError(
            f"the store {client.target.shown} was written by a newer Windlass (its version "
            f"{version}, this one knows {VERSION}): update Windlass, or name another store"
        )
    if options.ttl_days is not None and f"toIntervalDay({options.ttl_days})" not in engine:
        raise UsageError(
            f"the tables of {client.target.shown} are there already and do not expire after "
            f"{options.ttl_days} days: run ALTER TABLE record MODIFY TTL day + INTERVAL "
            f"{options.ttl_days} DAY DELETE WHERE NOT startsWith(session_id, {literal(BANK)}), "
            "or leave ttl_days out"
        )
    if "unified_logs" not in existing_tables or version < VERSION:
        for statement in views():
            client.command(statement)
    if version < VERSION:
        _raise_version(client)


def _raise_version(client: ClickHouseClient) -> None:
    """Mark the tables as those of today. Rows of older versions are read as they are."""
    comment = literal(f"{COMMENT}{VERSION}")
    client.command(f"ALTER TABLE record MODIFY COMMENT {comment}")
