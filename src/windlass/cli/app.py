"""The commands: their names, what each does, and the module that holds it.

A module is imported when one of its commands is called, so that `windlass --help` answers at once.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from windlass import __version__
from windlass.cli.ending import silence
from windlass.cli.output import own_streams, silence_streams
from windlass.errors import Interrupted


class CommandEntry(NamedTuple):
    """A command in a table: its module, its help, and its subcommands if it is a group.

    The function of the command `NAME` is `NAME_command`.
    """

    module: str
    help: str
    commands: Mapping[str, CommandEntry] = {}


MEMORY: Final = {
    "list": CommandEntry("memory", "List the banks, or the memories in force in one bank."),
    "show": CommandEntry(
        "memory", "Show every version of a memory, also those no longer in force."
    ),
    "forget": CommandEntry(
        "memory",
        "Take back a memory: sessions no longer find it.\n\n"
        "Its versions stay readable; `windlass prune --session memory:BANK` removes a whole bank.",
    ),
    "match": CommandEntry(
        "memory", "Print what banks and folders hold on a task, in the standard sections, unranked."
    ),
}

COMMANDS: Final = {
    "run": CommandEntry("run", "Run a cascade, show its progress, and print what each phase sent."),
    "evaluate": CommandEntry(
        "run", "Run a task in XML (atomic, sequential, reduce), or resume one."
    ),
    "sessions": CommandEntry("show", "List the sessions in the store, newest first."),
    "show": CommandEntry(
        "show", "Show what each call of a session saw: messages, reasons, originals."
    ),
    "explain": CommandEntry("explain", "Explain what became of each message at a call, and why."),
    "report": CommandEntry(
        "report", "Report what a session cost, or what caches could hold of it."
    ),
    "callout": CommandEntry(
        "cards", "Mark a message as important: windows keep it whole, and its name finds it."
    ),
    "cards": CommandEntry("cards", "Show or make the context cards by which messages are chosen."),
    "check": CommandEntry("check", "Find every mistake in a cascade or task, with file and line."),
    "query": CommandEntry("show", "Query the history with one read-only SQL statement."),
    "verify": CommandEntry(
        "store", "Verify the store: recompute its hashes and windows, list damage."
    ),
    "prune": CommandEntry(
        "store", "Delete sessions and what only they use. Nothing else deletes anything."
    ),
    "migrate": CommandEntry(
        "store", "Copy a history to another store and prove that it arrived; may be repeated."
    ),
    "schema": CommandEntry(
        "config", "Print the schema of cascades or tasks, or the SQL of ClickHouse tables."
    ),
    "models": CommandEntry("models", "List the providers and their keys, or describe one model."),
    "config": CommandEntry("config", "Print each setting with its value and its origin."),
    "trust": CommandEntry(
        "trust", "Trust a folder: its windlass.toml may name code, commands and where keys go."
    ),
    "policies": CommandEntry("config", "List the window profiles, or print the options of one."),
    "memory": CommandEntry("memory", "Look into the memory banks that sessions share.", MEMORY),
}


class _Loading(UserDict[str, Any]):
    """Commands by their names; looking one up imports its module."""

    def __init__(self, entries: Mapping[str, CommandEntry]) -> None:
        super().__init__(entries)

    def __getitem__(self, name: str) -> Any:
        """The command. Raises KeyError where there is none."""
        entry: CommandEntry = super().__getitem__(name)
        if entry.commands:
            return _Group(
                entry.commands,
                name=name,
                help=entry.help,
                no_args_is_help=True,
                rich_markup_mode=None,
            )
        function = getattr(import_module(f"windlass.cli.{entry.module}"), f"{name}_command")
        only = typer.Typer(add_completion=False, rich_markup_mode=None)
        only.command(name, cls=_Command, help=entry.help)(function)
        return typer.main.get_command(only)


class _Group(TyperGroup):
    def __init__(self, entries: Mapping[str, CommandEntry], **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Loading(entries)
        self._entries = entries

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        del ctx
        return list(self._entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from the table, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.help.partition("\n")[0]) for name, one in self._entries.items()]
            )


class _Main(_Group):
    """The commands; `main` prints what ends one early, and typer does not."""

    def __init__(self, **options: Any) -> None:
        super().__init__(COMMANDS, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises Interrupted after a signal."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted") from error
        except BrokenPipeError as error:
            # The reader of a pipe (head, less) went away: nobody is left to tell.
            silence(1)
            raise typer.Exit from error


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        """Run the command; meanwhile nothing but Windlass prints."""
        with own_streams():
            answer = super().invoke(ctx)
        silence_streams()  # `main` prints errors, so only after a success
        return answer


app = typer.Typer(
    name="windlass",
    cls=_Main,
    help="Windlass, the context engine for LLM workflows: run cascades, see what each call saw.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"windlass {__version__}")
        raise typer.Exit


@app.callback()
def windlass(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run cascades, and see afterwards exactly what each call saw."""
