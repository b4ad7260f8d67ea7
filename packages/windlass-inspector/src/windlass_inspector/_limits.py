"""What clients may take of the server: connections, seconds for a head, entries of the log.

Any program of this machine can connect, also one without the token. So nothing that it holds back
or sends may keep the owner's browser from being answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS: Final = 64
"""Connections at once: few enough for a system that allows 256 open files."""
BACKLOG: Final = 24
"""Connections that wait to be accepted; so many may be accepted in one go.

Four goes may pass until the first of them is closed in the place of others, so 4 times as many and
`CONNECTIONS` fit what a system allows.
"""
HEAD_S: Final = 5.0
"""Seconds for the head of a request, since the connection began or its last answer ended."""
_ENTRIES: Final = 10
"""Entries of the log in a minute."""
_MINUTE_S: Final = 60.0
_CHARACTERS: Final = 300
"""Characters of what an entry says."""


class LimitedProtocol(H11Protocol):
    """A connection that is closed where its request does not come, or newer ones need its place.

    Where there are too many, the one that has waited longest for a request goes; where all are
    being answered, the oldest: an event stream, which the browser opens again.
    """

    since: float = 0.0
    """When it began to wait for a request, in seconds of the event loop."""
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a request came whose answer has not ended."""
        # uvicorn says that there is always a cycle; before the first request there is none.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, in the place of another where there are too many."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > CONNECTIONS:
            others = [
                each
                for each in self.connections
                if isinstance(each, LimitedProtocol) and each is not self
            ]
            longest = min(others, key=lambda each: (each.is_answering, each.since))
            longest.transport.abort()
            self.connections.discard(longest)  # it is told only later that it is lost

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        self.since = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(HEAD_S, self._give_up)

    def _give_up(self) -> None:
        if not self.is_answering:
            self.transport.close()


class LimitedLog(logging.Filter):
    """Lets few entries of the log, of few characters, through in a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._began = 0.0
        self._entries = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether an entry is written; it is cut where it is too long."""
        now = time.monotonic()
        if not self._entries or now - self._began > _MINUTE_S:
            self._began, self._entries = now, 0
        self._entries += 1
        text = record.getMessage()
        if self._entries == _ENTRIES:
            text = "more is left out for a minute"
            record.exc_info = record.exc_text = None
        if len(text) > _CHARACTERS:
            text = f"{text[:_CHARACTERS]}…"
        record.msg, record.args = text, ()
        return self._entries <= _ENTRIES
