"""Which paths a tool may touch: the one place that says no.

Paths are taken relative to the allowed folder (`context.root`), links are followed
before they are judged, and names that begin with a dot are left alone: `.env`, `.git`
and Windlass's own store lie in many allowed folders and are nobody's business there.
`context.readable` folders and files may be read, whatever they are called; `context.closed` is
a folder in which nothing else is open, wherever it lies, and so is any store of Windlass: it holds
what other sessions said. A store is known by what it holds and not by its name, for it can lie in
any folder, several can lie side by side, and files of it can be linked or copied elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from windlass.errors import ToolError, did_you_mean
from windlass.safety.files import is_open
from windlass.safety.own_files import in_a_store
from windlass.tools.base import ToolContext

_LISTED: Final = 30


def to_read(context: ToolContext, path: str) -> Path:
    """The real path behind `path`, inside the allowed folder or a readable one; it exists."""
    real = _real(context, path)
    if not may_read(context, real):
        raise ToolError(_refusal(context, path, real))
    if not real.exists():
        raise ToolError(_missing(context, path, real))
    return real


def to_write(context: ToolContext, path: str) -> Path:
    """Return the real path behind `path`, inside the allowed folder; it need not exist.

    What Python could run, and what Windlass takes its orders from, is refused: a model must not
    write what is later run in the process that holds the keys.
    """
    real = _real(context, path)
    if not _is_allowed(context, real) or real == context.root.resolve():
        raise ToolError(_refusal(context, path, real))
    if real.is_dir():
        raise ToolError(f"{path!r} is a folder: give the path of a file")
    if real.exists() and not real.is_file():
        raise ToolError(f"{path!r} is not a regular file")
    if why := context.modules.in_use(real):
        raise ToolError(f"{path!r} is {why}, and not open to tools: write to another file")
    return real


def may_read(context: ToolContext, real: Path) -> bool:
    """Return whether tools may read what lies at a real path, or list what of it they may read."""
    readable = [each.resolve() for each in context.readable]
    if any(real.is_relative_to(each) or each.parent == real for each in readable):
        return True
    return _is_allowed(context, real)


def shown(context: ToolContext, real: Path) -> str:
    """Return a real path as tools print it: relative to the allowed folder where it lies in it."""
    root = context.root.resolve()
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else str(real)


def walk(folder: Path, limit: int | None = None) -> Iterator[Path]:
    """Yield files under `folder`, sorted, without hidden names, stores, and links that lead out.

    Stops after `limit` files.
    """
    inside = folder.resolve()
    count = 0
    for where, folders, files in os.walk(inside):
        named = sorted(each for each in folders if not each.startswith("."))
        folders[:] = [each for each in named if not in_a_store(inside, Path(where, each))]
        for name in sorted(files):
            path = Path(where, name)
            if name.startswith(".") or not path.is_file():
                continue
            if path.is_symlink() and not is_open(inside, path.resolve()):
                continue
            if in_a_store(Path(where), path):  # the folders above were looked at
                continue
            count += 1
            if limit is not None and count > limit:
                return
            yield path


def _real(context: ToolContext, path: str) -> Path:
    try:
        real = (context.root.resolve() / path).resolve()
        real.exists()
    except (OSError, ValueError, RuntimeError) as problem:
        # NUL bytes, lone surrogates, names too long, links in a circle.
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        raise ToolError(f"{path[:80]!r} is not a usable path: {reason}") from problem
    return real


def _is_allowed(context: ToolContext, real: Path) -> bool:
    if context.closed is not None and real.is_relative_to(context.closed.resolve()):
        return False
    return is_open(context.root, real)


def _refusal(context: ToolContext, path: str, real: Path) -> str:
    if real.is_relative_to(context.root.resolve()):
        if real == context.root.resolve():
            return f"{path!r} is the allowed folder itself: give the path of a file in it"
        why = "hidden (a name that begins with a dot)"
        closed = context.closed is not None and real.is_relative_to(context.closed.resolve())
        if closed or in_a_store(context.root.resolve(), real):
            why = "in the store of a history"
        return f"{path!r} is {why} and not open to tools"
    return f"{path!r} is outside the allowed folder: use a path relative to it, like 'notes/a.md'"


def _missing(context: ToolContext, path: str, real: Path) -> str:
    folder = real.parent
    if not folder.is_dir():
        return f"there is no folder {shown(context, folder)!r}"
    names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if len(names) > _LISTED:
        return f"there is no file {path!r}; list_files shows what there is"
    return f"there is no file {path!r}: {did_you_mean(real.name, names)}"
