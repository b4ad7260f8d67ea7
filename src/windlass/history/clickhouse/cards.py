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

from windlass.history import packing
from windlass.history.base import Discrepancy
from windlass.history.cards import NODES
from windlass.history.clickhouse.client import ClickHouseClient
from windlass.history.clickhouse.reading import ClickHouseSession, log_row
from windlass.history.clickhouse.tables import CARDS, LOG_PHYSICAL, VISIBLE
from windlass.history.packing import LogRow
from windlass.messages import canonical_json
from windlass.selection.card import Card

_ID: Final = "concat(substring(key, 1, 16), '-', toString(occurrence))"
_NAMES: Final = ", ".join(name for name, _ in CARDS)
_PORTION: Final = 2_000
"""Cards that one insert has."""

_KEYS: Final = 1_000
"""Ids asked for at a time."""


def put(session: ClickHouseSession, cards: Sequence[Card]) -> None:
    """Write cards, in inserts that are written once however often they are sent."""
    ids = [card.id for card in cards]
    times = _times_of(session, ids)
    newest = _newest(session, ids)
    rows = [
        _row(session.name, card, times[card.id])
        for card in cards
        if card.id in times and card.generated_at >= newest.get(card.id, 0)
    ]
    for at in range(0, len(rows), _PORTION):
        portion = rows[at : at + _PORTION]
        text = canonical_json([session.number, [[str(value) for value in row] for row in portion]])
        token = hashlib.sha256(text.encode()).hexdigest()
        session.client.insert("context_cards", CARDS, portion, f"cards/{token}")


def _times_of(session: ClickHouseSession, ids: list[str]) -> dict[str, float]:
    """When the messages were said; those that are not there are left out."""
    times: dict[str, float] = {}
    for at in range(0, len(ids), _KEYS):
        some = ids[at : at + _KEYS]
        more = "AND content_hash IN {hashes:Array(String)} AND id IN {ids:Array(String)}"
        hashes = sorted({message_id.rpartition("-")[0] for message_id in some})
        times.update(
            session.select(
                f"{_ID} AS id, at", "row", f"AND key != '' {more}", hashes=hashes, ids=some
            )
        )
    return times


def _newest(session: ClickHouseSession, ids: list[str]) -> dict[str, int]:
    """When the cards that are there were made."""
    times: dict[str, int] = {}
    for at in range(0, len(ids), _KEYS):
        stored = session.client.select(
            "SELECT message_id, toUnixTimestamp(max(generated_at)) FROM context_cards "
            "WHERE session_id = {name:String} AND message_id IN {ids:Array(String)} "
            "GROUP BY message_id",
            name=session.name,
            ids=ids[at : at + _KEYS],
        )
        times.update(stored)
    return times


def _row(session_id: str, card: Card, at: float) -> list[Any]:
    return [
        session_id,
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
        _time(at),
        card.id,
    ]


def _time(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC)


def cards(session: ClickHouseSession) -> list[Card]:
    """The cards of a session's messages, in their order."""
    stored = session.client.select(
        f"SELECT {_NAMES.replace('generated_at', 'toUnixTimestamp(generated_at)')} "
        "FROM context_cards FINAL WHERE session_id = {name:String}",
        name=session.name,
    )
    if not stored:
        return []
    by_id = {card.id: card for card in map(_card, stored)}
    ids = session.select(_ID, "row", "AND key != '' ORDER BY number")
    return [by_id[message_id] for (message_id,) in ids if message_id in by_id]


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


def without_cards(session: ClickHouseSession, after: int, limit: int) -> list[LogRow]:
    """Rows behind `after` whose message may have a card and has none, in order."""
    more = (
        "AND key != '' AND number > {after:UInt32} "
        f"AND node_type IN ({', '.join(repr(str(node)) for node in NODES)}) AND {_ID} NOT IN "
        "(SELECT message_id FROM context_cards WHERE session_id = {name:String}) "
        "ORDER BY number LIMIT {limit:UInt32}"
    )
    stored = session.select(LOG_PHYSICAL, "row", more, after=after, limit=limit)
    return [log_row(values) for values in stored]


def verify(client: ClickHouseClient) -> Iterator[Discrepancy]:
    """Cards that no selection will ever see."""
    lost = client.select(
        "SELECT DISTINCT session_id, message_id FROM context_cards WHERE (session_id, message_id) "
        f"NOT IN (SELECT session_id, {_ID} FROM record WHERE kind = 'row' AND key != '' "
        f"AND {VISIBLE})"
    )
    for session_id, message_id in lost:
        yield Discrepancy(f"session {session_id!r}, card {message_id}", "is of no message", "note")
