"""`windlass models`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from windlass.cli.command import command


@command()
def models(
    model: Annotated[
        str | None, Argument(help="provider/model: its prices, window and cache.")
    ] = None,
) -> None:
    """List the providers and their keys, or describe one model."""
    from windlass.cli.model_facts import print_model, print_providers

    print_providers() if model is None else print_model(model)
