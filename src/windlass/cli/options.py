"""Arguments and options that several commands take, and the store that `--store` names."""

from __future__ import annotations

from os import environ
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from windlass.api import open_store
from windlass.cli.output import note
from windlass.history.base import Store
from windlass.settings import Settings

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The history: a folder, clickhouse://… or chdb://… "
        "(default: WINDLASS_STORE or ./.windlass).",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Trust: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust", help="Trust the code, commands and addresses that this folder names, this once."
    ),
]
Session: TypeAlias = Annotated[
    str, typer.Argument(help="A session, as `windlass sessions` lists it.")
]


def read_settings(store: str | None) -> Settings:
    """The settings of a command that only takes `--store`."""
    return Settings.read({"store": store}, environ, Path.cwd())


def open_existing(store: str | None, *, writing: bool = False) -> Store:
    """The store that the flag, the variable or the file names. Raises UsageError if none is there.

    Raises StoreError if `writing` is meant and it cannot be written.
    """
    return open_marked(read_settings(store), writing=writing)


def open_marked(settings: Settings, *, writing: bool = False) -> Store:
    """A store to look into: lost messages are left out, and named in a note."""
    store = open_store(settings, existing=True, writing=writing)
    store.mark_lost(note)
    return store
