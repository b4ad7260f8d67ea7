"""`windlass explain`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from windlass.cli.command import command
from windlass.cli.options import Session, StoreOption


@command()
def explain(
    session: Session,
    call: Annotated[int, Argument(help="The number of the call, counted from 1.")],
    *,
    store: StoreOption = None,
) -> None:
    """Explain what became of each message at a call, and why."""
    from windlass.cli.explanation_text import print_explanation

    print_explanation(session, call, store)
