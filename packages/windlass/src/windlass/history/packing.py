"""How values of the record become columns, and back. Pure: no disk, no database.

What a call adds to its session is written as a list against the call before it: an
element `[from, to]` takes these entries of the earlier list (from 0, `to` excluded),
anything else is a new entry. So a session of many calls grows with what is new, and
an edit in the middle of a window costs one entry and not all that follow it.

What a row says in its JSON, read: the union of all kinds of details.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from windlass.history import decisions, marks, row_details
from windlass.history.base import CallRecord, NodeType, Outcome, Reason, Row, ShownMessage, Status
from windlass.history.details import CallDetails, OutcomeDetails, adapter_of
from windlass.history.row_details import INTERRUPTED_TEXT, RowDetails, json_of
from windlass.messages import Message, Opaque, Text, clean_text

_Item = TypeVar("_Item")

PREVIEW_CHARS: Final = 200
"""Characters of a message that the views for people show."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def text(value: str) -> str:
    """Return `value` as it can be stored: lone surrogates replaced."""
    return value if value.isascii() else clean_text(value)


def optional(value: str | None) -> str | None:
    """Return `text`, or None."""
    return None if value is None else text(value)


def real(value: float | None) -> Any:
    """`value` as SQLite gives it back: a float, and None for NaN, which SQLite has no place for."""
    if value is None or value != value:  # noqa: PLR0124 - NaN only
        return None
    return float(value)


def to_json(value: Any) -> str:
    """Return JSON with its keys in the order given: people and templates read it in that order."""
    return "{}" if value == {} else text(_encode(value))


def digest(*parts: Any) -> str:
    """Return SHA-256 over the JSON of `parts`: what a batch is known by."""
    return hashlib.sha256(_encode_ascii(parts).encode("ascii")).hexdigest()


def occurrence_id(key: str, number: int) -> str:
    """Return the id of a message's `number`-th occurrence in its session."""
    return f"{key[:16]}-{number}"


def preview(message: Message) -> str:
    """Return the start of a message for people, pictures and calls in words, on one line."""
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
    """Return `name` as one part of a path that every file system takes.

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


def image_name(
    session_id: str, phase: str, number: int, media_type: str, sounding: int | None = None
) -> str:
    """The visible name of a picture that a phase made, or its sounding, under the store's folder.

    >>> image_name("s", "draw", 1, "image/png", 2)
    'images/s/draw/sounding_2_image_1.png'
    """
    extension = _EXTENSIONS.get(media_type, "bin")
    before = "" if sounding is None else f"sounding_{sounding}_"
    return f"images/{path_part(session_id)}/{path_part(phase)}/{before}image_{number}.{extension}"


def tool_result_name(ref: str) -> str:
    """Return the visible name of a shortened tool result, under the store's folder."""
    return f"storage/tool_results/{path_part(ref)}.json"


# ---- windows ------------------------------------------------------------------------


def against(base: Sequence[_Item], now: Sequence[_Item]) -> list[_Item | list[int]]:
    """Return `now` as a list against `base`: `[from, to]` for runs of it, else the entries."""
    same = len(base)
    if now[:same] != base:  # which is quick, and mostly the case
        pairs = enumerate(zip(base, now, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), min(len(base), len(now)))
    packed: list[_Item | list[int]] = [[0, same]] if same else []
    if same == len(now):
        return packed
    places = {base[place]: place for place in range(same, len(base))}
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


def pack_window(packed: Sequence[ShownMessage | list[int]]) -> str:
    """Return the JSON of a window that was packed `against` the one before it."""
    return text(
        _encode([entry if isinstance(entry, list) else _shown_list(entry) for entry in packed])
    )


def _shown_list(entry: ShownMessage) -> list[Any]:
    values = [entry.message_id, entry.reason, entry.tokens, entry.shown_as, entry.because]
    return values if entry.shown_as or entry.because else values[:3]


def unpack_window(base: Sequence[ShownMessage], packed: str) -> tuple[ShownMessage, ...]:
    """Return the window that `pack_window` made `packed` of. Raises ValueError on anything else."""
    return _unpack(base, packed, _shown_message)


def _shown_message(entry: Any) -> ShownMessage:
    match entry:
        case [str(), str(), _, *rest] if len(rest) in (0, 2):
            return ShownMessage(*entry)
        case _:
            raise ValueError(f"no entry of a window: {entry!r}")


def pack_keys(base: Sequence[str], now: Sequence[str]) -> str:
    """Return the JSON of a list of keys against the one before it."""
    return _encode(against(base, now))


def unpack_keys(base: Sequence[str], packed: str) -> tuple[str, ...]:
    """Return the keys that `pack_keys` made `packed` of.

    Raises ValueError where they do not fit.
    """
    return _unpack(base, packed, str)


def _unpack(
    base: Sequence[_Item], packed: str, decode: Callable[[Any], _Item]
) -> tuple[_Item, ...]:
    unpacked: list[_Item] = []
    for entry in json.loads(packed):
        match entry:
            case [int(start), int(end)]:
                if not 0 <= start < end <= len(base):
                    raise ValueError(f"entries {start} to {end} of a list of {len(base)}")
                unpacked.extend(base[start:end])
            case _:
                unpacked.append(decode(entry))
    return tuple(unpacked)


def clean_shown(shown: Iterable[ShownMessage]) -> tuple[ShownMessage, ...]:
    """Return the entries with text that can be stored."""
    return tuple(
        entry if entry.reason.isascii() else replace(entry, reason=text(entry.reason))
        for entry in shown
    )


# ---- the rows of the tables ----------------------------------------------------------


class SessionRow(NamedTuple):
    """How a session began, without its number."""

    session_id: str
    cascade_id: str
    model: str
    started: float
    input_json: str
    cascade_json: str
    parent_id: str | None = None
    parent_phase: str | None = None
    sounding_index: int | None = None

    @property
    def digest(self) -> str:
        """Return the digest before that of its first batch; without a parent as it ever was."""
        return digest(*(self if self.parent_id is not None else self[:6]))


class BodyRow(NamedTuple):
    """A message body: `body` is its canonical JSON (None: it is the blob of that name).

    `preview` is None where it is the beginning of the body's own text.
    """

    key: str
    role: str
    chars: int
    tool_calls: int
    preview: str | None
    body: str | None


class LogRow(NamedTuple):
    """A row of the log. `key` and `occurrence` are None where it has no message."""

    session_no: int
    seq: int
    batch: int
    trace_id: str
    parent_id: str | None
    timestamp: float
    node_type: str
    phase: str | None
    turn: int | None
    attempt: int | None
    sounding_index: int | None
    key: str | None
    occurrence: int | None
    model: str | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost: float | None
    duration_ms: float | None
    full_history_size: int | None
    context_size: int | None
    tokens_saved: int | None
    metadata_json: str
    keep_pictures: int


class CallRow(NamedTuple):
    """A call: `tools` hashes its tool list, `base` is the call its window is packed against."""

    session_no: int
    number: int
    batch: int
    trace_id: str
    model: str
    request_hash: str
    sent_tokens: int
    full_tokens: int
    tools: str
    base: int | None
    entries: int
    window_json: str
    bodies_json: str
    details_json: str


class EditRow(NamedTuple):
    """A committed edit; `replacement` is the key of a body."""

    session_no: int
    number: int
    batch: int
    message_id: str
    kind: Literal["replace", "drop"]
    because: str
    reason: str
    replacement: str | None


class StateRow(NamedTuple):
    """A change of the state."""

    session_no: int
    number: int
    batch: int
    phase: str
    key: str
    value_json: str


class OutcomeRow(NamedTuple):
    """How a phase ended, or (`phase` None) the session."""

    session_no: int
    number: int
    batch: int
    phase: str | None
    status: Status
    timestamp: float
    output_trace: str | None
    error: str | None
    hidden: int
    details_json: str
    reason: Reason | None = None


class ImageRow(NamedTuple):
    """A picture that a phase made: `seq` is its row, `name` the visible file."""

    session_no: int
    phase: str
    number: int
    seq: int
    sha256: str
    name: str


TableRow = TypeVar("TableRow", LogRow, CallRow, EditRow, StateRow, OutcomeRow, ImageRow)


def column_types(row: type[Any]) -> dict[str, tuple[type, bool]]:
    """The columns of a table by the fields of its rows: int, float or str, and whether NULL may be.

    Both stores take names, types and order from here. A column with a default came later than the
    first version.
    """
    columns: dict[str, tuple[type, bool]] = {}
    for name, hint in get_type_hints(row).items():
        kinds = get_args(hint) or (hint,)
        kind = next((one for one in kinds if one in (int, float)), str)
        columns[name] = kind, type(None) in kinds
    return columns


DIGESTED: Final[tuple[type[Any], ...]] = (LogRow, CallRow, EditRow, StateRow, OutcomeRow)
"""The tables of a batch, in the order in which its digest covers them."""


def batch_digest(before: str, *tables: Iterable[Any]) -> str:
    """Return what a batch with these rows is known by, table by table, behind the batch `before`.

    An outcome without a reason counts as it did before there were reasons, so that the digests of
    older stores stand.
    """
    return digest(before, *([_digested(row) for row in rows] for rows in tables))


def _digested(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:-1] if isinstance(row, OutcomeRow) and row.reason is None else row


_NODES: Final = {node.value: node for node in NodeType}
_SAME: Final = [name for name in Row.__dataclass_fields__ if name in LogRow._fields]
_SAME_OF: Final = itemgetter(*map(LogRow._fields.index, _SAME[3:-1]))
_TEXTS: Final = ("trace_id", "parent_id", "phase", "model")
_REALS: Final = ("timestamp", "cost", "duration_ms")


def log_row(row: Row, numbers: tuple[int, int, int], occurrence: int | None) -> LogRow:
    """Return the row in the table; `numbers` are those of session, row and batch."""
    columns = {name: getattr(row, name) for name in _SAME}
    columns.update((name, optional(columns[name])) for name in _TEXTS)
    columns.update((name, real(columns[name])) for name in _REALS)
    columns["node_type"] = NodeType(row.node_type).value
    columns["keep_pictures"] = int(row.keep_pictures)
    return LogRow(
        *numbers,
        key=None if row.message is None else row.message.key,
        occurrence=occurrence,
        metadata_json=row.stored_json or to_json(json_of(row)),
        **columns,
    )


def call_json(call: CallRecord) -> str:
    """Return what a call says besides its columns, as JSON."""
    return call.stored_json or to_json(call.details.as_json())


def read_call(
    stored: CallRow,
    shown: tuple[ShownMessage, ...],
    tools: tuple[Mapping[str, Any], ...],
    bodies: tuple[Message, ...],
) -> CallRecord:
    """Return a call as readers get it, with its window, its tools, and the edited forms."""
    return CallRecord(
        trace_id=stored.trace_id,
        model=stored.model,
        shown=shown,
        request_hash=stored.request_hash,
        tools=tools,
        sent_tokens=stored.sent_tokens,
        full_tokens=stored.full_tokens,
        bodies=bodies,
        details=_read(CallDetails, stored.details_json),
        stored_json=stored.details_json,
    )


def _read(kind: type[_Item], details_json: str) -> _Item:
    """Return details from their JSON, without the parts that this version does not know."""
    adapter: TypeAdapter[_Item] = adapter_of(kind)
    try:
        return adapter.validate_json(details_json)
    except ValidationError as error:
        unknown = {each["loc"][0] for each in error.errors() if each["loc"]}
        data = json.loads(details_json)
        return adapter.validate_python({key: data[key] for key in data if key not in unknown})


def outcome_json(outcome: Outcome) -> str:
    """Return what an outcome says besides its columns, as JSON."""
    adapter = adapter_of(OutcomeDetails)
    return outcome.stored_json or to_json(adapter.dump_python(outcome.details, exclude_none=True))


def read_outcome(stored: OutcomeRow) -> Outcome:
    """Return an outcome as readers get it."""
    return Outcome(
        status=stored.status,
        timestamp=stored.timestamp,
        phase=stored.phase,
        output_trace=stored.output_trace,
        error=stored.error,
        hidden=bool(stored.hidden),
        details=_read(OutcomeDetails, stored.details_json),
        reason=stored.reason,
        stored_json=stored.details_json,
    )


def row_of(stored: LogRow, message: Message | None) -> Row:
    """Return the row whose columns these are, without the bytes of its pictures."""
    node, text_json = _NODES[stored.node_type], stored.metadata_json
    data = {} if text_json == "{}" else json.loads(text_json)
    details = read_details(node, data, stored.phase, message)
    values: list[Any] = [node, stored.trace_id, stored.timestamp, message, *_SAME_OF(stored)]
    values += [str(data.get("text", "")), details, text_json, {}, bool(stored.keep_pictures)]
    return Row(*values)


_KINDS: Final = defaultdict[tuple[NodeType, str], list[type[RowDetails]]](list)
"""The types of details that rows of a type and a kind may have."""

for _module in (row_details, decisions, marks):
    for _one in vars(_module).values():
        if isinstance(_one, type) and issubclass(_one, RowDetails) and _one.kinds:
            for _node in _one.nodes if _one.__module__ == _module.__name__ else ():
                for _kind in _one.kinds:
                    _KINDS[_node, _kind].append(_one)


def read_details(
    node: NodeType, data: Mapping[str, Any], phase: str | None, message: Message | None
) -> RowDetails | None:
    """Return what a row says in its JSON; None: nothing, or what this version does not know."""
    kinds = _KINDS.get((node, str(data.get("kind", "")))) if data else None
    if not kinds:
        return None
    if node == NodeType.TOOL_RESULT and message is not None and "interrupted" not in data:
        by_text = message.failed and message.text == INTERRUPTED_TEXT  # an earlier version
        data = {**data, "interrupted": by_text}
    union = kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - made when it runs
    try:
        details: RowDetails = adapter_of(union).validate_python(data, context=phase or "")
    except ValidationError:
        return None
    return details
