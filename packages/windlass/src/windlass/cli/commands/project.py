"""Commands on a project: check, schema, models, config, trust."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.app import command
from windlass.cli.options import Lenient, StoreOption, Through, Trust
from windlass.cli.output import out, print_json, printed_as_json
from windlass.errors import UsageError, did_you_mean
from windlass.settings.plugins import STORES, load_plugin


@command()
def check(
    file: Annotated[
        Path, Argument(metavar="CASCADE", help="A cascade in JSON or YAML, or a task in XML.")
    ],
    *,
    explain_defaults: Annotated[
        bool, Option("--explain-defaults", help="Print each setting with its origin.")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Treat warnings as mistakes.")] = False,
    lenient: Lenient = False,
    through: Through = None,
    trust: Trust = False,
) -> None:
    """Find every mistake in a cascade or task, with file and line."""
    from windlass.api.loading import ReadingOptions
    from windlass.cli.checking import check_file

    how = ReadingOptions(trust=trust, lenient=lenient)
    check_file(file, how, strict=strict, explain=explain_defaults, through=through)


@command(has_json=False)
def schema(
    of: Annotated[
        str, Argument(help="cascade (JSON Schema), operators (RELAX NG) or clickhouse (SQL).")
    ] = "cascade",
    *,
    ttl_days: Annotated[
        int | None, Option(help="clickhouse: sessions expire this many days after they began.")
    ] = None,
    vectors: Annotated[
        int | None, Option(help="clickhouse: index embeddings of this many dimensions.")
    ] = None,
) -> None:
    """Print the schema of cascades or tasks, or the SQL of ClickHouse tables."""
    from windlass.cascade.published_schema import json_schema
    from windlass.tasks.parse import relax_ng

    if of == "clickhouse":
        for name, value in (("--ttl-days", ttl_days), ("--vectors", vectors)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be a whole number from 1, not {value}")
        plugin = load_plugin(STORES, of)
        options = plugin.TableOptions(ttl_days=ttl_days, vectors=vectors)
        out.print(plugin.script(options), end="")
    elif of not in ("cascade", "operators"):
        names = ("cascade", "clickhouse", "operators")
        raise UsageError(f"no schema of {of!r}: {did_you_mean(of, names)}")
    elif ttl_days is not None or vectors is not None:
        raise UsageError("--ttl-days and --vectors are for tables: windlass schema clickhouse")
    elif of == "operators":
        out.print(relax_ng(), end="")
    else:
        print_json(json_schema())


@command()
def models(
    model: Annotated[
        str | None, Argument(help="provider/model: its prices, window and cache.")
    ] = None,
) -> None:
    """List the providers and their keys, or describe one model."""
    from windlass.cli.model_facts import print_model, print_providers

    print_providers() if model is None else print_model(model)


@command()
def config(*, store: StoreOption = None) -> None:
    """Print each setting with its value and its origin."""
    from windlass.cli.named_store import read_settings
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable

    rows = read_settings(store).rows()
    if not printed_as_json(rows):
        cells = [[row.name, str(row.value), row.origin, row.help] for row in rows]
        print_table(CellTable(["setting", "value", "origin", "meaning"], cells))


@command()
def trust(
    folder: Annotated[
        Path | None, Argument(help="The folder (without it: list the trusted ones).")
    ] = None,
    *,
    remove: Annotated[bool, Option("--remove", help="Stop trusting it.")] = False,
) -> None:
    """Trust a folder: its windlass.toml may name code, commands and where keys go."""
    from windlass.settings import trust as marks

    if folder is None:
        if remove:
            raise UsageError("say which folder: windlass trust FOLDER --remove")
        trusted = [str(each) for each in marks.trusted_folders()]
        if not printed_as_json({"trusted": trusted}):
            out.print("\n".join(trusted) or "no folder is trusted; mark one: windlass trust FOLDER")
        return
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder")
    if not remove:
        marks.trust(folder)
    elif not marks.distrust(folder):
        raise UsageError(f"{str(folder.resolve())!r} is not marked as trusted itself")
    if printed_as_json({"folder": str(folder.resolve()), "trusted": not remove}):
        return
    done = "no longer trusted" if remove else "trusted, with the folders below it"
    out.print(f"{folder.resolve()}: {done}")
