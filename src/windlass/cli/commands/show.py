"""`windlass show`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import Session, StoreOption


@command()
def show(
    session: Session,
    *,
    call: Annotated[
        int | None, Option("--call", help="One call, by its number, counted from 1.")
    ] = None,
    full: Annotated[bool, Option("--full", help="Print messages whole.")] = False,
    store: StoreOption = None,
) -> None:
    """Show what each call of a session saw: messages, reasons, originals."""
    from windlass.cli.session_text import print_session

    print_session(session, call, store, full=full)
