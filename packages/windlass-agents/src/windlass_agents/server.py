"""The process that stays: it answers the short ones, one user's, over a socket of that user's own.

It ends by itself when nobody asked for half an hour.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.public import own_files, redacted_text
from windlass_agents import client
from windlass_agents.project_stores import note_store

if TYPE_CHECKING:  # takes long: not where another answers already
    from windlass_agents.agent_events import AgentPlace
    from windlass_agents.handler import HookHandler, HookRequest
    from windlass_agents.routes import Routes

_IDLE_S: Final = 1_800
"""Seconds without an event after which the process ends."""
_LOOK_S: Final = 5.0
"""Seconds between looks whether that is so, and whether another process took the socket."""
_MOST_WAITING: Final = 64
_HTTP: Final = b"P"
"""How a request of the routes begins, and none of the short process."""


def main() -> None:
    """Answer until nobody asks any more; at once nothing, where another process answers already."""
    folder = client.own_folder()
    path = client.address(folder)
    lock = _lock(Path(f"{path}.lock"))
    if lock is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answering = _answering()  # who finds the socket is answered in time
    listener, token, file = _listen(path)
    mark, link = _mark(file), Path(client.mod_socket(folder))
    idle_s = float(os.environ.get("WINDLASS_HOOK_IDLE_S") or _IDLE_S)
    try:
        if hasattr(socket, "AF_UNIX"):
            _lead(link, file)
        _Server(answering, listener, token, lambda: _mark(file) == mark).serve(idle_s)
    finally:
        if _mark(file) == mark:
            if link.is_symlink() and link.readlink() == file:
                link.unlink(missing_ok=True)
            file.unlink(missing_ok=True)
        listener.close()
        os.close(lock)


def _answering() -> HookHandler:
    """Return what answers, with all that it takes long to load."""
    from windlass.public import FamilyCounter, prices_of
    from windlass_agents.handler import HookHandler

    FamilyCounter("").text("any")
    prices_of("anthropic/any", warn=lambda _: None)  # reads the list of prices
    return HookHandler(time.time, _store_session, note_store)


def _routes(answering: HookHandler, token: bytes) -> Routes:
    from windlass_agents.routes import Routes

    told = {name: value for name, value in os.environ.items() if client.is_told(name)}
    return Routes(answering, token, told)


def _mark(file: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from another of its name (None: there is none)."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _lock(path: Path) -> int | None:
    """Return a handle that only one process has at a time (None: another has it)."""
    handle = own_files.open_own(path)
    with suppress(ImportError):  # without locks the last that came is asked
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
    return handle


def _lead(link: Path, file: Path) -> None:
    """Let a link lead to the socket of this process."""
    new = link.with_suffix(f".{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(file)
    new.replace(link)


def _listen(path: str) -> tuple[socket.socket, bytes, Path]:
    """What to accept connections from, what each must begin with, and the file that leads there."""
    if hasattr(socket, "AF_UNIX"):
        file = Path(f"{path}.socket")
        file.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o077)
        try:
            listener.bind(str(file))
        finally:
            os.umask(before)
        listener.listen(_MOST_WAITING)
        return listener, b"", file
    listener = socket.create_server(("127.0.0.1", 0), backlog=_MOST_WAITING)
    token = secrets.token_hex(16).encode()
    file = Path(f"{path}.port")
    own_files.replace(file, [b"%d %s" % (listener.getsockname()[1], token)], 0o600)
    return listener, token, file


class _Server:
    """Answers what comes in, for as long as `is_found` says that clients still come here."""

    def __init__(
        self,
        answering: HookHandler,
        listener: socket.socket,
        token: bytes,
        is_found: Callable[[], bool],
    ) -> None:
        self._answering = answering
        self._listener = listener
        self._token = token
        self._is_found = is_found
        self._routes = _routes(answering, token)

    def serve(self, idle_s: float) -> None:
        """Answer until nothing came for so many seconds, or nothing can come any more."""
        last = time.monotonic()
        self._listener.settimeout(min(_LOOK_S, idle_s))
        while self._is_found():
            if time.monotonic() - last > idle_s and threading.active_count() == 1:
                return
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                last = time.monotonic()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """Read one event and answer it; whatever fails is counted, and answered with nothing."""
        arguments, answer = [""], None
        with connection:
            try:
                connection.settimeout(client.WAIT_S)
                if connection.recv(1, socket.MSG_PEEK) == _HTTP:
                    self._routes.serve(connection)
                    return
                if self._token and not secrets.compare_digest(
                    _receive(connection, len(self._token)), self._token
                ):
                    return
                request = _read_request(connection)
                if request is None or _is_gone(connection):
                    return
                arguments = list(request.arguments)
                answer = self._answering.answer(request)
                if answer.failure:
                    client.count_failure(answer.failure, arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
                client.count_failure(redacted_text(f"{type(error).__name__}: {error}"), arguments)
            try:
                text = b"" if answer is None else answer.text.encode()
                connection.sendall(len(text).to_bytes(4) + text)
            except OSError:  # the short process gave up, and counted that: its agent shows it whole
                if answer is not None:
                    answer.take_back()
        try:
            if answer is not None:
                answer.afterwards()
        except Exception as error:  # noqa: BLE001 - the same
            client.count_failure(f"{type(error).__name__}: {error}", arguments)


def _store_session(store: Path, place: AgentPlace) -> None:
    """Put a session into its store, in a process of its own: this one must answer."""
    words = [sys.executable, "-P", "-m", "windlass_agents.live_line"]
    process = subprocess.Popen(  # noqa: S603 - our own module
        [*words, str(store.absolute()), place.agent, place.session],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    threading.Thread(target=process.wait, daemon=True).start()


def _read_request(connection: socket.socket) -> HookRequest | None:
    """Return an event (None: somebody only looked whether this process runs)."""
    from windlass_agents import handler

    first = connection.recv(1)
    if not first:
        return None
    size = int.from_bytes(first + _receive(connection, 3))
    words = _receive(connection, size).decode(errors="surrogateescape").split("\0")
    between = words.index("")
    variables = dict(word.split("=", 1) for word in words[1:between])
    payload = bytearray()
    while piece := connection.recv(1 << 16):
        payload += piece
    return handler.HookRequest(
        Path(words[0]), variables, tuple(words[between + 1 :]), bytes(payload)
    )


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the short process gave up already; where that cannot be told it did not."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(connection, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("an event that ends early")
        data += piece
    return bytes(data)


if __name__ == "__main__":
    main()
