"""What `windlass recall` prints, and its plain command line, read without what takes time.

An agent waits for it, and may ask often: the page of help, mistakes in the command line and stores
with an address go the way of every other command.

`nearest_store` is the store of a command that runs anywhere in a project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Final

from windlass.public import (
    Message,
    MissingFileError,
    StoreError,
    UnreadableError,
    WindlassError,
    escaped,
    read_text,
)
from windlass_agents.kept_originals import (
    UnknownReference,
    excerpt,
    find_among,
    find_by_settings,
    find_original,
    open_folder,
    original_text,
)
from windlass_agents.project_stores import known_stores, stores_around


@dataclass(frozen=True, slots=True)
class Recall:
    """What a command line asks for: the reference, which lines, and the store (None: the nearest).

    `path` is what a reference may name besides. Empty texts ask for all of it.
    """

    ref: str
    grep: str = ""
    lines: str = ""
    store: str | None = None
    path: str = ""


def read_plainly(arguments: Sequence[str]) -> Recall | None:
    """Return what a plain command line asks for (None: it is not plain)."""
    refs: list[str] = []
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, joined, value = word.partition("=")
        if name in ("--grep", "--lines", "--store"):
            if not joined and (value := next(words, "")) == "":
                return None
            given[name.removeprefix("--")] = value
        elif word.startswith("-"):
            return None
        else:
            refs.append(word)
    if not 1 <= len(refs) <= 2:  # noqa: PLR2004 - a reference and a path
        return None
    return Recall(refs[0], path="".join(refs[1:]), **given)


def recalled(asked: Recall) -> str:
    """Return the text that is asked for.

    Raises UsageError for a reference that means nothing, or several, and for what is wrong in the
    rest; StoreError for a damaged store.
    """
    text = original_text(_find(asked), asked.path)
    return excerpt(text, grep=asked.grep, lines=asked.lines)


def _find(asked: Recall) -> Message:
    """The message that is meant: of the store that is named, or one where a hook may keep it."""
    try:
        place = nearest_store(asked.store)
        if place is None or "://" in place:
            from windlass.public import read_settings

            return find_by_settings(read_settings(place), asked.ref)
        folder = Path(place).expanduser()
        return find_original(folder, asked.ref, partial(open_folder, folder))
    except (UnknownReference, StoreError):
        if asked.store is not None:
            raise
        # An agent may work in another folder or working tree than its hook.
        here = stores_around(Path.cwd())
        original = find_among(here, asked.ref) or find_among(reversed(known_stores()), asked.ref)
        if original is None:
            raise
        return original


def print_text(text: str, asked: Recall, stream: IO[str]) -> None:
    """Print what was asked for: escaped at a terminal, elsewhere byte for byte.

    Parts end with a line break. Raises WindlassError where it cannot be written. A reader that went
    away is no failure.
    """
    is_part = bool(asked.grep or asked.lines)
    data = getattr(stream, "buffer", None)
    try:
        if stream.isatty() or data is None:
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # one that lacks a character is no failure
            print(escaped(text), end="" if text.endswith("\n") else "\n", file=stream, flush=True)
        else:
            stream.flush()
            data.write(f"{text}\n".encode() if is_part and text[-1:] != "\n" else text.encode())
            data.flush()
    except OSError as error:
        from windlass.public import silence_stream

        silence_stream(1)  # or the rest of the text is tried again when the process ends
        if not isinstance(error, BrokenPipeError):
            text = f"the output could not be written: {error.strerror}"
            raise WindlassError(text) from error


STORE: Final = ".windlass"
"""The folder of a store, where nothing names another."""


def nearest_store(named: str | None) -> str | None:
    """Give the store that a flag or `WINDLASS_STORE` names, or else the nearest `.windlass` upward.

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
    from windlass.public import parse_toml

    try:
        return "store" in parse_toml(text)
    except ValueError:
        return True


def recall_at_once(words: Sequence[str]) -> int | None:
    """Answer `windlass recall`, where it is asked for plainly; the exit code (None: it is not).

    Raises WindlassError.
    """
    if (asked := read_plainly(words)) is None:
        return None
    print_text(recalled(asked), asked, sys.stdout)
    return 0


def answer_hook(words: Sequence[str]) -> int | None:
    """Answer `windlass agent run` as it was installed before (None: something else is asked)."""
    if words[:1] != ["run"] or {"-h", "--help"}.intersection(words):
        return None
    from windlass_agents.client import run

    return run([*words[1:]])
