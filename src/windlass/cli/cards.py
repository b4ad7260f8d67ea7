"""`windlass cards`: the context cards of a session, shown, made, made anew."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import environ
from pathlib import Path
from typing import Any

from windlass.caching.rates import override
from windlass.cli.look import open_marked
from windlass.cli.output import money, out, print_json, print_table, progress
from windlass.cli.waiting import finish
from windlass.engine.carding.beside import FLAG, card_models, make_cards, maker_of
from windlass.engine.carding.queue import Told, failed_of, wanted
from windlass.errors import UsageError
from windlass.history.base import Batch, Keeper, NodeType, Row, StoredRow
from windlass.history.callouts import find_message
from windlass.history.cards import cards_of, mark_cards, pin_of
from windlass.providers.at_hand import Providers
from windlass.selection.card import Card
from windlass.settings import Settings

_SUMMARY = 90
"""Characters of a summary in the table."""


@dataclass(frozen=True, slots=True)
class _View:
    """What there is of a session: cards, messages that wait for one, and what cards lack."""

    cards: Mapping[str, Card]
    waiting: Sequence[str]
    failed: Mapping[str, str]


def cards_command(
    session: str,
    store: str | None,
    *,
    make: bool,
    regenerate: bool,
    failed: bool,
    pin: str | None,
    unpin: str | None,
    as_json: bool,
) -> None:
    """Show the cards of a session; with `make` or `regenerate` make them first."""
    settings = Settings.read({"store": store}, environ, Path.cwd())
    writing = make or regenerate or pin is not None or unpin is not None
    keeper = open_marked(settings, writing=writing)
    told: Told | None = None
    try:
        keeper.start(session)  # says which sessions there are, where this is none
        for ref, pinned in ((pin, True), (unpin, False)):
            if ref is not None:
                _pin(keeper, session, ref, pinned=pinned)
        if make or regenerate:
            told = _make(keeper, session, settings, regenerate=regenerate, quiet=as_json)
        view = _look(keeper, session)
    finally:
        keeper.close()
    shown = [card for card in view.cards.values() if not failed or card.id in view.failed]
    if as_json:
        print_json(
            {
                "session_id": session,
                "cards": [_plain(card, view) for card in shown],
                "waiting": view.waiting,
                "failed": view.failed,
                "made": None if told is None else told.made,
                "cost": None if told is None else _cost(told),
            }
        )
        return
    if told is not None:
        _print_made(told)
    if shown:
        _print(shown, view)
    elif failed:
        out.print("no card of this session lacks anything")
    _print_rest(session, view)


def _look(keeper: Keeper, session: str) -> _View:
    rows = list(keeper.rows(session))
    cards = cards_of(keeper, session)
    waiting = [item.id for item in wanted(_waiting(keeper, session))]
    return _View(cards, waiting, failed_of(rows, cards))


def _waiting(keeper: Keeper, session: str) -> list[StoredRow]:
    found: list[StoredRow] = []
    while rows := keeper.without_cards(session, after=found[-1].seq if found else 0):
        found += rows
    return found


def _pin(keeper: Keeper, session: str, ref: str, *, pinned: bool) -> None:
    """Make a message an anchor, or no anchor any more, in the record and on its card."""
    found = find_message(list(keeper.rows(session)), ref)
    assert found.id is not None
    mark = Row(
        NodeType.DECISION,
        secrets.token_hex(8),
        time.time(),
        phase=found.row.phase,
        turn=found.row.turn,
        parent_id=found.row.trace_id,
        metadata=pin_of(found.id, pinned=pinned),
    )
    keeper.append(Batch(session, rows=[mark]))
    mark_cards(keeper, session, time.time())


def _make(
    keeper: Keeper, session: str, settings: Settings, *, regenerate: bool, quiet: bool
) -> Told:
    if not settings.auto_context_cards_enabled:
        raise UsageError(f"no cards are made, because {settings[FLAG].origin} switches them off")
    providers = Providers({}, settings, warn=_warn)
    cascade = keeper.start(session).cascade
    maker = maker_of(settings, providers.resolve, cascade)
    names = card_models(settings, cascade)
    if names and not quiet:
        progress.print(f"models that see content: {', '.join(names)}", markup=False)
    # What failed before is asked for again; with `regenerate` everything is.
    again = None if regenerate else list(_look(keeper, session).failed)

    def new_row(told: Mapping[str, Any]) -> Row:
        return Row(NodeType.DECISION, secrets.token_hex(8), time.time(), metadata=told)

    def tell(count: int) -> None:
        if not quiet and count % 500 < maker.options.batch_size:
            progress.print(f"{count:,} cards", markup=False)

    async def work() -> Told:
        try:
            return await make_cards(keeper, session, maker, new_row, again=again, on_progress=tell)
        finally:
            await providers.close()

    with override(settings.prices):
        return finish(work())


def _warn(text: str) -> None:
    progress.print(f"note: {text}", markup=False)


def _cost(told: Told) -> float | None:
    dollars = [one.dollars for one in told.spent]
    return None if None in dollars else sum(one for one in dollars if one is not None)


def _print_made(told: Told) -> None:
    took = f", {money(_cost(told))}" if told.spent else ""
    out.print(f"{told.made:,} cards made{took}", markup=False)
    for failure in told.failures:
        out.print(f"    {failure.text}", markup=False)
    out.print()


def _print(cards: Sequence[Card], view: _View) -> None:
    print_table(
        "",
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
    told = [f"called out: {card.callout}" if card.callout else "called out"] * card.is_callout
    return ", ".join([*told, *["pinned"] * card.is_anchor, *["failed"] * failed])


def _print_rest(session: str, view: _View) -> None:
    if view.cards:
        out.print()
    count = f"{len(view.cards):,} card{'' if len(view.cards) == 1 else 's'}"
    out.print(f"{count}, {len(view.waiting):,} messages wait for one", markup=False)
    for why in dict.fromkeys(view.failed.values()):
        ids = [id_ for id_, told in view.failed.items() if told == why]
        out.print(f"{len(ids):,} lack something: {why}", markup=False)
    if view.waiting or view.failed:
        out.print(f"make them: windlass cards {session} --make", markup=False)


def _plain(card: Card, view: _View) -> dict[str, Any]:
    told = asdict(card)
    told["dimensions"] = len(told.pop("embedding"))
    return {**told, "is_callout": card.is_callout, "failed": view.failed.get(card.id)}
