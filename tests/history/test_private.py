"""What Windlass writes is its owner's alone; what a cascade writes for the user is not changed."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.engine.harness import call, calls, cascade, phase
from tests.history.builders import a_session
from tests.strategies import png
from windlass.history.blobs import Blobs
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.safety import own_files as files
from windlass.text.pictures import picture
from windlass.tools.base import ToolOutput

__all__ = ["command_line"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")

LONG = "word " * 4_000


@pytest.fixture(params=[0o022, 0o077, 0o000], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def draw() -> ToolOutput:
    """Draw a picture."""
    return ToolOutput("drawn " + LONG, (picture(png()),))


def _workflow() -> dict[str, Any]:
    return cascade(
        phase("a", tackle=["draw", "write_file"], rules={"max_turns": 8}), auto_context=True
    )


def _script() -> Iterator[Message | str]:
    yield calls(call("draw"))
    yield calls(call("write_file", '{"path": "notes/out.txt", "text": "x"}'))
    for _ in range(4):
        yield calls(call("draw"))
    while True:
        yield LONG


def _modes(store_folder: Path) -> dict[str, int]:
    return {
        path.relative_to(store_folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [store_folder, *store_folder.rglob("*")]
    }


def _others(store_folder: Path) -> dict[str, str]:
    """What is open to others, with its mode."""
    return {name: oct(mode) for name, mode in _modes(store_folder).items() if mode & 0o077}


async def _run(folder: Path, store_folder: Path) -> None:
    replies = _script()
    result = await windlass.run(
        _workflow(),
        model="scripted/x",
        store=store_folder,
        root=folder,
        tools=[draw],
        providers={"scripted": Scripted(lambda _: next(replies))},
    )
    assert result.error is None


class TestAStoreIsPrivate:
    async def test_all_of_it_whatever_the_umask(self, tmp_path: Path, umask: int) -> None:
        store_folder = tmp_path / "deep" / "store"
        await _run(tmp_path, store_folder)
        with SqliteStore(store_folder) as store:
            for batch in a_session("other"):
                store.append(batch)
            found = _modes(store_folder)  # with -wal and -shm, while it is open
        assert {"windlass.sqlite", "windlass.sqlite-wal", "windlass.sqlite-shm"} <= found.keys()
        assert any(name.startswith("images/") and name.endswith(".png") for name in found)
        assert any(name.startswith("storage/tool_results/") for name in found)
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
        assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
        # The user's own file has the usual mode.
        usual = stat.S_IMODE((tmp_path / "notes" / "out.txt").stat().st_mode)
        assert usual == 0o666 & ~umask
        assert stat.S_IMODE((tmp_path / "notes").stat().st_mode) == 0o777 & ~umask

    def test_a_stricter_umask_takes_more_away(self, tmp_path: Path) -> None:
        before = os.umask(0o277)
        try:
            os.close(files.open_new(tmp_path / "x"))
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o400

    def test_also_by_the_command_line_and_migrated(
        self, command_line: CommandLine, umask: int
    ) -> None:
        command_line.write("c.json", cascade(phase("a", tackle=["set_state"])))
        command_line.script = lambda _: LONG
        assert command_line("run", "c.json").code == 0
        assert command_line("migrate", ".windlass", "other").code == 0
        for store_folder in (".windlass", "other"):
            assert _others(command_line.folder / store_folder) == {}

    def test_where_links_are_not_possible(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
        place = Blobs(tmp_path / "blobs")
        data = b"x"
        sha = hashlib.sha256(data).hexdigest()
        place.write({sha: data})
        place.link(sha, tmp_path, "images/x.png")
        assert (tmp_path / "images" / "x.png").read_bytes() == data
        assert _others(tmp_path / "images") == {}


class TestAnOlderStore:
    @pytest.fixture
    def older(self, tmp_path: Path) -> Path:
        """A store as it was made before, open to all."""
        store_folder = tmp_path / "store"
        with SqliteStore(store_folder) as store:
            for batch in a_session("s"):
                store.append(batch)
        for path in [store_folder, *store_folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        return store_folder

    def test_is_closed_when_it_is_opened(self, older: Path) -> None:
        with SqliteStore.open_existing(older) as store:
            for batch in a_session("t"):
                store.append(batch)
            found = _modes(older)
        assert found["."] == 0o700
        assert [found[name] for name in ("windlass.sqlite", "windlass.sqlite-wal", "blobs")] == [
            0o600,
            0o600,
            0o700,
        ]

    def test_a_folder_that_holds_more_than_the_store_stays(
        self, older: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(older)
        SqliteStore.open_existing(Path()).close()
        found = _modes(older)
        assert (found["."], found["windlass.sqlite"]) == (0o755, 0o600)

    def test_one_that_belongs_to_somebody_else_stays(
        self, older: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        SqliteStore.open_existing(older).close()
        assert _modes(older)["."] == 0o755

    def test_is_still_a_store_for_sqlite(self, older: Path) -> None:
        SqliteStore.open_existing(older).close()
        db = sqlite3.connect(older / "windlass.sqlite")
        assert db.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
        db.close()
