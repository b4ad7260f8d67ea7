"""`windlass callout` and `windlass cards`: marks on messages, and what messages are chosen by."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from windlass.caching.rates import many, money, override
from windlass.cli.ending import finish
from windlass.cli.output import note, out, print_table, printed_as_json, progress
from windlass.cli.show import callout_row
from windlass.cli.store import open_existing, open_marked, read_settings
from windlass.engine.cards.card_models import FLAG, card_models, maker_of
from windlass.engine.cards.card_queue import CardsMade, failed_of, items_for_cards, make_cards
from windlass.errors import UsageError
from windlass.history.base import Batch, NodeType, Row, Store
from windlass.history.callout_rows import called_out, checked_name, find_message, mark_of
from windlass.history.card_rows import cards_of, mark_cards, pin_of
from windlass.providers.at_hand import Providers
from windlass.selection.card import Card
from windlass.settings.settings import Settings

_SUMMARY = 90
"""Characters of a summary in the table."""


def call_out(session: str, ref: str, name: str, store: str | None) -> None:
    """Mark the message that `ref` names, and print it."""
    checked = checked_name(name)
    with open_existing(store, writing=True) as history:
        session = history.find_session(session)
        message_id = _mark(history, session, ref, lambda id_: mark_of(id_, checked, "user"))
        callouts = called_out(history.rows(session))
    (callout,) = [each for each in callouts if each.message_id == message_id]
    message = callout.stored.row.message
    if printed_as_json({"name": callout.name, "message_id": message_id, "message": message}):
        return
    _, _, role, where, _, text = callout_row(callout)
    out.print(f"called out as {callout.name!r}: {message_id}, {role}, {where}")
    out.print(f"    {text}")
    out.print(f"\nall of them: windlass show {session}")


def _mark(store: Store, session: str, ref: str, mark: Callable[[str], Mapping[str, Any]]) -> str:
    """Record a mark on the message that `ref` names, also on its card; the message's id."""
    stored = find_message(list(store.rows(session)), ref)
    assert stored.id is not None
    row = _decision(
        mark(stored.id), phase=stored.row.phase, turn=stored.row.turn, parent_id=stored.row.trace_id
    )
    store.append(Batch(session, rows=[row]))
    mark_cards(store, session, time.time())
    return stored.id


def _decision(metadata: Mapping[str, Any], **place: Any) -> Row:
    return Row(NodeType.DECISION, secrets.token_hex(8), time.time(), metadata=metadata, **place)


class _View(NamedTuple):
    """The cards of a session, the messages that wait for one, and what cards lack."""

    cards: Mapping[str, Card]
    waiting: Sequence[str]
    failed: Mapping[str, str]


def _look(store: Store, session: str) -> _View:
    cards = cards_of(store, session)
    waiting = items_for_cards(store.without_cards(session, limit=sys.maxsize))
    return _View(cards, [item.id for item in waiting], failed_of(list(store.rows(session)), cards))


def show_cards(
    session: str,
    store: str | None,
    *,
    make: bool,
    regenerate: bool,
    failed: bool,
    pins: Sequence[tuple[str, bool]],
) -> None:
    """Show the cards of a session; with `make` or `regenerate` make them first.

    `pins` are messages with whether they are always included from now on.
    """
    settings = read_settings(store)
    making = make or regenerate
    work: CardsMade | None = None
    with open_marked(settings, writing=making or bool(pins)) as history:
        session = history.find_session(session)
        for ref, pinned in pins:
            _mark(history, session, ref, partial(pin_of, pinned=pinned))
        if making:
            work = _make(history, session, settings, regenerate=regenerate)
        view = _look(history, session)
    cards = [card for card in view.cards.values() if not failed or card.id in view.failed]
    costs = [spent.dollars for spent in work.spent] if work else []
    cost = None if None in costs else sum(dollars or 0.0 for dollars in costs)
    answer = {
        "session_id": session,
        "cards": [_plain(card, view) for card in cards],
        "waiting": view.waiting,
        "failed": view.failed,
        "made": work and work.made,
        "cost": work and cost,
    }
    if printed_as_json(answer):
        return
    if work is not None:
        out.print(f"{many(work.made, 'card')} made{f', {money(cost)}' if costs else ''}")
        for failure in work.failures:
            out.print(f"    {failure.text}")
        out.print()
    if cards:
        _print(cards, view)
    elif failed:
        out.print("no card of this session lacks anything")
    _print_rest(session, view)


def _make(store: Store, session: str, settings: Settings, *, regenerate: bool) -> CardsMade:
    if not settings.auto_context_cards_enabled:
        raise UsageError(f"no cards are made, because {settings[FLAG].origin} switches them off")
    providers = Providers({}, settings, warn=note)
    cascade = store.start(session).cascade
    maker = maker_of(settings, providers.resolve, cascade)
    names = card_models(settings, cascade)
    if names and not out.as_json:
        progress.print(f"models that see content: {', '.join(names)}")
    # What failed before is asked for again; with `regenerate` everything is.
    again = None if regenerate else list(_look(store, session).failed)

    def show_count(count: int) -> None:
        if not out.as_json and count % 500 < maker.options.batch_size:
            progress.print(many(count, "card"))

    async def work() -> CardsMade:
        try:
            return await make_cards(
                store, session, maker, _decision, again=again, on_progress=show_count
            )
        finally:
            await providers.close()

    with override(settings.prices):
        return finish(work())


def _print(cards: Sequence[Card], view: _View) -> None:
    print_table(
        ["message", "role", "said in", "tokens", "by", "vector", "", "summary"],
        [
            [
                card.id,
                card.role,
                f"{card.phase or '-'}:{'-' if card.turn is None else card.turn}",
                f"{card.tokens:,}",
                card.generator_model,
                card.embedding_model or "-",
                _marks(card, failed=card.id in view.failed),
                card.summary if len(card.summary) <= _SUMMARY else card.summary[:_SUMMARY] + "…",
            ]
            for card in cards
        ],
        right=[3],
        whole=[0],
    )


def _marks(card: Card, *, failed: bool) -> str:
    name = [f"called out: {card.callout}" if card.callout else "called out"] * card.is_callout
    return ", ".join([*name, *["pinned"] * card.is_anchor, *["failed"] * failed])


def _print_rest(session: str, view: _View) -> None:
    if view.cards:
        out.print()
    cards = many(len(view.cards), "card")
    out.print(f"{cards}, {len(view.waiting):,} messages wait for one")
    for why, count in Counter(view.failed.values()).items():
        out.print(f"{count:,} lack something: {why}")
    if view.waiting or view.failed:
        out.print(f"make them: windlass cards {session} --make")


def _plain(card: Card, view: _View) -> dict[str, Any]:
    fields = asdict(card)
    fields["dimensions"] = len(fields.pop("embedding"))
    return {**fields, "is_callout": card.is_callout, "failed": view.failed.get(card.id)}
