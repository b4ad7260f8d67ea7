"""Files of programs that are known and not read: each is named, with a way out where there is one.

Most lack what a call saw or cost; others are databases, which their programs change as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.importing.base import MALFORMED, object_of, text_of

_LOG: Final = "its requests can be, where they were logged with their answers (`--as request-log`)"
_EXPORT: Final = "`opencode export SESSION > FILE` writes a file that is"
_STARTS: Final = 1024

_BY_START: Final[Sequence[tuple[bytes, str, str, str]]] = (
    (b"SQLite format 3\0", "opencode", "the database of opencode", _EXPORT),
    (b"SQLite format 3\0", ".vscdb", "a database of Cursor or VS Code", _LOG),
    (b"SQLite format 3\0", "", "an SQLite database", "export its sessions as JSON first"),
    (b"# aider chat started at", "", "a chat history of Aider", _LOG),
)
"""How a file begins, what its name holds, what it is, and what can be read instead."""


def _is_copilot(one: Mapping[str, Any]) -> bool:
    return "requests" in one and "responderUsername" in one


_BY_RECORD: Final[Sequence[tuple[Callable[[Mapping[str, Any]], bool], str, str]]] = (
    (
        lambda one: _is_copilot(one) or _is_copilot(object_of(one.get("v"))),
        "a chat of GitHub Copilot in VS Code",
        _LOG,
    ),
    (
        lambda one: text_of(one, "type") == "session.start" and "data" in one,
        "a session of GitHub Copilot's command line",
        _LOG,
    ),
    (
        lambda one: (
            (
                text_of(one, "source") in ("agent", "user", "environment")
                and bool(one.keys() & {"action", "observation", "kind"})
            )
            or one.keys() >= {"instance_id", "history", "metadata"}
        ),
        "a trajectory of OpenHands",
        _LOG,
    ),
    (
        lambda one: (
            text_of(one, "role") in ("user", "assistant")
            and "content" in object_of(one.get("message"))
            and "type" not in one
        ),
        "a transcript of Cursor",
        _LOG,
    ),
    (
        lambda one: one.keys() >= {"sessionId", "workspaceDirectory", "history"},
        "a session of Continue",
        _LOG,
    ),
    (lambda one: one.keys() >= {"working_dir", "message_count"}, "a session of Goose", _LOG),
    (lambda one: "run_type" in one and "inputs" in one, "an export of LangSmith", _LOG),
    (
        lambda one: text_of(one, "type") in ("say", "ask") and text_of(one, "type") in one,
        "what Cline showed of a task",
        "`api_conversation_history.json` beside it is",
    ),
    (
        lambda one: text_of(one, "sessionID", "id").startswith("ses_"),
        "a piece of opencode's storage or events",
        _EXPORT,
    ),
)


def unread(path: Path, records: Sequence[Mapping[str, Any]] = ()) -> str:
    """One sentence on a file of a known program that is not read; empty: it is no such one."""
    start = b""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(_STARTS).lstrip()
    named = [
        (what, instead)
        for begins, name, what, instead in _BY_START
        if start.startswith(begins) and name in path.name
    ]
    for one in records:
        with suppress(*MALFORMED):
            named += [(what, instead) for is_one, what, instead in _BY_RECORD if is_one(one)]
    if not named:
        return ""
    what, instead = named[0]
    return f"{str(path)!r}: this is {what}, which is not read; {instead}"
