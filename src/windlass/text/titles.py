"""What people know a conversation by: the day on which it began, and the user's first words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from windlass.messages import Message

_ADDED: Final = re.compile(
    r"<(command-|local-command|system-reminder|environment_context|user_instructions|ide_|bash-)"
    r"|Caveat: The messages below|\[Request interrupted|# AGENTS\.md"
)
"""How words begin that clients put into the user's mouth."""
_TAG: Final = re.compile(r"<[\w-]+>\s*")


def first_words(messages: Iterable[Message], most: int = 60) -> str:
    """The beginning of what the user said first, in one line of at most so many characters.

    What clients add, and what others said, counts only where there is nothing else; empty: nothing
    was said.
    """
    added = others = ""
    for message in messages:
        text = message.text
        if message.role != "user":
            others = others or (text if message.role == "assistant" else "")
            continue
        tag = _TAG.match(text.strip())
        words = _short(text.strip()[tag.end() :] if tag else text, most)
        if words and not _ADDED.match(text.strip()):
            return words
        added = added or words
    return added or _short(others, most)


def _short(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def dated(words: str, began: float) -> str:
    """The words behind the day, in UTC: `2026-01-21 Fix the parser`."""
    return f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d} {words}".strip()
