"""Runs a command that reaches nothing but loopback, where the system has network namespaces.

    python -m tests_clients.loopback COMMAND...

Elsewhere the command runs as it is; the clients of these tests have dead proxies in any case.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def enter() -> bool:
    """Leave the network but for loopback; False: the system does not let us."""
    if sys.platform != "linux":
        return False
    trial = os.fork()  # some systems let us in and then nothing works
    if not trial:
        try:
            _leave()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(trial, 0)[1]:
        return False
    _leave()
    return True


def _leave() -> None:
    """Raises OSError where that is not allowed."""
    library = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if library.unshare(_NEWNET):
        if library.unshare(_NEWUSER | _NEWNET):
            raise OSError(ctypes.get_errno(), "no namespaces")
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", name).write_text(line, encoding="ascii")
    _raise_loopback()


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


if __name__ == "__main__":
    if not enter():
        print("no namespace of its own: dead proxies bar the network", file=sys.stderr)  # noqa: T201
    os.execvp(sys.argv[1], sys.argv[1:])
