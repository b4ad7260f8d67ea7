"""The command line as a whole: the names of the commands, each loaded when it is asked for.

What a command does is imported when it is called, so that every page of help is instant.

How a function becomes a command: its options from its signature, and only its own output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from windlass import __version__
from windlass.cli.next_commands import remember_store
from windlass.cli.options import AsJson, Verbose
from windlass.cli.output import out, progress
from windlass.cli.standard_streams import divert_other_output, silence_stream, silence_streams
from windlass.errors import Interrupted
from windlass.settings.plugins import (
    COMMANDS,
    EXTRAS,
    announced,
    load_announced,
    missing_plugin,
)

_Answer = TypeVar("_Answer")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class CommandGroup(TyperGroup):
    """Commands under one word."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with the first line of their help, none of it cut."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, str(each.help).partition("\n")[0]) for name, each in self.commands.items()]
            )


def command(
    *,
    name: str | None = None,
    cls: type[TyperCommand] = TyperCommand,
    has_json: bool = True,
    has_verbose: bool = False,
) -> Callable[[Callable[..., None]], TyperCommand]:
    """Make a function the command of its name, or of `name`.

    Each parameter is an argument or option, described by its annotation; a dataclass stands for the
    options that are its fields. The options `--json` and `--verbose` are added here, since `out`
    and `progress` hold what they say. While the command runs, only Windlass prints.
    """

    def decorate(function: Callable[..., None]) -> TyperCommand:
        def callback(*, as_json: bool = False, verbose: bool = False, **given: Any) -> None:
            out.as_json, progress.verbose = as_json, verbose
            remember_store(given.get("store"))
            with divert_other_output():
                _call(function, given)
            silence_streams()  # `main` prints errors, so only after a success

        added = {"verbose": Verbose} if has_verbose else {}
        added |= {"as_json": AsJson} if has_json else {}
        parameters = [
            *_parameters(function),
            *(
                inspect.Parameter(each, _KEYWORD, default=False, annotation=annotation)
                for each, annotation in added.items()
            ),
        ]
        callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        info = CommandInfo(
            name or function.__name__, cls=cls, callback=callback, help=inspect.getdoc(function)
        )
        made = get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
        return cast("TyperCommand", made)

    return decorate


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, those of a group in the group's place."""
    for each in inspect.signature(function, eval_str=True).parameters.values():
        if is_dataclass(each.annotation):
            yield from _parameters(cast("type", each.annotation))
        else:
            yield each.replace(kind=_KEYWORD)


def _call(function: Callable[..., _Answer], given: Mapping[str, Any]) -> _Answer:
    """Call a function with what was given for its parameters, groups put together."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return function(
        **{
            each.name: _call(cast("type", each.annotation), given)
            if is_dataclass(each.annotation)
            else given[each.name]
            for each in parameters
        }
    )


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "runs": ("run", "evaluate", "chat", "fork", "batch", "compare"),
    "views": ("sessions", "show", "explain", "diff", "report"),
    "replays": ("replay", "tune", "policies"),
    "marks": ("callout", "cards", "memory"),
    "records": ("query", "verify", "prune", "import", "export", "migrate"),
    "project": ("check", "schema", "models", "config", "trust"),
}
"""The commands of each module of `commands/`, in the order of the page of help."""
_MODULES: Final = {name: module for module, names in _GROUPS.items() for name in names}
NAMES: Final = tuple(_MODULES)


class _Commands(Mapping[str, TyperCommand]):
    """The commands by name, each loaded when it is asked for; those of plugins come last."""

    @cached_property
    def _added(self) -> Mapping[str, EntryPoint]:
        return {entry.name: entry for entry in announced(COMMANDS)}

    def __getitem__(self, name: str) -> TyperCommand:
        if name not in _MODULES:
            if name in self._added:
                added: TyperCommand = load_announced(self._added[name], "command")
                return added
            if name in EXTRAS[COMMANDS]:
                raise missing_plugin(COMMANDS, name)
            raise KeyError(name)
        module = import_module(f"windlass.cli.commands.{_MODULES[name]}")
        command: TyperCommand = getattr(module, "import_" if name == "import" else name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter((*NAMES, *self._added))

    def __len__(self) -> int:
        return len(NAMES) + len(self._added)


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
