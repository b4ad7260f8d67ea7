"""`windlass callout`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from windlass.cli.command import command
from windlass.cli.options import Session, StoreOption
from windlass.cli.output import out, printed_as_json


@command()
def callout(
    session: Session,
    ref: Annotated[
        str,
        Argument(help="A message: id, hash, the beginning of either, or a tool (its last result)."),
    ],
    name: Annotated[str, Argument(help="The name of the callout.")],
    *,
    store: StoreOption = None,
) -> None:
    """Mark a message as important: windows keep it whole, and its name finds it."""
    from windlass.cli.named_store import open_existing
    from windlass.cli.session_cards import mark_message
    from windlass.cli.session_text import beginning_of, place_of, role_of
    from windlass.history.callout_rows import check_callout_name, find_callouts
    from windlass.history.decisions import CalloutMark

    checked = check_callout_name(name)
    with open_existing(store, writing=True) as history:
        session = history.find_session(session)
        marked = mark_message(history, session, ref, lambda id_: CalloutMark(id_, checked, "user"))
        callouts = find_callouts(history.rows(session))
    (made,) = [each for each in callouts if each.message_id == marked]
    message = made.stored.row.message
    if printed_as_json({"name": made.name, "message_id": marked, "message": message}):
        return
    out.print(f"called out as {made.name!r}: {marked}, {role_of(made)}, {place_of(made)}")
    out.print(f"    {beginning_of(made)}")
    out.hint(f"\nall of them: windlass show {session}")
