"""The formats: how each is recognised, and which module reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.errors import UsageError
from windlass.importing import claude_code, cline, codex, gemini_cli, opencode
from windlass.importing.base import CODEX_HEADER, MALFORMED, Answers, object_of, text_of
from windlass.importing.exchanges import exchange_of, form_of_request
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording, RecordingFormat

Records: TypeAlias = Sequence[Mapping[str, Any]]
"""The first records of a file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files."""

    name: RecordingFormat
    """The name that `--as` takes."""
    module: str
    """The module of this room whose `read` gives the recordings of a file."""
    recognises: Callable[[Records], bool]
    """Whether these are the first records of such a file."""
    beside: Callable[[RecordedFile], list[Path]] = lambda file: []  # noqa: ARG005
    """The files of its side chains, which are read with a file."""
    scan: Callable[[RecordedFile, Answers], None] = lambda file, answers: None  # noqa: ARG005
    """Notes the answers of a file before it is read, if one may stand in several records."""

    def read(self, file: RecordedFile, answers: Answers) -> Iterator[Recording]:
        """The recordings of a file.

        Raises UsageError where one is too large for the memory, or the file is of another format.
        """
        reader = import_module(f"{__package__}.{self.module}")
        try:
            yield from reader.read(file, answers)
        except MALFORMED as error:
            raise UsageError(
                f"{str(file.path)!r} is not a recording of the format {self.name!r}"
            ) from error


def recognise(records: Records) -> FileFormat | None:
    """The format of a file that begins with these records; None: no known one."""
    for one in FORMATS.values():
        with suppress(*MALFORMED):
            if one.recognises(records):
                return one
    return None


def _is_codex(records: Records) -> bool:
    types = {"session_meta", "turn_context", "response_item", "event_msg", "compacted"}
    return any(
        (text_of(one, "type") in types and isinstance(one.get("payload"), Mapping))
        or one.keys() >= CODEX_HEADER
        for one in records
    )


def _is_mini_swe_agent(records: Records) -> bool:
    first, info = records[0], records[0].get("info")
    return isinstance(first.get("messages"), list) and (
        str(first.get("trajectory_format")).startswith("mini-swe-agent")
        or (isinstance(info, Mapping) and "mini_version" in info)
    )


def _is_swe_agent(records: Records) -> bool:
    return all(isinstance(records[0].get(key), list) for key in ("trajectory", "history"))


def _is_otel(records: Records) -> bool:
    return any(
        "resourceSpans" in one
        or "resource_spans" in one
        or object_of(one.get("context")).keys() >= {"trace_id", "span_id"}
        for one in records
    )


def _is_request_log(records: Records) -> bool:
    exchanges = [exchange_of(record) for record in records]
    return any(
        one is not None and one.response is not None and form_of_request(one.request, one.response)
        for one in exchanges
    )


def _is_codex_exec(records: Records) -> bool:
    return any(text_of(one, "type") in ("thread.started", "turn.started") for one in records)


def _is_gemini_cli(records: Records) -> bool:
    return any(one.keys() >= {"sessionId", "projectHash"} for one in records)


def _is_chat_list(records: Records) -> bool:
    return any(
        isinstance(listed := one.get("messages"), list)
        and any(isinstance(each, Mapping) and each.get("role") == "assistant" for each in listed)
        for one in records
    )


BODIES: Final = FileFormat("claude-code-bodies", "claude_bodies", lambda _: False)
"""A folder of bodies, which is recognised by the names of its files."""

FORMATS: Final[Mapping[str, FileFormat]] = {
    one.name: one
    for one in (
        BODIES,
        FileFormat(
            *("claude-code", "claude_code", claude_code.recognises),
            beside=claude_code.side_chains,
            scan=claude_code.scan,
        ),
        FileFormat("codex", "codex", _is_codex, codex.beside, codex.scan),
        FileFormat("codex-exec", "codex_exec", _is_codex_exec),
        FileFormat("gemini-cli", "gemini_cli", _is_gemini_cli, gemini_cli.beside),
        FileFormat("opencode", "opencode", opencode.recognises),
        FileFormat("cline", "cline", cline.recognises, cline.beside),
        FileFormat("mini-swe-agent", "mini_swe_agent", _is_mini_swe_agent),
        FileFormat("swe-agent", "swe_agent", _is_swe_agent),
        FileFormat("otel", "otel", _is_otel),
        FileFormat("request-log", "request_log", _is_request_log),
        FileFormat("chat", "chat_lists", _is_chat_list),
    )
}
"""The formats by their names, in the order in which they are tried."""
