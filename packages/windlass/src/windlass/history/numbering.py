"""How a batch becomes numbered rows: serialised by `prepare`, numbered by `NumberedBatch`.

What takes time without a lock (serialising and hashing bodies) happens in `prepare`. Numbering
reads its store through `SessionReader` only, and is the same for every store: so a history that
moves from one to another keeps every id and digest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Batch, CallRecord, EditRecord, Outcome, Row, ShownMessage
from windlass.history.blobs import LostMessage
from windlass.history.packing import (
    DIGESTED,
    BodyRow,
    CallRow,
    EditRow,
    ImageRow,
    LogRow,
    OutcomeRow,
    SessionRow,
    StateRow,
    TableRow,
)
from windlass.messages import Message, Text
from windlass.safety.foreign import whole_number
from windlass.selection.card import Card

INLINE: Final = 4096
"""Bytes of canonical JSON up to which a body stands in the database; above, it is a blob."""


@dataclass(slots=True)
class PreparedBatch:
    """A batch with its bodies serialised: rows for their tables, bytes for the blobs.

    `extra_bodies` are the keys of bodies that calls and edits bring. `needed` are the blobs
    that the bodies refer to, whether their bytes came with the batch or are expected in the
    store.
    """

    batch: Batch
    session_id: str
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
        if isinstance(message, LostMessage):
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

    @property
    def traces(self) -> list[str]:
        """Return the traces of its rows."""
        return [packing.text(row.trace_id) for row in self.batch.rows]

    def session_row(self) -> SessionRow:
        """Return the session's own row, of a batch that begins one."""
        start = self.batch.start
        assert start is not None
        return SessionRow(
            self.session_id,
            packing.text(start.cascade_id),
            packing.text(start.model),
            packing.real(start.timestamp),
            packing.to_json(start.input),
            packing.to_json(start.cascade),
            None if start.parent_id is None else packing.text(start.parent_id),
            None if start.parent_phase is None else packing.text(start.parent_phase),
            start.sounding_index,
        )

    def missing_picture(self, sha256: str) -> StoreError:
        """Return the error for a picture whose bytes are nowhere."""
        return self.refusal(f"the bytes of picture {sha256!r} are neither given nor stored")

    def refusal(self, reason: str) -> StoreError:
        """Return the error that stops this batch."""
        return StoreError(f"{reason} (session {self.batch.session_id!r}): nothing was recorded")


def prepare(batch: Batch) -> PreparedBatch:
    """Serialise a batch. Raises StoreError for pictures that do not belong to their row."""
    prepared = PreparedBatch(batch, packing.text(batch.session_id))
    for row in batch.rows:
        if row.message is not None:
            prepared.add(row.message, row.pictures)
        shown = {picture.sha256 for picture in row.message.pictures} if row.message else set[str]()
        for sha in row.pictures:
            if sha not in shown:
                raise StoreError(
                    f"row {row.trace_id!r} brings picture {sha!r}, which its message does not "
                    "show: nothing was recorded"
                )
    extra = [message for call in batch.calls for message in call.bodies]
    extra += [edit.replacement for edit in batch.edits if edit.replacement is not None]
    for message in extra:
        prepared.add(message, {})
        prepared.extra_bodies.append(message.key)
    return prepared


class SessionReader(Protocol):
    """What a store reads of one session, anew at each call; all in order."""

    number: int
    """The session's number in its store."""

    def start(self) -> SessionRow:
        """Return how it began."""

    def log(self, after: int = 0, phase: str | None = None) -> list[LogRow]:
        """Return the first rows (`PORTION`) behind number `after`."""

    def table(self, kind: type[TableRow]) -> list[TableRow]:
        """Return its rows of another table; images by the row that shows them."""

    def results(self) -> list[tuple[str, str]]:
        """Return (Reference, key) of the results that have a visible file."""

    def extra_bodies(self) -> set[str]:
        """Return the keys of bodies that calls and edits brought or show."""

    def tool_lists(self) -> dict[str, str]:
        """Return the tools that its calls sent: JSON by its SHA-256."""

    def digests(self) -> dict[int, str]:
        """Return the digest of each batch by its number."""

    def last_batch(self) -> tuple[int, str] | None:
        """Return number and digest of the last batch."""

    def has_body(self, key: str) -> bool:
        """Return whether the store has a body of that key."""

    def traces_among(self, traces: list[str]) -> list[str]:
        """Return those of these traces that the session has rows of."""

    def cards(self) -> list[Card]:
        """Return the cards of its messages."""

    def without_cards(self, after: int, limit: int) -> list[LogRow]:
        """Return the first rows behind `after` whose messages may have a card and have none."""


@dataclass(slots=True)
class SessionHead:
    """What an appender must know of a session: numbers given so far, and the last window.

    True up to `batch`, whose digest tells whether another process has appended since.
    `numbers` are the highest of each table, `tools` the hashes of tool lists. `counts` are
    occurrences by content hash; `fresh` those of the batch being written, apart until it is
    committed (copying all counts for each batch would be quadratic).
    """

    session: SessionReader
    batch: int
    digest: str
    numbers: Counter[type] = field(default_factory=Counter[type])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    fresh: dict[str, int] = field(default_factory=dict[str, int])
    tools: set[str] = field(default_factory=set[str])
    window: tuple[ShownMessage, ...] = ()
    bodies: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Return whether nobody has appended since."""
        return self.session.last_batch() == (self.batch, self.digest)

    def count(self, content_hash: str) -> int:
        """Return how often the message occurs."""
        return self.fresh.get(content_hash) or self.counts.get(content_hash, 0)

    def has(self, message_id: str) -> bool:
        """Return whether an occurrence of that id is in the session."""
        content_hash, _, number = message_id.rpartition("-")
        return 1 <= (whole_number(number) or 0) <= self.count(content_hash)


class NumberedBatch:
    """A batch as rows, by their table. Raises StoreError where it names what is not there.

    `tools` is JSON by its SHA-256 of the tool lists that are new to the session;
    `extra_bodies` the keys of bodies that calls and edits brought or show; `head` what there is
    of the session once this is committed; `ids` the occurrence ids of the batch's rows.
    """

    def __init__(self, prepared: PreparedBatch, head: SessionHead) -> None:
        self.prepared = prepared
        self.head = replace(head, batch=head.batch + 1, numbers=head.numbers.copy(), fresh={})
        self.ids: list[str | None] = []
        self.rows: dict[type, list[Any]] = {kind: [] for kind in (*DIGESTED, ImageRow)}
        self.tools: dict[str, str] = {}
        self.extra_bodies = dict.fromkeys(prepared.extra_bodies)
        batch = prepared.batch
        for row in batch.rows:
            self._add_row(row)
        for call in batch.calls:
            self._add_call(call)
        for edit in batch.edits:
            self._add_edit(edit)
        for change in batch.state:
            phase, key = packing.text(change.phase), packing.text(change.key)
            value = packing.to_json(change.value)
            self._add(StateRow(*self._next(StateRow), phase, key, value))
        for outcome in batch.outcomes:
            self._add_outcome(outcome)
        self.head.digest = packing.batch_digest(head.digest, *map(self.rows.__getitem__, DIGESTED))

    def settle(self) -> None:
        """Count the batch, which is committed, in."""
        self.head.counts.update(self.head.fresh)
        self.head.fresh = {}
        self.head.tools.update(self.tools)

    def _next(self, kind: type) -> tuple[int, int, int]:
        """Return the numbers of the next row of a table: its session, its own, and its batch."""
        head = self.head
        head.numbers[kind] += 1
        return head.session.number, head.numbers[kind], head.batch

    def _add(self, row: NamedTuple) -> None:
        self.rows[type(row)].append(row)

    def _add_row(self, row: Row) -> None:
        key = None if row.message is None else row.message.key
        occurrence = message_id = None
        if key is not None:
            # Counted by the short hash, so that an id stays unique even where two
            # different messages share their first 16 digits.
            short = key[:16]
            occurrence = self.head.fresh[short] = self.head.count(short) + 1
            message_id = packing.occurrence_id(key, occurrence)
        self.ids.append(message_id)
        self._add(packing.log_row(row, self._next(LogRow), occurrence))
        if row.keep_pictures and row.message is not None:
            self._add_images(packing.text(row.phase or ""), row.message, row.sounding_index)

    def _add_images(self, phase: str, message: Message, sounding: int | None) -> None:
        session = self.head.session
        images = [*session.table(ImageRow), *self.rows[ImageRow]]
        images = [image for image in images if image.phase == phase]
        # A file's number counts the pictures of its own sounding.
        first = packing.image_name(self.prepared.session_id, phase, 0, "", sounding)
        beginning = first.removesuffix("0.bin")
        before = sum(image.name.startswith(beginning) for image in images)
        shown = [picture for picture in message.pictures if picture.sha256]
        for number, picture in enumerate(shown, len(images)):
            self.rows[ImageRow].append(
                ImageRow(
                    session.number,
                    phase,
                    number,
                    self.head.numbers[LogRow],
                    picture.sha256,
                    packing.image_name(
                        self.prepared.session_id,
                        phase,
                        number - len(images) + before,
                        picture.media_type,
                        sounding,
                    ),
                )
            )

    def _must_know(self, message_id: str) -> None:
        if not self.head.has(message_id):
            raise self.prepared.refusal(
                f"there is no message {message_id!r} that the batch could refer to"
            )

    def _must_have_body(self, key: str) -> None:
        if key in self.extra_bodies:
            return
        if key not in self.prepared.bodies and not self.head.session.has_body(key):
            raise self.prepared.refusal(
                f"the body {key!r} is shown in a window but was never given"
            )
        # It may have come with another session, which `prune` must then not take it with.
        self.extra_bodies[key] = None

    def _add_call(self, call: CallRecord) -> None:
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
        if tools not in head.tools:
            self.tools[tools] = tools_json
        base = head.numbers[CallRow] or None  # the call before
        self._add(
            CallRow(
                *self._next(CallRow),
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
                details_json=packing.call_json(call),
            )
        )
        head.window, head.bodies = shown, bodies

    def _add_edit(self, edit: EditRecord) -> None:
        self._must_know(edit.message_id)
        self._add(
            EditRow(
                *self._next(EditRow),
                message_id=edit.message_id,
                kind=edit.kind,
                because=packing.text(edit.because),
                reason=packing.text(edit.reason),
                replacement=None if edit.replacement is None else edit.replacement.key,
            )
        )

    def _add_outcome(self, outcome: Outcome) -> None:
        trace = packing.optional(outcome.output_trace)
        if (
            trace is not None
            and all(row.trace_id != trace for row in self.rows[LogRow])
            and not self.head.session.traces_among([trace])
        ):
            raise self.prepared.refusal(f"there is no row {trace!r} that could be an output")
        self._add(
            OutcomeRow(
                *self._next(OutcomeRow),
                phase=packing.optional(outcome.phase),
                status=outcome.status,
                timestamp=packing.real(outcome.timestamp),
                output_trace=trace,
                error=packing.optional(outcome.error),
                hidden=int(outcome.hidden),
                details_json=packing.outcome_json(outcome),
                reason=outcome.reason,
            )
        )


def reference_taken(ref: str, key: str) -> StoreError:
    """Return the error for a reference that stands for another message."""
    return StoreError(
        f"the reference {ref!r} stands for message {key!r} already: "
        "a reference must not be given twice"
    )
