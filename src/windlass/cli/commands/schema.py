"""`windlass schema`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.output import out, print_json
from windlass.errors import UsageError, did_you_mean


@command(has_json=False)
def schema(
    of: Annotated[
        str, Argument(help="cascade (JSON Schema), operators (RELAX NG) or clickhouse (SQL).")
    ] = "cascade",
    *,
    cluster: Annotated[
        str | None, Option(help="clickhouse: Replicated and Distributed tables on it.")
    ] = None,
    ttl_days: Annotated[
        int | None, Option(help="clickhouse: sessions expire this many days after they began.")
    ] = None,
    vectors: Annotated[
        int | None, Option(help="clickhouse: index embeddings of this many dimensions.")
    ] = None,
) -> None:
    """Print the schema of cascades or tasks, or the SQL of ClickHouse tables."""
    from windlass.cascade.published_schema import json_schema
    from windlass.history.clickhouse.layout import TableOptions, script
    from windlass.tasks.parse import relax_ng

    if of == "clickhouse":
        for name, value in (("--ttl-days", ttl_days), ("--vectors", vectors)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be a whole number from 1, not {value}")
        options = TableOptions(ttl_days=ttl_days, vectors=vectors, cluster=cluster)
        out.print(script(options), end="")
    elif of not in ("cascade", "operators"):
        names = ("cascade", "clickhouse", "operators")
        raise UsageError(f"no schema of {of!r}: {did_you_mean(of, names)}")
    elif cluster is not None or ttl_days is not None or vectors is not None:
        raise UsageError(
            "--cluster, --ttl-days and --vectors are for tables: windlass schema clickhouse"
        )
    elif of == "operators":
        out.print(relax_ng(), end="")
    else:
        print_json(json_schema())
