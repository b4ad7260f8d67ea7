"""What holds for every test: no network, no settings of the person who runs it."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.requirements_plugin"]

# Collecting makes millions of objects that stay: looking for waste among them took a third of it.
gc.disable()

# Tests make thousands of small stores, each of which waits for the disk whenever it writes. In
# memory it need not, where there is room (a container may have 64 MB). pytest makes a folder there
# that only its user may read.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# `CI` makes every run try the same examples, so that a failure there can be repeated.
settings.register_profile(
    "default", max_examples=30, deadline=None, derandomize=bool(os.environ.get("CI"))
)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=300, deadline=None)
settings.register_profile("nightly", max_examples=1_000, deadline=None)
settings.register_profile("validity", max_examples=50_000, deadline=None)
settings.load_profile("default")  # another: pytest --hypothesis-profile nightly


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--snapshots` takes what commands print for what they should print."""
    parser.addoption("--snapshots", action="store_true", help="write the snapshots anew")


def pytest_collection_finish() -> None:
    """Look for waste again, but never among what was collected."""
    gc.freeze()
    gc.enable()


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
        # A client reads all certificates when it is made, and no test meets a server that has one.
        patch.setenv("SSL_CERT_FILE", str(_one_certificate(home)))
        yield


def _one_certificate(folder: Path) -> Path:
    end = "-----END CERTIFICATE-----\n"
    file = folder / "certificates.pem"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end)
    return file
