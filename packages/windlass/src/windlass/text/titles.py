"""What people know a conversation by: the day on which it began, and the user's first words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from windlass.messages import Message, Text

_ADDED: Final = re.compile(
    r"<(command-|local-command|system-reminder|environment_context|user_instructions|ide_|bash-"
    r"|task-notification)"
    r"|Caveat: The messages below|\[Request interrupted|# AGENTS\.md|Stop hook feedback:"
    r"|This session is being continued from a previous conversation"
)
"""How words begin that clients put into the user's mouth."""
_SKILL: Final = re.compile(
    r"Base directory for this skill:|\(Re-invocation of /|<skill(_content)?[ >]|---\nname: "
)
"""How the text of a skill begins where a client puts it into the user's mouth."""
_COMMAND: Final = re.compile(
    r"<command-name>\s*(?P<name>/?[^<\s]+).*?(?:<command-args>(?P<words>.*?)</command-args>|$)",
    re.DOTALL,
)
_WITHOUT_TEXT: Final = frozenset(
    (
        *("/clear", "/compact", "/model", "/effort", "/fast", "/login", "/logout", "/resume"),
        *("/rename", "/config", "/cost", "/context", "/usage", "/status", "/help", "/mcp"),
        *("/agents", "/hooks", "/permissions", "/plugin", "/add-dir", "/exit", "/quit"),
    )
)
"""Commands of a client that put no text of their own behind them."""
_SHOWN: Final = re.compile(r"<local-command")
"""How that begins which a command of the client itself printed."""
_TAG: Final = re.compile(r"<[\w-]+>\s*")


def first_words(messages: Iterable[Message], most: int = 60) -> str:
    """Return the beginning of what the user said first, in one line of at most so many characters.

    What clients add, and what others said, counts only where there is nothing else, and the text of
    a skill or of a command never; empty: nothing was said.
    """
    typed = added = others = ""
    behind_command = has_words = False
    for message in messages:
        if message.role != "user":
            others = others or (message.text if message.role == "assistant" else "")
            behind_command = False
            continue
        # Clients put texts of their own before the user's, in the same message.
        for text in (part.text.strip() for part in message.parts if isinstance(part, Text)):
            if text.startswith("<command-") and (found := _COMMAND.search(text)):
                words = (found["words"] or "").strip()
                typed, has_words = f"{found['name']} {words}".strip(), bool(words)
                behind_command = found["name"] not in _WITHOUT_TEXT
            elif _SHOWN.match(text):
                typed, behind_command = "", False
            elif _SKILL.match(text) or (behind_command and "\n" in text):
                if behind_command and has_words:
                    return _short(typed, most)
            else:
                tag = _TAG.match(text)
                words = _short(text[tag.end() :] if tag else text, most)
                if words and not _ADDED.match(text):
                    return words
                added = added or words
    return _short(typed, most) or added or _short(others, most)


def _short(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def dated(words: str, began: float) -> str:
    """Return the words behind the day, in UTC: `2026-01-21 Fix the parser`."""
    return f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d} {words}".strip()
