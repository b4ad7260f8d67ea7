"""How a numbered batch becomes rows of `record`, and in which inserts they go.

The last insert is one block: the server takes it whole or not at all, and the same one twice
only once. Its last row commits the batch. A batch too large for one insert sends the rest
before, marked `early`: they count only when a commit names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from windlass.history import numbering, packing
from windlass.history.appending import Prepared
from windlass.history.clickhouse.tables import RECORD
from windlass.history.numbering import Numbered
from windlass.messages import Message

INSERT_ROWS: Final = 2_000
"""Rows that one insert may have."""

INSERT_CHARS: Final = 4_000_000
"""Characters of texts that one insert may have (a single row may have more)."""

_PLACES: Final = {name: place for place, (name, _) in enumerate(RECORD)}
_EMPTY: Final[list[Any]] = [
    None if "Nullable" in kind else "" if "String" in kind or "Enum" in kind else 0
    for _, kind in RECORD
]
LOG_PHYSICAL: Final = (
    "session_no", "number", "batch", "trace_id", "parent_id", "at", "node_type",
    "phase_name", "turn_number", "attempt_number", "sounding_index", "key", "occurrence",
    "model", "tokens_in", "tokens_out", "tokens_cached", "cost", "duration_ms",
    "full_history_size", "context_size", "tokens_saved", "metadata_json", "keep_pictures",
)  # fmt: skip
"""The columns of `record` that hold those of `packing.LOG_COLUMNS`, in their order."""


def _row(**values: Any) -> list[Any]:
    row = _EMPTY.copy()
    for name, value in values.items():
        row[_PLACES[name]] = value
    return row


def shown_json(value: Any) -> str | None:
    """Content or tool calls as SQL shows them: the JSON that people read, or NULL."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def body_columns(message: Message) -> dict[str, Any]:
    """What `unified_logs` and the views for people show of a message."""
    stored = json.loads(message.canonical)
    return {
        "role": message.role,
        "content_json": packing.optional(shown_json(stored["content"])),
        "content_chars": message.chars,
        "tool_calls_json": packing.optional(shown_json(stored.get("tool_calls"))),
        "preview": packing.text(packing.preview(message)),
    }


def rows_of(
    prepared: Prepared, numbered: Numbered, fixed: dict[str, Any], known_tools: set[str]
) -> Iterator[list[Any]]:
    """The rows of a batch but for its commit. `fixed` are the columns that all of them share."""
    common = {**fixed, "session_no": numbered.known.session_no, "batch": numbered.known.batch}
    if prepared.batch.start is not None:
        values = numbering.session_values(prepared)
        yield _row(**common, kind="start", json=_json(values[1:]))
    for row, values in zip(prepared.batch.rows, numbered.log, strict=True):
        named = dict(zip(LOG_PHYSICAL, values, strict=True))
        named["key"] = named["key"] or ""
        named["occurrence"] = named["occurrence"] or 0
        body = {} if row.message is None else body_columns(row.message)
        yield _row(**{**common, **named, **body}, kind="row")
    for sha, tools_json in numbered.tools.items():
        if sha not in known_tools:
            yield _row(**common, kind="tools", key=sha, json=tools_json)
    for key in numbered.made:
        yield _row(**common, kind="made", key=key)
    for values in numbered.calls:
        yield _row(**common, kind="call", number=values[1], trace_id=values[3], json=_json(values))
    for values in numbered.edits:
        yield _row(**common, kind="edit", number=values[1], json=_json(values))
    for values in numbered.state:
        yield _row(
            **common, kind="state", number=values[1], phase_name=values[3], json=_json(values)
        )
    for values in numbered.outcomes:
        yield _row(
            **common, kind="outcome", number=values[1], phase_name=values[3], at=values[5],
            trace_id=values[6] or "", json=_json(values),
        )  # fmt: skip
    for values in numbered.images:
        yield _row(
            **common, kind="image", number=values[2], phase_name=values[1], key=values[4],
            json=_json(values),
        )  # fmt: skip


def result_row(fixed: dict[str, Any], session_no: int, ref: str, key: str, name: str) -> list[Any]:
    """The row of a shortened result's visible name; it needs no commit."""
    return _row(
        **fixed, session_no=session_no, kind="result", key=key, json=_json((ref, key, name))
    )


def commit_row(fixed: dict[str, Any], numbered: Numbered, *, several: bool) -> list[Any]:
    """The row that makes a batch count; `several`: some of it was sent before."""
    known = numbered.known
    return _row(
        **{**fixed, "early": int(several)},
        session_no=known.session_no,
        batch=known.batch,
        kind="commit",
        number=known.batch,
        key=known.digest,
    )


def _json(values: Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def portions(rows: Iterator[list[Any]]) -> list[list[list[Any]]]:
    """The rows in inserts, in order; at least one, which may be empty."""
    made: list[list[list[Any]]] = [[]]
    chars = 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str))
        if made[-1] and (len(made[-1]) >= INSERT_ROWS or chars + size > INSERT_CHARS):
            made.append([])
            chars = 0
        made[-1].append(row)
        chars += size
    return made


def mark_early(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows, marked as sent before their commit."""
    place = _PLACES["early"]
    for row in rows:
        row[place] = 1
    return rows
