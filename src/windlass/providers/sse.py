"""Server-sent events out of the bytes of a response, however the bytes are cut. Pure.

The format is that of the HTML standard, "Server-sent events": lines end with CR, LF or
both, `data:` lines of one event are joined, a line that begins with a colon is a comment,
an empty line ends the event. `id` and `retry` mean nothing here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data, and its name (empty where it has none)."""

    data: str
    name: str = ""


class EventParser:
    """Handed the pieces of a stream in order, answers the events that they complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._name = ""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that end inside `piece`."""
        text = self._rest + piece
        held = text.endswith(b"\r")  # an LF that belongs to it may follow in the next piece
        *lines, self._rest = _LINE_END.split(text.removesuffix(b"\r"))
        if held:
            self._rest += b"\r"
        return [event for line in lines if (event := self._take(line)) is not None]

    def close(self) -> list[ServerEvent]:
        """What stands at the end without its empty line: some servers leave it out."""
        events = self.feed(b"\n") if self._rest.endswith(b"\r") else []
        self._rest = b""  # a line that was cut is no line
        last = self._take(b"")
        return events if last is None else [*events, last]

    def _take(self, line: bytes) -> ServerEvent | None:
        """Read one line; the event it ends, if it ends one."""
        if not line:
            data, name = self._data, self._name
            self._data, self._name = [], ""
            return ServerEvent("\n".join(data), name) if data else None
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None
