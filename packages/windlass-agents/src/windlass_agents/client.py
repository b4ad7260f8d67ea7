"""The short process that an agent starts at each event: it asks the process that stays.

It imports little, since it is started at every result of a tool: `_socket` takes 10 ms less than
`socket`. Whatever fails, it prints nothing
and exits with 0, and the agent goes on as if there was no hook; the failure is counted.
"""

from __future__ import annotations

import os
import stat
import sys
import time
import zlib

from windlass import __version__

TYPE_CHECKING = False  # typing's own, without the 10 ms that importing it takes
if TYPE_CHECKING:
    import _socket

MOST_BYTES = 8_000_000
"""Bytes of an event; the result in a longer one stays as it is."""
WAIT_S = 2.0
"""Seconds after the connection in which an answer comes; else a result stays as it is."""
START_S = 7.0
"""Seconds in which the process that stays starts."""
_ALWAYS_ANSWERED = ("opencode", "plain")
"""Agents that are told in JSON that a result stays as it is."""
_TRY_AGAIN_S = 0.02
_MOST_PATH = 100
"""Bytes of the path of a socket that every system takes."""
FAILURES = "hook-failures.txt"
"""The file of failures in the own folder: a line each."""
_MOST_FAILURES = 1_000_000
"""Bytes after which no more failures are written."""
_MOST_WORDS = 400
"""Characters of a failure."""


def run(arguments: list[str]) -> int:
    """Read an event on standard input and print the answer; the exit code, which is always 0."""
    answer = b""
    try:
        payload = _read_input()
        if payload is None:
            count_failure(f"an event of more than {MOST_BYTES:,} bytes", arguments)
        else:
            answer = ask(arguments, payload, time.monotonic() + START_S)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the agent goes on
        count_failure(f"{type(error).__name__}: {error}", arguments)
    try:
        if not answer and arguments[:1] and arguments[0] in _ALWAYS_ANSWERED:
            answer = b"{}"
        _print(answer)
    except (OSError, KeyboardInterrupt) as error:
        count_failure(f"{type(error).__name__}: {error}", arguments)
    return 0


def ask(arguments: list[str], payload: bytes, until: float) -> bytes:
    """Return what the process that stays answers; it is started if need be. Raises OSError.

    `until`: when to give up to wait for a connection, by `time.monotonic`.
    """
    folder = own_folder()
    connection, is_started = None, False
    while connection is None:
        connection = connect(folder)
        if connection is None:
            if not is_started:
                _start(folder)
                is_started = True
            if time.monotonic() > until:
                raise TimeoutError("the process of the hook did not start in time")
            time.sleep(_TRY_AGAIN_S)
    until = time.monotonic() + WAIT_S
    try:
        told = {name: value for name, value in os.environ.items() if is_told(name)}
        header = [os.getcwd(), *(f"{name}={value}" for name, value in told.items()), "", *arguments]
        data = "\0".join(header).encode(errors="surrogateescape")
        connection.settimeout(max(0.05, until - time.monotonic()))
        connection.sendall(len(data).to_bytes(4) + data + payload)
        connection.shutdown(1)  # SHUT_WR: that is all
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
            connection.settimeout(max(0.05, until - time.monotonic()))
    finally:
        connection.close()
    data = b"".join(pieces)
    if len(data) - 4 != int.from_bytes(data[:4]):
        raise ConnectionError("an answer that ends early")
    return data[4:]


def _print(answer: bytes) -> None:
    """Write the answer, past Python's own buffer: it would fail once more when Python ends."""
    while answer:
        answer = answer[os.write(1, answer) :]


def is_told(name: str) -> bool:
    """Return whether a variable of an agent's environment is handed over."""
    return name.startswith("WINDLASS_") or name in ("CLAUDE_PROJECT_DIR", "HOME", "PATH")


def _read_input() -> bytes | None:
    """Return all of standard input (None: it is too long)."""
    pieces, size = [], 0
    while piece := os.read(0, 1 << 20):
        size += len(piece)
        if size <= MOST_BYTES:
            pieces.append(piece)
    return b"".join(pieces) if size <= MOST_BYTES else None


# ---- the process that stays -----------------------------------------------------------


def own_folder() -> str:
    """Return the user's folder for the socket and for failures; it is made, for nobody else.

    Raises OSError where there is none.
    """
    for folder in _candidates():
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
        except OSError:
            continue
        if _is_own(folder) and os.access(folder, os.W_OK):
            return folder
    raise OSError("no folder of the user's own can be written")


def own_folders() -> list[str]:
    """Return the folders that are there of those that `own_folder` chooses from."""
    return [folder for folder in _candidates() if _is_own(folder)]


def _candidates() -> tuple[str, str]:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    shared = os.environ.get("TMPDIR") or os.environ.get("TEMP") or "/tmp"  # noqa: S108 - own folder in it
    return os.path.join(home, "windlass"), os.path.join(shared, f"windlass-{user}")


def _is_own(folder: str) -> bool:
    """Return whether a folder is there, and the user's alone to write."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    is_own = os.name == "nt" or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    return stat.S_ISDIR(found.st_mode) and is_own


def address(folder: str) -> str:
    """Return the path of the socket of this version and this Python, without its suffix."""
    mine = f"{__version__}\0{sys.prefix}\0{__file__}"
    return _short_path(folder, f"hook-{zlib.crc32(mine.encode(errors='surrogateescape')):08x}")


def mod_socket(folder: str) -> str:
    """Return the path of the link to the socket of the process that was asked last.

    Code of ours inside an agent knows this one, of whichever version it is.
    """
    return f"{_short_path(folder, 'agent')}.socket"


def _short_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder, or in a shorter one of the user's own."""
    path = os.path.join(folder, name)
    if len(os.fsencode(path)) > _MOST_PATH and hasattr(os, "getuid"):
        short = f"/tmp/windlass-{os.getuid()}"  # noqa: S108 - checked to be the user's own
        os.makedirs(short, 0o700, exist_ok=True)
        found = os.lstat(short)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            path = os.path.join(short, name)
    return path


def connect(folder: str) -> _socket.socket | None:
    """Return a connection to the process that stays (None: it does not run)."""
    import _socket

    path = address(folder)
    is_local = hasattr(_socket, "AF_UNIX")
    connection = _socket.socket(_socket.AF_UNIX if is_local else _socket.AF_INET)
    connection.settimeout(WAIT_S)  # else a process that hangs holds up the agent
    try:
        if is_local:
            connection.connect(f"{path}.socket")
        else:
            with open(f"{path}.port", "rb") as file:
                port, token = file.read().split()
            connection.connect(("127.0.0.1", int(port)))
            connection.sendall(token)
    except (OSError, ValueError):
        connection.close()
        return None
    return connection


def start() -> None:
    """Start the process that stays, if it does not run. Raises OSError."""
    folder = own_folder()
    connection = connect(folder)
    if connection is None:
        _start(folder)
    else:
        connection.close()


def _start(folder: str) -> None:
    """Start the process that stays, apart from this one and from the agent."""
    import subprocess

    # On Windows: DETACHED_PROCESS and CREATE_NEW_PROCESS_GROUP.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "windlass_agents.server"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=True,
        start_new_session=os.name != "nt",
        creationflags=0x0208 if os.name == "nt" else 0,
    )
    process.returncode = 0  # it outlives this process, which never waits for it


def count_failure(what: str, arguments: list[str]) -> None:
    """Note a failure where `windlass agent status` finds it; nothing where that fails, too."""
    try:
        path = os.path.join(own_folder(), FAILURES)
        agent, words = "".join(arguments[:1])[:40], " ".join(what.split())[:_MOST_WORDS]
        line = f"{time.time():.0f}\t{agent}\t{words}\n"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(handle).st_size < _MOST_FAILURES:
                os.write(handle, line.encode(errors="replace"))
        finally:
            os.close(handle)
    except OSError:
        return
