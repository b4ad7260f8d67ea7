"""The rows of a batch as a ClickHouse store has them: one of `record` for everything in it.

The last insert is one block: the server takes it whole or not at all. Its last row commits the
batch. A batch too large for one insert sends the rest before, marked `early`: they count only
when a commit names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from windlass.public import Message, NumberedBatch, PreparedBatch, Reason, Status, packing
from windlass_clickhouse._rows import KINDS, ClickHouseSession
from windlass_clickhouse.layout import LOG_COLUMNS, RECORD

INSERT_ROWS: Final = 2_000
"""Rows that one insert may have."""

INSERT_CHARS: Final = 4_000_000
"""Characters of texts that one insert may have (a single row may have more)."""

HOLDER: Final = "holder"
"""The kind of the rows that say who runs a session."""

_EMPTY: Final[dict[str, Any]] = {
    name: None if "Nullable" in kind else "" if "String" in kind or "Enum" in kind else 0
    for name, kind in RECORD
}
_EARLY: Final = list(_EMPTY).index("early")

# Columns of `record` that repeat, besides the number, some of the JSON of a row.
_PLAIN: Final[dict[type[Any], dict[str, str]]] = {
    packing.CallRow: {"trace_id": "trace_id"},
    packing.EditRow: {},
    packing.StateRow: {"phase_name": "phase"},
    packing.OutcomeRow: {"phase_name": "phase", "at": "timestamp", "trace_id": "output_trace"},
    packing.ImageRow: {"phase_name": "phase", "key": "sha256"},
}


def check(prepared: PreparedBatch) -> None:
    """What a database with constraints would refuse."""
    traces = prepared.traces
    wrong = None
    if len(set(traces)) < len(traces):
        wrong = "it has a trace twice"
    for outcome in prepared.batch.outcomes:
        if outcome.status not in get_args(Status):
            wrong = f"{outcome.status!r} is not a status"
        if outcome.reason is None:
            continue
        if outcome.status != "incomplete" or outcome.reason not in get_args(Reason):
            wrong = f"{outcome.reason!r} is not a reason for {outcome.status!r}"
    for edit in prepared.batch.edits:
        if edit.kind not in ("replace", "drop"):
            wrong = f"{edit.kind!r} is not a kind of edit"
    if wrong is not None:
        raise prepared.refusal(f"the batch does not fit the record ({wrong})")


def body_rows(prepared: PreparedBatch) -> Iterator[list[Any]]:
    """Yield the rows of `bodies`, but for those whose text is lost."""
    pictures: dict[str, list[str]] = {}
    for key, sha in prepared.body_pictures:
        pictures.setdefault(key, []).append(sha)
    for key, values in prepared.bodies.items():
        yield [*values, pictures.get(key, [])]


def body_columns(message: Message) -> dict[str, Any]:
    """Return what `unified_logs` and the views for people show of a message."""
    stored = json.loads(message.canonical)
    return {
        "role": message.role,
        "content_json": _shown_json(stored["content"]),
        "content_chars": message.chars,
        "tool_calls_json": _shown_json(stored.get("tool_calls")),
        "preview": packing.text(packing.preview(message)),
    }


def _shown_json(value: Any) -> str | None:
    """Content or tool calls as SQL shows them: the JSON that people read, or NULL."""
    return None if value is None else packing.text(json.dumps(value, ensure_ascii=False))


def batch_rows(numbered: NumberedBatch, write: str) -> list[list[list[Any]]]:
    """Return the rows of a batch in inserts; the last row of the last one makes the batch count."""
    *early, last = portions(_rows(numbered, write))
    for portion in early:
        for row in portion:
            row[_EARLY] = 1
    head = numbered.head
    commit = {"write": write, "early": int(bool(early)), "batch": head.batch, "kind": "commit"}
    last.append(_row(head.session, {**commit, "number": head.batch, "key": head.digest}))
    return [*early, last]


def _rows(numbered: NumberedBatch, write: str) -> Iterator[list[Any]]:
    """Yield the rows of a batch but for its commit."""
    batch, start = numbered.prepared.batch, numbered.prepared.batch.start
    session, of = numbered.head.session, {"write": write, "batch": numbered.head.batch}
    if start is not None:
        began = numbered.prepared.session_row()[1:]
        yield _row(session, {**of, "kind": "start", "json": _json(began)})
    for row, values in zip(batch.rows, numbered.rows[packing.LogRow], strict=True):
        columns = dict(zip(LOG_COLUMNS, values, strict=True))
        body = {} if row.message is None else body_columns(row.message)
        yield _row(session, {**of, **columns, **body, "kind": "row"})
    for sha, tools_json in numbered.tools.items():
        yield _row(session, {**of, "kind": "tools", "key": sha, "json": tools_json})
    for key in numbered.extra_bodies:
        yield _row(session, {**of, "kind": "made", "key": key})
    for kind, plain in _PLAIN.items():
        for values in numbered.rows[kind]:
            columns = {column: getattr(values, name) for column, name in plain.items()}
            columns |= {"number": values.number, "kind": KINDS[kind], "json": _json(values)}
            yield _row(session, {**of, **columns})


def result_row(session: ClickHouseSession, ref: str, key: str, name: str) -> list[Any]:
    """Return the row of a shortened result's visible name; it needs no commit."""
    told = {"trace_id": name, "kind": "result", "key": key, "json": _json((ref, key, name))}
    return _row(session, told)


def holder_row(session: ClickHouseSession, number: int, key: str, told: Sequence[str]) -> list[Any]:
    """Return a row that says who holds a session. No commit names what it is written by."""
    columns = {"write": HOLDER, "early": 1, "kind": HOLDER, "number": number}
    return _row(session, {**columns, "key": key, "json": _json(told)})


def _row(session: Any, told: Mapping[str, object]) -> list[Any]:
    """Return a row of `record` with these columns, and nothing in the others."""
    columns = {
        "session_id": session.name,
        "session_no": session.number,
        "started": session.started,
        "cascade_id": session.cascade_id,
        **told,
    }
    values = ((columns.get(name), empty) for name, empty in _EMPTY.items())
    return [empty if value is None else value for value, empty in values]


def _json(values: Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def portions(rows: Iterator[list[Any]]) -> list[list[list[Any]]]:
    """Return the rows in inserts, in order; at least one, which may be empty."""
    inserts: list[list[list[Any]]] = [[]]
    chars = 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str))
        if inserts[-1] and (len(inserts[-1]) >= INSERT_ROWS or chars + size > INSERT_CHARS):
            inserts.append([])
            chars = 0
        inserts[-1].append(row)
        chars += size
    return inserts
