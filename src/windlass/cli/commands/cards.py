"""`windlass cards`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import Session, StoreOption
from windlass.cli.output import out, printed_as_json


@command()
def cards(
    session: Session,
    *,
    make: Annotated[
        bool, Option("--make", help="Make the cards that are missing or incomplete.")
    ] = False,
    regenerate: Annotated[bool, Option("--regenerate", help="Make all of them again.")] = False,
    failed: Annotated[
        bool, Option("--failed", help="Only cards without a summary or a vector.")
    ] = False,
    pin: Annotated[
        str | None, Option(help="A message (as in callout) that is always included.")
    ] = None,
    unpin: Annotated[
        str | None, Option(help="A message that is no longer always included.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Show or make the context cards by which messages are chosen."""
    from functools import partial

    from windlass.caching.rates import many, money
    from windlass.cli.named_store import open_reporting_losses, read_settings
    from windlass.cli.session_cards import (
        card_fields,
        make_cards_of,
        mark_message,
        print_cards,
        print_missing,
        view_cards,
    )
    from windlass.history.decisions import PinMark

    settings = read_settings(store)
    pins = [(ref, pinned) for ref, pinned in ((pin, True), (unpin, False)) if ref is not None]
    writing = make or regenerate or bool(pins)
    work = None
    with open_reporting_losses(settings, writing=writing) as history:
        session = history.find_session(session)
        for ref, pinned in pins:
            mark_message(history, session, ref, partial(PinMark, pinned=pinned, by="user"))
        if make or regenerate:
            work = make_cards_of(history, session, settings, regenerate=regenerate)
        view = view_cards(history, session)
    shown = [card for card in view.cards.values() if not failed or card.id in view.failed]
    costs = [spent.dollars for spent in work.spent] if work else []
    cost = None if None in costs else sum(dollars or 0.0 for dollars in costs)
    answer = {
        "session_id": session,
        "cards": [card_fields(card, view) for card in shown],
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
    if shown:
        print_cards(shown, view)
    elif failed:
        out.print("no card of this session lacks anything")
    print_missing(session, view)
