"""The table of context cards in a SQLite store, and the document's view of it.

Frozen like `schema.py`: a change is a new step in `migrations.py`. A card is derived data: it
names its message by id and refers to nothing, so that one of no message is no damage.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from typing import Final

from windlass.history.schema import iso

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
