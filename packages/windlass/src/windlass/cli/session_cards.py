"""The cards of a session: read, made and printed; and marks on messages, which cards carry too."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from windlass.caching.rates import many, override
from windlass.cli.ending import run_interruptibly
from windlass.cli.output import note, out, progress
from windlass.cli.printed_tables import print_table
from windlass.engine.cards.card_queue import (
    CardsMade,
    failed_of,
    items_for_cards,
    make_cards,
    queue_of,
)
from windlass.engine.cards.maker import FLAG, card_models, maker_of
from windlass.errors import UsageError
from windlass.history.base import Batch, NodeType, Row, Store
from windlass.history.card_rows import cards_of, mark_cards
from windlass.history.marks import CalloutMark, PinMark, find_message
from windlass.providers.at_hand import Providers
from windlass.selection.card import Card
from windlass.settings.settings import Settings
from windlass.text.cell_tables import Columns, table_of

_SUMMARY = 90
"""Characters of a summary in the table."""


def mark_message(
    store: Store, session: str, ref: str, mark: Callable[[str], CalloutMark | PinMark]
) -> str:
    """Record a mark on the message that `ref` names and on its card; returns the message's id."""
    stored = find_message(list(store.rows(session)), ref)
    assert stored.id is not None
    details, place = mark(stored.id), stored.row
    row = Row(
        NodeType.DECISION,
        parent_id=place.trace_id,
        phase=place.phase,
        turn=place.turn,
        text=details.text,
        details=details,
    )
    store.append(Batch(session, rows=[_stamp(row)]))
    mark_cards(store, session, time.time())
    return stored.id


def _stamp(row: Row) -> Row:
    return replace(row, trace_id=secrets.token_hex(8), timestamp=time.time())


class CardView(NamedTuple):
    """The cards of a session, the messages that wait for one, and what cards lack."""

    cards: Mapping[str, Card]
    waiting: Sequence[str]
    failed: Mapping[str, str]


def view_cards(store: Store, session: str) -> CardView:
    """Return the cards of a session as they are now."""
    cards = cards_of(store, session)
    waiting = items_for_cards(store.without_cards(session, limit=sys.maxsize))
    return CardView(
        cards, [item.id for item in waiting], failed_of(list(store.rows(session)), cards)
    )


def make_cards_of(store: Store, session: str, settings: Settings, *, regenerate: bool) -> CardsMade:
    """Make the cards that are missing or lack something, or all of them (`regenerate`)."""
    if not settings.auto_context_cards_enabled:
        raise UsageError(f"no cards are made, because {settings[FLAG].origin} switches them off")
    providers = Providers({}, settings, warn=note)
    cascade = store.start(session).cascade
    maker = maker_of(settings, providers.resolve, cascade)
    names = card_models(settings, cascade)
    if names and not out.as_json:
        progress.print(f"models that see content: {', '.join(names)}")
    # What failed before is asked for again; with `regenerate` everything is.
    again = None if regenerate else list(view_cards(store, session).failed)

    def show_count(count: int) -> None:
        if not out.as_json and count % 500 < maker.options.batch_size:
            progress.print(many(count, "card"))

    async def work() -> CardsMade:
        try:
            queue = queue_of(store, session, maker, _stamp)
            queue.on_progress = show_count
            return await make_cards(queue, again=again)
        finally:
            await providers.close()

    with override(settings.prices):
        return run_interruptibly(work())


def print_cards(cards: Sequence[Card], view: CardView) -> None:
    """Print cards as a table."""
    columns: Columns[Card] = {
        "message": lambda card: card.id,
        "role": lambda card: card.role,
        "said in": lambda each: f"{each.phase or '-'}:{'-' if each.turn is None else each.turn}",
        "tokens": lambda card: card.tokens,
        "by": lambda card: card.generator_model,
        "vector": lambda card: card.embedding_model or "-",
        "": lambda card: _marks(card, failed=card.id in view.failed),
        "summary": lambda card: _cut(card.summary),
    }
    print_table(table_of(cards, columns), whole=["message"])


def _cut(summary: str) -> str:
    return summary if len(summary) <= _SUMMARY else f"{summary[:_SUMMARY]}…"


def _marks(card: Card, *, failed: bool) -> str:
    name = [f"called out: {card.callout}" if card.callout else "called out"] * card.is_callout
    return ", ".join([*name, *["pinned"] * card.is_anchor, *["failed"] * failed])


def print_missing(session: str, view: CardView) -> None:
    """Print how many cards there are, what is missing, and how it is made."""
    if view.cards:
        out.print()
    cards = many(len(view.cards), "card")
    out.print(f"{cards}, {len(view.waiting):,} messages wait for one")
    for why, count in Counter(view.failed.values()).items():
        out.print(f"{count:,} lack something: {why}")
    if view.waiting or view.failed:
        out.hint(f"make them: windlass cards {session} --make")


def card_fields(card: Card, view: CardView) -> dict[str, Any]:
    """Return a card as `--json` prints it."""
    fields = asdict(card)
    fields["dimensions"] = len(fields.pop("embedding"))
    return {**fields, "is_callout": card.is_callout, "failed": view.failed.get(card.id)}
