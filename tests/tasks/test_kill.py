"""A reduce whose process is killed goes on where it was, and repeats no finished inner task."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from bench.bench_operators import finished, lines, prepared, start

from windlass.history.base import NodeType
from windlass.history.sqlite import SqliteStore

COUNT = 60


def test_after_a_kill_answered_inputs_are_not_worked_on_again(tmp_path: Path) -> None:
    prepared(tmp_path, COUNT)
    process = start(tmp_path, "s")
    deadline = time.monotonic() + 120
    while len(lines(tmp_path)) < COUNT // 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = lines(tmp_path)
    assert len(before) < COUNT
    with SqliteStore.open_existing(tmp_path / "store") as store:
        kept = {
            int(found[1])
            for stored in store.rows("s")
            if stored.row.node_type == NodeType.AGENT
            and (found := re.fullmatch(r"inner\[(\d+)\]", stored.row.phase or ""))
        }
        assert not [one for one in store.verify() if one.severity == "damage"]
    assert kept

    told = finished(start(tmp_path, "s", "yes"))
    assert told["status"] == "completed"
    after = [int(number) for number in lines(tmp_path)[len(before) :]]
    assert sorted(after) == sorted(set(range(COUNT)) - kept)
    assert told["output"] == f"{COUNT} results, put together."
    with SqliteStore.open_existing(tmp_path / "store") as store:
        reduction = [row.row.message for row in store.rows("s", phase="reduction")]
        numbers = re.findall(r"Record (\d+) tells", "\n".join(m.text for m in reduction if m))
        assert [int(number) for number in numbers] == list(range(COUNT))
        assert not [one for one in store.verify() if one.severity == "damage"]
