"""`windlass callout` and `windlass cards`: marks on messages, and what messages are chosen by."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from windlass.caching.rates import override
from windlass.cli.ending import finish
from windlass.cli.options import (
    AsJson,
    Session,
    StoreOption,
    open_existing,
    open_marked,
    read_settings,
)
from windlass.cli.output import money, note, out, print_json, print_table, progress
from windlass.cli.show import callout_row
from windlass.engine.card_indexer.indexer import (
    FLAG,
    CardFailures,
    card_models,
    failed_of,
    items_for_cards,
    make_cards,
    maker_of,
)
from windlass.errors import UsageError
from windlass.history.base import Batch, NodeType, Row, Store, StoredRow
from windlass.history.callouts import called_out, checked_name, find_message, mark_of
from windlass.history.cards import cards_of, mark_cards, pin_of
from windlass.providers.at_hand import Providers
from windlass.selection.card import Card
from windlass.settings import Settings

_SUMMARY = 90
"""Characters of a summary in the table."""


def callout_command(
    session: Session,
    ref: Annotated[
        str, typer.Argument(help="A message: its id, its hash or the beginning of it, a tool.")
    ],
    name: Annotated[str, typer.Argument(help="The name of the callout.")],
    *,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Mark the message that `ref` names, and print it."""
    checked = checked_name(name)
    with open_existing(store, writing=True) as history:
        history.start(session)  # says which sessions there are, where this is none
        message_id = _mark(history, session, ref, lambda id_: mark_of(id_, checked, "user"))
        callouts = called_out(history.rows(session))
    (callout,) = [each for each in callouts if each.message_id == message_id]
    if as_json:
        message = callout.stored.row.message
        print_json({"name": callout.name, "message_id": message_id, "message": message})
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


@dataclass(frozen=True, slots=True)
class _View:
    """The cards of a session, the messages that wait for one, and what cards lack."""

    cards: Mapping[str, Card]
    waiting: Sequence[str]
    failed: Mapping[str, str]


def cards_command(
    session: Session,
    *,
    make: Annotated[
        bool, typer.Option("--make", help="Make those that are missing or lack something.")
    ] = False,
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Make all of them anew.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those that lack a summary or a vector.")
    ] = False,
    pin: Annotated[
        str | None, typer.Option(help="A message (as in callout) that is always included.")
    ] = None,
    unpin: Annotated[
        str | None, typer.Option(help="A message that is no longer always included.")
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the cards of a session; with `make` or `regenerate` make them first."""
    settings = read_settings(store)
    writing = make or regenerate or pin is not None or unpin is not None
    work: CardFailures | None = None
    with open_marked(settings, writing=writing) as history:
        history.start(session)  # says which sessions there are, where this is none
        if pin is not None:
            _mark(history, session, pin, partial(pin_of, pinned=True))
        if unpin is not None:
            _mark(history, session, unpin, partial(pin_of, pinned=False))
        if make or regenerate:
            work = _make(history, session, settings, regenerate=regenerate, quiet=as_json)
        view = _look(history, session)
    shown = [card for card in view.cards.values() if not failed or card.id in view.failed]
    if as_json:
        print_json(
            {
                "session_id": session,
                "cards": [_plain(card, view) for card in shown],
                "waiting": view.waiting,
                "failed": view.failed,
                "made": None if work is None else work.made,
                "cost": None if work is None else _cost(work),
            }
        )
        return
    if work is not None:
        _print_work(work)
    if shown:
        _print(shown, view)
    elif failed:
        out.print("no card of this session lacks anything")
    _print_rest(session, view)


def _look(store: Store, session: str) -> _View:
    rows = list(store.rows(session))
    cards = cards_of(store, session)
    waiting = [item.id for item in items_for_cards(_waiting(store, session))]
    return _View(cards, waiting, failed_of(rows, cards))


def _waiting(store: Store, session: str) -> list[StoredRow]:
    waiting: list[StoredRow] = []
    while rows := store.without_cards(session, after=waiting[-1].seq if waiting else 0):
        waiting += rows
    return waiting


def _make(
    store: Store, session: str, settings: Settings, *, regenerate: bool, quiet: bool
) -> CardFailures:
    if not settings.auto_context_cards_enabled:
        raise UsageError(f"no cards are made, because {settings[FLAG].origin} switches them off")
    providers = Providers({}, settings, warn=note)
    cascade = store.start(session).cascade
    maker = maker_of(settings, providers.resolve, cascade)
    names = card_models(settings, cascade)
    if names and not quiet:
        progress.print(f"models that see content: {', '.join(names)}")
    # What failed before is asked for again; with `regenerate` everything is.
    again = None if regenerate else list(_look(store, session).failed)

    def tell(count: int) -> None:
        if not quiet and count % 500 < maker.options.batch_size:
            progress.print(f"{count:,} cards")

    async def work() -> CardFailures:
        try:
            return await make_cards(store, session, maker, _decision, again=again, on_progress=tell)
        finally:
            await providers.close()

    with override(settings.prices):
        return finish(work())


def _cost(work: CardFailures) -> float | None:
    dollars = [spent.dollars for spent in work.spent]
    return None if None in dollars else sum(each for each in dollars if each is not None)


def _print_work(work: CardFailures) -> None:
    cost = f", {money(_cost(work))}" if work.spent else ""
    out.print(f"{work.made:,} cards made{cost}")
    for failure in work.failures:
        out.print(f"    {failure.text}")
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
    name = [f"called out: {card.callout}" if card.callout else "called out"] * card.is_callout
    return ", ".join([*name, *["pinned"] * card.is_anchor, *["failed"] * failed])


def _print_rest(session: str, view: _View) -> None:
    if view.cards:
        out.print()
    cards = f"{len(view.cards):,} card{'' if len(view.cards) == 1 else 's'}"
    out.print(f"{cards}, {len(view.waiting):,} messages wait for one")
    for why in dict.fromkeys(view.failed.values()):
        count = sum(reason == why for reason in view.failed.values())
        out.print(f"{count:,} lack something: {why}")
    if view.waiting or view.failed:
        out.print(f"make them: windlass cards {session} --make")


def _plain(card: Card, view: _View) -> dict[str, Any]:
    fields = asdict(card)
    fields["dimensions"] = len(fields.pop("embedding"))
    return {**fields, "is_callout": card.is_callout, "failed": view.failed.get(card.id)}
