"""`windlass trust`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.output import out, printed_as_json
from windlass.errors import UsageError


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
