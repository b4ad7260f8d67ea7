"""The server of the inspector: a port of this machine, and what runs until it is interrupted.

What clients may take of the server: connections, seconds for a head, entries of the log.

Any program of this machine can connect, also one without the token. So nothing that it holds back
or sends may keep the owner's browser from being answered.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from html import escape
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from windlass.public import Settings, UsageError, open_store

if TYPE_CHECKING:
    from starlette.types import ASGIApp


HOST: Final = "127.0.0.1"
_PORTS: Final = 65_535
_SHORTEST: Final = 8
"""Characters of a token that was chosen by the user."""


def serve(
    settings: Settings,
    *,
    session: str | None,
    port: int,
    token: str | None,
    on_ready: Callable[[str], None],
    open_browser: Callable[[str], None] | None = None,
) -> None:
    """Serve the pages of the store that the settings name, until the process is interrupted.

    Args:
        settings: Name the store, and hold the user's prices.
        session: The session whose page the address is of, as `show` takes it (None: the list).
        port: The port of this machine (0: any that is free).
        token: What whoever asks must know (None: one is made).
        on_ready: Told the address with the token, once it answers.
        open_browser: Told then the address of a file that leads a browser to the pages, once. Only
            the user can read it, whereas everybody can read how a browser was called.

    Raises UsageError where there is no store or session, the port is in use, or the extra is not
    installed.
    """
    _check_extra()
    from windlass_inspector._rendering import address
    from windlass_inspector.site import make_app

    token = _checked(token)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings, existing=True, reading=True))
        path = "/" if session is None else address("session", store.find_session(session))
        listening = stack.enter_context(closing(_listen(port)))
        own_port = int(listening.getsockname()[1])
        app = make_app(
            store, token=token, port=own_port, price_as=settings.price_as, prices=settings.prices
        )
        Thread(target=_warm_up, args=(settings.price_as,), daemon=True).start()
        # A long session is hundreds of thousands of objects that stay: to look for waste among
        # them at every turn takes a third of the time.
        before = gc.get_threshold()
        gc.set_threshold(100_000, 20, 100)
        stack.callback(gc.set_threshold, *before)
        page = f"http://{HOST}:{own_port}{path}"
        leading = stack.enter_context(ExitStack())

        def tell() -> None:
            on_ready(f"{page}?token={token}")
            if open_browser is not None:
                file = _leading_file(f"{page}?code={app.make_code()}")
                leading.callback(file.unlink, missing_ok=True)
                open_browser(file.as_uri())

        _run(app, listening, tell, leading.close)


def _leading_file(address: str) -> Path:
    """Return a file that leads a browser to an address, which only the user can read."""
    handle, name = tempfile.mkstemp(prefix="windlass-", suffix=".html")  # with mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        to = escape(address)
        file.write(
            '<!doctype html><meta charset="utf-8"><title>Windlass</title>'
            f'<meta http-equiv="refresh" content="0;url={to}"><a href="{to}">The inspector</a>\n'
        )
    return Path(name)


def _check_extra() -> None:
    """Raises UsageError where what the pages are served by is not installed."""
    from windlass.public import logging_unchanged

    try:
        with logging_unchanged("PIL", "starlette", "uvicorn"):
            import PIL
            import starlette.applications
            import uvicorn
    except ImportError as error:
        raise UsageError(
            f"windlass serve needs {error.name}: pip install 'windlass[serve]'"
        ) from error
    del PIL, starlette, uvicorn


def _checked(token: str | None) -> str:
    if token is None:
        return secrets.token_urlsafe(24)
    if len(token) < _SHORTEST or not token.isascii() or not token.replace("-", "").isalnum():
        raise UsageError(
            f"--token must be {_SHORTEST} or more letters, digits and hyphens, since it stands in"
            " an address; without it one is made"
        )
    return token


def _listen(port: int) -> socket.socket:
    """Return a socket of this machine that listens.

    Raises UsageError where the port cannot be had.
    """
    if not 0 <= port <= _PORTS:
        raise UsageError(f"--port {port}: a port is a number from 0 to {_PORTS}")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is in use: stop what listens there, or name another with --port"
                " (0: any that is free)"
            ) from error
        raise UsageError(f"port {port} cannot be used ({error.strerror}): name another") from error
    return listening


def _warm_up(model: str) -> None:
    """Load what takes a second, while the user still turns to the browser."""
    from windlass.public import FamilyCounter, rate
    from windlass_inspector._rendering import load_all

    load_all()
    rate(model)
    FamilyCounter(model).text("warm")


def _run(
    app: ASGIApp,
    listening: socket.socket,
    on_ready: Callable[[], None],
    on_end: Callable[[], None],
) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            on_end()  # here, because a signal may end the process behind it
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        lifespan="on",
        http=LimitedProtocol,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        # A page that waits for events would keep the server from ending.
        timeout_graceful_shutdown=1,
        ws="none",
    )
    limited = LimitedLog()
    logger = logging.getLogger("asyncio")  # uvicorn's own says nothing
    logger.addFilter(limited)
    try:
        Server(config).run([listening])
    finally:
        logger.removeFilter(limited)


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
        """Return whether a request came whose answer has not ended."""
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
