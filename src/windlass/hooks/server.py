"""The process that stays: it answers the short ones, one user's, over a socket of that user's own.

It ends by itself when nobody asked for half an hour.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.hooks import client
from windlass.hooks.answering import Answering, Request
from windlass.hooks.events import Place
from windlass.safety.own_files import open_own, replace

_IDLE_S: Final = 1_800
"""Seconds without an event after which the process ends."""
_LOOK_S: Final = 5.0
"""Seconds between looks whether that is so, and whether another process took the socket."""
_MOST_WAITING: Final = 64


def main() -> None:
    """Answer until nobody asks any more; at once nothing, where another process answers already."""
    folder = client.own_folder()
    path = client.address(folder)
    lock = _lock(Path(f"{path}.lock"))
    if lock is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener, token = _listen(path)
    try:
        _Server(listener, token, float(os.environ.get("WINDLASS_HOOK_IDLE_S") or _IDLE_S)).serve()
    finally:
        for suffix in (".socket", ".port"):
            Path(path + suffix).unlink(missing_ok=True)
        listener.close()
        os.close(lock)


def _lock(path: Path) -> int | None:
    """A handle that only one process has at a time (None: another has it)."""
    handle = open_own(path)
    with suppress(ImportError):  # without locks the last that came is asked
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
    return handle


def _listen(path: str) -> tuple[socket.socket, bytes]:
    """What to accept connections from, and what each must begin with."""
    if hasattr(socket, "AF_UNIX"):
        Path(f"{path}.socket").unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o077)
        try:
            listener.bind(f"{path}.socket")
        finally:
            os.umask(before)
        listener.listen(_MOST_WAITING)
        return listener, b""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_MOST_WAITING)
    token = secrets.token_hex(16).encode()
    replace(Path(f"{path}.port"), [b"%d %s" % (listener.getsockname()[1], token)], 0o600)
    return listener, token


class _Server:
    def __init__(self, listener: socket.socket, token: bytes, idle_s: float) -> None:
        self._listener = listener
        self._token = token
        self._idle_s = idle_s
        self._answering = Answering(time.time, _store_session)
        self._last = time.monotonic()

    def serve(self) -> None:
        self._listener.settimeout(min(_LOOK_S, self._idle_s))
        while time.monotonic() - self._last < self._idle_s:
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self._last = time.monotonic()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """Read one event and answer it; whatever fails is counted, and answered with nothing."""
        arguments = [""]
        with connection:
            try:
                connection.settimeout(client.WAIT_S)
                if self._token and not secrets.compare_digest(
                    _receive(connection, len(self._token)), self._token
                ):
                    return
                request = _read_request(connection)
                if request is None:
                    return
                arguments = list(request.arguments)
                answer = self._answering.answer(request)
                try:
                    connection.sendall(answer.text.encode())
                except OSError:  # the short process gave up: its agent shows the whole result
                    answer.take_back()
                    raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
                client.count_failure(f"{type(error).__name__}: {error}", arguments)


def _store_session(store: Path, place: Place) -> None:
    """Put a session into its store, in a process of its own: this one must answer."""
    words = [sys.executable, "-P", "-m", "windlass.hooks.sessions"]
    process = subprocess.Popen(  # noqa: S603 - our own module
        [*words, str(store.absolute()), place.agent, place.session],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    threading.Thread(target=process.wait, daemon=True).start()


def _read_request(connection: socket.socket) -> Request | None:
    """An event (None: somebody only looked whether this process runs)."""
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
    return Request(Path(words[0]), variables, tuple(words[between + 1 :]), bytes(payload))


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
