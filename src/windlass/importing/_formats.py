"""The table of formats: how each is recognised, and its reader, or a sentence where it has none.

Formats without a reader lack what a call saw or cost, or are databases, which their programs change
as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.errors import UsageError
from windlass.importing import (
    chat_lists,
    claude_bodies,
    claude_code,
    cline,
    codex,
    codex_exec,
    gemini_cli,
    mini_swe_agent,
    opencode,
    otel,
    request_log,
    swe_agent,
)
from windlass.importing.base import MALFORMED, Answers, Records, object_of, text_of
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording

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
    FileFormat("codex-exec", codex_exec.recognises, codex_exec.read),
    FileFormat("gemini-cli", gemini_cli.recognises, gemini_cli.read, gemini_cli.beside),
    FileFormat("opencode", opencode.recognises, opencode.read),
    FileFormat("cline", cline.recognises, cline.read, cline.beside),
    FileFormat("mini-swe-agent", mini_swe_agent.recognises, mini_swe_agent.read),
    FileFormat("swe-agent", swe_agent.recognises, swe_agent.read),
    FileFormat("otel", otel.recognises, otel.read),
    FileFormat("request-log", request_log.recognises, request_log.read),
    FileFormat("chat", chat_lists.recognises, chat_lists.read),
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
