"""Commands about schemas, and about stores beside each other: schema, migrate."""

from __future__ import annotations

from os import environ
from pathlib import Path

from windlass.cli.output import note, out, print_json, progress
from windlass.errors import UsageError, did_you_mean
from windlass.settings import read_store


def schema_command(
    of: str, *, cluster: str | None, ttl_days: int | None, vectors: int | None
) -> None:
    """Print the schema of cascades or tasks, or the statements that make a store."""
    if of == "clickhouse":
        from windlass.history.clickhouse.tables import TableOptions, script

        for name, value in (("--ttl-days", ttl_days), ("--vectors", vectors)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be a whole number from 1, not {value}")
        options = TableOptions(ttl_days=ttl_days, vectors=vectors, cluster=cluster)
        out.print(script(options), markup=False, highlight=False, soft_wrap=True, end="")
        return
    if of not in ("cascade", "operators"):
        known = ("cascade", "clickhouse", "operators")
        raise UsageError(f"no schema of {of!r}: {did_you_mean(of, known)}")
    if cluster is not None or ttl_days is not None or vectors is not None:
        raise UsageError(
            "--cluster, --ttl-days and --vectors are for tables: windlass schema clickhouse"
        )
    if of == "operators":
        from windlass.operators.reading import relax_ng

        out.print(relax_ng(), markup=False, highlight=False, soft_wrap=True, end="")
        return
    from windlass.cascade.schema import json_schema

    print_json(json_schema())


def migrate_command(source: str, target: str, *, as_json: bool) -> None:
    """Copy every session and prove it; raise StoreError where something did not arrive."""
    from windlass.history.migrating import Copied, migrate
    from windlass.history.places import open_place

    here = Path.cwd()
    places = read_store(source, here), read_store(target, here)
    if places[0] == places[1]:
        raise UsageError(f"{source!r} and {target!r} are one store")
    copied: list[Copied] = []

    def tell(number: int, count: int, name: str) -> None:
        if not as_json:
            progress.print(f"[{number}/{count}] {name}", markup=False)

    with (
        open_place(places[0], environ, existing=True) as given,
        open_place(places[1], environ) as made,
    ):
        copied.extend(migrate(given, made, on_session=tell, on_lost=note))
    if as_json:
        print_json(copied)
        return
    new = sum(one.new_rows for one in copied)
    out.print(
        f"{len(copied)} sessions, {sum(one.rows for one in copied):,} rows"
        f" ({new:,} of them new there), {sum(one.calls for one in copied):,} calls,"
        f" {sum(one.edits for one in copied):,} edits: counts and hashes agree;"
        f" {sum(one.cards for one in copied):,} cards"
    )
