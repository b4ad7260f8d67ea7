"""A store on a medium that cannot be written: it is read, and what would write says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import windlass
from tests.engine.harness import cascade, phase
from tests.history.builders import start
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch
from windlass.history.sqlite import SqliteStore
from windlass.history.sqlite import _schema as migrations
from windlass.providers.scripted import Scripted

# All commands in one process: to start one for each would take most of the time.
MAIN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from windlass.cli import main

done = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["windlass", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            done.append([arguments, left.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


class Medium:
    """A store that commands see read-only, as on a disc: mounted so, or without the right to write.

    A mount of its own needs root; without it the rights of an ordinary user are enough.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "disc"

    def commands(self, *commands: list[str]) -> list[tuple[list[str], int, str, str]]:
        """Of each command its arguments, exit code, output and errors."""
        done = self.run([sys.executable, "-c", MAIN, json.dumps(commands)])
        assert done.returncode == 0, done.stderr
        return [tuple(each) for each in json.loads(done.stdout)]

    def run(self, told: list[str]) -> subprocess.CompletedProcess[str]:
        if os.geteuid() == 0:
            disc = str(self.store)
            mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
            told = ["unshare", "-m", "sh", "-c", mounts, disc, *told]
        else:
            self._forbid()
        try:
            return subprocess.run(
                told, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
            )
        finally:
            if os.geteuid() != 0:
                self._permit()

    def _forbid(self) -> None:
        for path in [*self.store.rglob("*"), self.store]:
            path.chmod(0o555 if path.is_dir() else 0o444)

    def _permit(self) -> None:
        for path in [self.store, *self.store.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def digest(self) -> dict[str, bytes]:
        """Every file of the store."""
        files = [path for path in self.store.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.store)): path.read_bytes() for path in files}


def fill(store_folder: Path) -> None:
    """A session whose one call has a large answer, which lies in a file of its own."""
    scripted = Scripted(lambda request: "said " * 2_000)
    given = {"scripted": scripted}
    told = cascade(phase("a"))
    windlass.run_sync(
        told, model="scripted/x", store=store_folder, providers=given, session_id="s1"
    )


@pytest.fixture(params=["closed", "killed", "killed and moved", "older"])
def medium(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Medium:
    made = Medium(tmp_path)
    made.store.mkdir()
    if os.geteuid() == 0 and made.run(["true"]).returncode:
        pytest.skip("root, and not allowed to mount")
    if request.param.startswith("killed"):
        with SqliteStore(tmp_path / "open"):  # as long as it is, what is written lies in the log
            fill(tmp_path / "open")
            shutil.copytree(tmp_path / "open", made.store, dirs_exist_ok=True)
        if request.param == "killed and moved":
            (made.store / "windlass.sqlite-shm").unlink()
    else:
        if request.param == "older":
            monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:1])
        fill(made.store)
        monkeypatch.undo()
    return made


def test_what_only_looks_works_and_what_writes_says_so_in_one_sentence(medium: Medium) -> None:
    with SqliteStore.open_existing(medium.store) as history:
        (said,) = [one.id for one in history.rows("s1") if one.row.node_type == "agent"]
    assert said is not None
    (medium.folder / "c.json").write_text(json.dumps(cascade(phase("a"))))
    before, store = medium.digest(), ["--store", str(medium.store)]
    looking = [
        ["sessions", *store],
        ["show", "s1", "--call", "1", *store],
        ["explain", "s1", "1", *store],
        ["report", "s1", *store],
        ["query", "SELECT count(*) AS n FROM unified_logs, context_cards", *store],
        ["cards", "s1", *store],
        ["memory", "list", *store],
        ["verify", *store],
        ["migrate", str(medium.store), str(medium.folder / "copy")],
    ]
    writing = [
        ["run", "c.json", "--model", "local/smollm2", *store],
        ["callout", "s1", said, "mark", *store],
        ["cards", "s1", "--make", *store],
        ["prune", "--older-than", "1d", *store],
        ["migrate", str(medium.store), str(medium.store / "inside")],
    ]
    ended = medium.commands(*looking, *writing)
    for arguments, code, _, err in ended[: len(looking)]:
        assert (code, "Traceback" in err) == (0, False), (arguments, err)
    with SqliteStore.open_existing(medium.folder / "copy") as history:
        assert [info.session_id for info in history.sessions()] == ["s1"]
    for arguments, code, _, err in ended[len(looking) :]:
        told = [line for line in err.splitlines() if line.startswith("windlass: ")]
        assert (code, len(told)) == (1, 1), (arguments, err)
        assert "written" in told[0], told
        assert "Traceback" not in err
    assert medium.digest() == before


def test_a_store_opened_for_reading_is_left_as_it_is_and_sees_what_others_write(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    with SqliteStore(folder) as writing:
        writing.append(Batch("old", start=start()))
        writing.file.chmod(0o644)
        with SqliteStore.open_existing(folder, reading=True) as reading:
            assert writing.file.stat().st_mode & 0o777 == 0o644
            assert [info.session_id for info in reading.sessions()] == ["old"]
            writing.append(Batch("new", start=start(2_000.0)))
            assert [info.session_id for info in reading.sessions()] == ["new", "old"]
            with pytest.raises(StoreError, match="may not be written"):
                reading.append(Batch("third", start=start()))
        assert [info.session_id for info in writing.sessions()] == ["new", "old"]


def test_there_must_be_a_store_to_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        SqliteStore.open_existing(tmp_path, reading=True)
    assert list(tmp_path.iterdir()) == []
