"""Commands on whole stores: `windlass verify`, `windlass prune`, `windlass migrate`."""

from __future__ import annotations

import re
import time
from os import environ
from pathlib import Path
from typing import Annotated

import typer

from windlass.api import open_store
from windlass.cli.options import AsJson, StoreOption, read_settings
from windlass.cli.output import note, out, print_json, progress
from windlass.errors import StoreError, UsageError
from windlass.history.base import Discrepancy
from windlass.history.migrating import migrate
from windlass.history.places import open_place
from windlass.history.sqlite import verify_store
from windlass.settings import Settings, read_store

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def verify_command(*, store: StoreOption = None, as_json: AsJson = False) -> None:
    """Print what disagrees; raise StoreError where there is damage."""
    settings = read_settings(store)
    findings = _findings(settings)
    damage = [finding for finding in findings if finding.severity == "damage"]
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            out.print(f"{finding.severity}: {finding.where}: {finding.what}")
        if not damage:
            out.print(f"the store {str(settings.store)!r} is sound")
    if damage:
        raise StoreError(
            f"the store {str(settings.store)!r} is damaged in {len(damage)}"
            f" place{'s' if len(damage) != 1 else ''}; what is whole can still be read"
        )


def _findings(settings: Settings) -> list[Discrepancy]:
    store = settings.store
    if isinstance(store, Path):
        if not store.is_dir():
            raise UsageError(f"there is no store in {str(store)!r}")
        # Not through the history: a store may be too damaged to be opened.
        return list(verify_store(store))
    with open_store(settings, existing=True) as history:
        return list(history.verify())


def prune_command(
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="An age such as 90d, 12h or 30m.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="One session.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove sessions by age or by name."""
    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else _age(older_than)
    with open_store(read_settings(store), existing=True, writing=True) as history:
        pruned = history.prune(
            older_than_s=age, session_id=session, now=time.time(), dry_run=dry_run
        )
    if as_json:
        print_json(pruned)
        return
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{verb} {len(pruned.sessions)} sessions, {pruned.rows:,} rows, {pruned.bodies:,} bodies,"
        f" {pruned.blobs:,} files of {pruned.bytes:,} bytes"
    )
    for name in pruned.sessions:
        out.print(f"  {name}")


def _age(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--older-than {text!r} must be a number with a unit: 90d, 12h, 30m, 45s")
    return float(match[1]) * _SECONDS[match[2]]


def migrate_command(
    source: Annotated[str, typer.Argument(help="The store to copy: a folder or an address.")],
    target: Annotated[str, typer.Argument(help="The store to copy to.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Copy every session and prove it; raise StoreError where something did not arrive."""
    here = Path.cwd()
    places = read_store(source, here), read_store(target, here)
    if places[0] == places[1]:
        raise UsageError(f"{source!r} and {target!r} are one store")

    def tell(number: int, count: int, name: str) -> None:
        if not as_json:
            progress.print(f"[{number}/{count}] {name}")

    with (
        open_place(places[0], environ, existing=True) as old,
        open_place(places[1], environ) as new,
    ):
        copies = list(migrate(old, new, on_session=tell, on_lost=note))
    if as_json:
        print_json(copies)
        return
    out.print(
        f"{len(copies)} sessions, {sum(copy.rows for copy in copies):,} rows"
        f" ({sum(copy.new_rows for copy in copies):,} of them new there),"
        f" {sum(copy.calls for copy in copies):,} calls,"
        f" {sum(copy.edits for copy in copies):,} edits: counts and hashes agree;"
        f" {sum(copy.cards for copy in copies):,} cards"
    )
