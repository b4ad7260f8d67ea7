"""What is read of a SQLite store: a session's rows, lists of sessions, cards.

Only what is asked for is loaded, and a session's rows come in portions.
"""

# Table and column names are constants of this package; values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import sqlite3
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from windlass.history import packing
from windlass.history.base import BANK, Discrepancy, Outcome, SessionInfo
from windlass.history.cards import NODES
from windlass.history.packing import (
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.history.reading import PORTION, outcome_of
from windlass.selection.card import Card

_Row = TypeVar("_Row", LogRow, CallRow, EditRow, StateRow, OutcomeRow, ImageRow)

_RECENT: Final = 10
"""Sessions that a message about an unknown one names."""

_TABLES: Final = {
    CallRow: "calls", EditRow: "edits", StateRow: "state", OutcomeRow: "outcomes",
    ImageRow: "images",
}  # fmt: skip

_ID: Final = "substr(l.key, 1, 16) || '-' || l.occurrence"
_CARD: Final = f"c.session_no = l.session_no AND c.message_id = {_ID}"


class SqliteSession:
    """One session, as `reading.SessionReader` has it; `fetch` gives the rows of a SELECT."""

    def __init__(self, fetch: Callable[[str, Mapping[str, Any]], list[Any]], number: int) -> None:
        self.number = number
        self._fetch = fetch

    def _select(self, what: str, **values: Any) -> list[Any]:
        return self._fetch(f"SELECT {what}", {"session": self.number, **values})

    def _rows(self, table: str, kind: type[_Row], more: str, **values: Any) -> list[_Row]:
        columns = ", ".join(f"l.{name}" for name in kind._fields)
        sql = f"{columns} FROM {table} l WHERE l.session_no = :session {more}"
        return [kind._make(row) for row in self._select(sql, **values)]

    def start(self) -> SessionRow:
        """How it began."""
        columns = ", ".join(SessionRow._fields)
        return SessionRow(*self._select(f"{columns} FROM sessions WHERE session_no = :session")[0])

    def log(self, after: int = 0, phase: str | None = None) -> list[LogRow]:
        """The first rows behind number `after`."""
        more = "AND l.seq > :after" + ("" if phase is None else " AND l.phase = :phase")
        more += f" ORDER BY l.seq LIMIT {PORTION}"
        return self._rows("log", LogRow, more, after=after, phase=phase)

    def table(self, kind: type[TableRow]) -> list[TableRow]:
        """Its rows of another table."""
        order = "seq, number" if kind is ImageRow else "number"
        return self._rows(_TABLES[kind], kind, f"ORDER BY {order}")

    def results(self) -> list[tuple[str, str]]:
        """(Reference, key) of the results that have a visible file."""
        return self._select("ref, key FROM tool_results WHERE session_no = :session ORDER BY ref")

    def extra_bodies(self) -> set[str]:
        """The bodies that calls and edits brought."""
        return {key for (key,) in self._select("key FROM made_bodies WHERE session_no = :session")}

    def tool_lists(self) -> dict[str, str]:
        """The tools that its calls sent."""
        return dict(
            self._select(
                "sha256, tools_json FROM tool_lists WHERE sha256 IN "
                "(SELECT tools FROM calls WHERE session_no = :session)"
            )
        )

    def digests(self) -> dict[int, str]:
        """The digest of each batch."""
        return dict(self._select("number, digest FROM batches WHERE session_no = :session"))

    def last_batch(self) -> tuple[int, str] | None:
        """Number and digest of the last batch."""
        last = self._select(
            "number, digest FROM batches WHERE session_no = :session ORDER BY number DESC LIMIT 1"
        )
        return last[0] if last else None

    def highest(self) -> dict[str, int]:
        """The highest number of each table."""
        columns = {"rows": "max(seq) FROM log"} | {
            table: f"max(number) FROM {table}" for table in ("calls", "edits", "state", "outcomes")
        }
        return {
            name: self._select(f"{column} WHERE session_no = :session")[0][0] or 0
            for name, column in columns.items()
        }

    def occurrences(self) -> dict[str, int]:
        """How often each message occurs."""
        return dict(
            self._select(
                "substr(key, 1, 16), max(occurrence) FROM log "
                "WHERE session_no = :session AND key IS NOT NULL GROUP BY 1"
            )
        )

    def image_count(self, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        sql = "count(*) FROM images WHERE session_no = :session AND phase = :phase"
        return int(self._select(sql, phase=phase)[0][0])

    def has_body(self, key: str) -> bool:
        """Whether the store has a body of that key."""
        return bool(self._select("1 FROM bodies WHERE key = :key", key=key))

    def has_row(self, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        sql = "1 FROM log WHERE session_no = :session AND trace_id = :trace"
        return bool(self._select(sql, trace=trace_id))

    # ---- cards ----------------------------------------------------------------------

    def cards(self) -> list[Card]:
        """The cards of its messages."""
        own = ", ".join(f"c.{name}" for name in _CARD_COLUMNS)
        stored = self._select(
            f"{own}, l.key, b.role, l.phase, l.turn "
            f"FROM log l JOIN cards c ON {_CARD} JOIN bodies b ON b.key = l.key "
            "WHERE l.session_no = :session ORDER BY l.seq"
        )
        return [_card(values) for values in stored]

    def without_cards(self, after: int, limit: int) -> list[LogRow]:
        """The first rows behind `after` whose messages may have a card and have none."""
        nodes = ", ".join(f"'{node}'" for node in NODES)
        more = (
            f"AND l.seq > :after AND l.node_type IN ({nodes}) "
            "AND l.key IN (SELECT key FROM bodies) "
            f"AND NOT EXISTS (SELECT 1 FROM cards c WHERE {_CARD}) ORDER BY l.seq LIMIT :limit"
        )
        return self._rows("log", LogRow, more, after=after, limit=limit)


# ---- all sessions -------------------------------------------------------------------


def recent(db: sqlite3.Connection) -> Iterator[str]:
    """Names of the newest sessions."""
    for (name,) in db.execute(
        "SELECT session_id FROM sessions ORDER BY session_no DESC LIMIT ?", (_RECENT,)
    ):
        yield name


def endings(db: sqlite3.Connection, sessions: int) -> list[Outcome | None]:
    """How the last so many sessions ended, newest first; None: there is no word of it."""
    columns = ", ".join(f"o.{name}" for name in OutcomeRow._fields)
    stored = db.execute(
        f"SELECT {columns} "
        "FROM (SELECT session_no FROM sessions WHERE substr(session_id, 1, length(:bank)) <> :bank "
        "ORDER BY session_no DESC LIMIT :sessions) s "
        "LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = ("
        "SELECT max(p.number) FROM outcomes p WHERE p.session_no = s.session_no "
        "AND p.phase IS NULL) ORDER BY s.session_no DESC",
        {"bank": BANK, "sessions": sessions},
    )
    return [None if values[0] is None else outcome_of(OutcomeRow(*values)) for values in stored]


def sessions(db: sqlite3.Connection, limit: int | None) -> list[SessionInfo]:
    """Sessions, newest first."""
    # The last ones are picked before anything is added up over their rows.
    stored = db.execute(
        """
        WITH picked AS (
            SELECT * FROM sessions ORDER BY started DESC, session_no DESC LIMIT ?)
        SELECT s.session_id, s.cascade_id, s.model, s.started, o.timestamp,
            coalesce(o.status, 'running'),
            (SELECT count(*) FROM calls c WHERE c.session_no = s.session_no),
            coalesce(sum(l.tokens_in), 0), coalesce(sum(l.tokens_out), 0),
            coalesce(sum(l.tokens_cached), 0), sum(l.cost), o.error
        FROM picked s
        LEFT JOIN outcomes o ON o.session_no = s.session_no AND o.number = (
            SELECT max(p.number) FROM outcomes p
            WHERE p.session_no = s.session_no AND p.phase IS NULL)
        LEFT JOIN log l ON l.session_no = s.session_no
        GROUP BY s.session_no
        ORDER BY s.started DESC, s.session_no DESC
        """,
        (-1 if limit is None else limit,),
    )
    return [SessionInfo(*values) for values in stored]


def used_blobs(db: sqlite3.Connection, without: Collection[str] = ()) -> set[str]:
    """The blobs that the record names, but for those of the bodies `without` which it counts."""
    stored = db.execute(
        """
        SELECT key, key FROM bodies WHERE body IS NULL
        UNION ALL SELECT key, sha256 FROM body_pictures
        UNION ALL SELECT key, key FROM tool_results
        """
    )
    return {sha for key, sha in stored if key not in without}


def visible_names(db: sqlite3.Connection) -> set[str]:
    """The visible names of pictures and results, as paths under the store's folder."""
    stored = db.execute("SELECT name FROM images UNION SELECT name FROM tool_results")
    return {name for (name,) in stored}


# ---- cards --------------------------------------------------------------------------

_CARD_COLUMNS: Final = (
    "message_id", "summary", "keywords_json", "embedding", "embedding_model",
    "estimated_tokens", "is_anchor", "callout_name", "generated_at", "generator_model",
)  # fmt: skip

# A card of the same second is the newer one: it was put later.
_PUT_CARD: Final = (
    f"INSERT INTO cards (session_no, {', '.join(_CARD_COLUMNS)}) "
    f"VALUES (?{', ?' * len(_CARD_COLUMNS)}) ON CONFLICT (session_no, message_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CARD_COLUMNS[1:])
    + " WHERE excluded.generated_at >= generated_at"
)


def put_cards(db: sqlite3.Connection, session: int, cards: Sequence[Card]) -> None:
    """Write cards; one that is older than the card that is there changes nothing."""
    rows = [
        (
            session,
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
        for card in cards
    ]
    db.executemany(_PUT_CARD, rows)


def _card(values: tuple[Any, ...]) -> Card:
    (
        message_id, summary, keywords, embedding, embedding_model, tokens, anchor, callout,
        generated_at, generator, key, role, phase, turn,
    ) = values  # fmt: skip
    return Card(
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


def verify_cards(db: sqlite3.Connection) -> Iterator[Discrepancy]:
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
    return _little_endian(array("f", vector)).tobytes()


def from_blob(blob: bytes) -> Sequence[float]:
    """The vector of a blob; () for an empty one, or one that cannot be read."""
    return _little_endian(array("f", blob)) if blob and len(blob) % 4 == 0 else ()


def _little_endian(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
