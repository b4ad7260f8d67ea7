"""`windlass migrate`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from windlass.cli.command import command
from windlass.cli.output import note, out, printed_as_json, progress
from windlass.errors import UsageError


@command()
def migrate(
    source: Annotated[str, Argument(help="The store to copy: a folder or an address.")],
    target: Annotated[str, Argument(help="The store to copy to.")],
) -> None:
    """Copy a history to another store and prove that it arrived; may be repeated."""
    from os import environ
    from pathlib import Path

    from windlass.caching.rates import many
    from windlass.history import migrating
    from windlass.history.places import open_place
    from windlass.settings.fields import read_store

    here = Path.cwd()
    places = read_store(source, here), read_store(target, here)
    if places[0] == places[1]:
        raise UsageError(f"{source!r} and {target!r} are one store")

    def show_progress(number: int, count: int, name: str) -> None:
        if not out.as_json:
            progress.print(f"[{number}/{count}] {name}")

    with (
        open_place(places[0], environ, existing=True) as old,
        open_place(places[1], environ) as new,
    ):
        copies = list(migrating.migrate(old, new, on_session=show_progress, on_lost=note))
    if printed_as_json(copies):
        return
    out.print(
        f"{many(len(copies), 'session')}, {many(sum(copy.rows for copy in copies), 'row')}"
        f" ({sum(copy.new_rows for copy in copies):,} of them new there),"
        f" {many(sum(copy.calls for copy in copies), 'call')},"
        f" {many(sum(copy.edits for copy in copies), 'edit')}: counts and hashes agree;"
        f" {many(sum(copy.cards for copy in copies), 'card')}"
    )
