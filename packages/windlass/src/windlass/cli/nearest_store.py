"""The store of a command that runs anywhere in a project. Imports nothing that takes time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from windlass.safety.files import MissingFileError, UnreadableError, read_text

STORE: Final = ".windlass"
"""The folder of a store, where nothing names another."""


def nearest_store(named: str | None) -> str | None:
    """The store that a flag or `WINDLASS_STORE` names, or else the nearest `.windlass` upward.

    None: a `windlass.toml` in the current folder names one, or there is none. A link is none.
    """
    if named := named or os.environ.get("WINDLASS_STORE"):
        return named
    folder = Path.cwd()
    if _names_store(folder / "windlass.toml"):
        return None
    found = (above / STORE for above in (folder, *folder.parents))
    return next((str(store) for store in found if store.is_dir() and not store.is_symlink()), None)


def project_of(place: str | None) -> Path:
    """Return the project: the folder around that has its own store, or the current one.

    A store in the home folder is of all projects.
    """
    folder = Path.cwd()
    home = None if place is None else Path(place).expanduser().absolute().parent
    if place is None or home is None or Path(place).name != STORE or home == Path.home():
        return folder
    return home if folder.is_relative_to(home) else folder


def _names_store(file: Path) -> bool:
    try:
        text = read_text(file)
    except MissingFileError:
        return False
    except UnreadableError:
        return True  # what is wrong with it is told where settings are read
    from windlass.safety.foreign import parse_toml  # few folders have such a file

    try:
        return "store" in parse_toml(text)
    except ValueError:
        return True
