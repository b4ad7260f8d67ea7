"""The tables and views of a SQLite store, version by version.

What stands here is frozen: a store on somebody's disk was made by these words. A
change is a new function in `migrations.py`, never an edit of this file.

Tables are only ever added to; `prune` alone deletes. Times are seconds since
1970. Any SQLite client can read the views. Where a body lies in a file, `unified_logs` has its
beginning; connections that `connect.py` made for reading have it whole.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from typing import Final

TABLES_1: Final = (
    # AUTOINCREMENT, because a number must not come back after `prune`: another process
    # may still remember what it knew under it.
    """
    CREATE TABLE sessions (
        session_no INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL UNIQUE,
        cascade_id TEXT NOT NULL,
        model TEXT NOT NULL,
        started REAL NOT NULL,
        input_json TEXT NOT NULL,
        cascade_json TEXT NOT NULL
    )
    """,
    # One row an append. The digest covers every row of the batch and the digest before
    # it, so that a row changed or removed by other hands is found.
    """
    CREATE TABLE batches (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (session_no, number)
    ) WITHOUT ROWID
    """,
    # `body` is the canonical JSON whose SHA-256 is the key; NULL: it is the blob of that name.
    """
    CREATE TABLE bodies (
        key TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        chars INTEGER NOT NULL,
        tool_calls INTEGER NOT NULL,
        preview TEXT,
        body TEXT
    )
    """,
    """
    CREATE TABLE body_pictures (
        key TEXT NOT NULL REFERENCES bodies,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (key, sha256)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE log (
        session_no INTEGER NOT NULL REFERENCES sessions,
        seq INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        trace_id TEXT NOT NULL,
        parent_id TEXT,
        timestamp REAL NOT NULL,
        node_type TEXT NOT NULL CHECK (node_type IN (
            'system', 'user', 'agent', 'follow_up', 'tool_result', 'validation',
            'context_injection', 'context_selection', 'decision', 'error')),
        phase TEXT,
        turn INTEGER,
        attempt INTEGER,
        sounding_index INTEGER,
        key TEXT REFERENCES bodies,
        occurrence INTEGER,
        model TEXT,
        tokens_in INTEGER,
        tokens_out INTEGER,
        tokens_cached INTEGER,
        cost REAL,
        duration_ms REAL,
        full_history_size INTEGER,
        context_size INTEGER,
        tokens_saved INTEGER,
        metadata_json TEXT NOT NULL,
        keep_pictures INTEGER NOT NULL,
        PRIMARY KEY (session_no, seq)
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX log_trace ON log (trace_id, session_no)",
    # The definitions of the tools of a call, once for all calls that sent the same.
    "CREATE TABLE tool_lists (sha256 TEXT PRIMARY KEY NOT NULL, tools_json TEXT NOT NULL)",
    # `window_json` and `bodies_json` hold what is new against call number `base`
    # (packing.py has the form), so that a session does not grow with the square of its calls.
    """
    CREATE TABLE calls (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        trace_id TEXT NOT NULL,
        model TEXT NOT NULL,
        request_hash TEXT NOT NULL,
        sent_tokens INTEGER NOT NULL,
        full_tokens INTEGER NOT NULL,
        tools TEXT NOT NULL REFERENCES tool_lists,
        base INTEGER,
        entries INTEGER NOT NULL,
        window_json TEXT NOT NULL,
        bodies_json TEXT NOT NULL,
        details_json TEXT NOT NULL,
        PRIMARY KEY (session_no, number)
    )
    """,
    # Which bodies a call or an edit brought with it; `prune` asks who still uses them.
    """
    CREATE TABLE made_bodies (
        session_no INTEGER NOT NULL REFERENCES sessions,
        key TEXT NOT NULL REFERENCES bodies,
        PRIMARY KEY (session_no, key)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE edits (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('replace', 'drop')),
        because TEXT NOT NULL,
        reason TEXT NOT NULL,
        replacement TEXT REFERENCES bodies,
        PRIMARY KEY (session_no, number)
    )
    """,
    """
    CREATE TABLE state (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        phase TEXT NOT NULL,
        key TEXT NOT NULL,
        value_json TEXT NOT NULL,
        PRIMARY KEY (session_no, number)
    )
    """,
    """
    CREATE TABLE outcomes (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        phase TEXT,
        status TEXT NOT NULL
            CHECK (status IN ('completed', 'incomplete', 'failed', 'interrupted')),
        timestamp REAL NOT NULL,
        output_trace TEXT,
        error TEXT,
        hidden INTEGER NOT NULL,
        details_json TEXT NOT NULL,
        PRIMARY KEY (session_no, number)
    )
    """,
    # Visible names: of the pictures a phase made, and of results that a window shortened.
    # Names are paths under the store's folder, with `/` between their parts.
    """
    CREATE TABLE images (
        session_no INTEGER NOT NULL REFERENCES sessions,
        phase TEXT NOT NULL,
        number INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (session_no, phase, number),
        FOREIGN KEY (session_no, seq) REFERENCES log
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tool_results (
        session_no INTEGER NOT NULL REFERENCES sessions,
        ref TEXT NOT NULL,
        key TEXT NOT NULL REFERENCES bodies,
        name TEXT NOT NULL,
        PRIMARY KEY (session_no, ref)
    ) WITHOUT ROWID
    """,
)


def iso(seconds: str) -> str:
    """SQL for a time as ISO-8601 text in UTC with microseconds (strftime stops at thousandths)."""
    micros = f"CAST(round({seconds} * 1000000.0) AS INTEGER)"
    return (
        f"strftime('%Y-%m-%dT%H:%M:%S', {micros} / 1000000, 'unixepoch')"
        f" || printf('.%06dZ', {micros} % 1000000)"
    )


_PREVIEW = "coalesce(b.preview, substr(json_extract(b.body, '$.content'), 1, 200))"

VIEWS_1: Final = (
    # Without ORDER BY, or SQLite would make every column of it, reading every blob, before
    # it adds up one. The condition that always holds makes it go by the primary key, and
    # so in the order of the record, where it would else scan an index for no reason.
    f"""
    CREATE VIEW unified_logs AS
    SELECT s.session_id, s.cascade_id, l.trace_id, l.parent_id,
        {iso("l.timestamp")} AS timestamp,
        l.node_type, l.phase AS phase_name, l.turn AS turn_number,
        l.attempt AS attempt_number, l.sounding_index, b.role,
        substr(l.key, 1, 16) AS content_hash,
        CASE WHEN b.key IS NOT NULL THEN windlass_content(b.key, b.body) END AS content_json,
        b.chars AS content_chars,
        CASE WHEN b.tool_calls THEN windlass_tool_calls(b.key, b.body) END AS tool_calls_json,
        l.model, l.tokens_in, l.tokens_out, l.tokens_cached, l.cost, l.duration_ms,
        l.full_history_size, l.context_size, l.tokens_saved, l.metadata_json
    FROM log l
    JOIN sessions s ON s.session_no = l.session_no
    LEFT JOIN bodies b ON b.key = l.key
    WHERE l.session_no > 0
    """,
    f"""
    CREATE VIEW conversation AS
    SELECT s.session_id, l.seq, l.phase, l.turn, l.attempt, l.node_type, b.role,
        substr(l.key, 1, 16) || '-' || l.occurrence AS id, b.chars, {_PREVIEW} AS preview
    FROM log l
    JOIN sessions s ON s.session_no = l.session_no
    LEFT JOIN bodies b ON b.key = l.key
    ORDER BY l.session_no, l.seq
    """,
    """
    CREATE VIEW call_list AS
    SELECT s.session_id, c.number AS call, l.phase, l.turn, c.model, l.tokens_in,
        l.tokens_cached, l.tokens_out, l.cost, c.sent_tokens,
        c.full_tokens AS snowball_tokens
    FROM calls c
    JOIN sessions s ON s.session_no = c.session_no
    LEFT JOIN log l ON l.session_no = c.session_no AND l.trace_id = c.trace_id
    ORDER BY c.session_no, c.number
    """,
    f"""
    CREATE VIEW lineage AS
    SELECT s.session_id, o.phase, o.status, {_PREVIEW} AS output,
        substr(l.key, 1, 16) AS content_hash, o.error
    FROM outcomes o
    JOIN sessions s ON s.session_no = o.session_no
    LEFT JOIN log l ON l.session_no = o.session_no AND l.trace_id = o.output_trace
    LEFT JOIN bodies b ON b.key = l.key
    ORDER BY o.session_no, o.number
    """,
    f"""
    CREATE VIEW session_list AS
    SELECT s.session_id, s.cascade_id, s.model, {iso("s.started")} AS started,
        {iso("o.timestamp")} AS ended, coalesce(o.status, 'running') AS status,
        (SELECT count(*) FROM calls c WHERE c.session_no = s.session_no) AS calls,
        coalesce(sum(l.tokens_in), 0) AS tokens_in,
        coalesce(sum(l.tokens_out), 0) AS tokens_out,
        coalesce(sum(l.tokens_cached), 0) AS tokens_cached,
        sum(l.cost) AS cost, o.error
    FROM sessions s
    LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = (
        SELECT max(p.number) FROM outcomes p
        WHERE p.session_no = s.session_no AND p.phase IS NULL)
    LEFT JOIN log l ON l.session_no = s.session_no
    GROUP BY s.session_no
    ORDER BY s.started DESC, s.session_no DESC
    """,
)

# ---- the second version: context cards -----------------------------------------------

# A card is derived data: it names its message by id and refers to nothing, so that one of no
# message is no damage.
TABLES_2: Final = (
    # `embedding` holds float32 numbers, little-endian; `generated_at` whole seconds.
    """
    CREATE TABLE cards (
        session_no INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        summary TEXT NOT NULL,
        keywords_json TEXT NOT NULL,
        embedding BLOB NOT NULL,
        embedding_model TEXT NOT NULL,
        estimated_tokens INTEGER NOT NULL,
        is_anchor INTEGER NOT NULL,
        callout_name TEXT,
        generated_at INTEGER NOT NULL,
        generator_model TEXT NOT NULL,
        PRIMARY KEY (session_no, message_id)
    )
    """,
)

_ID: Final = "substr(l.key, 1, 16) || '-' || l.occurrence"

# What a card says of its message's place is the message's own: it cannot disagree with it.
VIEWS_2: Final = (
    f"""
    CREATE VIEW context_cards AS
    SELECT s.session_id, substr(l.key, 1, 16) AS content_hash, c.summary,
        c.keywords_json AS keywords, c.embedding, c.embedding_model, c.estimated_tokens,
        b.role, coalesce(l.phase, '') AS phase_name, l.turn AS turn_number, c.is_anchor,
        c.callout_name IS NOT NULL AS is_callout, c.callout_name,
        {iso("c.generated_at")} AS generated_at, c.generator_model,
        {iso("l.timestamp")} AS message_timestamp, c.message_id
    FROM log l
    JOIN cards c ON c.session_no = l.session_no AND c.message_id = {_ID}
    JOIN sessions s ON s.session_no = l.session_no
    JOIN bodies b ON b.key = l.key
    """,
)

# ---- the third version: why a phase or session is incomplete, and the status `waiting` ---------

COLUMNS_2: Final = (
    "session_no, number, batch, phase, status, timestamp, output_trace, error, hidden, details_json"
)

DROPPED_3: Final = ("DROP VIEW lineage", "DROP VIEW session_list")

OUTCOMES_3: Final = """
    CREATE TABLE outcomes (
        session_no INTEGER NOT NULL REFERENCES sessions,
        number INTEGER NOT NULL,
        batch INTEGER NOT NULL,
        phase TEXT,
        status TEXT NOT NULL
            CHECK (status IN ('completed', 'incomplete', 'failed', 'interrupted', 'waiting')),
        timestamp REAL NOT NULL,
        output_trace TEXT,
        error TEXT,
        hidden INTEGER NOT NULL,
        details_json TEXT NOT NULL,
        reason TEXT CHECK (reason IS NULL OR status = 'incomplete' AND reason IN (
            'turns', 'length', 'empty', 'refusal', 'filter', 'money', 'tokens', 'time')),
        PRIMARY KEY (session_no, number)
    )
"""

VIEWS_3: Final = (
    VIEWS_1[3].replace("o.error\n", "o.error, o.reason\n"),
    VIEWS_1[4].replace("o.error\n", "o.error, o.reason\n"),
)

# ---- the fourth version: sessions under another ------------------------------

COLUMNS_4: Final = (
    "ALTER TABLE sessions ADD COLUMN parent_id TEXT",
    "ALTER TABLE sessions ADD COLUMN parent_phase TEXT",
    "ALTER TABLE sessions ADD COLUMN sounding_index INTEGER",
    "CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL",
    "DROP VIEW session_list",
)

VIEWS_4: Final = (
    VIEWS_3[1].replace(
        "o.error, o.reason\n",
        "o.error, o.reason, s.parent_id, s.parent_phase, s.sounding_index\n",
    ),
)

# ---- the fifth version: `unified_logs` for any client ------------------------


def _field(name: str, elsewhere: str) -> str:
    """SQL for a field of a body as JSON text; `elsewhere` is shown where the body is a file."""
    path = f"'$.{name}'"
    # SQLite ends a text at its first NUL, but not one that stands in an array.
    array = f"json_extract(b.body, {path}, '$.none')"
    written = f"substr({array}, 2, length({array}) - length('[,null]'))"
    return f"""CASE WHEN b.body IS NULL THEN json_quote({elsewhere})
            WHEN instr(b.body, '\\u0000') THEN nullif({written}, 'null')
            ELSE nullif(json_quote(json_extract(b.body, {path})), 'null') END"""


VIEWS_5: Final = (
    "DROP VIEW main.unified_logs",
    VIEWS_1[0]
    .replace("VIEW unified_logs", "VIEW main.unified_logs")
    .replace(
        "windlass_content(b.key, b.body)",
        _field("content", "b.preview || ' [the beginning; `windlass query` shows all]'"),
    )
    .replace(
        "windlass_tool_calls(b.key, b.body)",
        _field("tool_calls", "'[' || b.tool_calls || ' calls; `windlass query` shows them]'"),
    ),
)

WHOLE_LOGS: Final = VIEWS_1[0].replace("CREATE VIEW", "CREATE TEMP VIEW")
"""`unified_logs` of a connection that can read the files of bodies, over the one of the store."""
