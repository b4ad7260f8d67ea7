"""`windlass prune`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import out, printed_as_json, to_plain
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
    """Delete sessions, what hooks noted of them and what only they use. Nothing else deletes."""
    import time
    from functools import partial

    from windlass.api.opening import open_store
    from windlass.caching.rates import many
    from windlass.cli.named_store import read_age, read_settings
    from windlass.hooks.hooked_sessions import agent_names, prune_journals

    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else read_age(older_than)
    if older_than is not None and age is None:
        raise UsageError(
            f"--older-than {older_than!r} must be a number with a unit: 90d, 12h, 30m, 45s"
        )
    now = time.time()
    with open_store(read_settings(store), existing=True, writing=True) as history:
        session_id = None if session is None else history.find_session(session)
        ask = partial(history.prune, older_than_s=age, session_id=session_id, now=now)
        names = agent_names(history, ask(dry_run=True).sessions)
        pruned = ask(dry_run=dry_run)
        journals = prune_journals(history.folder, names, age, now, dry_run=dry_run)
    if printed_as_json({**to_plain(pruned), **to_plain(journals)}):
        return
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{verb} {many(len(pruned.sessions), 'session')}, {many(pruned.rows, 'row')},"
        f" {many(pruned.bodies, 'body', 'bodies')}, {many(pruned.blobs, 'file')} of"
        f" {many(pruned.bytes, 'byte')}"
    )
    for name in pruned.sessions:
        out.print(f"  {name}")
    if journals.journals:
        out.print(f"{verb} what hooks noted of {many(len(journals.journals), 'session')}")
        for name in journals.journals:
            out.print(f"  {name}")
    for names_left, why in ((pruned.running, "running"), (journals.in_use, "in use by an agent")):
        if names_left:
            out.print(f"left alone, as they are {why}: {', '.join(names_left)}")
