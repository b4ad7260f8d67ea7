"""How a function becomes a command: its options from its signature, and only its own output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, cast

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from windlass.cli.next_commands import remember_store
from windlass.cli.options import AsJson, Verbose
from windlass.cli.output import out, progress
from windlass.cli.standard_streams import divert_other_output, silence_streams

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
