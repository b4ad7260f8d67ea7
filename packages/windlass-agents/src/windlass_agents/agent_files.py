"""Files of an agent as they are, and what they are to hold.

Nothing is written through a link, and a file that cannot be understood stays as it is.
"""

from __future__ import annotations

import difflib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from windlass.public import UsageError, WindlassError, own_files
from windlass_agents._json_edit import with_member

Scope: TypeAlias = Literal["project", "user"]
"""For the current folder, or for all of the user's folders."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a file is to hold; None: it is not there."""

    path: Path
    before: str | None
    after: str | None
    is_own: bool = False
    """Whether it is a file of Windlass's own, which needs not be shown line by line."""

    @property
    def difference(self) -> str:
        """Return the change as a unified diff."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def make(self) -> None:
        """Write the file, or remove it. Raises WindlassError where that cannot be."""
        try:
            if self.after is None:
                self.path.unlink()
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            own_files.replace(self.path, [self.after.encode()])
        except OSError as error:
            raise WindlassError(f"{str(self.path)!r} cannot be written: {error}") from error


def read_text(path: Path, scope: Scope) -> str | None:
    """Return the text of a file that can be changed (None: it is not there). Raises UsageError.

    A file of a project lies in it: others may have put a link there that leads elsewhere.
    """
    if path.is_symlink():
        raise UsageError(
            f"{str(path)!r} is a link to {str(path.readlink())!r}, and nothing is written through"
            " it: put a copy in its place, or add there what --dry-run shows with the copy"
        )
    real = path.parent.resolve()
    if scope == "project" and not real.is_relative_to(Path.cwd().resolve()):
        raise UsageError(
            f"{str(path.parent)!r} is a link that leads out of the project, to {str(real)!r}, and"
            " nothing is written through it: put a folder in its place, or use --user"
        )
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{str(path)!r} is read-only: make it writable, or choose another scope")
    return text


def parsed(text: str, path: Path) -> Mapping[str, Any]:
    """Return the object that a file holds.

    Raises UsageError where it holds none, or a key twice.
    """

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(members)
        if len(value) < len(members):
            twice = next(
                name for name, count in Counter(name for name, _ in members).items() if count > 1
            )
            raise UsageError(
                f"{str(path)!r} has {twice!r} twice in one object, and which of them counts is not"
                " sure: mend it first; nothing was written"
            )
        return value

    try:
        value = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{str(path)!r} is no JSON ({error}): mend it first; nothing was written"
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"{str(path)!r} must be an object, not {type(value).__name__}")
    return value


def put(text: str, above: Sequence[str], key: str, empty: object, path: Path) -> str:
    """Return the text with a value under a key, which is `empty` where there was none."""
    value: Any = parsed(text, path)
    for step in above:
        value = value[step]
    if key not in value:
        return with_member(text, above, key, empty)
    if type(value[key]) is not type(empty):
        raise UsageError(f"{str(path)!r}: {key!r} must be {_KINDS[type(empty)]}; mend it first")
    return text


_KINDS: Final[Mapping[type, str]] = {dict: "an object", list: "a list"}


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return what stands at a path of keys and places."""
    for step in path:
        value = value[step]
    return value
