"""What holds for every test: no network, no settings of the person who runs it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.requirements_plugin"]

# `CI` makes every run try the same examples, so that a failure there can be repeated.
settings.register_profile(
    "default", max_examples=60, deadline=None, derandomize=bool(os.environ.get("CI"))
)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=1_000, deadline=None)
settings.register_profile("validity", max_examples=50_000, deadline=None)
settings.load_profile("default")  # another: pytest --hypothesis-profile nightly

_LOOPBACK = ("127.", "::1", "localhost")


class NetworkBarredError(RuntimeError):
    """A test tried to leave the machine. No OSError, or a client would just try again."""


def _is_local(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    return host is None or host == "" or str(host).startswith(_LOOPBACK)


def _bar_network(event: str, args: tuple[Any, ...]) -> None:
    # An audit hook, because it also sees what C code opens and what tests patch.
    if not event.startswith("socket."):
        return
    match event, args:
        case (("socket.connect" | "socket.sendto" | "socket.sendmsg"), (connection, address)):
            if connection.family == getattr(socket, "AF_UNIX", None) or address is None:
                return
            host = address[0]
        case (("socket.getaddrinfo" | "socket.gethostbyname"), (host, *_)):
            pass
        case _:
            return
    if not _is_local(host):
        raise NetworkBarredError(f"the tests bar the network: {event} {host!r}")


sys.addaudithook(_bar_network)


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty home, and none of the caller's settings or keys."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            # WINDLASS_DATA says where the recordings are that some tests read.
            is_setting = name.startswith("WINDLASS_") and name != "WINDLASS_DATA"
            if is_setting or name.endswith(("_API_KEY", "_BASE_URL")):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        for name in ("CONFIG", "CACHE", "DATA", "STATE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        yield
