"""A store on a medium that cannot be written: it is read, and what would write says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.history.builders import a_session
from windlass.history import migrations
from windlass.history.sqlite import SqliteKeeper

MAIN = "import sys; sys.argv[0] = 'windlass'; from windlass.cli import main; main()"


class Medium:
    """A store that commands see read-only, as on a disc: mounted so, or without the right to write.

    A mount of its own needs root; without it the rights of an ordinary user are enough.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "disc"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        told = [sys.executable, "-c", MAIN, *arguments, "--store", str(self.store)]
        return self._run(told)

    def _run(self, told: list[str]) -> subprocess.CompletedProcess[str]:
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


KILLED = """
import os, sys
from pathlib import Path
from tests.history.builders import a_session
from windlass.history.sqlite import SqliteKeeper
keeper = SqliteKeeper(Path(sys.argv[1]))
for batch in a_session():
    keeper.append(batch)
os._exit(0)  # what it wrote lies in the write-ahead log
"""


@pytest.fixture(params=["closed", "killed", "killed and moved", "older"])
def medium(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Medium:
    made = Medium(tmp_path)
    made.store.mkdir()
    if os.geteuid() == 0 and made._run(["true"]).returncode:
        pytest.skip("root, and not allowed to mount")
    if request.param.startswith("killed"):
        root = Path(__file__).parents[2]
        subprocess.run([sys.executable, "-c", KILLED, str(made.store)], cwd=root, check=True)
        if request.param == "killed and moved":
            (made.store / "windlass.sqlite-shm").unlink()
    else:
        if request.param == "older":
            monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:1])
        with SqliteKeeper(made.store) as keeper:
            for batch in a_session():
                keeper.append(batch)
        monkeypatch.undo()
    return made


def test_what_only_looks_works_and_changes_nothing(medium: Medium) -> None:
    before = medium.digest()
    (session,) = json.loads(medium.command("sessions", "--json").stdout)
    name = session["session_id"]
    for arguments in (
        ["show", name],
        ["show", name, "--call", "1"],
        ["explain", name, "1"],
        ["report", name],
        ["query", "SELECT count(*) AS n FROM unified_logs"],
        ["query", "SELECT count(*) AS n FROM context_cards"],
        ["cards", name],
        ["memory", "list"],
        ["verify"],
    ):
        done = medium.command(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert medium.digest() == before


def test_it_can_be_copied_to_another(medium: Medium) -> None:
    target = medium.folder / "copy"
    told = [sys.executable, "-c", MAIN, "migrate", str(medium.store), str(target)]
    done = medium._run(told)
    assert done.returncode == 0, done.stderr
    with SqliteKeeper.open_existing(target) as keeper:
        assert len(keeper.sessions()) == 1


def test_what_writes_says_so_in_one_sentence(medium: Medium) -> None:
    (session,) = json.loads(medium.command("sessions", "--json").stdout)
    name = session["session_id"]
    cascade: dict[str, Any] = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "Do."}]}
    (medium.folder / "c.json").write_text(json.dumps(cascade))
    for arguments in (
        ["run", "c.json", "--model", "local/smollm2"],
        ["callout", name, "1", "mark"],
        ["cards", name, "--make"],
        ["memory", "forget", "bank", "key"],
        ["prune", "--older-than", "1d"],
    ):
        done = medium.command(*arguments)
        assert done.returncode in (1, 2), (arguments, done.stderr)
        told = [line for line in done.stderr.splitlines() if line.startswith("windlass: ")]
        assert len(told) == 1, (arguments, done.stderr)
        if arguments[0] != "memory":  # which looks for the bank first
            assert "may not be written" in told[0], (arguments, told)
        assert "Traceback" not in done.stderr
