"""The contract tests' stores: the engine in process, and over the real client and HTTP."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import windlass  # noqa: F401 - a fixture of the tests of commands

from tests_clickhouse.server import PASSWORD, USER
from windlass.history.base import Store
from windlass.history.blobs import Blobs
from windlass_clickhouse.client import ClickHouseClient, Target
from windlass_clickhouse.store import ClickHouseStore

_databases = itertools.count(1)


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with the real engine, for all tests."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests_clickhouse.server", str(tmp_path_factory.mktemp("db"))],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    yield int(server.stdout.readline())
    server.stdin.close()
    server.wait(30)
    server.stdout.close()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the engine in process: a process can have one only."""
    return str(tmp_path_factory.mktemp("inside") / "engine")


def at_port(port: int, database: str) -> Target:
    """The test server's database."""
    shown = f"clickhouse://{USER}@127.0.0.1:{port}/{database}"
    return Target(shown, database, host="127.0.0.1", port=port, user=USER)


@pytest.fixture
def database(port: int) -> str:
    """A database of its own on the server."""
    name = f"test{next(_databases)}"
    client = ClickHouseClient(at_port(port, "default"), PASSWORD)
    client.command(f"CREATE DATABASE {name}")
    client.close()
    return name


@pytest.fixture(params=["server", "in process"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens the test's one store; each call is a store of its own."""
    if request.param == "server":
        target = at_port(request.getfixturevalue("port"), request.getfixturevalue("database"))
        password = PASSWORD
    else:
        engine = request.getfixturevalue("engine")
        target = Target(f"chdb://{engine}", f"test{next(_databases)}", path=engine)
        password = None

    def make() -> ClickHouseStore:
        folder = tmp_path / "store"
        return ClickHouseStore(
            ClickHouseClient(target, password), Blobs(folder / "blobs"), folder, grace_s=0
        )

    return make


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Iterator[Store]:
    """A store of a fresh store."""
    with open_store() as opened:
        yield opened
