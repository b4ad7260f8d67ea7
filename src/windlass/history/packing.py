"""How values of the record become columns, and back. Pure: no disk, no database.

What a call adds to its session is written as a list against the call before it: an
element `[from, to]` takes these entries of the earlier list (from 0, `to` excluded),
anything else is a new entry. So a session of many calls grows with what is new, and
an edit in the middle of a window costs one entry and not all that follow it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from windlass.history.base import NodeType, Row, ShownMessage
from windlass.messages import Message, Opaque, Text, clean_text

_Item = TypeVar("_Item")

PREVIEW_CHARS: Final = 200
"""Characters of a message that the views for people show."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def text(value: str) -> str:
    """`value` as it can be stored: lone surrogates replaced."""
    return value if value.isascii() else clean_text(value)


def optional(value: str | None) -> str | None:
    """`text`, or None."""
    return None if value is None else text(value)


def real(value: float | None) -> float | None:
    """`value` as SQLite gives it back: a float, and None for NaN, which SQLite has no place for."""
    if value is None or value != value:  # noqa: PLR0124 - NaN only
        return None
    return float(value)


def to_json(value: Any) -> str:
    """JSON with its keys in the order given: people and templates read it in that order."""
    return "{}" if value == {} else text(_encode(value))


def digest(*parts: Any) -> str:
    """SHA-256 over the JSON of `parts`: what a batch is known by."""
    return hashlib.sha256(_encode_ascii(parts).encode("ascii")).hexdigest()


def occurrence_id(key: str, number: int) -> str:
    """The id of a message's `number`-th occurrence in its session."""
    return f"{key[:16]}-{number}"


def preview(message: Message) -> str:
    """The start of a message for people, pictures and calls in words, on one line."""
    words = [
        part.text if isinstance(part, Text) else f"[{part.describe()}]"
        for part in message.parts
        if not isinstance(part, Opaque)
    ]
    words += [f"calls {call.name}({call.arguments})" for call in message.tool_calls]
    return " ".join(" ".join(word[:PREVIEW_CHARS] for word in words).split())[:PREVIEW_CHARS]


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]|^\.")
_PART_CHARS: Final = 100


def path_part(name: str) -> str:
    """`name` as one part of a path that every file system takes.

    A name that has to change gets a piece of its hash, so that two names never share
    a folder.
    """
    safe = _UNSAFE.sub("_", name)[:_PART_CHARS] or "_"
    if safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(text(name).encode()).hexdigest()[:8]}"


_EXTENSIONS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
}


def image_name(session_id: str, phase: str, number: int, media_type: str) -> str:
    """The visible name of a picture that a phase made, under the store's folder."""
    extension = _EXTENSIONS.get(media_type, "bin")
    return f"images/{path_part(session_id)}/{path_part(phase)}/image_{number}.{extension}"


def tool_result_name(ref: str) -> str:
    """The visible name of a shortened tool result, under the store's folder."""
    return f"storage/tool_results/{path_part(ref)}.json"


# ---- windows ------------------------------------------------------------------------


def against(base: Sequence[_Item], now: Sequence[_Item]) -> list[_Item | list[int]]:
    """`now` as a list against `base`: `[from, to]` for runs of it, else the entries."""
    same = 0
    for old, new in zip(base, now, strict=False):
        if old != new:
            break
        same += 1
    packed: list[_Item | list[int]] = [[0, same]] if same else []
    if same == len(now):
        return packed
    places = {entry: place for place, entry in enumerate(base) if place >= same}
    run: list[int] | None = None
    for entry in now[same:]:
        place = places.get(entry)
        if place is None:
            packed.append(entry)
            run = None
        elif run is not None and run[1] == place:
            run[1] += 1
        else:
            run = [place, place + 1]
            packed.append(run)
    return packed


def _slice(base: Sequence[_Item], run: Sequence[int]) -> Sequence[_Item]:
    start, end = run
    if not 0 <= start < end <= len(base):
        raise ValueError(f"entries {start} to {end} of a list of {len(base)}")
    return base[start:end]


def pack_window(packed: Sequence[ShownMessage | list[int]]) -> str:
    """The JSON of a window that was packed `against` the one before it."""
    return text(
        _encode([entry if isinstance(entry, list) else _shown_list(entry) for entry in packed])
    )


def _shown_list(entry: ShownMessage) -> list[Any]:
    values = [entry.message_id, entry.reason, entry.tokens, entry.shown_as, entry.because]
    return values if entry.shown_as or entry.because else values[:3]


def unpack_window(base: Sequence[ShownMessage], packed: str) -> tuple[ShownMessage, ...]:
    """The window that `pack_window` made `packed` of. Raises ValueError on anything else."""
    window: list[ShownMessage] = []
    for entry in _json_list(packed):
        match entry:
            case [int(), int()]:
                window.extend(_slice(base, cast("list[int]", entry)))
            case [str(), str(), _, *rest] if len(rest) in (0, 2):
                window.append(ShownMessage(*entry))
            case _:
                raise ValueError(f"no entry of a window: {entry!r}")
    return tuple(window)


def pack_keys(base: Sequence[str], now: Sequence[str]) -> str:
    """The JSON of a list of keys against the one before it."""
    return _encode(against(base, now))


def unpack_keys(base: Sequence[str], packed: str) -> tuple[str, ...]:
    """The keys that `pack_keys` made `packed` of. Raises ValueError on anything else."""
    keys: list[str] = []
    for entry in _json_list(packed):
        match entry:
            case [int(), int()]:
                keys.extend(_slice(base, cast("list[int]", entry)))
            case str():
                keys.append(entry)
            case _:
                raise ValueError(f"no key: {entry!r}")
    return tuple(keys)


def _json_list(packed: str) -> list[Any]:
    match json.loads(packed):
        case list(entries):
            return entries
        case _:
            raise ValueError(f"not a list: {packed[:40]!r}")


def clean_shown(shown: Iterable[ShownMessage]) -> tuple[ShownMessage, ...]:
    """The entries with text that can be stored."""
    return tuple(
        entry
        if entry.reason.isascii()
        else ShownMessage(
            entry.message_id, text(entry.reason), entry.tokens, entry.shown_as, entry.because
        )
        for entry in shown
    )


# ---- log rows -----------------------------------------------------------------------

LOG_COLUMNS: Final = (
    "session_no", "seq", "batch", "trace_id", "parent_id", "timestamp", "node_type", "phase",
    "turn", "attempt", "sounding_index", "key", "occurrence", "model", "tokens_in", "tokens_out",
    "tokens_cached", "cost", "duration_ms", "full_history_size", "context_size", "tokens_saved",
    "metadata_json", "keep_pictures",
)  # fmt: skip
CALL_COLUMNS: Final = (
    "session_no", "number", "batch", "trace_id", "model", "request_hash", "sent_tokens",
    "full_tokens", "tools", "base", "entries", "window_json", "bodies_json", "details_json",
)  # fmt: skip
EDIT_COLUMNS: Final = (
    "session_no", "number", "batch", "message_id", "kind", "because", "reason", "replacement",
)  # fmt: skip
STATE_COLUMNS: Final = ("session_no", "number", "batch", "phase", "key", "value_json")
OUTCOME_COLUMNS: Final = (
    "session_no", "number", "batch", "phase", "status", "timestamp", "output_trace", "error",
    "hidden", "details_json",
)  # fmt: skip


OCCURRENCE: Final = LOG_COLUMNS.index("occurrence") - LOG_COLUMNS.index("trace_id")
"""Where the number of the occurrence stands in `log_values`."""


def log_values(row: Row) -> list[Any]:
    """The columns of a row from `trace_id` on, but for the occurrence, which the keeper counts."""
    message = row.message
    return [
        text(row.trace_id),
        optional(row.parent_id),
        real(row.timestamp),
        NodeType(row.node_type).value,
        optional(row.phase),
        row.turn,
        row.attempt,
        row.sounding_index,
        None if message is None else message.key,
        None,
        optional(row.model),
        row.tokens_in,
        row.tokens_out,
        row.tokens_cached,
        real(row.cost),
        real(row.duration_ms),
        row.full_history_size,
        row.context_size,
        row.tokens_saved,
        to_json(row.metadata),
        int(row.keep_pictures),
    ]


def log_row(values: Sequence[Any], message: Message | None) -> Row:
    """The row that `log_values` made `values` of, but for the bytes of its pictures."""
    return Row(
        trace_id=values[0],
        parent_id=values[1],
        timestamp=values[2],
        node_type=NodeType(values[3]),
        phase=values[4],
        turn=values[5],
        attempt=values[6],
        sounding_index=values[7],
        message=message,
        model=values[10],
        tokens_in=values[11],
        tokens_out=values[12],
        tokens_cached=values[13],
        cost=values[14],
        duration_ms=values[15],
        full_history_size=values[16],
        context_size=values[17],
        tokens_saved=values[18],
        metadata=cast("Mapping[str, Any]", json.loads(values[19])),
        keep_pictures=bool(values[20]),
    )
