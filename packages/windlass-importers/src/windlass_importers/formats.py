"""The formats that this package reads, and those that it knows and says what to read instead.

Formats without a reader lack what a call saw or cost, or are databases, which their programs change
as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from windlass.public import FileFormat, Records, object_of, text_of
from windlass_importers import (
    cline,
    codex_exec,
    gemini_cli,
    mini_swe_agent,
    opencode,
    request_log,
    swe_agent,
)

_LOG: Final = "its requests can be, where they were logged with their answers (`--as request-log`)"
_EXPORT: Final = "`opencode export SESSION > FILE` writes a file that is"


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


FORMATS: Final = (
    FileFormat("codex-exec", codex_exec.recognises, codex_exec.read),
    FileFormat("gemini-cli", gemini_cli.recognises, gemini_cli.read, gemini_cli.beside),
    FileFormat("opencode", opencode.recognises, opencode.read),
    FileFormat("cline", cline.recognises, cline.read, cline.beside),
    FileFormat("mini-swe-agent", mini_swe_agent.recognises, mini_swe_agent.read),
    FileFormat("swe-agent", swe_agent.recognises, swe_agent.read),
    FileFormat("request-log", request_log.recognises, request_log.read),
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
"""In the order in which they are tried."""
