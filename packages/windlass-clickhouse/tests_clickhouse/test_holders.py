"""Who runs a session of a server that several folders and machines share."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.history.builders import row, start

from tests_clickhouse.conftest import at_port
from tests_clickhouse.server import PASSWORD
from windlass.errors import SessionHeld
from windlass.history.base import Batch, SessionFilter
from windlass.history.blobs import Blobs
from windlass.messages import user
from windlass_clickhouse import _holders
from windlass_clickhouse.client import ClickHouseClient
from windlass_clickhouse.store import ClickHouseStore

OTHER = """
import sys
from pathlib import Path
from windlass.history.blobs import Blobs
from windlass_clickhouse.client import ClickHouseClient, Target
from windlass_clickhouse.store import ClickHouseStore

port, database, user, password, folder = sys.argv[1:]
target = Target("x", database, host="127.0.0.1", port=int(port), user=user)
store = ClickHouseStore(ClickHouseClient(target, password), Blobs(Path(folder) / "b"), Path(folder))
with store.hold("s"):
    print("held", flush=True)
    sys.stdin.read()
"""

OpenedRequest = Callable[[str], ClickHouseStore]


@pytest.fixture
def opened(port: int, database: str, tmp_path: Path) -> Iterator[OpenedRequest]:
    """Opens the one store from a folder of its own, as another project does."""
    with ExitStack() as closing:

        def open_from(name: str) -> ClickHouseStore:
            client = ClickHouseClient(at_port(port, database), PASSWORD)
            folder = tmp_path / name
            store = ClickHouseStore(client, Blobs(tmp_path / "blobs"), folder, grace_s=0)
            return closing.enter_context(store)

        yield open_from


def begin(store: ClickHouseStore) -> None:
    began = dataclasses.replace(start(), parent_id=None)
    store.append(Batch("s", start=began, rows=[row(user("begin"))]))


def as_machine(patch: pytest.MonkeyPatch, name: str) -> None:
    patch.setattr(_holders, "machine_name", lambda: f"{name}/1")


def test_folders_of_one_machine_share_it(opened: OpenedRequest) -> None:
    one, other = opened("one"), opened("other")
    begin(one)
    with one.hold("s"):
        assert other.session_status("s").status == "running"
        with pytest.raises(SessionHeld, match="is running in process"):
            other.hold("s").__enter__()
        with pytest.raises(SessionHeld):
            other.prune(session_id="s", now=0.0)
    assert other.session_status("s").status == "broken off"
    with other.hold("s"):
        assert one.session_status("s").status == "running"


def test_a_process_that_is_killed_holds_nothing(
    opened: OpenedRequest, port: int, database: str, tmp_path: Path
) -> None:
    target = at_port(port, database)
    where = (str(port), database, target.user, PASSWORD, str(tmp_path / "theirs"))
    store = opened("mine")
    begin(store)
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", OTHER, *where], stdin=pipe, stdout=pipe)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"held\n"
    holder = store.session_status("s").holder
    assert holder is not None
    assert (holder.state, holder.process) == ("running", str(other.pid))
    other.kill()
    other.communicate()
    assert store.session_status("s").status == "broken off"
    with store.hold("s"):
        pass


def test_of_another_machine_it_is_not_known_until_it_was_silent(
    opened: OpenedRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = opened("there"), opened("here")
    begin(there)
    with monkeypatch.context() as patch:
        as_machine(patch, "alpha")
        holding = there.hold("s")
        holding.__enter__()
    as_machine(monkeypatch, "beta")
    stands = here.session_status("s")
    assert stands.status == "unknown"
    assert stands.holder is not None
    assert stands.holder.place.endswith("of machine 'alpha'")
    assert [one.session_id for one in here.sessions(SessionFilter(status="unknown"))] == ["s"]
    with pytest.raises(SessionHeld, match=r"begun on machine 'alpha' in process \d+, and whether"):
        here.hold("s").__enter__()
    assert here.prune(older_than_s=1.0, now=1e10).running == ("s",)
    with monkeypatch.context() as patch:
        patch.setattr(_holders, "SILENT_S", -1.0)
        assert here.session_status("s").status == "broken off"
        with here.hold("s"):
            assert here.session_status("s").status == "running"
    assert here.session_status("s").status == "broken off"
    with monkeypatch.context() as patch:
        as_machine(patch, "alpha")
        holding.__exit__(None, None, None)
    assert here.session_status("s").status == "broken off"


def test_of_many_at_once_one_has_it(opened: OpenedRequest) -> None:
    stores = [opened(f"folder{number}") for number in range(6)]
    begin(stores[0])
    held, refused = list[int](), list[int]()
    ready, done = threading.Barrier(len(stores)), threading.Barrier(len(stores))

    def take(number: int) -> None:
        ready.wait()
        with ExitStack() as holding:
            try:
                holding.enter_context(stores[number].hold("s"))
                held.append(number)
            except SessionHeld:
                refused.append(number)
            done.wait()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 5)
