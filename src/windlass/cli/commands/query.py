"""`windlass query`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from typer import Argument, Option
from typer.core import TyperCommand

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import out, print_csv, printed_as_json, shorten
from windlass.errors import UsageError


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class _WithSql(TyperCommand):
    """A command whose argument may begin with `--`, as comments of SQL do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move a comment, and what follows it, behind the options."""
        end = args.index("--") if "--" in args else len(args)
        sql = [arg for arg in args[:end] if self._is_comment(arg)]
        options = [arg for arg in args[:end] if not self._is_comment(arg)]
        return super().parse_args(ctx, [*options, *(["--", *sql] if sql else []), *args[end:]])

    def _is_comment(self, arg: str) -> bool:
        option = re.match(r"--[^\s=]*", arg)
        known = {name for param in self.params for name in param.opts}
        return option is not None and option[0] not in known and bool(re.search(r"\s", arg))


@command(cls=_WithSql)
def query(
    sql: Annotated[str, Argument(help="One SELECT; the main view is unified_logs.")],
    *,
    form: Annotated[
        RowFormat, Option("--format", help="How rows are printed; --json means json.")
    ] = RowFormat.TABLE,
    store: StoreOption = None,
) -> None:
    """Query the history with one read-only SQL statement."""
    from windlass.caching.rates import many
    from windlass.cli.named_store import open_existing
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable

    out.as_json = out.as_json or form is RowFormat.JSON
    if form is RowFormat.CSV and out.as_json:
        raise UsageError("--format csv and --json exclude each other; give one of them")
    with open_existing(store) as history:
        rows = history.query(sql)
    if printed_as_json(rows):
        return
    if form is RowFormat.CSV:
        print_csv(rows)
    elif rows:
        columns = list(rows[0])
        cells = [
            ["" if row[name] is None else shorten(str(row[name]), 200) for name in columns]
            for row in rows
        ]
        ids = [name for name in columns if name.endswith(("_id", "hash"))]
        print_table(CellTable(columns, cells), whole=ids)
        out.print(many(len(rows), "row"))
    else:
        out.print("no rows")
