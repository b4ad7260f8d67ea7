"""`windlass tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import Force, Processes
from windlass.cli.output import note, out, printed_as_json

if TYPE_CHECKING:
    from windlass.replays.tuning import TunedFigure


@command()
def tune(
    folder: Annotated[Path, Argument(help="A folder with recordings, or a file.")],
    *,
    prices: Annotated[
        str | None, Option(help="As in replay (default: those of each recording's own model).")
    ] = None,
    result: Annotated[
        Path | None, Option("--out", help="Write the settings to this file, as YAML.")
    ] = None,
    force: Force = False,
    workers: Processes = None,
) -> None:
    """Find the window settings that serve your own recordings best. Nothing is sent."""
    import os

    from windlass.api import recordings
    from windlass.caching.rates import many
    from windlass.replays.tuning import PARTS
    from windlass.safety.outputs import MARK, check_output, write_output

    if result is not None:
        check_output(result, [folder], force=force)
    count = workers or os.cpu_count() or 1
    tuning = recordings.tune(folder, prices, workers=count, on_skip=note)
    if tuning.is_better and result is not None:
        write_output(result, [f"# {MARK}\n", tuning.yaml()], [folder], force=force)
    if printed_as_json(tuning):
        return
    out.print(
        f"{many(tuning.sessions, 'session')} with {many(tuning.calls, 'call')},"
        f" {many(len(tuning.figures), 'setting')};"
        " on all sessions:"
    )
    _print_figures(tuning.figures)
    choices = ", ".join(f"{name} ({times})" for name, times in tuning.choices.items())
    out.print(
        f"\non sessions not tuned on ({PARTS} parts, each by what the others choose: {choices}):"
    )
    _print_figures([tuning.unseen, tuning.default])
    out.print()
    for line in tuning.assumed:
        out.print(line)
    if not tuning.is_better:
        out.print("nothing better than the default was found")
        return
    out.print(f"better than the default: {tuning.chosen}\n\n{tuning.yaml()}")
    if result is not None:
        out.hint(f"written to {result}; windlass replay {folder} --policy {result}")


def _print_figures(figures: Sequence[TunedFigure]) -> None:
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import Columns, NumberCell, table_of

    columns: Columns[TunedFigure] = {
        "settings": lambda each: each.settings,
        "of everything": lambda each: NumberCell(f"{each.ratio:.1%}"),
        "values in view": lambda each: NumberCell(f"{each.values:.2%}"),
        "lines in view": lambda each: NumberCell(f"{each.lines:.2%}"),
    }
    print_table(table_of(figures, columns))
