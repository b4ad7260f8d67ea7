"""Short ways to say batches in tests."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import struct
import zlib
from typing import Any

from windlass.caching.meter import PrefixDetails
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    Row,
    SessionStart,
    ShownMessage,
    StateChange,
    request_hash,
)
from windlass.history.details import CacheDetails, CallDetails, OutcomeDetails
from windlass.history.sqlite._schema import TABLES_1
from windlass.messages import Message, Picture, Text, ToolCall, assistant, system, tool, user

_traces = itertools.count(1)

NODE_TYPES = {
    "system": NodeType.SYSTEM,
    "user": NodeType.USER,
    "assistant": NodeType.AGENT,
    "tool": NodeType.TOOL_RESULT,
}


def png(shade: int = 0) -> bytes:
    """A sound picture of 1x1 pixels; another `shade`, another picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes([0, shade % 256])) + b""
    note = chunk(b"tEXt", b"shade\0" + str(shade).encode())
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + note
        + chunk(b"IDAT", body)
        + chunk(b"IEND", b"")
    )


def seen(data: bytes, name: str = "chart.png") -> Picture:
    """A picture by its hash, as a message holds it once the bytes lie in a store."""
    return Picture(hashlib.sha256(data).hexdigest(), "image/png", 1, 1, name)


def start(at: float = 1_000.0) -> SessionStart:
    """A session's beginning."""
    return SessionStart("sales", "scripted", {"b": 1, "a": [2]}, {"cascade_id": "sales"}, at)


def row(message: Message | None = None, **fields: Any) -> Row:
    """A row with what a test does not care about filled in."""
    kind = NODE_TYPES[message.role] if message is not None else NodeType.DECISION
    return Row(
        **{
            "node_type": kind,
            "trace_id": f"trace-{next(_traces)}",
            "timestamp": 1_000.5,
            "message": message,
            **fields,
        }
    )


def picture_row(data: bytes, **fields: Any) -> Row:
    """A row of a phase that made a picture."""
    sha = hashlib.sha256(data).hexdigest()
    fields = {"phase": "chart", "keep_pictures": True, "pictures": {sha: data}, **fields}
    return row(user("see", seen(data)), **fields)


def call(
    shown: list[tuple[str, Message]], *, edited: dict[str, Message] | None = None, **fields: Any
) -> CallRecord:
    """A call that saw these messages, given with their ids; `edited` by id are their new forms."""
    edited = edited or {}
    entries = tuple(
        ShownMessage(
            name,
            "said in this phase",
            12,
            edited[name].key if name in edited else None,
            "mask" if name in edited else None,
        )
        for name, _ in shown
    )
    keys = [edited.get(name, message).key for name, message in shown]
    tools = ({"type": "function", "function": {"name": "run_sql", "parameters": {}}},)
    return CallRecord(
        **{
            "trace_id": f"trace-{next(_traces)}",
            "model": "scripted",
            "shown": entries,
            "request_hash": request_hash(keys, tools),
            "tools": tools,
            "sent_tokens": 24,
            "full_tokens": 36,
            "bodies": tuple(edited.values()),
            "details": CallDetails(
                prefix=PrefixDetails(12, new_prefix=True, broken_by="tools"),
                cache=CacheDetails(12, 9),
                edits=0,
            ),
            **fields,
        }
    )


LONG = "0123456789 abcdef\n" * 1_500
"""Text whose body becomes a file."""


def a_session(name: str = "s1", *, shade: int = 0) -> list[Batch]:
    """The batches of a small session with one of everything; append them in order."""
    ask = ToolCall("call_1", "run_sql", '{"sql": "select 1"}')
    said = [
        system("You are an analyst."),
        user("What sold best?"),
        assistant("Let me look.", calls=[ask]),
        tool(ask, LONG, name="run_sql"),
        assistant("Lamps."),
    ]
    ids = [f"{message.content_hash}-1" for message in said]
    short = said[3].with_parts(Text("[1,500 lines, masked]"))
    replies = [
        row(said[2], phase="explore", turn=1, tokens_in=100, tokens_out=9, cost=0.01),
        row(said[4], phase="explore", turn=2, tokens_in=200, tokens_out=5, tokens_cached=90),
    ]
    shown = list(zip(ids, said, strict=True))
    return [
        Batch(name, start=start(), rows=[row(said[0]), row(said[1], phase="explore")]),
        Batch(name, rows=[replies[0]], calls=[call(shown[:2], trace_id=replies[0].trace_id)]),
        Batch(
            name,
            rows=[row(said[3], phase="explore", turn=1), picture_row(png(shade), turn=1)],
            edits=[EditRecord(ids[3], "replace", "mask", "seen once", short)],
            state=[StateChange("explore", "best", {"item": "lamp", "n": 3})],
        ),
        Batch(
            name,
            rows=[replies[1]],
            calls=[call(shown[:4], edited={ids[3]: short}, trace_id=replies[1].trace_id)],
            outcomes=[
                Outcome(
                    "completed",
                    1_002.0,
                    "explore",
                    replies[1].trace_id,
                    details=OutcomeDetails(tokens=2),
                ),
                Outcome("completed", 1_003.0),
            ],
        ),
    ]


def take_parents(db: sqlite3.Connection) -> None:
    """Make the sessions those of a store that knows no parents."""
    (table,) = (statement for statement in TABLES_1 if "TABLE sessions" in statement)
    columns = "session_no, session_id, cascade_id, model, started, input_json, cascade_json"
    db.execute(f"CREATE TEMP TABLE begun AS SELECT {columns} FROM sessions")
    for statement in ("DROP TABLE sessions", table, "INSERT INTO sessions SELECT * FROM begun"):
        db.execute(statement)
