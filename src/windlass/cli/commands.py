"""What all commands have in common: their output is their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


class Commands(typer.Typer):
    """Commands, or a group of them, in which nothing but Windlass prints."""

    def command(self, *names: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a function as a command."""
        return super().command(*names, cls=_Command, **options)


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        from windlass.cli.streams import leave, own_streams  # a page of help needs no console

        with own_streams():
            answer = super().invoke(ctx)
        leave()  # what goes wrong is told by `main`, so only here
        return answer
