"""Cards in a SQLite store: functions from a connection to values.

Cards are derived: what is lost with the power is made again, so that they need not wait for
the disk.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import sqlite3
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final

from windlass.cards.card import Card
from windlass.history import packing, reading
from windlass.history.base import Discrepancy, StoredRow
from windlass.history.blobs import Blobs
from windlass.history.cards import NODES

_OWN: Final = (
    "message_id", "summary", "keywords_json", "embedding", "embedding_model",
    "estimated_tokens", "is_anchor", "callout_name", "generated_at", "generator_model",
)  # fmt: skip
_ID: Final = "substr(l.key, 1, 16) || '-' || l.occurrence"
_CARD: Final = f"c.session_no = l.session_no AND c.message_id = {_ID}"

# A card of the same second is the newer one: it was put later.
_PUT: Final = (
    f"INSERT INTO cards (session_no, {', '.join(_OWN)}) "
    f"VALUES (?{', ?' * len(_OWN)}) ON CONFLICT (session_no, message_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _OWN[1:])
    + " WHERE excluded.generated_at >= generated_at"
)
_READ: Final = f"""
    SELECT {", ".join("c." + name for name in _OWN)}, l.key, b.role, l.phase, l.turn
    FROM log l JOIN cards c ON {_CARD} JOIN bodies b ON b.key = l.key
    WHERE l.session_no = ? ORDER BY l.seq
"""
_WAITING: Final = f"""
    SELECT b.body, {", ".join("l." + name for name in packing.LOG_COLUMNS)}
    FROM log l JOIN bodies b ON b.key = l.key LEFT JOIN cards c ON {_CARD}
    WHERE l.session_no = ? AND l.seq > ? AND c.message_id IS NULL
        AND l.node_type IN ({", ".join(f"'{node}'" for node in NODES)})
    ORDER BY l.seq LIMIT ?
"""


def put(db: sqlite3.Connection, session: int, cards: Sequence[Card]) -> None:
    """Write cards; one that is older than the card that is there changes nothing."""
    db.executemany(_PUT, [(session, *_values(card)) for card in cards])


def _values(card: Card) -> tuple[Any, ...]:
    return (
        card.id,
        packing.text(card.summary),
        packing.to_json([packing.text(word) for word in card.keywords]),
        to_blob(card.embedding),
        packing.text(card.embedding_model),
        card.tokens,
        int(card.is_anchor),
        packing.optional(card.callout),
        card.generated_at,
        packing.text(card.generator_model),
    )


def cards(db: sqlite3.Connection, session: int) -> list[Card]:
    """The cards of a session's messages, in their order."""
    return [
        Card(
            id=message_id,
            content_hash=key[:16],
            summary=summary,
            keywords=tuple(json.loads(keywords)),
            tokens=tokens,
            role=role,
            phase=phase,
            turn=turn,
            is_anchor=bool(anchor),
            callout=callout,
            embedding=from_blob(embedding),
            embedding_model=embedding_model,
            generator_model=generator,
            generated_at=generated_at,
        )
        for (
            message_id, summary, keywords, embedding, embedding_model, tokens, anchor, callout,
            generated_at, generator, key, role, phase, turn,
        ) in db.execute(_READ, (session,))
    ]  # fmt: skip


def waiting(
    db: sqlite3.Connection, blobs: Blobs, session: int, session_id: str, *, after: int, limit: int
) -> list[StoredRow]:
    """Rows behind `after` whose message may have a card and has none, in order."""
    found: list[StoredRow] = []
    for body, _, seq, _, *values in db.execute(_WAITING, (session, after, limit)).fetchall():
        message = reading.decode(values[packing.OCCURRENCE - 1], body, blobs)
        found.append(reading.stored_row(session_id, seq, values, message))
    return found


def verify(db: sqlite3.Connection) -> Iterator[Discrepancy]:
    """Cards that no selection will ever see, and vectors that cannot be read."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cards'").fetchone():
        return  # of an older Windlass: the table is made when the store is opened for use
    for session, message_id, size in db.execute(
        "SELECT c.session_no, c.message_id, length(c.embedding) FROM cards c WHERE NOT EXISTS "
        f"(SELECT 1 FROM log l WHERE {_CARD}) OR length(c.embedding) % 4 != 0 "
        "OR (length(c.embedding) = 0) != (c.embedding_model = '')"
    ):
        where = f"session number {session}, card {message_id}"
        if size % 4:
            yield Discrepancy(where, "has a vector that cannot be read", "note")
        else:
            yield Discrepancy(where, "is of no message, or its vector of no model", "note")


def to_blob(vector: Sequence[float]) -> bytes:
    """A vector as float32 numbers, little-endian."""
    made = array("f", vector)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def from_blob(blob: bytes) -> Sequence[float]:
    """The vector of a blob; () for an empty one, or one that cannot be read."""
    if not blob or len(blob) % 4:
        return ()
    made = array("f", blob)
    if sys.byteorder == "big":
        made.byteswap()
    return made
