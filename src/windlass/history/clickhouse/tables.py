"""The tables of a ClickHouse store, for one server and for a cluster.

    record          one row for everything an append holds, and one that commits it
    bodies          each message body once, by its hash
    context_cards   as the document has it, with the index arguments of today's ClickHouse
    unified_logs and others                              views of `record` (views.py)

A row of `record` counts once its batch is committed. The commit is the last row of the
batch's last insert, which is one block and so whole or not at all; rows of earlier inserts
of a large batch (`early`) count when a commit names their `write`. Data stand in plain
columns where SQL asks for them (kind `row`), else as a JSON list in the order of the
columns in `packing.py`.

Everything of a session lies in the partition of the month it began in, so that a TTL takes
sessions whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from windlass.errors import StoreError, UsageError
from windlass.history.base import BANK, NodeType
from windlass.history.clickhouse.client import ClickHouseClient, quoted
from windlass.history.clickhouse.views import views

VERSION: Final = 1
"""The version of these tables; it stands in the comment of `record`."""

COMMENT: Final = "windlass history, version "

WINDOW: Final = 10_000
"""Inserts a table remembers, so that one sent twice is written once."""

KINDS: Final = (
    "start", "row", "call", "edit", "state", "outcome", "image", "tools", "made", "result",
    "commit",
)  # fmt: skip

_NODE_TYPES: Final = ", ".join(
    f"'{name}' = {number}" for number, name in enumerate(("", *(kind.value for kind in NodeType)))
)

# What is inserted, in this order. Times are seconds since 1970, exactly as given;
# `timestamp` is made of `at` for people and their SQL.
RECORD: Final = (
    ("session_id", "String"),
    ("session_no", "UInt64"),
    ("started", "Float64"),
    ("cascade_id", "LowCardinality(String)"),
    ("batch", "UInt32"),
    ("write", "String"),
    ("early", "UInt8"),
    ("kind", "LowCardinality(String)"),
    ("number", "UInt32"),
    ("key", "String"),
    ("trace_id", "String"),
    ("parent_id", "Nullable(String)"),
    ("at", "Float64"),
    ("node_type", f"Enum8({_NODE_TYPES})"),
    ("phase_name", "Nullable(String)"),
    ("turn_number", "Nullable(Int64)"),
    ("attempt_number", "Nullable(Int64)"),
    ("sounding_index", "Nullable(Int64)"),
    ("occurrence", "UInt32"),
    ("role", "LowCardinality(Nullable(String))"),
    ("content_json", "Nullable(String)"),
    ("content_chars", "Nullable(Int64)"),
    ("tool_calls_json", "Nullable(String)"),
    ("preview", "Nullable(String)"),
    ("model", "LowCardinality(Nullable(String))"),
    ("tokens_in", "Nullable(Int64)"),
    ("tokens_out", "Nullable(Int64)"),
    ("tokens_cached", "Nullable(Int64)"),
    ("cost", "Nullable(Float64)"),
    ("duration_ms", "Nullable(Float64)"),
    ("full_history_size", "Nullable(Int64)"),
    ("context_size", "Nullable(Int64)"),
    ("tokens_saved", "Nullable(Int64)"),
    ("metadata_json", "String"),
    ("keep_pictures", "UInt8"),
    ("json", "String"),
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
    must then have so many). `cluster`: its name, for `Replicated` and `Distributed` tables.
    """

    ttl_days: int | None = None
    vectors: int | None = None
    cluster: str | None = None


def literal(value: str) -> str:
    """A text as SQL takes it."""
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
    arguments: str,
    order: str,
    *,
    shape: TableOptions,
    partition: str = "",
    expires: str = "",
    comment: str = "",
    shard: str = "rand()",
) -> list[str]:
    """One table, or on a cluster the replicated one of each shard and the one over all."""
    where, local = "", name
    window = f"non_replicated_deduplication_window = {WINDOW}"
    settings = [window, "fsync_after_insert = 1", "fsync_part_directory = 1"]
    if shape.cluster is not None:
        where = f" ON CLUSTER {quoted(shape.cluster)}"
        local = name + "_local"
        settings[0] = f"replicated_deduplication_window = {WINDOW}"
        path = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"
        engine = "Replicated" + engine
        arguments = path + (f", {arguments}" if arguments else "")
    body = ",\n    ".join(lines)
    parts = [
        f"CREATE TABLE IF NOT EXISTS {local}{where} (\n    {body}\n)",
        f"ENGINE = {engine}({arguments})",
    ]
    if partition:
        parts.append(f"PARTITION BY {partition}")
    parts.append(f"ORDER BY {order}")
    if expires and shape.ttl_days is not None:
        kept = f"NOT startsWith(session_id, {literal(BANK)})"
        parts.append(f"TTL {expires} + INTERVAL {shape.ttl_days} DAY DELETE WHERE {kept}")
    parts.append("SETTINGS " + ", ".join(settings))
    if comment:
        parts.append(f"COMMENT {literal(comment)}")
    made = ["\n".join(parts)]
    if shape.cluster is not None:
        made.append(
            f"CREATE TABLE IF NOT EXISTS {name}{where} AS {local}\n"
            f"ENGINE = Distributed({literal(shape.cluster)}, currentDatabase(), "
            f"{literal(local)}, {shard})" + (f"\nCOMMENT {literal(comment)}" if comment else "")
        )
    return made


def tables(shape: TableOptions) -> list[str]:
    """The statements that make the tables, in order."""
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
    if shape.vectors is not None:
        cards.append(
            "INDEX embedding_idx embedding TYPE "
            f"vector_similarity('hnsw', 'cosineDistance', {shape.vectors})"
        )
    return [
        *_table(
            "record", record, "MergeTree", "",
            "(session_id, session_no, kind, number)", shape=shape,
            partition="toYYYYMM(day)", expires="day", comment=f"{COMMENT}{VERSION}",
            shard="cityHash64(session_id)",
        ),
        *_table(
            "bodies", bodies, "ReplacingMergeTree", "written", "key", shape=shape,
            shard="cityHash64(key)",  # who names a body may outlive it: `prune` removes it
        ),
        *_table(
            "context_cards", cards, "ReplacingMergeTree", "generated_at",
            "(session_id, content_hash, message_id)", shape=shape,
            partition="toYYYYMM(message_timestamp)", expires="toDate(message_timestamp)",
            shard="cityHash64(session_id)",
        ),
    ]  # fmt: skip


def script(shape: TableOptions) -> str:
    """All statements as one text, for `windlass schema clickhouse`."""
    statements = (*tables(shape), *views(shape.cluster))
    return "\n\n".join(f"{statement};" for statement in statements) + "\n"


def prepare_tables(
    client: ClickHouseClient, shape: TableOptions, *, existing: bool = False
) -> None:
    """Make the tables and views where they are missing.

    With `existing` UsageError is raised instead. Tables that somebody made with the printed
    script are taken as they are. Raises StoreError for tables of a newer Windlass, and
    UsageError where they expire otherwise than `shape` says.
    """
    found = client.select(
        "SELECT name, engine_full, comment FROM system.tables "
        "WHERE database = currentDatabase() AND name IN ('record', 'unified_logs')"
    )
    made = {str(name): (str(engine), str(comment)) for name, engine, comment in found}
    if "record" not in made:
        if existing:
            raise UsageError(
                f"there is no store at {client.target.shown}: run a cascade first, or name "
                "another with --store"
            )
        for statement in (*tables(shape), *views(shape.cluster)):
            client.command(statement)
        return
    engine, comment = made["record"]
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
    if cluster := re.match(r"Distributed\('([^']+)'", engine):
        client.cluster = cluster[1]
    elif shape.ttl_days is not None and f"toIntervalDay({shape.ttl_days})" not in engine:
        raise UsageError(
            f"the tables of {client.target.shown} are there already and do not expire after "
            f"{shape.ttl_days} days: run ALTER TABLE record MODIFY TTL day + INTERVAL "
            f"{shape.ttl_days} DAY DELETE WHERE NOT startsWith(session_id, {literal(BANK)}), "
            "or leave ttl_days out"
        )
    if "unified_logs" not in made:
        for statement in views(shape.cluster):
            client.command(statement)
