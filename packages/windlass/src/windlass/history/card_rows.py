"""Cards in a history: what of a session wants one, and what people marked since it was made.

The queue is the history itself: what waits is each message without a card. Marks (callouts,
pins) are rows of the record; a card repeats the newest, so that SQL finds it there. Knows
stores by their protocol only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from windlass.history.base import NodeType, Store, StoredRow
from windlass.history.blobs import LostMessage
from windlass.history.lanes import standing
from windlass.history.marks import CalloutMark, PinMark
from windlass.selection.card import Card
from windlass.window.entries import Item

NODES: Final = (
    NodeType.USER,
    NodeType.AGENT,
    NodeType.FOLLOW_UP,
    NodeType.TOOL_RESULT,
    NodeType.CONTEXT_INJECTION,
)
"""The kinds of rows whose messages may have cards."""

_BRINGS_BACK: Final = frozenset({"recall", "search_context"})
"""Tools whose results are originals brought back."""


def item_of(stored: StoredRow) -> Item | None:
    """Return a row's message as it occurred; None where it has none, or where it is lost.

    Originals that were brought back are of the kind `recall`: they have a card already.
    """
    row = stored.row
    if row.message is None or stored.id is None or isinstance(row.message, LostMessage):
        return None
    recalled = row.message.role == "tool" and row.message.name in _BRINGS_BACK
    return Item(
        id=stored.id,
        message=row.message,
        node="recall" if recalled else row.node_type,
        phase=row.phase,
        turn=row.turn,
        attempt=row.attempt,
    )


@dataclass(slots=True)
class CardMarks:
    """What people, models and rules marked so far: names of callouts and pins, by message id."""

    callouts: dict[str, str]
    pins: dict[str, bool]

    @classmethod
    def of(cls, rows: Iterable[StoredRow]) -> CardMarks:
        """Return the marks among a session's rows, the newest of each message."""
        marks = cls({}, {})
        for stored in standing(rows):
            marks.take(stored)
        return marks

    def take(self, stored: StoredRow) -> None:
        """Count one more row in."""
        if mark := CalloutMark.read(stored.row):
            self.callouts[mark.message_id] = mark.name
        elif pin := PinMark.read(stored.row):
            self.pins[pin.message_id] = pin.pinned

    def on(self, card: Card) -> Card:
        """Return the card as it is marked; the same one where it says so already."""
        callout, pinned = self.callouts.get(card.id), self.pins.get(card.id, card.is_anchor)
        if (card.callout, card.is_anchor) == (callout, pinned):
            return card
        return replace(card, callout=callout, is_anchor=pinned)


def mark_cards(store: Store, session_id: str, now: float) -> int:
    """Bring the cards of a session up to its marks; how many were behind."""
    cards = store.cards(session_id)
    if not cards:
        return 0
    marks = CardMarks.of(store.rows(session_id))
    behind = [marked for card in cards if (marked := marks.on(card)) is not card]
    # Cards of the same second are told apart by their order: the later one stands.
    store.put_cards(session_id, [replace(card, generated_at=int(now)) for card in behind])
    return len(behind)


def cards_of(store: Store, session_id: str) -> dict[str, Card]:
    """Return the cards of a session by message id, in its order; {} where there are none.

    It may lie behind: a message without a card has none here, and whoever needs one makes it
    by rule (`Index.card` does).
    """
    return {card.id: card for card in store.cards(session_id)}
