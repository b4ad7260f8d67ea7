"""A message as the pages show it: texts, pictures, calls, and what only a provider reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from windlass.public import Message, Picture, Text, many

PREVIEW: Final = 3_000
"""Characters of a text beside others; the page of a message has more."""
WHOLE: Final = 400_000
"""Characters of a text on the page of its message; all of a longer one is a text by itself."""


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A part of a message. `left` are the characters of a text that are left out."""

    kind: Literal["text", "picture", "call", "note"]
    text: str
    name: str = ""
    left: int = 0
    sha256: str = ""
    width: int = 0
    height: int = 0


def parts_of(message: Message, limit: int = PREVIEW) -> list[BodyPart]:
    """Return the parts of a message in order, no text of them longer than `limit` characters."""
    return list(_parts(message, limit))


def _parts(message: Message, limit: int) -> Iterator[BodyPart]:
    for part in message.parts:
        match part:
            case Text(text):
                yield BodyPart("text", text[:limit], left=max(0, len(text) - limit))
            case Picture():
                yield BodyPart(
                    "picture" if part.sha256 else "note",
                    f"picture: {part.describe()}",
                    sha256=part.sha256,
                    width=part.width,
                    height=part.height,
                )
            case _:
                said = f"{part.provider} {part.kind}, {many(len(part.data), 'character')}"
                yield BodyPart("note", said)
    for call in message.tool_calls:
        left = max(0, len(call.arguments) - limit)
        yield BodyPart("call", call.arguments[:limit], call.name, left=left)


def beginning(message: Message, most: int = 140) -> str:
    """Return how a message begins, in one line."""
    text = " ".join(message.text[: 4 * most].split())
    if not text and message.tool_calls:
        text = ", ".join(f"{call.name}({call.arguments[:most]})" for call in message.tool_calls)
    if not text and message.pictures:
        text = ", ".join(f"[{picture.describe()}]" for picture in message.pictures)
    return text if len(text) <= most else f"{text[:most].rstrip()}…"
