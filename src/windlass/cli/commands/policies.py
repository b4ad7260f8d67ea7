"""`windlass policies`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command


@command()
def policies(
    name: Annotated[str | None, Argument(help="A profile: its options.")] = None,
    *,
    every: Annotated[bool, Option("--all", help="Also options that are rarely on.")] = False,
) -> None:
    """List the window profiles, or print the options of one."""
    from windlass.cli.profiles_text import print_profile, print_profiles

    print_profiles() if name is None else print_profile(name, every=every)
