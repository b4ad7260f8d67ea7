"""What a history costs on each store: appends, lookups, searches, and recovery after a kill.

    python -m bench.bench_stores [--rows N] [--json FILE] [--folder DISK]

SQLite needs nothing. With the packages of `make clickhouse` it also measures the ClickHouse
engine in this process (chdb), and the same engine behind the server of the plugin's tests over the
real client: what the client and HTTP add, on one machine, without a queue of asynchronous inserts
and without a network. A production server is neither.

Appends are durable ones: SQLite with synchronous FULL, ClickHouse with fsync_after_insert.
A kill is a kill -9 of the process that appends (in process, of the engine with it); recovery
is the time to open the store again and read the session's start, and every acknowledged batch
must be there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from windlass.history.base import Batch, NodeType, Row, SessionStart, Store
from windlass.history.places import open_place
from windlass.history.row_details import ToolResult
from windlass.messages import tool
from windlass.settings.fields import read_store
from windlass_clickhouse.places import PASSWORD

_WORDS = [f"{word}{number}" for word in ("order", "run", "file", "line") for number in range(250)]
_ROOT = Path(__file__).parents[1]


def row(number: int) -> Row:
    """A tool result of 200 to 2,000 characters, the same for the same number."""
    dice = random.Random(number)
    text = " ".join(dice.choice(_WORDS) for _ in range(dice.randint(30, 300)))
    return Row(
        node_type=NodeType.TOOL_RESULT,
        trace_id=f"trace-{number}",
        timestamp=1_763_000_000.0 + number,
        message=tool(f"call_{number}", text, name="run_sql"),
        phase=f"phase{number % 10}",
        turn=number % 20,
        tokens_in=12_345,
        details=ToolResult(tool="run_sql"),
    )


def opened(address: str, *, existing: bool = False) -> Store:
    """The store of a folder or an address."""
    return open_place(read_store(address, Path.cwd()), os.environ, existing=existing)


@dataclass
class Line:
    """One store's figures: medians in milliseconds; `lost` must be 0."""

    store: str
    append_1: float = 0.0
    append_100: float = 0.0
    by_key: float = 0.0
    by_hash: float = 0.0
    search: float = 0.0
    sums: float = 0.0
    session: float = 0.0
    recovery: float = 0.0
    acknowledged: int = 0
    lost: int = 0


def _median(times: int, do: Callable[[int], object]) -> float:
    taken = []
    for at in range(times):
        start = time.perf_counter()
        do(at)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def measure(line: Line, store: Store, rows: int) -> None:
    """Appends to a fresh store, then questions to it."""
    store.append(Batch("s", start=SessionStart("bench", "none", {}, {}, 1_763_000_000.0)))
    numbers = iter(range(10**9))
    given = {number: row(number) for number in range(rows + 60)}

    def append(size: int) -> None:
        store.append(Batch("s", rows=[given[next(numbers)] for _ in range(size)]))

    line.append_1 = _median(60, lambda _: append(1))
    line.append_100 = _median(rows // 100, lambda _: append(100))
    messages = [one.message for one in given.values() if one.message is not None][:rows]
    dice = random.Random(1)
    line.by_key = _median(100, lambda _: store.message(dice.choice(messages).key))
    by_hash = "SELECT content_json FROM unified_logs WHERE session_id = ? AND content_hash = ?"
    line.by_hash = _median(
        40, lambda _: store.query(by_hash, ["s", dice.choice(messages).content_hash])
    )
    search = "SELECT trace_id FROM unified_logs WHERE content_json LIKE ? LIMIT 10"
    line.search = _median(
        10, lambda at: store.query(search, [f"%{_WORDS[at]} {_WORDS[-at - 1]} {_WORDS[at]}%"])
    )
    sums = (
        "SELECT cascade_id, phase_name, sum(tokens_in) AS n, avg(tokens_saved) AS saved "
        "FROM unified_logs GROUP BY cascade_id, phase_name"
    )
    line.sums = _median(10, lambda _: store.query(sums))
    line.session = _median(3, lambda _: list(store.rows("s")))


def child(address: str) -> None:
    """Append until killed; a line for each batch whose append has returned."""
    store = opened(address)
    name = f"kill-{os.getpid()}"
    store.append(Batch(name, start=SessionStart("bench", "none", {}, {}, time.time())))
    sys.stdout.write(f"{name}\n")
    for number in range(10**9):
        store.append(Batch(name, rows=[row(number * 3 + at) for at in range(3)]))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def check(address: str, name: str) -> None:
    """Open the store again; print the milliseconds, the rows, and how much damage there is."""
    start = time.perf_counter()
    store = opened(address, existing=True)
    store.start(name)
    taken = (time.perf_counter() - start) * 1e3
    rows = [stored.row.trace_id for stored in store.rows(name)]
    whole = rows == [f"trace-{number}" for number in range(len(rows))] and len(rows) % 3 == 0
    damage = sum(finding.severity == "damage" for finding in store.verify())
    store.close()
    print(json.dumps([taken, len(rows), damage + (not whole)]))


def kill(line: Line, address: str, kills: int) -> None:
    """Kill a writer several times and see what is there."""
    dice = random.Random(7)
    recoveries = []
    command = [sys.executable, "-m", "bench.bench_stores"]
    for _ in range(kills):
        writer = subprocess.Popen(
            [*command, "--child", address], cwd=_ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        name = writer.stdout.readline().strip()
        time.sleep(dice.uniform(0.2, 1.0))
        writer.send_signal(signal.SIGKILL)
        acknowledged = sum(text.endswith("\n") for text in writer.stdout)
        writer.stdout.close()
        writer.wait()
        told = subprocess.run(
            [*command, "--check", address, name],
            check=False,
            cwd=_ROOT,
            capture_output=True,
            text=True,
        )
        if told.returncode:
            raise RuntimeError(told.stderr)
        taken, rows, damage = json.loads(told.stdout)
        recoveries.append(taken)
        line.acknowledged += acknowledged
        line.lost += max(0, acknowledged - rows // 3) + damage
    line.recovery = statistics.median(recoveries)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a database on the test server."""
    from tests_clickhouse.server import PASSWORD as PASSED
    from tests_clickhouse.server import USER

    from windlass_clickhouse.client import ClickHouseClient, Target

    process = subprocess.Popen(
        [sys.executable, "-m", "tests_clickhouse.server", str(folder / "engine")],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    port = int(process.stdout.readline())
    client = ClickHouseClient(Target("", "default", host="127.0.0.1", port=port, user=USER), PASSED)
    client.command("CREATE DATABASE bench")
    client.close()
    os.environ[PASSWORD] = PASSED
    files = f"blobs={folder / 'blobs'}&files={folder / 'files'}"
    yield f"clickhouse://{USER}@127.0.0.1:{port}/bench?{files}"
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def all_of(folder: Path, rows: int, kills: int) -> Iterator[Line]:
    """The line of each store that the installed packages allow."""
    names = {"SQLite": str(folder / "sqlite")}
    if importlib.util.find_spec("chdb") and importlib.util.find_spec("clickhouse_connect"):
        names["ClickHouse engine in process"] = f"chdb://{folder / 'chdb'}"
        names["ClickHouse client, test server"] = ""
    for name, address in names.items():
        line = Line(name)
        if address:
            with opened(address) as store:
                measure(line, store, rows)
            kill(line, address, kills)
        else:
            with server(folder) as served:
                with opened(served) as store:
                    measure(line, store, rows)
                kill(line, served, kills)
        yield line


_HEADS = {
    "append_1": "append 1", "append_100": "append 100", "by_key": "message", "by_hash": "by hash",
    "search": "search", "sums": "sums", "session": "session", "recovery": "recovery",
    "acknowledged": "acked", "lost": "lost",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000, help="rows in the session")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to be measured")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--check", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
    if given.check:
        check(*given.check)
        return 0
    if not importlib.util.find_spec("chdb"):
        print("ClickHouse is not installed here: make clickhouse, then its environment's python")
    print(f"medians in ms, a session of {given.rows:,} rows, {given.kills} kills")
    print(f"{'':32}" + "".join(f"{head:>11}" for head in _HEADS.values()))
    lines = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for line in all_of(Path(folder), given.rows, given.kills):
            lines.append(line)
            values = [getattr(line, name) for name in _HEADS]
            cells = "".join(f"{v:11,.2f}" if isinstance(v, float) else f"{v:11,}" for v in values)
            print(f"{line.store:32}{cells}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    return 1 if any(line.lost for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
