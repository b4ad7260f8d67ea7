"""Markdown files with YAML front matter, for skills and playbooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windlass.errors import UsageError
from windlass.safety.files import UnreadableError, in_root

FENCE: Final = "---"
_DEPTH: Final = 100
_FRONT_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A file: the keys of its front matter, and its text without them."""

    path: Path
    keys: Mapping[str, Any]
    body: str

    def key(self, name: str) -> str:
        """Return a key's value as text in one line; empty if it is missing."""
        return " ".join(str(self.keys.get(name) or "").split())


def folder_in(root: Path, name: str, *, hidden: bool = True) -> Path:
    """Return a folder by its name in the root; `hidden`: the name may begin with a dot.

    Raises UsageError where it leads out.
    """
    folders = in_root(root, hidden=hidden)
    try:
        folders.find(name)
    except UnreadableError as error:
        raise UsageError(f"the folder {name!r} {error}") from error
    return folders.at(name)


def read_page(path: Path, root: Path) -> MarkdownFile:
    """Read a file, which must lie in `root`.

    Raises UsageError, naming it, for one that cannot be read, and for front matter that is not a
    YAML object.
    """
    import yaml  # takes longer to import than this room

    try:
        text = in_root(root, hidden=True).read_text(path.absolute())
    except UnreadableError as error:
        raise UsageError(f"{str(path)!r} {error}") from error
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != FENCE:
        return MarkdownFile(path, {}, text.strip())
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == FENCE), None)
    if end is None:
        raise UsageError(f"{str(path)!r}: its front matter begins with --- and has no end")
    front = "".join(lines[1:end])
    if len(front) > _FRONT_CHARS:
        raise UsageError(f"{str(path)!r}: its front matter has over {_FRONT_CHARS:,} characters")
    try:
        depth = 0
        for event in yaml.parse(front, yaml.SafeLoader):
            # A few lines of aliases can stand for more values than any memory holds.
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"{str(path)!r}: its front matter may have no aliases (*name)")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEPTH:
                problem = f"the values are nested more than {_DEPTH} levels deep"
                raise UsageError(
                    f"{str(path)!r}: its front matter is not YAML with keys: {problem}"
                )
        keys = yaml.safe_load(front) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"{str(path)!r}: its front matter is not YAML: {problem}") from error
    if not isinstance(keys, dict):
        raise UsageError(f"{str(path)!r}: its front matter must be keys with values")
    return MarkdownFile(path, keys, "".join(lines[end + 1 :]).strip())


def shown_path(path: Path, root: Path) -> str:
    """Return the path as tools name it: from the root where it lies inside."""
    real, inside = path.resolve(), root.resolve()
    return (real.relative_to(inside) if real.is_relative_to(inside) else real).as_posix()
