"""`windlass check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import Lenient, Trust


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
    trust: Trust = False,
) -> None:
    """Find every mistake in a cascade or task, with file and line."""
    from windlass.cli.checking import check_file

    check_file(file, strict=strict, trust=trust, explain=explain_defaults, lenient=lenient)
