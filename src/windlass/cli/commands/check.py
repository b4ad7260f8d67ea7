"""`windlass check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import Lenient, Through, Trust


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
