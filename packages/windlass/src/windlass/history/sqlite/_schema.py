"""The tables and views of a SQLite store, version by version.

What stands here is frozen: a store on somebody's disk was made by these words. Names, types and
order of columns are those of the rows in `packing.py`; a column that came later has a default
there. A change is a new function among those that migrate, never an edit of the tables.

Tables are only ever added to; `prune` alone deletes. Times are seconds since
1970. Any SQLite client can read the views. Where a body lies in a file, `unified_logs` has its
beginning; connections that `connect.py` made for reading have it whole.

How an older store becomes one of today: numbered steps, only ever added.

Each step runs in one transaction with the note that it ran (`PRAGMA user_version`).
The number of a step is its place in `STEPS`, from 1.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.packing import (
    BodyRow,
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
)
from windlass.safety.own_files import APPLICATION_ID

_TYPES: Final[dict[type, str]] = {int: "INTEGER", float: "REAL", str: "TEXT"}


def _columns(row: type[Any], names: Iterable[str], rules: Mapping[str, str]) -> str:
    """Get columns by the types of the fields of a row, each with what is to hold for it besides."""
    columns: list[str] = []
    for name, (kind, optional) in packing.column_types(row).items():
        words = [name, _TYPES[kind], "" if optional else "NOT NULL", rules.get(name, "")]
        columns += [" ".join(filter(None, words))] * (name in names)
    return ", ".join(columns)


def _first(row: type[Any]) -> list[str]:
    """Return the columns of the first version; those that came later have a default."""
    return [name for name in row._fields if name not in row._field_defaults]


def _table(
    name: str, row: type[Any], primary: str, end: str = "", *, later: bool = False, **rules: str
) -> str:
    """Return the statement that makes a table, of the first version or with what came later."""
    names = row._fields if later else _first(row)
    columns = _columns(row, names, {"session_no": "REFERENCES sessions", **rules})
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({primary}){end or ')'}"


_NUMBERED: Final = "session_no, number"
_NO_ROWID: Final = ") WITHOUT ROWID"

TABLES_1: Final = (
    # AUTOINCREMENT, because a number must not come back after `prune`: another process
    # may still remember what it knew under it.
    "CREATE TABLE sessions (session_no INTEGER PRIMARY KEY AUTOINCREMENT, "
    + _columns(SessionRow, _first(SessionRow), {"session_id": "UNIQUE"})
    + ")",
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
    f"CREATE TABLE bodies ({_columns(BodyRow, BodyRow._fields, {'key': 'PRIMARY KEY'})})",
    """
    CREATE TABLE body_pictures (
        key TEXT NOT NULL REFERENCES bodies,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (key, sha256)
    ) WITHOUT ROWID
    """,
    _table(
        "log", LogRow, "session_no, seq", _NO_ROWID, key="REFERENCES bodies",
        node_type="CHECK (node_type IN ('system', 'user', 'agent', 'follow_up', 'tool_result', "
        "'validation', 'context_injection', 'context_selection', 'decision', 'error'))",
    ),
    "CREATE UNIQUE INDEX log_trace ON log (trace_id, session_no)",
    # The definitions of the tools of a call, once for all calls that sent the same.
    "CREATE TABLE tool_lists (sha256 TEXT PRIMARY KEY NOT NULL, tools_json TEXT NOT NULL)",
    # `window_json` and `bodies_json` hold what is new against call number `base`
    # (packing.py has the form), so that a session does not grow with the square of its calls.
    _table("calls", CallRow, _NUMBERED, tools="REFERENCES tool_lists"),
    # Which bodies a call or an edit brought with it; `prune` asks who still uses them.
    """
    CREATE TABLE made_bodies (
        session_no INTEGER NOT NULL REFERENCES sessions,
        key TEXT NOT NULL REFERENCES bodies,
        PRIMARY KEY (session_no, key)
    ) WITHOUT ROWID
    """,
    _table(
        "edits", EditRow, _NUMBERED,
        kind="CHECK (kind IN ('replace', 'drop'))", replacement="REFERENCES bodies",
    ),
    _table("state", StateRow, _NUMBERED),
    _table(
        "outcomes", OutcomeRow, _NUMBERED,
        status="CHECK (status IN ('completed', 'incomplete', 'failed', 'interrupted'))",
    ),
    # Visible names: of the pictures a phase made, and of results that a window shortened.
    # Names are paths under the store's folder, with `/` between their parts.
    _table(
        "images", ImageRow, "session_no, phase, number",
        f", FOREIGN KEY (session_no, seq) REFERENCES log{_NO_ROWID}",
    ),
    """
    CREATE TABLE tool_results (
        session_no INTEGER NOT NULL REFERENCES sessions,
        ref TEXT NOT NULL,
        key TEXT NOT NULL REFERENCES bodies,
        name TEXT NOT NULL,
        PRIMARY KEY (session_no, ref)
    ) WITHOUT ROWID
    """,
)  # fmt: skip


def iso(seconds: str) -> str:
    """Return SQL for a time as ISO-8601 text in UTC with microseconds.

    Strftime stops at thousandths.
    """
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

COLUMNS_2: Final = ", ".join(_first(OutcomeRow))

DROPPED_3: Final = ("DROP VIEW lineage", "DROP VIEW session_list")

OUTCOMES_3: Final = _table(
    "outcomes", OutcomeRow, _NUMBERED, later=True,
    status="CHECK (status IN ('completed', 'incomplete', 'failed', 'interrupted', 'waiting'))",
    reason="CHECK (reason IS NULL OR status = 'incomplete' AND reason IN ("
    "'turns', 'length', 'empty', 'refusal', 'filter', 'money', 'tokens', 'time'))",
)  # fmt: skip

VIEWS_3: Final = (
    VIEWS_1[3].replace("o.error\n", "o.error, o.reason\n"),
    VIEWS_1[4].replace("o.error\n", "o.error, o.reason\n"),
)

# ---- the fourth version: sessions under another ------------------------------

COLUMNS_4: Final = (
    *(
        f"ALTER TABLE sessions ADD COLUMN {column}"
        for column in _columns(SessionRow, SessionRow._field_defaults, {}).split(", ")
    ),
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
    """Get SQL for a field of a body as JSON text; `elsewhere` is shown where the body is a file."""
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


Step: TypeAlias = Callable[[sqlite3.Connection], None]


def first(db: sqlite3.Connection) -> None:
    """The tables and views of the first version."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (*TABLES_1, *VIEWS_1):
        db.execute(statement)


def second(db: sqlite3.Connection) -> None:
    """Context cards."""
    for statement in (*TABLES_2, *VIEWS_2):
        db.execute(statement)


def third(db: sqlite3.Connection) -> None:
    """Why a phase or session is incomplete, and the status `waiting`.

    SQLite cannot change a CHECK, so the table is made anew; it is not renamed, because that
    reads all views, and some need functions that this connection may not have.
    """
    for statement in DROPPED_3:
        db.execute(statement)
    db.execute(f"CREATE TEMP TABLE older AS SELECT {COLUMNS_2} FROM outcomes")
    db.execute("DROP TABLE outcomes")
    db.execute(OUTCOMES_3)
    db.execute(f"INSERT INTO outcomes ({COLUMNS_2}) SELECT * FROM older")
    db.execute("DROP TABLE older")
    for statement in VIEWS_3:
        db.execute(statement)


def fourth(db: sqlite3.Connection) -> None:
    """The session under which a session ran as a sub-cascade."""
    for statement in (*COLUMNS_4, *VIEWS_4):
        db.execute(statement)


def fifth(db: sqlite3.Connection) -> None:
    """`unified_logs` without functions that only Windlass has."""
    for statement in VIEWS_5:
        db.execute(statement)


STEPS: Final[tuple[Step, ...]] = (first, second, third, fourth, fifth)
READABLE: Final = 4
"""The version from which on a store is read as it is: what came later is for other clients."""


def version(db: sqlite3.Connection) -> int:
    """Return how many steps this store has seen."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection, place: str, steps: Sequence[Step] = STEPS) -> None:
    """Bring the store up to the last step; `place` names it in errors.

    The connection must be in autocommit mode. Two processes may do this at once: each
    step is decided inside the write lock. Raises StoreError for a store newer than
    `steps`, or for a database that is not a Windlass store.
    """
    while (current := version(db)) < len(steps):
        try:
            db.execute("BEGIN IMMEDIATE")
            current = version(db)
            if current == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StoreError(
                    f"{place!r} is a SQLite database of something else: name another store folder"
                )
            if current < len(steps):
                steps[current](db)
                db.execute(f"PRAGMA user_version = {current + 1}")
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
    if current > len(steps):
        raise StoreError(
            f"the store {place!r} was written by a newer Windlass (its version {current}, "
            f"this one knows {len(steps)}): update Windlass, or name another store"
        )
