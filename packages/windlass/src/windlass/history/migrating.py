"""A history from one store to another, with the proof that it arrived.

Sessions are copied row by row, in order, and never changed: what the target has of a session
must be the beginning of what the source has, and only the rest is appended. So a copy that was
interrupted goes on where it stopped, and one that is complete copies nothing. Afterwards both
stores are read back and compared, session by session: counts, and a hash over everything.

Knows stores by their protocol only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from windlass.errors import StoreError
from windlass.history import packing
from windlass.history.base import Batch, Row, SessionInfo, Store, StoredRow
from windlass.history.blobs import LostMessage
from windlass.messages import Message, canonical_json
from windlass.selection.card import Card

_Item = TypeVar("_Item")

_ROWS: Final = 200
"""Rows that go into one batch."""

_CARDS: Final = 1_000
"""Cards that are copied at once."""

_BYTES: Final = 16_000_000
"""Bytes of texts and pictures that go into one batch (a single row may have more)."""


@dataclass(frozen=True, slots=True)
class SessionCopy:
    """One session: its numbers in both stores, how much was new, and the hash of it all.

    `cards` are beside the hash: they are derived, and the newer one of a message stands.
    """

    session_id: str
    rows: int
    new_rows: int
    calls: int
    edits: int
    pictures: int
    cards: int
    hash: str


@dataclass(slots=True)
class _Missing:
    """What of a session cannot be read, by its key or SHA-256."""

    messages: set[str] = field(default_factory=set[str])
    pictures: set[str] = field(default_factory=set[str])

    def take(self, *messages: Message | None) -> None:
        """Note those messages that are stand-ins."""
        self.messages.update(each.key for each in messages if isinstance(each, LostMessage))


def migrate(
    source: Store,
    target: Store,
    *,
    on_session: Callable[[int, int, str], None] | None = None,
    on_lost: Callable[[str], None] = lambda _: None,
) -> Iterator[SessionCopy]:
    """Copy every session of `source`, oldest first, and yield each once it is proven.

    `on_session` hears of each before it is copied: its number, how many there are, its name;
    `on_lost` of each message that is missing or changed in the source. The target has its key
    then, and its text once it is stored there.
    Raises StoreError where the target has another session of the same name, or where what
    arrived is not what was sent.
    """
    source.mark_lost(on_lost)
    target.mark_lost(lambda _: None)
    listed = list(reversed(source.sessions()))
    there = {info.session_id for info in target.sessions()}
    for number, info in enumerate(listed, 1):
        if on_session is not None:
            on_session(number, len(listed), info.session_id)
        yield _copy(source, target, info, on_lost, begun=info.session_id in there)


def _copy(
    source: Store,
    target: Store,
    info: SessionInfo,
    on_lost: Callable[[str], None],
    *,
    begun: bool,
) -> SessionCopy:
    name = info.session_id
    start = source.start(name)
    if not begun:
        target.append(Batch(name, start=start))
    elif target.start(name) != start:
        raise _differs(name, "how it began")
    parts, arrived = _parts(source, name), _parts(target, name)
    rest: dict[str, Any] = {what: _rest(name, what, parts[what], arrived[what]) for what in parts}
    new_rows = 0
    for portion in _portions(_new_rows(source, target, name)):
        gone: set[str] = set()
        rows = [_with_bytes(source, stored, gone) for stored in portion]
        target.append(Batch(name, rows=rows, lost=frozenset(gone)))
        new_rows += len(portion)
    target.append(Batch(name, **rest))
    for ref, key in source.results(name):
        target.store_tool_result(name, ref, key)
    lost, missing = _Missing(), _Missing()
    sent = fingerprint(source, name, lost)
    copied = fingerprint(target, name, missing)
    for sha in sorted(lost.pictures):
        on_lost(f"the file of picture {sha!r} of session {name!r} is missing or has been changed")
    there = missing.messages <= lost.messages and missing.pictures <= lost.pictures
    if copied != sent or not there:
        raise StoreError(
            f"session {name!r} did not arrive whole (source {sent}, target {copied}): run "
            "`windlass verify` on both stores"
        )
    return replace(sent, new_rows=new_rows, cards=_copy_cards(source, target, name))


def _copy_cards(source: Store, target: Store, name: str) -> int:
    """Copy the cards that are newer than the target's, and prove it; how many there are.

    Cards are derived and may be made anew on both sides: the newer one of a message stands.
    """
    cards = source.cards(name)
    new = _newer(cards, target.cards(name))
    for at in range(0, len(new), _CARDS):
        target.put_cards(name, new[at : at + _CARDS])
    missing = _newer(new, target.cards(name)) if new else []
    if missing:
        raise StoreError(
            f"{len(missing)} cards of session {name!r} did not arrive, the first that of message "
            f"{missing[0].id}: run `windlass verify` on both stores"
        )
    return len(cards)


def _newer(cards: Sequence[Card], than: Sequence[Card]) -> list[Card]:
    others = {card.id: card for card in than}
    return [
        card
        for card in cards
        if (other := others.get(card.id)) is None
        or (card != other and card.generated_at >= other.generated_at)
    ]


def _parts(store: Store, name: str) -> dict[str, Sequence[Any]]:
    """Return what a session has besides its rows, by the fields of a batch."""
    return {
        "calls": store.calls(name),
        "edits": store.edits(name),
        "state": store.state(name),
        "outcomes": store.outcomes(name),
    }


def _rest(name: str, what: str, source: Sequence[_Item], target: Sequence[_Item]) -> list[_Item]:
    """Return what the target lacks. Raises StoreError where it has something else."""
    if _plain(source[: len(target)]) != _plain(target):
        raise _differs(name, f"its {what}")
    return list(source[len(target) :])


def _new_rows(source: Store, target: Store, name: str) -> Iterator[StoredRow]:
    there = target.rows(name)
    for stored in source.rows(name):
        other = next(there, None)
        if other is None:
            yield stored
        elif _without_message(other) != _without_message(stored):
            raise _differs(name, f"row {stored.seq}")
    if next(there, None) is not None:
        raise _differs(name, "the number of its rows")


def _without_message(stored: StoredRow) -> tuple[StoredRow, str]:
    """Return the row for comparing: its key tells of its message, also where that is lost."""
    return replace(stored, row=replace(stored.row, message=None)), stored.row.stored_json


def _portions(rows: Iterator[StoredRow]) -> Iterator[list[StoredRow]]:
    portion: list[StoredRow] = []
    size = 0
    for stored in rows:
        message = stored.row.message
        # A picture's size is not known before it is read; a large one is a few megabytes.
        weight = 0 if message is None else message.chars + 2_000_000 * len(message.pictures)
        if portion and (len(portion) >= _ROWS or size + weight > _BYTES):
            yield portion
            portion, size = [], 0
        portion.append(stored)
        size += weight
    if portion:
        yield portion


def _with_bytes(source: Store, stored: StoredRow, lost: set[str]) -> Row:
    """Return the row with its pictures; those that cannot be read are added to `lost`."""
    row = stored.row
    pictures: dict[str, bytes] = {}
    for shown in row.message.pictures if row.message else ():
        if shown.sha256:
            data = _picture(source, shown.sha256, lost)
            if data is not None:
                pictures[shown.sha256] = data
    return replace(row, pictures=pictures)


def _picture(store: Store, sha256: str, lost: set[str]) -> bytes | None:
    """The bytes of a picture; None, and one more in `lost`, where they are missing or changed."""
    try:
        return store.picture(sha256)
    except StoreError as error:
        if not isinstance(error.__cause__, FileNotFoundError | ValueError):
            raise  # the store failed, which says nothing of the picture
        lost.add(sha256)
        return None


def fingerprint(store: Store, name: str, missing: _Missing | None = None) -> SessionCopy:
    """Return counts of a session, and a hash over all that a store gives back of it.

    What cannot be read is noted in `missing`; without it a picture that is lost is a StoreError.

    SHA-256 over the canonical JSON of its start, rows with ids, calls, edits, state,
    outcomes and stored results, each in order; pictures are read, so that their hashes hold.
    """
    digest = hashlib.sha256()

    def take(value: Any) -> None:
        digest.update(canonical_json(_plain(value)).encode("ascii") + b"\n")

    take(store.start(name))
    rows = 0
    pictures: set[str] = set()
    for stored in store.rows(name):
        rows += 1
        take(
            [
                stored.seq,
                stored.id,
                stored.key,
                packing.log_row(stored.row, (0, 0, 0), None),
            ]
        )
        message = stored.row.message
        if missing is not None:
            missing.take(message)
        if message is not None:
            pictures.update(picture.sha256 for picture in message.pictures if picture.sha256)
    for sha in pictures:
        if missing is None:
            store.picture(sha)
        else:
            _picture(store, sha, missing.pictures)
    parts = _parts(store, name)
    if missing is not None:
        missing.take(*(edit.replacement for edit in parts["edits"]))
        missing.take(*(body for call in parts["calls"] for body in call.bodies))
    for part in (*parts.values(), store.results(name)):
        take([len(part)])
        for record in part:
            take(record)
    return SessionCopy(
        session_id=name,
        rows=rows,
        new_rows=0,
        calls=len(parts["calls"]),
        edits=len(parts["edits"]),
        pictures=len(pictures),
        cards=0,
        hash=digest.hexdigest(),
    )


def _plain(value: Any) -> Any:
    """Give a value of the protocol as JSON: messages by their key, dataclasses by their fields."""
    match value:
        case Message():
            return value.key
        case str() | int() | float() | None:
            return value
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return [_plain(getattr(value, each.name)) for each in fields(value)]


def _differs(name: str, what: str) -> StoreError:
    return StoreError(
        f"the target has a session {name!r} already, and it differs in {what}: migrate to an "
        "empty store, or prune that session there; nothing of it was changed"
    )
