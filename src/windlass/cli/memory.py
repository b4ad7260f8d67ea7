"""The commands `windlass memory ...` and their flags; what they do stands in `banks.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.commands import Commands

memory = Commands(
    help="Look into the memory that sessions share: named banks of what was remembered.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Store = Annotated[
    str | None,
    typer.Option("--store", help="The history (default: WINDLASS_STORE or ./.windlass)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Bank = Annotated[str, typer.Argument(help="A bank, as `windlass memory list` lists it.")]
Key = Annotated[str, typer.Argument(help="What it is remembered under.")]


@memory.command("list")
def list_(
    bank: Annotated[str | None, typer.Argument(help="One bank: what it holds.")] = None,
    *,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """List the banks, or what is in force in one of them."""
    from windlass.cli.banks import bank_command, banks_command

    if bank is None:
        banks_command(store, as_json=as_json)
    else:
        bank_command(bank, store, as_json=as_json)


@memory.command()
def show(bank: Bank, key: Key, *, store: Store = None, as_json: AsJson = False) -> None:
    """Show every version of what is remembered under a key, also what is not in force."""
    from windlass.cli.banks import versions_command

    versions_command(bank, key, store, as_json=as_json)


@memory.command()
def forget(bank: Bank, key: Key, *, store: Store = None, as_json: AsJson = False) -> None:
    """Take back what is remembered under a key: no session finds it any more.

    Its versions stay readable; `windlass prune --session memory:BANK` removes a whole bank.
    """
    from windlass.cli.banks import forget_command

    forget_command(bank, key, store, as_json=as_json)


@memory.command()
def match(
    task: Annotated[str, typer.Argument(help="What the task is.")],
    *,
    bank: Annotated[
        list[str] | None, typer.Option("--bank", help="A bank to look in; may be repeated.")
    ] = None,
    folder: Annotated[
        list[Path] | None, typer.Option("--folder", help="A folder to look in; may be repeated.")
    ] = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Print what of banks and folders belongs to a task, in the standard sections, unranked."""
    from windlass.cli.banks import match_command

    match_command(task, bank or [], folder or [], store, as_json=as_json)
