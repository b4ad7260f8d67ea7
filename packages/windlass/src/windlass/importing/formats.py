"""The table of formats: how each is recognised, and its reader, or a sentence where it has none.

Formats without a reader lack what a call saw or cost, or are databases, which their programs change
as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from windlass.errors import UsageError, did_you_mean
from windlass.importing import chat_lists, claude_bodies, claude_code, codex
from windlass.importing.base import MALFORMED, Answers, Records
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording
from windlass.settings.plugins import (
    EXTRAS,
    IMPORTERS,
    announced,
    load_announced,
    missing_plugin,
)

Reader: TypeAlias = Callable[[RecordedFile, Answers], Iterator[Recording]]

_STARTS: Final = 1024


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files."""

    name: str
    """The name that `--as` takes; of one that is not read, what it is."""
    recognises: Callable[[Records], bool]
    """Whether these are the first records of such a file."""
    reader: Reader | None = None
    """Gives the recordings of a file (None: it is not read)."""
    beside: Callable[[RecordedFile], list[Path]] = lambda file: []  # noqa: ARG005
    """The files of its side chains, which are read with a file."""
    scan: Callable[[RecordedFile, Answers], None] = lambda file, answers: None  # noqa: ARG005
    """Notes the answers of a file before it is read, if one may stand in several records."""
    instead: str = ""
    """Of one that is not read: what can be read in its place."""
    start: bytes = b""
    """How a file of it begins that is not JSON."""
    within: str = ""
    """What the name of such a file holds."""

    def read(self, file: RecordedFile, answers: Answers) -> Iterator[Recording]:
        """Yield the recordings of a file.

        Raises UsageError where one is too large for the memory, or the file is of another format.
        """
        try:
            if self.reader is not None:
                yield from self.reader(file, answers)
        except MALFORMED as error:
            raise UsageError(
                f"{str(file.path)!r} is not a recording of the format {self.name!r}"
            ) from error


def _never(records: Records) -> bool:
    del records
    return False


BODIES: Final = FileFormat("claude-code-bodies", _never, claude_bodies.read)
"""A folder of bodies, which is recognised by the names of its files."""

_FIRST: Final = (
    BODIES,
    FileFormat(
        *("claude-code", claude_code.recognises, claude_code.read),
        *(claude_code.side_chains, claude_code.scan),
    ),
    FileFormat("codex", codex.recognises, codex.read, codex.beside, codex.scan),
)
_LAST: Final = FileFormat("chat", chat_lists.recognises, chat_lists.read)


@cache
def formats() -> Sequence[FileFormat]:
    """List all formats in the order in which they are tried; those of plugins before plain chats.

    Raises UsageError where a plugin cannot be loaded.
    """
    added: list[FileFormat] = []
    for entry in announced(IMPORTERS):
        one = load_announced(entry, "format")
        added += [one] if isinstance(one, FileFormat) else one
    return (*_FIRST, *added, _LAST)


def readable_formats() -> Mapping[str, FileFormat]:
    """Return the formats that are read, by their names."""
    return {one.name: one for one in formats() if one.reader}


def more_formats() -> str:
    """Return the end of a sentence: what installs formats that are not here (empty: all are)."""
    known = readable_formats()
    extras = dict.fromkeys(extra for name, extra in EXTRAS[IMPORTERS].items() if name not in known)
    return f"; for more: pip install 'windlass[{','.join(extras)}]'" if extras else ""


def named_format(name: str) -> FileFormat:
    """Return the format of a name that is read. Raises UsageError."""
    known = readable_formats()
    if name in known:
        return known[name]
    if name in EXTRAS[IMPORTERS]:
        raise missing_plugin(IMPORTERS, name)
    raise UsageError(f"unknown format {name!r}: {did_you_mean(name, known)}")


def recognise(path: Path, records: Records = ()) -> FileFormat | None:
    """Return the format of a file that begins with these records; None: no known one."""
    start = b""
    with suppress(OSError):
        if not records and path.is_file():
            with path.open("rb") as file:
                start = file.read(_STARTS).lstrip()
    for one in formats():
        if one.start and start.startswith(one.start) and one.within in path.name:
            return one
        with suppress(*MALFORMED):
            if records and one.recognises(records):
                return one
    return None


def unread(path: Path, known: FileFormat) -> UsageError:
    """Return the sentence on a file of a known format that is not read."""
    return UsageError(f"{str(path)!r}: this is {known.name}, which is not read; {known.instead}")
