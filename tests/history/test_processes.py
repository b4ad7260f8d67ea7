"""Several processes at one store, and processes that are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.bench_kill9 import kill_and_check, make_batch

from windlass.history.sqlite import SqliteStore

_WRITE = """
import sys
from pathlib import Path
from bench.bench_kill9 import make_batch
from windlass.history.sqlite import SqliteStore
sys.stdin.readline()
with SqliteStore(Path(sys.argv[1]), busy_s=60) as store:
    for number in range(int(sys.argv[3])):
        store.append(make_batch(sys.argv[2], number))
"""


def _writer(store_folder: Path, session: str, batches: int) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _WRITE, str(store_folder), session, str(batches)],
        cwd=root,
        stdin=subprocess.PIPE,
    )


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path) -> None:
    report = kill_and_check(tmp_path, kills=12)
    assert report.sound, report
    assert report.kills == 12
    assert report.acknowledged > 0


def test_two_processes_may_make_and_fill_one_store_at_once(tmp_path: Path) -> None:
    for turn in range(2):
        store_folder = tmp_path / f"store{turn}"
        writers = [_writer(store_folder, f"session-{name}", 15) for name in ("a", "b")]
        for writer in writers:  # they wait for this line, so that they meet at a fresh store
            assert writer.stdin is not None
            writer.stdin.write(b"go\n")
            writer.stdin.close()
        assert [writer.wait() for writer in writers] == [0, 0]
        with SqliteStore.open_existing(store_folder) as store:
            for name in ("session-a", "session-b"):
                given = [row for number in range(15) for row in make_batch(name, number).rows]
                stored = [one.row.message for one in store.rows(name)]
                assert stored == [row.message for row in given]
            assert list(store.verify()) == []
