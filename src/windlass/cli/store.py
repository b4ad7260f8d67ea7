"""The store that `--store` names, and what is done with whole stores: verify, prune, migrate."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from os import environ
from pathlib import Path

from windlass.api.opening import open_store
from windlass.caching.rates import many
from windlass.cli.output import note, out, printed_as_json, progress
from windlass.cli.progress import counting
from windlass.errors import StoreError, UsageError
from windlass.history import sqlite
from windlass.history.base import Store
from windlass.history.migrating import migrate
from windlass.history.places import check_folder, open_place
from windlass.settings.fields import read_store
from windlass.settings.settings import Settings

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_DAY = re.compile(r"\d{4}-?(\d\d-?\d\d|W\d\d-?\d)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read_settings(store: str | None) -> Settings:
    """The settings of a command that only takes `--store`."""
    return Settings.read({"store": store})


def open_existing(store: str | None, *, writing: bool = False) -> Store:
    """The store that the flag, the variable or the file names. Raises UsageError if none is there.

    Raises StoreError if `writing` is meant and it cannot be written.
    """
    return open_marked(read_settings(store), writing=writing)


def open_marked(settings: Settings, *, writing: bool = False) -> Store:
    """A store to look into: lost messages are left out, and named in a note."""
    store = open_store(settings, existing=True, writing=writing)
    store.mark_lost(note)
    return store


def verify_store(name: str | None) -> None:
    """Print what disagrees; raise StoreError where there is damage."""
    settings = read_settings(name)
    store = settings.store
    if isinstance(store, Path):
        check_folder(store)
    with counting(progress, "verifying") as count:
        if not isinstance(store, Path):
            with open_store(settings, existing=True) as history:
                findings = list(history.verify(count))
        elif store.is_dir():
            # Not through the history: a store may be too damaged to be opened.
            findings = list(sqlite.verify_store(store, count))
        else:
            raise UsageError(f"there is no store in {str(store)!r}")
    damage = [finding for finding in findings if finding.severity == "damage"]
    if not printed_as_json(findings):
        for finding in findings:
            out.print(f"{finding.severity}: {finding.where}: {finding.what}")
        if not damage:
            out.print(f"the store {str(store)!r} is sound")
    if damage:
        raise StoreError(
            f"the store {str(store)!r} is damaged in"
            f" {many(len(damage), 'place')}; what is whole can still be read"
        )


def prune_store(
    older_than: str | None, session: str | None, store: str | None, *, dry_run: bool
) -> None:
    """Remove sessions by age or by name."""
    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else _age(older_than)
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


def _age(text: str) -> float | None:
    match = _AGE.fullmatch(text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def read_time(option: str, text: str, *, whole_day: bool = False) -> float:
    """The time, in seconds since 1970, that an option names: an ISO date in UTC, or an age.

    `whole_day`: a date without a time stands for its end. Raises UsageError.
    """
    if (age := _age(text)) is not None:
        return time.time() - age
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if whole_day and _DAY.fullmatch(text.strip()):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!r} must be a date such as 2026-01-31 or 2026-01-31T08:00, in UTC, or"
            " an age such as 2h or 3d"
        ) from error


def migrate_store(source: str, target: str) -> None:
    """Copy every session and prove it; raise StoreError where something did not arrive."""
    here = Path.cwd()
    places = read_store(source, here), read_store(target, here)
    if places[0] == places[1]:
        raise UsageError(f"{source!r} and {target!r} are one store")

    def report_progress(number: int, count: int, name: str) -> None:
        if not out.as_json:
            progress.print(f"[{number}/{count}] {name}")

    with (
        open_place(places[0], environ, existing=True) as old,
        open_place(places[1], environ) as new,
    ):
        copies = list(migrate(old, new, on_session=report_progress, on_lost=note))
    if printed_as_json(copies):
        return
    out.print(
        f"{many(len(copies), 'session')}, {many(sum(copy.rows for copy in copies), 'row')}"
        f" ({sum(copy.new_rows for copy in copies):,} of them new there),"
        f" {many(sum(copy.calls for copy in copies), 'call')},"
        f" {many(sum(copy.edits for copy in copies), 'edit')}: counts and hashes agree;"
        f" {many(sum(copy.cards for copy in copies), 'card')}"
    )
