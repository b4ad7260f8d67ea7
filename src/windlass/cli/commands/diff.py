"""`windlass diff`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from windlass.cli.command import command
from windlass.cli.options import Session, StoreOption
from windlass.cli.output import out, printed_as_json, shorten


@command()
def diff(
    session: Session,
    other: Annotated[str, Argument(help="The other session.")],
    *,
    store: StoreOption = None,
) -> None:
    """Show where two sessions part, and what each cost."""
    from windlass.cli.named_store import open_existing
    from windlass.cli.printed_tables import print_table
    from windlass.cli.session_text import ENDING
    from windlass.report.diff import compare_sessions
    from windlass.text.cell_tables import table_of

    with open_existing(store) as history:
        names = [history.find_session(name) for name in (session, other)]
        found = compare_sessions(history, names[0], names[1])
    if printed_as_json(found):
        return
    where = "" if found.call is None else f"call {found.call}: "
    out.print(f"{where}{found.what}")
    for info, text in zip(found.sessions, found.texts, strict=True):
        if text:
            out.print(f"  {info.session_id}: {shorten(text, 400)}")
    out.print()
    print_table(table_of(found.sessions, {"session": lambda info: info.session_id, **ENDING}))
