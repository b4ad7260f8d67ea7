"""What people know a conversation by: the day on which it began, and the user's first words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from windlass.messages import Message, Text

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
        if message.role != "user":
            others = others or (message.text if message.role == "assistant" else "")
            continue
        # Clients put texts of their own before the user's, in the same message.
        for text in (part.text.strip() for part in message.parts if isinstance(part, Text)):
            tag = _TAG.match(text)
            words = _short(text[tag.end() :] if tag else text, most)
            if words and not _ADDED.match(text):
                return words
            added = added or words
    return added or _short(others, most)


def _short(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def dated(words: str, began: float) -> str:
    """The words behind the day, in UTC: `2026-01-21 Fix the parser`."""
    return f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d} {words}".strip()
