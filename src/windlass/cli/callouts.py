"""`windlass callout`: a person marks a message of a session as important."""

from __future__ import annotations

import secrets
import time

from windlass.cli.look import callout_row, open_existing
from windlass.cli.output import out, print_json
from windlass.history.base import Batch, NodeType, Row
from windlass.history.callouts import called_out, checked_name, find_message, mark_of
from windlass.history.cards import mark_cards


def callout_command(session: str, ref: str, name: str, store: str | None, *, as_json: bool) -> None:
    """Mark the message that `ref` names, and print it."""
    called = checked_name(name)
    keeper = open_existing(store, writing=True)
    try:
        keeper.start(session)  # says which sessions there are, where this is none
        rows = list(keeper.rows(session))
        found = find_message(rows, ref)
        assert found.id is not None
        mark = Row(
            NodeType.DECISION,
            secrets.token_hex(8),
            time.time(),
            phase=found.row.phase,
            turn=found.row.turn,
            parent_id=found.row.trace_id,
            metadata=mark_of(found.id, called, "user"),
        )
        keeper.append(Batch(session, rows=[mark]))
        mark_cards(keeper, session, time.time())
        marked = called_out(keeper.rows(session))
    finally:
        keeper.close()
    (one,) = [each for each in marked if each.message_id == found.id]
    if as_json:
        print_json(
            {"name": one.name, "message_id": one.message_id, "message": one.stored.row.message}
        )
        return
    _, message_id, role, where, _, text = callout_row(one)
    out.print(f"called out as {one.name!r}: {message_id}, {role}, {where}", markup=False)
    out.print(f"    {text}", markup=False)
    out.print(f"\nall of them: windlass show {session}", markup=False)
