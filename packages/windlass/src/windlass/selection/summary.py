"""Summaries by rule: what a card says of a message where no model is asked.

A message of less than 200 characters is its own summary. A tool's result is told by its
error, its pictures, its keys or its beginning; other texts by their first sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from windlass.messages import Message
from windlass.safety.foreign import parse_json
from windlass.window.digests import error_lines
from windlass.window.kinds import look_of

VERBATIM: Final = 200
"""Texts of fewer characters stand for themselves."""
RESULT_HEAD: Final = 100
SUMMARY_CHARS: Final = 300
"""The most characters of a summary."""
_KEYS: Final = 5
_RAN: Final = ("command", "log")
_PARSED: Final = 200_000
"""JSON of more characters is not parsed for its keys."""
_SENTENCE: Final = re.compile(r"[.!?][\"')\]]*\s")
_SPACE: Final = re.compile(r"\s+")


def summary_of(message: Message, tool: str | None = None, chars: int = SUMMARY_CHARS) -> str:
    """Return what a message says, in one line of at most `chars` characters.

    `tool` is the name of the tool whose result it is, where that is known.
    """
    text = told_text(message)
    if message.role == "tool":
        return _cut(_of_result(message, text, tool or message.name), chars)
    called = _of_calls(message)
    if len(text) < VERBATIM:
        return _cut(" ".join(part for part in (_line(text), called) if part), chars)
    room = chars - len(called) - 1 if called else chars
    told = sentences(text, max(room, VERBATIM))
    return _cut(f"{told} {called}".strip(), chars)


def told_text(message: Message) -> str:
    """Return what a summary is made of: the text, and what its pictures are."""
    seen = [f"[picture: {picture.describe()}]" for picture in message.pictures]
    return "\n".join(part for part in (message.text, *seen) if part)


def _of_calls(message: Message) -> str:
    if not message.tool_calls:
        return ""
    told = ", ".join(f"{call.name}({_cut(call.arguments, 60)})" for call in message.tool_calls)
    return _line(f"[calls {told}]")


def _of_result(message: Message, text: str, tool: str | None) -> str:
    head = f"Result of {_line(tool)}" if tool else "Tool result"
    if message.pictures and not message.text:
        count = len(message.pictures)
        return f"{head}: {count} picture{'s' if count > 1 else ''}: {_line(text)}"
    value = _json(message.text)
    if isinstance(value, Mapping):
        if value.get("error"):
            return f"{head}: error: {_cut(_line(str(value['error'])), RESULT_HEAD)}"
        if isinstance(value.get("images"), list):
            return f"{head}: {len(value['images'])} image(s)"
        return f"{head} with keys: {_line(', '.join(list(value)[:_KEYS]))}"
    if len(text) < VERBATIM:
        return f"{head}: {_line(text)}"
    # A file that is read names errors too; what ran, and what was logged, reports them.
    failed = error_lines(message.text, VERBATIM) if look_of(message.text) in _RAN else ""
    if failed:
        return f"{head} ({len(text):,} characters): error: {_line(failed)}"
    return f"{head}: {_line(text[:RESULT_HEAD])}... ({len(text):,} characters)"


def _json(text: str) -> Any:
    if text[:1] != "{" or len(text) > _PARSED:
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def sentences(text: str, room: int) -> str:
    """Whole sentences from the beginning of a text that fit, or else its beginning."""
    line = _line(text[: 4 * room])
    if len(line) <= room:
        return line
    ends = [found.end() for found in _SENTENCE.finditer(line, 0, room)]
    return line[: ends[-1]].rstrip() if ends and ends[-1] > room // 3 else _cut(line, room)


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"
