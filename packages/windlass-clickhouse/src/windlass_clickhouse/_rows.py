"""What is read of a session in a ClickHouse store: rows whose batch is committed, and its cards.

ClickHouse replaces the cards of one key by the newest when it merges; questions here and by
users (`final`) see the newest alone.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from windlass.public import NODES, PORTION, Card, canonical_json, card_of, packing
from windlass_clickhouse.client import ClickHouseClient, Parameter
from windlass_clickhouse.layout import CARDS, LOG_PHYSICAL, VISIBLE

_CARDS: Final = 1_000
"""Cards that are written at a time."""

KINDS: Final[dict[type[Any], str]] = {
    packing.CallRow: "call",
    packing.EditRow: "edit",
    packing.StateRow: "state",
    packing.OutcomeRow: "outcome",
    packing.ImageRow: "image",
}
"""The `kind` of the rows of `record` that hold those of a table."""

MESSAGE_ID: Final = "concat(substring(key, 1, 16), '-', toString(occurrence))"


class ClickHouseSession:
    """One session, as `SessionReader` has it.

    `started` (seconds since 1970) and `cascade_id` stand in each of its rows.
    """

    def __init__(
        self, client: ClickHouseClient, name: str, number: int, started: float, cascade_id: str
    ) -> None:
        self.client = client
        self.name = packing.text(name)
        self.number = number
        self.started = started
        self.cascade_id = cascade_id

    def select(
        self, what: str, kind: str, more: str = "", **values: Parameter
    ) -> list[tuple[Any, ...]]:
        """Return these columns of its rows of a kind."""
        return self.client.select(
            f"SELECT {what} FROM record WHERE session_id = {{name:String}} "
            f"AND session_no = {{no:UInt64}} AND kind = {{kind:String}} AND {VISIBLE} {more}",
            name=self.name,
            no=self.number,
            kind=kind,
            **values,
        )

    def start(self) -> packing.SessionRow:
        """Return how it began."""
        ((values,),) = self.select("json", "start", "ORDER BY written LIMIT 1")
        return packing.SessionRow(self.name, *json.loads(values))

    def log(self, after: int = 0, phase: str | None = None) -> list[packing.LogRow]:
        """Return the first rows behind number `after`."""
        more = "" if phase is None else "AND phase_name = {phase:String} "
        return self._log(more, after, PORTION, phase=packing.text(phase or ""))

    def _log(self, more: str, after: int, limit: int, **values: Parameter) -> list[packing.LogRow]:
        more += "AND number > {after:UInt32} ORDER BY number LIMIT {limit:UInt32}"
        stored = self.select(LOG_PHYSICAL, "row", more, after=after, limit=limit, **values)
        rows = map(packing.LogRow._make, stored)
        return [
            row._replace(key=row.key or None, occurrence=row.occurrence or None) for row in rows
        ]

    def table(self, kind: type[packing.TableRow]) -> list[packing.TableRow]:
        """Return its rows of another table."""
        columns = self.select("json", KINDS[kind], "ORDER BY number")
        rows = [kind(*json.loads(values)) for (values,) in columns]
        return sorted(rows, key=attrgetter("seq", "number")) if kind is packing.ImageRow else rows

    def results(self) -> list[tuple[str, str]]:
        """Return (Reference, key) of the results that have a visible file."""
        stored = [json.loads(values) for (values,) in self.select("json", "result")]
        return sorted((ref, key) for ref, key, _ in stored)

    def extra_bodies(self) -> set[str]:
        """Return the bodies that calls and edits brought."""
        return {key for (key,) in self.select("key", "made")}

    def tool_lists(self) -> dict[str, str]:
        """Return the tools that its calls sent."""
        return dict(self.select("key, json", "tools"))

    def commits(self) -> list[tuple[Any, ...]]:
        """Return number and digest of each batch, as its commits have them."""
        return self.select("batch, key", "commit", "ORDER BY number, written")

    def digests(self) -> dict[int, str]:
        """Return the digest of each batch."""
        return dict(self.commits())

    def last_batch(self) -> tuple[int, str] | None:
        """Return number and digest of the last batch."""
        last = self.select("batch, key", "commit", "ORDER BY number DESC LIMIT 1")
        return (int(last[0][0]), str(last[0][1])) if last else None

    def has_body(self, key: str) -> bool:
        """Return whether the store has a body of that key."""
        sql = "SELECT 1 FROM bodies WHERE key = {key:String} LIMIT 1"
        return bool(self.client.select(sql, key=key))

    def traces_among(self, traces: list[str]) -> list[str]:
        """Return those of these traces that the session has rows of."""
        more = "AND trace_id IN {traces:Array(String)}"
        return [trace for (trace,) in self.select("trace_id", "row", more, traces=traces)]

    # ---- cards ----------------------------------------------------------------------

    def cards(self) -> list[Card]:
        """Return the cards of its messages, in their order."""
        stored = self.client.select(
            "SELECT message_id, content_hash, summary, keywords, estimated_tokens, role, "
            "nullIf(phase_name, ''), turn_number, is_anchor, if(is_callout, callout_name, NULL), "
            "embedding, embedding_model, generator_model, toUnixTimestamp(generated_at) "
            "FROM context_cards FINAL WHERE session_id = {name:String}",
            name=self.name,
        )
        by_id = {values[0]: card_of(values, list, list) for values in stored}
        ids = self.select(MESSAGE_ID, "row", "AND key != '' ORDER BY number") if by_id else []
        return [by_id[message_id] for (message_id,) in ids if message_id in by_id]

    def without_cards(self, after: int, limit: int) -> list[packing.LogRow]:
        """Return the first rows behind `after` whose messages may have a card and have none."""
        nodes = ", ".join(repr(str(node)) for node in NODES)
        more = (
            f"AND key != '' AND node_type IN ({nodes}) AND {MESSAGE_ID} NOT IN "
            "(SELECT message_id FROM context_cards WHERE session_id = {name:String}) "
        )
        return self._log(more, after, limit)

    def put_cards(self, cards: Sequence[Card]) -> None:
        """Write cards, in inserts that are written once however often they are sent.

        Left out are cards of messages that are not there, and those older than the card that is.
        """
        for at in range(0, len(cards), _CARDS):
            portion = cards[at : at + _CARDS]
            ids = [card.id for card in portion]
            times = dict(
                self.select(
                    f"{MESSAGE_ID} AS id, at",
                    "row",
                    "AND key != '' AND content_hash IN {hashes:Array(String)} "
                    "AND id IN {ids:Array(String)}",
                    hashes=sorted({message_id.rpartition("-")[0] for message_id in ids}),
                    ids=ids,
                )
            )
            newest = dict(
                self.client.select(
                    "SELECT message_id, toUnixTimestamp(max(generated_at)) FROM context_cards "
                    "WHERE session_id = {name:String} AND message_id IN {ids:Array(String)} "
                    "GROUP BY message_id",
                    name=self.name,
                    ids=ids,
                )
            )
            rows = [
                self._card_row(card, times[card.id])
                for card in portion
                if card.id in times and card.generated_at >= newest.get(card.id, 0)
            ]
            text = canonical_json([self.number, [[str(value) for value in row] for row in rows]])
            token = hashlib.sha256(text.encode()).hexdigest()
            self.client.insert("context_cards", CARDS, rows, f"cards/{token}")

    def _card_row(self, card: Card, at: float) -> list[Any]:
        return [
            self.name,
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
            dt.datetime.fromtimestamp(card.generated_at, dt.UTC),
            packing.text(card.generator_model),
            dt.datetime.fromtimestamp(int(at), dt.UTC),
            card.id,
        ]
