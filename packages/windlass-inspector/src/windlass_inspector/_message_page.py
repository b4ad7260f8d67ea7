"""The page of a message: its life, its text, and its pictures as files of their own.

A message as the pages show it: texts, pictures, calls, and what only a provider reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from windlass.public import Message, Picture, Text, UsageError, escaped, many
from windlass_inspector._inspector import Inspector, number_in
from windlass_inspector._rendering import name_in

_CALLS: Final = 100
"""Calls of a page."""
_SHOWN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds of pictures that a browser only draws; others may hold programs."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def message_page(inspector: Inspector, request: Request) -> Response:
    """Where a message was born, each call that paid for it, each edit, each recall."""
    session = inspector.session(request)
    life = session.life(name_in(request.path_params["message"]))
    at = number_in(request.query_params.get("from", "")) or 0
    begin = min(at, max(0, len(life.paid) - 1)) // _CALLS * _CALLS
    message = session.said(life.message_id)
    changed = next((each for each in reversed(life.paid) if not each.is_whole), None)
    sent = None
    if changed is not None:
        seen = session.call(changed.call).see(changed.position)
        sent = None if seen.message.key == message.key else parts_of(seen.message, WHOLE)
    return inspector.respond(
        "message.html",
        session,
        {
            "life": life,
            "row": life.stored.row,
            "message": message,
            "parts": parts_of(message, WHOLE),
            "sent": sent,
            "sent_in": changed,
            "paid": life.paid[begin : begin + _CALLS],
            "begin": begin,
            "step": _CALLS,
        },
    )


def text_of_message(inspector: Inspector, request: Request) -> Response:
    """Return all text of a message, by itself."""
    session = inspector.session(request)
    life = session.life(name_in(request.path_params["message"]))
    message = session.said(life.message_id)
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    text = "\n".join([message.text, *calls])
    return PlainTextResponse(escaped(text))


def picture(inspector: Inspector, request: Request) -> Response:
    """Return the bytes of a picture of the session.

    Raises UsageError where it has none of that hash.
    """
    session = inspector.session(request)
    sha256 = request.path_params["sha256"]
    media_type = None
    if _SHA256.fullmatch(sha256):
        media_type = session.media_type(sha256)
    if media_type is None:
        raise UsageError(f"session {session.session_id!r} has no picture {sha256!r}")
    if media_type not in _SHOWN:
        raise UsageError(f"picture {sha256!r} is a file of {media_type!r}, which is not shown here")
    return Response(inspector.store.picture(sha256), media_type=media_type)


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
