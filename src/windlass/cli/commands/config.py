"""`windlass config`."""

from __future__ import annotations

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import printed_as_json


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
