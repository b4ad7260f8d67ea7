"""The stores of a project: that of its hooks, and all in which its originals may lie.

The working trees of a repository are one project: what is kept lies in the main one, since others
come and go. A command may run in any of them, or somewhere else. Imports little: an agent waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from windlass.public import own_files
from windlass_agents import client

_MOST: Final = 4_096
"""Bytes of a file of git that names a folder."""
_STORES: Final = "hook-stores.txt"
"""The file in the user's own folder that names the stores of hooks, one a line."""
_MOST_STORES: Final = 500


def usual_store(project: Path) -> Path:
    """Return the store of a project where none is named. Raises StoreError where it is a link."""
    tree = _tree_of(project)
    folder = project
    if tree is not None and tree.main not in (None, tree.top) and os.access(tree.main, os.W_OK):
        below = tree.main / project.resolve().relative_to(tree.top)
        folder = below if below.is_dir() else tree.main
    store = folder / own_files.USUAL_STORE
    own_files.refuse_linked_store(store)
    return store


def stores_around(folder: Path) -> Iterator[Path]:
    """Yield the stores in which originals of a folder's project may lie, the nearest first."""
    around = [folder, *folder.parents]
    tree = _tree_of(folder)
    if tree is not None:
        below = folder.resolve().relative_to(tree.top)
        around += [each / way for each in tree.every for way in (below, *below.parents)]
    for each in dict.fromkeys(around):
        store = each / own_files.USUAL_STORE
        if store.is_dir() and not store.is_symlink():
            yield store


def folders_of(project: Path) -> list[Path]:
    """Return a project's folder in each working tree of its repository, itself first."""
    tree = _tree_of(project)
    if tree is None:
        return [project]
    below = project.resolve().relative_to(tree.top)
    return list(dict.fromkeys([project, *(each / below for each in tree.every)]))


# ---- the stores of all hooks of a user -----------------------------------------------------


def note_store(store: Path) -> None:
    """Note that a hook of the user writes into a store. Raises OSError."""
    known = known_stores()
    if store not in known:
        from windlass.public import own_files

        lines = [os.fsencode(each) + b"\n" for each in (*known, store)[-_MOST_STORES:]]
        own_files.replace(Path(client.own_folder(), _STORES), lines, 0o600)


def known_stores() -> list[Path]:
    """Return the stores into which hooks of the user wrote, the oldest first."""
    for folder in client.own_folders():
        with suppress(OSError):
            data = Path(folder, _STORES).read_bytes()
            return [Path(os.fsdecode(line)) for line in data.splitlines() if line]
    return []


# ---- working trees -------------------------------------------------------------------------


class _Tree(NamedTuple):
    """A working tree of git."""

    top: Path
    main: Path | None
    """The main tree of its repository, which may be this one (None: it has none)."""
    every: tuple[Path, ...]
    """All trees of the repository, the main one first."""


def _tree_of(folder: Path) -> _Tree | None:
    """Return the working tree that a folder lies in.

    Another one counts if it and the repository name each other: nobody can claim a stranger's.
    """
    folder = folder.resolve()
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if top is None:
        return None
    admin = _linked_admin(top)
    common = top / ".git" if admin is None else _path_in(admin / "commondir", admin)
    if common is None:
        return _Tree(top, None, (top,))
    main = common.parent if common.name == ".git" and common.is_dir() else None
    every = [] if main is None else [main]
    for file in sorted(common.glob("worktrees/*/gitdir")):
        dot = _path_in(file, file.parent)
        if dot is not None and _linked_admin(dot.parent) == file.parent.resolve():
            every.append(dot.parent)
    return _Tree(top, main, tuple(dict.fromkeys([*every, top])))


def _linked_admin(top: Path) -> Path | None:
    """Where git keeps what concerns a linked tree (None: it is none, or nobody knows of it)."""
    dot = top / ".git"
    admin = _path_in(dot, top, "gitdir: ") if dot.is_file() else None
    if admin is None or _path_in(admin / "gitdir", admin) != dot.resolve():
        return None
    return admin


def _path_in(file: Path, beside: Path, before: str = "") -> Path | None:
    """Return the folder or file that a file of git names (None: none)."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST:
            return None
        text = os.fsdecode(file.read_bytes()).rstrip("\n")
    except OSError:
        return None
    name = text.removeprefix(before)
    return (beside / name).resolve() if text.startswith(before) and name else None
