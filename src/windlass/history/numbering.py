"""How a batch becomes numbered rows: serialised by `prepare`, numbered by `number`.

Everything that can fail or takes time without a lock (serialising, hashing) happens in
`prepare`. Numbering asks its store for three things only (`Lookups`), and is the same for every
store: so a history that moves from one to another keeps every id and digest.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    Outcome,
    Row,
    ShownMessage,
    StateChange,
)
from windlass.history.lost import Lost
from windlass.history.packing import CallRow, EditRow, ImageRow, LogRow, OutcomeRow, StateRow
from windlass.messages import Message, Text

INLINE: Final = 4096
"""Bytes of canonical JSON up to which a body stands in the database; above, it is a blob."""


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


@dataclass(slots=True)
class Prepared:
    """A batch serialised: rows for the tables, bytes for the blobs.

    `log` has rows without their numbers; `extra_bodies` the keys of bodies that calls
    and edits bring. `needed` are the blobs that the bodies refer to, whether their bytes came
    with the batch or are expected in the store.
    """

    batch: Batch
    session_id: str
    log: list[LogRow] = field(default_factory=list[LogRow])
    bodies: dict[str, BodyRow] = field(default_factory=dict[str, BodyRow])
    body_pictures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    needed: set[str] = field(default_factory=set[str])
    lost: dict[str, BodyRow] = field(default_factory=dict[str, BodyRow])
    extra_bodies: list[str] = field(default_factory=list[str])

    def add(self, message: Message, pictures: Mapping[str, bytes]) -> None:
        """Take in a body, and the bytes of its pictures as far as they are at hand."""
        key = message.key
        if message.pictures:
            self._add_pictures(message, pictures)
        if key in self.bodies:
            return
        if isinstance(message, Lost):
            self.lost[key] = BodyRow(key, message.role, 0, 0, packing.preview(message), None)
            return
        canonical = message.canonical
        parts = message.parts
        inline = len(canonical) <= INLINE
        plain = inline and len(parts) == 1 and isinstance(parts[0], Text)
        self.bodies[key] = BodyRow(
            key,
            message.role,
            message.chars,
            len(message.tool_calls),
            None if plain else packing.preview(message),
            canonical if inline else None,
        )
        if not inline:
            self.blobs[key] = canonical.encode("ascii")
            self.needed.add(key)

    def _add_pictures(self, message: Message, pictures: Mapping[str, bytes]) -> None:
        for picture in message.pictures:
            sha = picture.sha256
            if not sha:
                continue
            if sha not in self.batch.lost:
                self.needed.add(sha)
            if message.key not in self.bodies:
                self.body_pictures.append((message.key, sha))
            data = pictures.get(sha, picture.data)
            if data is None or sha in self.blobs:
                continue
            if hashlib.sha256(data).hexdigest() != sha:
                raise StoreError(
                    f"the bytes given for picture {sha!r} are not those of that SHA-256: "
                    "nothing was recorded"
                )
            self.blobs[sha] = data

    def session_row(self) -> packing.SessionRow:
        """The session's own row, of a batch that begins one."""
        start = self.batch.start
        assert start is not None
        return packing.SessionRow(
            self.session_id,
            packing.text(start.cascade_id),
            packing.text(start.model),
            packing.real(start.timestamp),
            packing.to_json(start.input),
            packing.to_json(start.cascade),
        )

    def refusal(self, reason: str) -> StoreError:
        """The error that stops this batch."""
        return StoreError(f"{reason} (session {self.batch.session_id!r}): nothing was recorded")


def prepare(batch: Batch) -> Prepared:
    """Serialise a batch. Raises StoreError for pictures that do not belong to their row."""
    prepared = Prepared(batch, packing.text(batch.session_id))
    for row in batch.rows:
        if row.message is not None:
            prepared.add(row.message, row.pictures)
        if row.pictures:
            _check_pictures(row)
        prepared.log.append(packing.log_row(row))
    extra = [message for call in batch.calls for message in call.bodies]
    extra += [edit.replacement for edit in batch.edits if edit.replacement is not None]
    for message in extra:
        prepared.add(message, {})
        prepared.extra_bodies.append(message.key)
    return prepared


def _check_pictures(row: Row) -> None:
    shown = {picture.sha256 for picture in row.message.pictures} if row.message else set[str]()
    for sha in row.pictures:
        if sha not in shown:
            raise StoreError(
                f"row {row.trace_id!r} brings picture {sha!r}, which its message does not show: "
                "nothing was recorded"
            )


@dataclass(slots=True)
class SessionHead:
    """What an appender must know of a session: numbers given so far, and the last window.

    True up to `batch`, whose digest tells whether another process has appended since.
    `counts` are occurrences by content hash; `fresh` those of the batch being written,
    apart until it is committed (copying all counts for each batch would be quadratic).
    """

    session_no: int
    batch: int
    digest: str
    rows: int = 0
    calls: int = 0
    edits: int = 0
    state: int = 0
    outcomes: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])
    fresh: dict[str, int] = field(default_factory=dict[str, int])
    window: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()

    def has(self, message_id: str) -> bool:
        """Whether an occurrence of that id is in the session."""
        content_hash, _, number = message_id.rpartition("-")
        last = self.fresh.get(content_hash) or self.counts.get(content_hash, 0)
        return number.isdecimal() and 1 <= int(number) <= last

    def settle(self) -> None:
        """Count the batch just committed in."""
        self.counts.update(self.fresh)
        self.fresh = {}


class Lookups(Protocol):
    """What numbering must ask about the session (outside the batch itself)."""

    def image_count(self, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        ...

    def has_body(self, key: str) -> bool:
        """Whether the store has a body of that key."""
        ...

    def has_row(self, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        ...


@dataclass(slots=True)
class Numbered:
    """A batch as rows of the tables.

    `tools` is JSON by its SHA-256; `extra_bodies` the keys of bodies that calls and edits
    brought or show; `head` what is known of the session once this is committed; `ids` the
    occurrence ids of the batch's rows.
    """

    head: SessionHead
    ids: list[str | None] = field(default_factory=list[str | None])
    log: list[LogRow] = field(default_factory=list[LogRow])
    calls: list[CallRow] = field(default_factory=list[CallRow])
    edits: list[EditRow] = field(default_factory=list[EditRow])
    state: list[StateRow] = field(default_factory=list[StateRow])
    outcomes: list[OutcomeRow] = field(default_factory=list[OutcomeRow])
    images: list[ImageRow] = field(default_factory=list[ImageRow])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    extra_bodies: dict[str, None] = field(default_factory=dict[str, None])


def number(prepared: Prepared, head: SessionHead, lookups: Lookups) -> Numbered:
    """The batch's rows. Raises StoreError where it names what is not in the record."""
    return _Numbering(prepared, head, lookups).numbered()


class _Numbering:
    def __init__(self, prepared: Prepared, head: SessionHead, lookups: Lookups) -> None:
        self.prepared = prepared
        self.head = replace(head, batch=head.batch + 1, fresh={})
        self.lookups = lookups
        self.rows = Numbered(self.head, extra_bodies=dict.fromkeys(prepared.extra_bodies))
        self.images: defaultdict[str, int] = defaultdict(int)

    def numbered(self) -> Numbered:
        batch, rows, head = self.prepared.batch, self.rows, self.head
        for row, values in zip(batch.rows, self.prepared.log, strict=True):
            self._log(row, values)
        rows.calls = [self._call(call) for call in batch.calls]
        rows.edits = [self._edit(edit) for edit in batch.edits]
        rows.state = [self._state(change) for change in batch.state]
        rows.outcomes = [self._outcome(outcome) for outcome in batch.outcomes]
        head.digest = packing.digest(
            head.digest, rows.log, rows.calls, rows.edits, rows.state, rows.outcomes
        )
        return rows

    def _log(self, row: Row, values: LogRow) -> None:
        head = self.head
        head.rows += 1
        occurrence = message_id = None
        if values.key is not None:
            # Counted by the short hash, so that an id stays unique even where two
            # different messages share their first 16 digits.
            short = values.key[:16]
            occurrence = (head.fresh.get(short) or head.counts.get(short, 0)) + 1
            head.fresh[short] = occurrence
            message_id = packing.occurrence_id(values.key, occurrence)
        self.rows.ids.append(message_id)
        self.rows.log.append(
            values._replace(
                session_no=head.session_no, seq=head.rows, batch=head.batch, occurrence=occurrence
            )
        )
        if row.keep_pictures and row.message is not None:
            self._add_images(packing.text(row.phase or ""), row.message)

    def _add_images(self, phase: str, message: Message) -> None:
        head = self.head
        if phase not in self.images:
            self.images[phase] = self.lookups.image_count(phase)
        for picture in message.pictures:
            sha, count = picture.sha256, self.images[phase]
            if sha:
                name = packing.image_name(
                    self.prepared.session_id, phase, count, picture.media_type
                )
                self.rows.images.append(
                    ImageRow(head.session_no, phase, count, head.rows, sha, name)
                )
                self.images[phase] += 1

    def _must_know(self, message_id: str) -> None:
        if not self.head.has(message_id):
            raise self.prepared.refusal(
                f"there is no message {message_id!r} that the batch could refer to"
            )

    def _must_have_body(self, key: str) -> None:
        if key in self.rows.extra_bodies:
            return
        if key not in self.prepared.bodies and not self.lookups.has_body(key):
            raise self.prepared.refusal(
                f"the body {key!r} is shown in a window but was never given"
            )
        # It may have come with another session, which `prune` must then not take it with.
        self.rows.extra_bodies[key] = None

    def _call(self, call: CallRecord) -> CallRow:
        head = self.head
        shown = packing.clean_shown(call.shown)
        packed = packing.against(head.window, shown)
        for entry in packed:
            if isinstance(entry, list):
                continue
            self._must_know(entry.message_id)
            if entry.shown_as is not None:
                self._must_have_body(entry.shown_as)
        bodies = tuple(message.key for message in call.bodies)
        tools_json = packing.to_json([dict(tool) for tool in call.tools])
        tools = hashlib.sha256(tools_json.encode()).hexdigest()
        self.rows.tools[tools] = tools_json
        base = head.calls or None
        head.calls += 1
        row = CallRow(
            session_no=head.session_no,
            number=head.calls,
            batch=head.batch,
            trace_id=packing.text(call.trace_id),
            model=packing.text(call.model),
            request_hash=call.request_hash,
            sent_tokens=call.sent_tokens,
            full_tokens=call.full_tokens,
            tools=tools,
            base=base,
            entries=len(shown),
            window_json=packing.pack_window(packed),
            bodies_json=packing.pack_keys(head.bodies, bodies),
            details_json=packing.to_json(call.details),
        )
        head.window, head.bodies = shown, bodies
        return row

    def _edit(self, edit: EditRecord) -> EditRow:
        head = self.head
        self._must_know(edit.message_id)
        head.edits += 1
        return EditRow(
            session_no=head.session_no,
            number=head.edits,
            batch=head.batch,
            message_id=edit.message_id,
            kind=edit.kind,
            because=packing.text(edit.because),
            reason=packing.text(edit.reason),
            replacement=None if edit.replacement is None else edit.replacement.key,
        )

    def _state(self, change: StateChange) -> StateRow:
        head = self.head
        head.state += 1
        return StateRow(
            session_no=head.session_no,
            number=head.state,
            batch=head.batch,
            phase=packing.text(change.phase),
            key=packing.text(change.key),
            value_json=packing.to_json(change.value),
        )

    def _outcome(self, outcome: Outcome) -> OutcomeRow:
        head = self.head
        trace = packing.optional(outcome.output_trace)
        if (
            trace is not None
            and all(row.trace_id != trace for row in self.rows.log)
            and not self.lookups.has_row(trace)
        ):
            raise self.prepared.refusal(f"there is no row {trace!r} that could be an output")
        head.outcomes += 1
        return OutcomeRow(
            session_no=head.session_no,
            number=head.outcomes,
            batch=head.batch,
            phase=packing.optional(outcome.phase),
            status=outcome.status,
            timestamp=packing.real(outcome.timestamp),
            output_trace=trace,
            error=packing.optional(outcome.error),
            hidden=int(outcome.hidden),
            details_json=packing.to_json(outcome.details),
        )
