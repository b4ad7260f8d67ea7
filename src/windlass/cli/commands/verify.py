"""`windlass verify`."""

from __future__ import annotations

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import out, printed_as_json, progress
from windlass.errors import StoreError, UsageError


@command()
def verify(*, store: StoreOption = None) -> None:
    """Verify the store: recompute its hashes and windows, list damage."""
    from pathlib import Path

    from windlass.api.opening import open_store
    from windlass.caching.rates import many
    from windlass.cli.named_store import read_settings
    from windlass.cli.progress import show_count
    from windlass.history import sqlite
    from windlass.history.places import check_folder

    settings = read_settings(store)
    place = settings.store
    if isinstance(place, Path):
        check_folder(place)
    with show_count(progress, "verifying") as count:
        if not isinstance(place, Path):
            with open_store(settings, existing=True) as history:
                findings = list(history.verify(count))
        elif place.is_dir():
            # Not through the history: a store may be too damaged to be opened.
            findings = list(sqlite.verify_store(place, count))
        else:
            raise UsageError(f"there is no store in {str(place)!r}")
    damage = [finding for finding in findings if finding.severity == "damage"]
    if not printed_as_json(findings):
        for finding in findings:
            out.print(f"{finding.severity}: {finding.where}: {finding.what}")
        if not damage:
            out.print(f"the store {str(place)!r} is sound")
    if damage:
        raise StoreError(
            f"the store {str(place)!r} is damaged in {many(len(damage), 'place')};"
            " what is undamaged can still be read"
        )
