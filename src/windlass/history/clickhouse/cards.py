"""Cards in a ClickHouse store: functions from a client to values.

The table is the document's own. ClickHouse replaces rows of one key by the newest when it
merges; questions here and by users (`final`) see the newest alone.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import datetime as dt
import hashlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final

from windlass.cards.card import Card
from windlass.history import packing
from windlass.history import reading as values_of
from windlass.history.base import Discrepancy, StoredRow
from windlass.history.blob_places import BlobPlace
from windlass.history.cards import NODES
from windlass.history.clickhouse import reading
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.tables import CARDS
from windlass.history.clickhouse.views import VISIBLE
from windlass.history.clickhouse.writing import LOG_PHYSICAL
from windlass.messages import canonical_json

_ID: Final = "concat(substring(key, 1, 16), '-', toString(occurrence))"
_ROWS: Final = (
    "FROM record WHERE session_id = {name:String} AND session_no = {no:UInt64} "
    f"AND kind = 'row' AND key != '' AND {VISIBLE}"
)
_NAMES: Final = ", ".join(name for name, _ in CARDS)
_PORTION: Final = 2_000
"""Cards that one insert has."""

_KEYS: Final = 1_000
"""Ids asked for at a time."""


def put(client: ClickHouseClient, session_id: str, session: int, cards: Sequence[Card]) -> None:
    """Write cards, in inserts that are written once however often they are sent."""
    said = _said(client, session_id, session, [card.id for card in cards])
    there = _newest(client, session_id, [card.id for card in cards])
    rows = [
        _row(session_id, card, said[card.id])
        for card in cards
        if card.id in said and card.generated_at >= there.get(card.id, 0)
    ]
    for at in range(0, len(rows), _PORTION):
        portion = rows[at : at + _PORTION]
        told = canonical_json([session, [[str(value) for value in row] for row in portion]])
        token = hashlib.sha256(told.encode()).hexdigest()
        client.insert("context_cards", CARDS, portion, f"cards/{token}")


def _said(
    client: ClickHouseClient, session_id: str, session: int, ids: list[str]
) -> dict[str, float]:
    """When the messages were said; those that are not there are left out."""
    found: dict[str, float] = {}
    for at in range(0, len(ids), _KEYS):
        stored = client.select(
            f"SELECT {_ID} AS id, at {_ROWS} AND content_hash IN {{hashes:Array(String)}} "
            "AND id IN {ids:Array(String)}",
            name=packing.text(session_id),
            no=session,
            hashes=sorted({one.rpartition("-")[0] for one in ids[at : at + _KEYS]}),
            ids=ids[at : at + _KEYS],
        )
        found.update((str(one), float(when)) for one, when in stored)
    return found


def _newest(client: ClickHouseClient, session_id: str, ids: list[str]) -> dict[str, int]:
    """When the cards that are there were made."""
    found: dict[str, int] = {}
    for at in range(0, len(ids), _KEYS):
        stored = client.select(
            "SELECT message_id, toUnixTimestamp(max(generated_at)) FROM context_cards "
            "WHERE session_id = {name:String} AND message_id IN {ids:Array(String)} "
            "GROUP BY message_id",
            name=packing.text(session_id),
            ids=ids[at : at + _KEYS],
        )
        found.update((str(one), int(when)) for one, when in stored)
    return found


def _row(session_id: str, card: Card, said: float) -> list[Any]:
    return [
        packing.text(session_id),
        card.content_hash,
        packing.text(card.summary),
        [packing.text(word) for word in card.keywords],
        list(card.embedding),
        packing.text(card.embedding_model),
        card.tokens,
        card.role,
        packing.text(card.phase or ""),
        card.turn,
        card.is_anchor,
        card.is_callout,
        packing.optional(card.callout),
        _time(card.generated_at),
        packing.text(card.generator_model),
        _time(said),
        card.id,
    ]


def _time(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC)


def cards(client: ClickHouseClient, session_id: str, session: int) -> list[Card]:
    """The cards of a session's messages, in their order."""
    stored = client.select(
        f"SELECT {_NAMES.replace('generated_at', 'toUnixTimestamp(generated_at)')} "
        "FROM context_cards FINAL WHERE session_id = {name:String}",
        name=packing.text(session_id),
    )
    if not stored:
        return []
    found = {card.id: card for card in map(_card, stored)}
    ids = client.select(
        f"SELECT {_ID} {_ROWS} ORDER BY number", name=packing.text(session_id), no=session
    )
    return [found[message_id] for (message_id,) in ids if message_id in found]


def _card(values: tuple[Any, ...]) -> Card:
    (
        _, content_hash, summary, keywords, embedding, embedding_model, tokens, role, phase, turn,
        anchor, is_callout, callout, generated_at, generator, _, message_id,
    ) = values  # fmt: skip
    return Card(
        id=message_id,
        content_hash=content_hash,
        summary=summary,
        keywords=tuple(keywords),
        tokens=int(tokens),
        role=role,
        phase=phase or None,
        turn=turn,
        is_anchor=bool(anchor),
        callout=callout if is_callout else None,
        embedding=array("f", embedding) if len(embedding) else (),
        embedding_model=embedding_model,
        generator_model=generator,
        generated_at=int(generated_at),
    )


def waiting(
    client: ClickHouseClient,
    blobs: BlobPlace,
    session_id: str,
    session: int,
    *,
    after: int,
    limit: int,
) -> list[StoredRow]:
    """Rows behind `after` whose message may have a card and has none, in order."""
    stored = client.select(
        f"SELECT {', '.join(LOG_PHYSICAL)} {_ROWS} AND number > {{after:UInt32}} "
        f"AND node_type IN ({', '.join(repr(str(node)) for node in NODES)}) AND {_ID} NOT IN "
        "(SELECT message_id FROM context_cards WHERE session_id = {name:String}) "
        "ORDER BY number LIMIT {limit:UInt32}",
        name=packing.text(session_id),
        no=session,
        after=after,
        limit=limit,
    )
    rows = [reading.log_values(one) for one in stored]
    keys = [values[packing.LOG_COLUMNS.index("key")] for values in rows]
    found = reading.messages(client, blobs, keys)
    return [
        values_of.stored_row(session_id, values[1], values[3:], found[key])
        for values, key in zip(rows, keys, strict=True)
    ]


def verify(client: ClickHouseClient) -> Iterator[Discrepancy]:
    """Cards that no selection will ever see."""
    lost = client.select(
        "SELECT DISTINCT session_id, message_id FROM context_cards WHERE (session_id, message_id) "
        f"NOT IN (SELECT session_id, {_ID} FROM record WHERE kind = 'row' AND key != '' "
        f"AND {VISIBLE})"
    )
    for session_id, message_id in lost:
        yield Discrepancy(f"session {session_id!r}, card {message_id}", "is of no message", "note")
