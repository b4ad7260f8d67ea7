"""The recordings of files and folders, one by one; a format is recognised by its content.

The table of formats: how each is recognised, and its reader, or a sentence where it has none.

Formats without a reader lack what a call saw or cost, or are databases, which their programs change
as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.errors import UsageError, did_you_mean
from windlass.importing import (
    claude_bodies,
    claude_code,
    cline,
    codex,
    exchanges,
    gemini_cli,
    opencode,
    otel,
    swe_agent,
)
from windlass.importing.base import COUNTED, MALFORMED, UNSENT, Answers, Records, object_of, text_of
from windlass.importing.claude_bodies import BodyFolder, is_folder_of_bodies
from windlass.importing.claude_code import SIDE_CHAIN
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording


def recordings(
    path: str | Path,
    form: str | None = None,
    on_skip: Callable[[str], None] | None = None,
    only: Callable[[Path], bool] = lambda path: True,  # noqa: ARG005
) -> Iterator[Recording]:
    """Yield the recordings of a file, or of all files in a folder and its folders.

    Only one file is in memory at a time, so that a folder may be large. An answer that stands in
    several records or files is counted once.

    Args:
        path: A file, with the side chains that its program keeps beside it, or a folder.
        form: The name of the format; default: it is recognised by content.
        on_skip: Gets a sentence for each file of a folder that is not read.
        only: Whether a file of a folder is one of those that are meant.

    Raises UsageError where there is no such file or format, or the file cannot be read or holds no
    call; for a folder, where that is so of all its files.
    """
    place = Path(path)
    if form is not None and form not in READ:
        raise UsageError(f"unknown format {form!r}: {did_you_mean(form, READ)}")
    if not place.is_dir():
        if not place.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
        file = _open(place)
        more = _readable(_format_of(file, form).beside(file), form, on_skip)
        yield from _read(place, [place, *more], form, on_skip)
        return
    everything = [place, *place.rglob("*")]
    bodies = {one for one in everything if one.is_dir() and is_folder_of_bodies(one)}
    files = (
        one
        for one in everything
        if one.is_file() and not one.name.startswith(".") and one.parent not in bodies and only(one)
    )
    # A session comes before its side chains, which are beside it or in a folder below.
    paths = sorted(
        (*bodies, *files),
        key=lambda one: (len(one.parts), one.name.startswith(SIDE_CHAIN), str(one)),
    )
    readable = _readable(paths, form, on_skip)
    if not readable:
        raise UsageError(f"no file in {str(path)!r} is a recording that can be read")
    yield from _read(place, readable, form, on_skip)


def _readable(
    paths: Sequence[Path], form: str | None, on_skip: Callable[[str], None] | None
) -> list[Path]:
    """Return the files of known formats; the others are told."""
    readable: list[Path] = []
    for one in paths:
        try:
            _format_of(_open(one), form)
        except UsageError as error:
            if on_skip is not None:
                on_skip(str(error))
        else:
            readable.append(one)
    return readable


def _open(path: Path) -> RecordedFile:
    if path.is_dir():
        return BodyFolder(path)
    try:
        return RecordedFile(path)
    except UsageError as error:
        known = recognise(path)
        raise error if known is None else unread(path, known) from error


def _format_of(file: RecordedFile, form: str | None) -> FileFormat:
    """Return the format of a file. Raises UsageError where it is not a known one, or not read."""
    if isinstance(file, BodyFolder):
        return BODIES
    known = recognise(file.path, file.head) if form is None else READ[form]
    if known is not None and known.reader is None:
        raise unread(file.path, known)
    if known is not None:
        return known
    keys = ", ".join(map(str, list(file.head[0])[:6])) or "nothing"
    raise UsageError(
        f"{str(file.path)!r} is not a recording of a known format: its first object has {keys};"
        f" known formats: {', '.join(READ)}"
    )


def _read(
    place: Path, paths: list[Path], form: str | None, on_skip: Callable[[str], None] | None
) -> Iterator[Recording]:
    answers, is_empty = Answers(), True
    for path in paths:  # answers first: the best record of an answer may be in a later file
        file = _open(path)
        _format_of(file, form).scan(file, answers)
    for path in paths:
        file = _open(path)
        try:
            for recording in _require_one(_format_of(file, form).read(file, answers), file):
                is_empty = False
                yield recording
        except UsageError as error:
            is_alone = path == place or len(paths) == 1
            is_told = on_skip is not None or not place.is_dir() or file.skipped[COUNTED] > 0
            if is_alone or not is_told:
                raise
            if on_skip is not None:
                on_skip(str(error))
    if is_empty:
        raise UsageError(f"no file of {str(place)!r} holds a call of a model")


def _require_one(recordings: Iterator[Recording], file: RecordedFile) -> Iterator[Recording]:
    """Yield the recordings of a file. Raises UsageError where there are none."""
    is_empty = True
    for recording in recordings:
        is_empty = False
        yield recording
    if is_empty:
        del file.skipped[UNSENT]  # that is what is said here
        most = (+file.skipped).most_common(3)
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in most)
        left_out = f"; left out: {skipped}" if skipped else ""
        raise UsageError(f"{str(file.path)!r} holds no call of a model{left_out}")


Reader: TypeAlias = Callable[[RecordedFile, Answers], Iterator[Recording]]

_LOG: Final = "its requests can be, where they were logged with their answers (`--as request-log`)"
_EXPORT: Final = "`opencode export SESSION > FILE` writes a file that is"
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


def _any(is_one: Callable[[Mapping[str, Any]], bool]) -> Callable[[Records], bool]:
    return lambda records: any(map(is_one, records))


def _is_copilot(one: Mapping[str, Any]) -> bool:
    return any("requests" in each and "responderUsername" in each for each in (one, _v(one)))


def _v(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(one.get("v"))


def _is_openhands(one: Mapping[str, Any]) -> bool:
    is_event = text_of(one, "source") in ("agent", "user", "environment")
    is_event = is_event and bool(one.keys() & {"action", "observation", "kind"})
    return is_event or one.keys() >= {"instance_id", "history", "metadata"}


def _is_cursor(one: Mapping[str, Any]) -> bool:
    is_message = text_of(one, "role") in ("user", "assistant") and "type" not in one
    return is_message and "content" in object_of(one.get("message"))


BODIES: Final = FileFormat("claude-code-bodies", _never, claude_bodies.read)
"""A folder of bodies, which is recognised by the names of its files."""

FORMATS: Final[tuple[FileFormat, ...]] = (
    BODIES,
    FileFormat(
        *("claude-code", claude_code.recognises, claude_code.read),
        *(claude_code.side_chains, claude_code.scan),
    ),
    FileFormat("codex", codex.recognises, codex.read, codex.beside, codex.scan),
    FileFormat("codex-exec", codex.recognises_events, codex.read_events),
    FileFormat("gemini-cli", gemini_cli.recognises, gemini_cli.read, gemini_cli.beside),
    FileFormat("opencode", opencode.recognises, opencode.read),
    FileFormat("cline", cline.recognises, cline.read, cline.beside),
    FileFormat("mini-swe-agent", swe_agent.recognises_mini, swe_agent.read_mini),
    FileFormat("swe-agent", swe_agent.recognises, swe_agent.read),
    FileFormat("otel", otel.recognises, otel.read),
    FileFormat("request-log", exchanges.recognises_log, exchanges.read_log),
    FileFormat("chat", exchanges.recognises_messages, exchanges.read_messages),
    FileFormat("a chat of GitHub Copilot in VS Code", _any(_is_copilot), instead=_LOG),
    FileFormat(
        "a session of GitHub Copilot's command line",
        _any(lambda one: text_of(one, "type") == "session.start" and "data" in one),
        instead=_LOG,
    ),
    FileFormat("a trajectory of OpenHands", _any(_is_openhands), instead=_LOG),
    FileFormat("a transcript of Cursor", _any(_is_cursor), instead=_LOG),
    FileFormat(
        "a session of Continue",
        _any(lambda one: one.keys() >= {"sessionId", "workspaceDirectory", "history"}),
        instead=_LOG,
    ),
    FileFormat(
        "a session of Goose",
        _any(lambda one: one.keys() >= {"working_dir", "message_count"}),
        instead=_LOG,
    ),
    FileFormat(
        "an export of LangSmith",
        _any(lambda one: "run_type" in one and "inputs" in one),
        instead=_LOG,
    ),
    FileFormat(
        "what Cline showed of a task",
        _any(lambda one: text_of(one, "type") in ("say", "ask") and text_of(one, "type") in one),
        instead="`api_conversation_history.json` beside it is",
    ),
    FileFormat(
        "a piece of opencode's storage or events",
        _any(lambda one: text_of(one, "sessionID", "id").startswith("ses_")),
        instead=_EXPORT,
    ),
    *(
        FileFormat(name, _never, instead=instead, start=start, within=within)
        for name, start, within, instead in (
            ("the database of opencode", b"SQLite format 3\0", "opencode", _EXPORT),
            ("a database of Cursor or VS Code", b"SQLite format 3\0", ".vscdb", _LOG),
            ("an SQLite database", b"SQLite format 3\0", "", "export its sessions as JSON first"),
            ("a chat history of Aider", b"# aider chat started at", "", _LOG),
        )
    ),
)
"""All formats, in the order in which they are tried."""

READ: Final[Mapping[str, FileFormat]] = {one.name: one for one in FORMATS if one.reader}
"""Those that are read, by their names."""


def recognise(path: Path, records: Records = ()) -> FileFormat | None:
    """Return the format of a file that begins with these records; None: no known one."""
    start = b""
    with suppress(OSError):
        if not records and path.is_file():
            with path.open("rb") as file:
                start = file.read(_STARTS).lstrip()
    for one in FORMATS:
        if one.start and start.startswith(one.start) and one.within in path.name:
            return one
        with suppress(*MALFORMED):
            if records and one.recognises(records):
                return one
    return None


def unread(path: Path, known: FileFormat) -> UsageError:
    """Return the sentence on a file of a known format that is not read."""
    return UsageError(f"{str(path)!r}: this is {known.name}, which is not read; {known.instead}")
