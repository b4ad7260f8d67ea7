"""The files of declared folders, in passages: what an index of them is made of.

Only folders that were declared are looked into; hidden names, links that lead out of them and
what is no text are left alone. Each look reads again what has changed, so that the index never
lies behind. What is too large is not read, and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.errors import UsageError
from windlass.safety.foreign import decode_text
from windlass.tools.paths import walk

MOST_FILES: Final = 5_000
"""Files that are looked at in a folder."""
MOST_BYTES: Final = 1_000_000
"""Bytes of a file; a larger one is not read."""
ALL_BYTES: Final = 50_000_000
"""Bytes of all files together."""
PASSAGE_CHARS: Final = 1_200
"""Characters that a passage is filled up to, in whole paragraphs where they are shorter."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file: where it stands (`path`, first `line` from 1), and its text.

    `path` is as the folder was declared, with the path inside it.
    """

    folder: str
    path: str
    line: int
    text: str

    @property
    def reference(self) -> str:
        """What names it: `path:line`."""
        return f"{self.path}:{self.line}"

    @property
    def searched(self) -> str:
        """What it is found by: its words and those of its path."""
        return f"{self.path.replace('/', ' ')}\n{self.text}"


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int]
    passages: tuple[Passage, ...]


class Files:
    """The texts of some folders.

    `folders` are those declared, `closed` folders inside them that nobody looks into (the
    store of the history). `unread` says in a sentence each what the last look left out.
    """

    def __init__(self, folders: Sequence[Path], closed: Sequence[Path] = ()) -> None:
        self.folders = tuple(folders)
        self.unread: tuple[str, ...] = ()
        self._closed = tuple(folder.resolve() for folder in closed)
        self._known: dict[Path, _Read] = {}

    def look(self) -> tuple[list[Passage], list[Passage]]:
        """Return what is new and what is gone since the last look, in passages.

        Raises UsageError for a folder that is not there, OSError where one cannot be read.
        """
        left_out: list[str] = []
        now: dict[Path, _Read] = {}
        room = ALL_BYTES
        for folder, file in self._files(left_out):
            size = file.stat().st_size
            shown = (folder / file.relative_to(folder.resolve())).as_posix()
            if size > MOST_BYTES:
                left_out.append(f"{shown}: {size:,} bytes, more than the {MOST_BYTES:,} of a file")
                continue
            if size > room:
                left_out.append(f"{shown}: beyond the {ALL_BYTES:,} bytes of all files together")
                continue
            room -= size
            now[file] = self._read(folder, file, shown, left_out)
        before, self._known, self.unread = self._known, now, tuple(left_out)
        return _changed(now, before), _changed(before, now)

    def _files(self, left_out: list[str]) -> Iterator[tuple[Path, Path]]:
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(f"there is no folder {str(folder)!r} to look into")
            for number, file in enumerate(walk(folder, MOST_FILES + 1), start=1):
                if number > MOST_FILES:
                    left_out.append(
                        f"{folder}: more than {MOST_FILES:,} files; the rest is left out"
                    )
                    break
                if not any(file.is_relative_to(closed) for closed in self._closed):
                    yield folder, file

    def _read(self, folder: Path, file: Path, shown: str, left_out: list[str]) -> _Read:
        stat = file.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        before = self._known.get(file)
        if before is not None and before.stamp == stamp:
            return before
        text = decode_text(file.read_bytes())
        if text is None or "\0" in text:
            left_out.append(f"{shown}: is not text")
            return _Read(stamp, ())
        parts = split_text(text)
        return _Read(stamp, tuple(Passage(str(folder), shown, line, part) for line, part in parts))


def _changed(files: Mapping[Path, _Read], others: Mapping[Path, _Read]) -> list[Passage]:
    """Return the passages of those files that are not the same among the others."""
    changed = (read for path, read in files.items() if others.get(path) is not read)
    return [passage for read in changed for passage in read.passages]


def split_text(text: str) -> list[tuple[int, str]]:
    """Return a text in pieces of whole paragraphs, each with the number of its first line, from 1.

    A heading goes with what follows it; a paragraph that is too long is cut between lines, a
    line that is too long where it must be.
    """
    pieces: list[tuple[int, str]] = []
    held: list[str] = []
    first = size = 0
    open_heading = False

    def close() -> None:
        nonlocal held, size
        text = "\n".join(held).strip("\n")
        if text.strip():
            pieces.append((first, text))
        held, size = [], 0

    for number, whole in enumerate(text.splitlines(), start=1):
        for line in _cut(whole):
            blank = not line.strip()
            heading = line.startswith("#")
            full = size + len(line) > PASSAGE_CHARS
            long_enough = blank and size >= PASSAGE_CHARS // 2 and not open_heading
            if held and (full or long_enough or (heading and size >= PASSAGE_CHARS // 4)):
                close()
            if not held:
                if blank:
                    continue
                first = number
            held.append(line)
            size += len(line) + 1
            open_heading = heading or (blank and open_heading)
    if held:
        close()
    return pieces


def _cut(line: str) -> list[str]:
    if len(line) <= PASSAGE_CHARS:
        return [line]
    return [line[at : at + PASSAGE_CHARS] for at in range(0, len(line), PASSAGE_CHARS)]
