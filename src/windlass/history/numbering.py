"""How a batch gets its numbers: the rows of every table, made of what is known of its session.

Pure but for the three questions it asks of its keeper (`Looks`), and the same for every
keeper: so a history that moves from one store to another keeps every id and digest.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import CallRecord, EditRecord, Outcome, Row, ShownMessage

if TYPE_CHECKING:
    from windlass.history.appending import Prepared


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
    rows: int
    calls: int
    edits: int
    state: int
    outcomes: int
    counts: dict[str, int]
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


class Looks(Protocol):
    """What numbering must ask of a keeper about the session (outside the batch itself)."""

    def images(self, known: SessionHead, phase: str) -> int:
        """How many pictures the phase has visible names for."""
        ...

    def has_body(self, known: SessionHead, key: str) -> bool:
        """Whether the store has a body of that key."""
        ...

    def has_row(self, known: SessionHead, trace_id: str) -> bool:
        """Whether the session has a row of that trace."""
        ...


@dataclass(slots=True)
class Numbered:
    """A batch as rows, each a tuple in the order of the columns in `packing`.

    `images` are (session_no, phase, number, seq, sha256, name); `tools` JSON by its
    SHA-256; `made` the bodies that calls and edits brought or show; `known` what is known
    of the session once this is committed; `ids` the occurrence ids of the batch's rows.
    """

    known: SessionHead
    ids: tuple[str | None, ...] = ()
    log: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    calls: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    edits: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    state: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    outcomes: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    images: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    made: dict[str, None] = field(default_factory=dict[str, None])


def refusal(prepared: Prepared, what: str) -> StoreError:
    """The error that stops this batch."""
    return StoreError(f"{what} (session {prepared.batch.session_id!r}): nothing was recorded")


def session_values(prepared: Prepared) -> tuple[Any, ...]:
    """The session's own row, without its number: what its first digest is made of."""
    start = prepared.batch.start
    assert start is not None
    return (
        prepared.session_id,
        packing.text(start.cascade_id),
        packing.text(start.model),
        packing.real(start.timestamp),
        packing.to_json(start.input),
        packing.to_json(start.cascade),
    )


def begun(session_no: int, prepared: Prepared) -> SessionHead:
    """What is known of a session before its first batch."""
    digest = packing.digest(*session_values(prepared))
    return SessionHead(session_no, 0, digest, 0, 0, 0, 0, 0, {})


def number(prepared: Prepared, known: SessionHead, looks: Looks) -> Numbered:
    """The batch's rows. Raises StoreError where it names what is not in the record."""
    known = replace(known, batch=known.batch + 1, fresh={})
    numbered = Numbered(known, made=dict.fromkeys(prepared.made))
    _log(prepared, numbered, looks)
    for call in prepared.batch.calls:
        numbered.calls.append(_call(prepared, numbered, looks, call))
    for edit in prepared.batch.edits:
        numbered.edits.append(_edit(prepared, known, edit))
    _state(prepared, numbered)
    for outcome in prepared.batch.outcomes:
        numbered.outcomes.append(_outcome(prepared, known, looks, outcome))
    known.digest = packing.digest(
        known.digest,
        numbered.log,
        numbered.calls,
        numbered.edits,
        numbered.state,
        numbered.outcomes,
    )
    return numbered


def _log(prepared: Prepared, numbered: Numbered, looks: Looks) -> None:
    known = numbered.known
    counts, fresh = known.counts, known.fresh
    ids: list[str | None] = []
    images: defaultdict[str, int] = defaultdict(int)
    for row, values in zip(prepared.batch.rows, prepared.log, strict=True):
        known.rows += 1
        if row.message is None:
            ids.append(None)
        else:
            key = row.message.key
            # Counted by the short hash, so that an id stays unique even where two
            # different messages share their first 16 digits.
            short = key[:16]
            count = (fresh.get(short) or counts.get(short, 0)) + 1
            fresh[short] = count
            values[packing.OCCURRENCE] = count
            ids.append(packing.occurrence_id(key, count))
        numbered.log.append((known.session_no, known.rows, known.batch, *values))
        if row.keep_pictures and row.message is not None:
            phase = packing.text(row.phase or "")
            if phase not in images:
                images[phase] = looks.images(known, phase)
            images[phase] += _images(prepared, numbered, row, phase, images[phase])
    numbered.ids = tuple(ids)


def _images(prepared: Prepared, numbered: Numbered, row: Row, phase: str, count: int) -> int:
    known = numbered.known
    added = 0
    assert row.message is not None
    for picture in row.message.pictures:
        if not picture.sha256:
            continue
        name = packing.image_name(prepared.session_id, phase, count + added, picture.media_type)
        numbered.images.append(
            (known.session_no, phase, count + added, known.rows, picture.sha256, name)
        )
        added += 1
    return added


def _must_know(prepared: Prepared, known: SessionHead, message_id: str) -> None:
    if not known.has(message_id):
        raise refusal(prepared, f"there is no message {message_id!r} that the batch could refer to")


def _must_have_body(prepared: Prepared, numbered: Numbered, looks: Looks, key: str) -> None:
    if key in numbered.made:
        return
    if key not in prepared.bodies and not looks.has_body(numbered.known, key):
        raise refusal(prepared, f"the body {key!r} is shown in a window but was never given")
    # It may have come with another session, which `prune` must then not take it with.
    numbered.made[key] = None


def _call(
    prepared: Prepared, numbered: Numbered, looks: Looks, call: CallRecord
) -> tuple[Any, ...]:
    known = numbered.known
    base = known.calls or None
    shown = packing.clean_shown(call.shown)
    packed = packing.against(known.window, shown)
    for entry in packed:
        if isinstance(entry, list):
            continue
        _must_know(prepared, known, entry.message_id)
        if entry.shown_as is not None:
            _must_have_body(prepared, numbered, looks, entry.shown_as)
    bodies = tuple(message.key for message in call.bodies)
    tools_json = packing.to_json([dict(tool) for tool in call.tools])
    tools = hashlib.sha256(tools_json.encode()).hexdigest()
    numbered.tools[tools] = tools_json
    known.calls += 1
    values = (
        known.session_no,
        known.calls,
        known.batch,
        packing.text(call.trace_id),
        packing.text(call.model),
        call.request_hash,
        call.sent_tokens,
        call.full_tokens,
        tools,
        base,
        len(shown),
        packing.pack_window(packed),
        packing.pack_keys(known.bodies, bodies),
        packing.to_json(call.details),
    )
    known.window, known.bodies = shown, bodies
    return values


def _edit(prepared: Prepared, known: SessionHead, edit: EditRecord) -> tuple[Any, ...]:
    _must_know(prepared, known, edit.message_id)
    known.edits += 1
    return (
        known.session_no,
        known.edits,
        known.batch,
        edit.message_id,
        edit.kind,
        packing.text(edit.because),
        packing.text(edit.reason),
        None if edit.replacement is None else edit.replacement.key,
    )


def _state(prepared: Prepared, numbered: Numbered) -> None:
    known = numbered.known
    for change in prepared.batch.state:
        known.state += 1
        numbered.state.append(
            (
                known.session_no,
                known.state,
                known.batch,
                packing.text(change.phase),
                packing.text(change.key),
                packing.to_json(change.value),
            )
        )


def _outcome(
    prepared: Prepared, known: SessionHead, looks: Looks, outcome: Outcome
) -> tuple[Any, ...]:
    trace = packing.optional(outcome.output_trace)
    if (
        trace is not None
        and all(values[0] != trace for values in prepared.log)
        and not looks.has_row(known, trace)
    ):
        raise refusal(prepared, f"there is no row {trace!r} that could be an output")
    known.outcomes += 1
    return (
        known.session_no,
        known.outcomes,
        known.batch,
        packing.optional(outcome.phase),
        outcome.status,
        packing.real(outcome.timestamp),
        trace,
        packing.optional(outcome.error),
        int(outcome.hidden),
        packing.to_json(outcome.details),
    )
