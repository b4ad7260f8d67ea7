"""`windlass prune`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import out, printed_as_json
from windlass.errors import UsageError


@command()
def prune(
    *,
    older_than: Annotated[
        str | None, Option("--older-than", help="An age such as 90d, 12h or 30m.")
    ] = None,
    session: Annotated[str | None, Option("--session", help="One session (as in show).")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Delete sessions and what only they use. No other command deletes anything."""
    import time

    from windlass.api.opening import open_store
    from windlass.caching.rates import many
    from windlass.cli.named_store import read_age, read_settings

    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else read_age(older_than)
    if older_than is not None and age is None:
        raise UsageError(
            f"--older-than {older_than!r} must be a number with a unit: 90d, 12h, 30m, 45s"
        )
    with open_store(read_settings(store), existing=True, writing=True) as history:
        session_id = None if session is None else history.find_session(session)
        pruned = history.prune(
            older_than_s=age, session_id=session_id, now=time.time(), dry_run=dry_run
        )
    if printed_as_json(pruned):
        return
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{verb} {many(len(pruned.sessions), 'session')}, {many(pruned.rows, 'row')},"
        f" {many(pruned.bodies, 'body', 'bodies')}, {many(pruned.blobs, 'file')} of"
        f" {many(pruned.bytes, 'byte')}"
    )
    for name in pruned.sessions:
        out.print(f"  {name}")
    if pruned.running:
        out.print(f"left alone, as they are running: {', '.join(pruned.running)}")
