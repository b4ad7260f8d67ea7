"""`windlass mcp`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.output import out, progress
from windlass.errors import UsageError


@command(has_json=False)
def mcp(
    *,
    write: Annotated[
        bool, Option("--write", help="Also offer the tool that writes to memory banks.")
    ] = False,
    all_folders: Annotated[
        bool, Option("--all-folders", help="Also sessions of other projects in the store.")
    ] = False,
    store: Annotated[
        str | None,
        Option(
            help="The history (default: WINDLASS_STORE, or the nearest .windlass here or above)."
        ),
    ] = None,
) -> None:
    """Serve recall, search and cost to an agent, over MCP on standard input and output."""
    import io
    import os
    import sys

    from windlass.cli.ending import run_interruptibly
    from windlass.cli.named_store import read_settings
    from windlass.cli.nearest_store import nearest_store, project_of
    from windlass.tools.mcp import INSTALL

    try:
        from windlass.hooks.mcp_server import serve_tools
    except ModuleNotFoundError as error:
        raise UsageError(f"the MCP server needs the package mcp: {INSTALL}") from error
    place = nearest_store(store)
    settings = read_settings(place)
    project = None if all_folders else project_of(place)
    if sys.stdin.isatty():
        where = "all of it" if project is None else f"sessions of {project}"
        progress.print(
            f"serving {settings.store}, {where}: a client is to start this; Ctrl-C ends it"
        )
    answers = os.fdopen(os.dup(out.file.fileno()), "wb")
    with io.TextIOWrapper(answers, encoding="utf-8", newline="\n") as output:
        run_interruptibly(serve_tools(settings, project, output, write=write))
