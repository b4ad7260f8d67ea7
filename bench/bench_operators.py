"""A reduce over many inputs on one machine: how long, how much memory, and after a kill.

    python -m bench.bench_operators            1,000 and 10,000 inputs
    python -m bench.bench_operators 2000       another number

Each run is a process of its own with a scripted model, so that its peak memory is its own. The
last one is killed (SIGKILL) half way and taken up again: no finished input is worked on twice.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.cli.printed_tables import print_table
from windlass.providers.base import ModelInfo
from windlass.text.cell_tables import CellTable, NumberCell
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Reply, Request, Usage

INPUT_CHARS = 600
"""Characters of an input."""

TASK = """<task type="reduce" parallel="8">
  <description>Sum up the records</description>
  <inputs><file split="lines">records.jsonl</file></inputs>
  <inner_task><description>Say in one sentence what this record says.</description></inner_task>
  <reduction_task>
    <description>Put these sentences together.</description>
    <max_input_tokens>20000</max_input_tokens>
  </reduction_task>
</task>
"""


class Echo:
    """A model that answers at once with the numbers it was shown, and keeps nothing."""

    def __init__(self, log: Path | None = None) -> None:
        self._counter = FamilyCounter("gpt-4o")
        self._log = log

    def model(self, name: str) -> ModelInfo:
        """The one model there is."""
        return ModelInfo(f"echo/{name}", 200_000, self._counter, True, True, free=True)  # noqa: FBT003

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """A short answer to an inner task, a digest of sums to a reduction."""
        from windlass.messages import assistant

        said = request.messages[-1].text
        if "[Input: " in said:
            number = json.loads(said.rpartition("\n")[2])["number"]
            if self._log is not None:
                with self._log.open("a") as log:
                    log.write(f"{number}\n")
            text = f"Record {number} tells of {number % 97} things, as it says at some length."
        else:
            shown = sum(message.text.count("[result ") for message in request.messages)
            text = f"{shown} results, put together."
        on_text(text)
        message = assistant(text)
        sent = sum(map(self._counter.message, request.messages))
        return Reply(message, Usage(sent, self._counter.message(message)), "stop", "echo/x")

    async def close(self) -> None:
        """Nothing to let go of."""


def prepared(folder: Path, count: int) -> Path:
    """The task and its inputs in a folder."""
    (folder / "task.xml").write_text(TASK)
    with (folder / "records.jsonl").open("w") as file:
        for number in range(count):
            text = f"record {number} " * (INPUT_CHARS // 12)
            file.write(json.dumps({"number": number, "text": text[:INPUT_CHARS]}) + "\n")
    return folder / "task.xml"


def child(folder: str, session: str, resume: str) -> None:
    """Run in this process, and print what it took as JSON."""
    import windlass

    home = Path(folder)
    options: dict[str, Any] = {"model": "echo/x", "store": home / "store", "root": home}
    options["providers"] = {"echo": Echo(home / "log")}
    started = time.perf_counter()
    if resume == "yes":
        result = windlass.resume_task_sync(session, **options)
    else:
        result = windlass.evaluate_sync(home / "task.xml", session_id=session, **options)
    took = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error = str(result.error) if result.error else None
    told = {"status": result.status, "seconds": took, "peak_mb": peak, "error": error}
    print(json.dumps({**told, "output": result.output}))


def start(folder: Path, session: str, resume: str = "no") -> subprocess.Popen[str]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.bench_operators", "run", str(folder), session, resume]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process printed at its end."""
    out, _ = process.communicate()
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return told


def lines(folder: Path) -> list[str]:
    """The inputs that the model was asked about, in order, over all processes."""
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def measured(count: int, *, killed: bool = False) -> list[str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepared(folder, count)
        process = start(folder, "s")
        repeated = "-"
        if killed:
            while len(lines(folder)) < count // 2:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
            before = len(lines(folder))
            told = finished(start(folder, "s", "yes"))
            repeated = str(len(lines(folder)) - len(set(lines(folder))))
            what = f"{count:,}, killed after {before:,}"
        else:
            told = finished(process)
            what = f"{count:,}"
        assert told["error"] is None, told
        size = sum(file.stat().st_size for file in (folder / "store").rglob("*") if file.is_file())
        done = len(set(lines(folder)))
        return [
            what,
            f"{done:,}",
            repeated,
            f"{told['seconds']:.1f}",
            f"{told['peak_mb']:.0f}",
            f"{size / 1e6:.0f}",
        ]


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["run"]:
        child(*sys.argv[2:5])
        return
    counts = [int(number) for number in sys.argv[1:]] or [1_000, 10_000]
    rows = [measured(count) for count in counts]
    rows.append(measured(counts[-1], killed=True))
    columns = ["inputs", "worked on", "twice", "s", "peak MB of RSS", "store MB"]
    print_table(CellTable(columns, [[row[0], *map(NumberCell, row[1:])] for row in rows]))
    print("twice: asked of the model in both processes; at most what was in flight (parallel 8)")


if __name__ == "__main__":
    main()
