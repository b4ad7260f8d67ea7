"""What the history costs: appends beside plain sqlite3, lookups, reading a session, opening.

    python bench/bench_history.py [--json FILE] [--rounds N]

The plain contestant writes the same bytes in the same transactions with the same
pragmas: one table, the columns of a log row with the message's JSON in one of them,
a primary key of session and number, and nothing else. It serialises each message as
Windlass does. Both run in turns in one process, on fresh messages, and the medians
are compared.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from windlass.history.base import Batch, NodeType, Row, SessionStart
from windlass.history.packing import LogRow
from windlass.history.row_details import ToolResult, json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, canonical_json, to_dict, tool

_WORDS = [f"{word}{number}" for word in ("order", "run", "file", "line") for number in range(250)]


@dataclass(frozen=True)
class Case:
    """One kind of append: how long the messages are, how many go into a transaction."""

    name: str
    chars: tuple[int, int]
    batch: int
    batches: int


CASES = (
    Case("200-2000 characters, one by one", (200, 2000), 1, 150),
    Case("200-2000 characters, batches of 100", (200, 2000), 100, 20),
    Case("20 KB bodies, one by one", (20_000, 20_000), 1, 60),
    Case("20 KB bodies, batches of 100", (20_000, 20_000), 100, 4),
)


class Messages:
    """An endless supply of messages that no one has seen."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.count = 0

    def row(self, chars: tuple[int, int]) -> Row:
        """A row of a tool result between so many characters."""
        size = self.random.randint(*chars)
        words: list[str] = []
        while size > 0:
            words.append(self.random.choice(_WORDS))
            size -= len(words[-1]) + 1
        self.count += 1
        message = tool(f"call_{self.count}", " ".join(words), name="run_sql")
        return Row(
            node_type=NodeType.TOOL_RESULT,
            trace_id=f"{self.random.getrandbits(128):032x}",
            parent_id=f"{self.random.getrandbits(128):032x}",
            timestamp=1_763_000_000.0 + self.count,
            message=message,
            phase="research",
            turn=self.count % 20,
            attempt=1,
            model="anthropic/claude-sonnet-4-5",
            tokens_in=12_345,
            tokens_out=321,
            tokens_cached=10_000,
            cost=0.0123,
            duration_ms=812.5,
            full_history_size=40,
            context_size=12,
            tokens_saved=9_000,
            details=ToolResult(tool="run_sql"),
        )

    def batches(self, case: Case) -> list[list[Row]]:
        """The batches of one round."""
        return [[self.row(case.chars) for _ in range(case.batch)] for _ in range(case.batches)]


# What a log row holds besides its numbers, its key and its metadata.
_PLAIN_FIELDS = (
    "trace_id", "parent_id", "timestamp", "node_type", "phase", "turn", "attempt",
    "sounding_index", "model", "tokens_in", "tokens_out", "tokens_cached", "cost",
    "duration_ms", "full_history_size", "context_size", "tokens_saved",
)  # fmt: skip


class Plain:
    """A program that uses sqlite3 by hand: one table, one row a message, body inline."""

    def __init__(self, folder: Path) -> None:
        self.db = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        columns = ", ".join(LogRow._fields)
        self.db.execute(f"CREATE TABLE log ({columns}, body, PRIMARY KEY (session_no, seq))")
        self.insert = f"INSERT INTO log VALUES ({', '.join('?' * (len(LogRow._fields) + 1))})"
        self.seq = 0

    def append(self, rows: Sequence[Row]) -> None:
        """Write the rows in one transaction."""
        values = []
        for row in rows:
            assert row.message is not None
            self.seq += 1
            # A fresh serialisation, since a message remembers its own after the first time.
            body = canonical_json(to_dict(row.message))
            key = hashlib.sha256(body.encode("ascii")).hexdigest()
            columns = [getattr(row, name) for name in _PLAIN_FIELDS]
            metadata = json.dumps(json_of(row))
            values.append((1, self.seq, 1, *columns, key, None, metadata, 0, body))
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(self.insert, values)
        self.db.execute("COMMIT")


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _session(store: SqliteStore, name: str) -> None:
    store.append(Batch(name, start=SessionStart("bench", "none", {}, {}, 1_763_000_000.0)))


@dataclass(frozen=True)
class Result:
    """Medians of one case, in milliseconds a transaction, and their ratio."""

    name: str
    windlass_ms: float
    plain_ms: float
    ratio: float
    windlass_rows_s: float
    plain_rows_s: float


def appends(case: Case, rounds: int, folder: Path) -> Result:
    messages = Messages()
    store = SqliteStore(folder / "store")
    _session(store, "s")
    plain = Plain(folder)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for batch in messages.batches(case):
            # In turns, batch by batch, so that the disk's moods meet both alike; the
            # same messages, made anew so that neither finds remembered bytes.
            fresh = [_again(row) for row in batch]
            theirs.append(_seconds(lambda rows=batch: plain.append(rows)))  # type: ignore[misc]
            ours.append(
                _seconds(lambda rows=fresh: store.append(Batch("s", rows=rows)))  # type: ignore[misc]
            )
        gc.collect()
    store.close()
    plain.db.close()
    our, their = statistics.median(ours), statistics.median(theirs)
    return Result(
        case.name, our * 1e3, their * 1e3, our / their, case.batch / our, case.batch / their
    )


def _again(row: Row) -> Row:
    assert row.message is not None
    old = row.message
    message = Message(old.role, old.parts, old.tool_calls, old.tool_call_id, old.name)
    return Row(**{**{name: getattr(row, name) for name in Row.__slots__}, "message": message})


def reads(folder: Path, rounds: int) -> list[tuple[str, float, str]]:
    messages = Messages()
    with SqliteStore(folder / "store") as store:
        _session(store, "s")
        rows = [messages.row((200, 2000)) for _ in range(1000)]
        for at in range(0, 1000, 100):
            store.append(Batch("s", rows=rows[at : at + 100]))
        keys = [row.message.key for row in rows if row.message is not None]
        lookups = [
            _seconds(lambda key=key: store.message(key))  # type: ignore[misc]
            for _ in range(rounds)
            for key in messages.random.sample(keys, 200)
        ]
        session = [_seconds(lambda: list(store.rows("s"))) for _ in range(5 * rounds)]
    opening = []
    for _ in range(10 * rounds):
        start = time.perf_counter()
        opened = SqliteStore.open_existing(folder / "store")
        opened.start("s")
        opening.append(time.perf_counter() - start)
        opened.close()
    fresh = [
        _seconds(lambda at=at: SqliteStore(folder / f"fresh{at}").close())  # type: ignore[misc]
        for at in range(3 * rounds)
    ]
    return [
        ("one message by its key", statistics.median(lookups) * 1e6, "us"),
        ("a session of 1,000 rows with messages", statistics.median(session) * 1e3, "ms"),
        ("opening a store and reading a session's start", statistics.median(opening) * 1e3, "ms"),
        ("making a fresh store", statistics.median(fresh) * 1e3, "ms"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to be measured")
    given = parser.parse_args()
    results: list[Result] = []
    print(f"SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}, durable (FULL, WAL)")
    print(f"{'append':38} {'windlass':>12} {'plain':>12} {'rows/s':>9} {'plain':>9} {'ratio':>6}")
    for case in CASES:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            result = appends(case, given.rounds, Path(folder))
        results.append(result)
        print(
            f"{result.name:38} {result.windlass_ms:9.3f} ms {result.plain_ms:9.3f} ms "
            f"{result.windlass_rows_s:9,.0f} {result.plain_rows_s:9,.0f} {result.ratio:6.2f}",
            flush=True,
        )
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        read = reads(Path(folder), given.rounds)
    print()
    for name, value, unit in read:
        print(f"{name:50} {value:9.2f} {unit}")
    if given.json is not None:
        told = {
            "appends": [asdict(result) for result in results],
            "reads": [{"name": name, "median": value, "unit": unit} for name, value, unit in read],
        }
        given.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
