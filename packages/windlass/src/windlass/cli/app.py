"""The command line as a whole: the names of the commands, each loaded when it is asked for.

What a command does is imported when it is called, so that every page of help is instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from windlass import __version__
from windlass.cli.command import CommandGroup
from windlass.cli.standard_streams import silence_stream
from windlass.errors import Interrupted
from windlass.settings.plugins import COMMANDS, announced, load_plugin, plugin_names

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "runs": ("run", "evaluate", "chat", "fork", "batch", "compare"),
    "views": ("sessions", "show", "explain", "diff", "report"),
    "replays": ("replay", "tune", "policies"),
    "marks": ("callout", "cards", "memory"),
    "agents": ("hook", "recall", "mcp"),
    "records": ("query", "verify", "prune", "import", "export", "migrate"),
    "project": ("check", "schema", "models", "config", "trust"),
}
"""The commands of each module of `commands/`, in the order of the page of help."""
_MODULES: Final = {name: module for module, names in _GROUPS.items() for name in names}
NAMES: Final = tuple(_MODULES)


class _Commands(Mapping[str, TyperCommand]):
    """The commands by name, each loaded when it is asked for; those of plugins come last."""

    def __getitem__(self, name: str) -> TyperCommand:
        if name not in _MODULES:
            if name not in plugin_names(COMMANDS):
                raise KeyError(name)
            added: TyperCommand = load_plugin(COMMANDS, name)
            return added
        module = import_module(f"windlass.cli.commands.{_MODULES[name]}")
        command: TyperCommand = getattr(module, "import_" if name == "import" else name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter((*NAMES, *(each.name for each in announced(COMMANDS))))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Program(CommandGroup):
    """All commands; `main` prints what ends one early, and typer does not."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {}})
        self.commands: Any = _Commands()

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the command line, which prints pages of help. Raises what `invoke` raises."""
        with _ended():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises Interrupted after a signal."""
        with _ended():
            return super().invoke(ctx)


@contextmanager
def _ended() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted") from error
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: nobody is left to tell.
        silence_stream(1)
        raise typer.Exit from None


app = typer.Typer(
    name="windlass",
    cls=_Program,
    help="Windlass, the context engine for LLM workflows: run cascades, see what each call saw.",
    epilog="Exit codes: 0 completed; 1 the run or the machine failed; 2 a mistake of yours; "
    "3 the run is incomplete, or waits; 130 interrupted.",
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
