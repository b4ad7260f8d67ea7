"""How long it takes to look into long sessions: show, explain, report and verify.

    python -m bench.bench_reading [--folder FOLDER] [--runs N] [--json FILE] [--chdb]

Sessions are real runs of the scripted model, which reads logs (about 1,700 characters each)
until its phase is over, with the windows of the default profile: an agent's loop of 1,000
calls, 10 phases of 100 calls, and one of 10,000 calls in 100 phases that begin anew. Each
command runs as a process of its own, start-up included, its output into a file; medians are
in seconds. `--folder` keeps the sessions for the next time. `--chdb` keeps them in the
ClickHouse engine of this process (`make clickhouse`) in place of SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import windlass
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

_WORDS = [f"{word}{number}" for word in ("order", "run", "file", "line") for number in range(250)]


def read_log(number: int) -> str:
    """Read a log.

    Args:
        number: Which log, from 1.
    """
    dice = random.Random(number)
    lines = [
        f"2026-03-{dice.randint(1, 28):02} {' '.join(dice.choices(_WORDS, k=8))} "
        f"took {dice.randint(1, 9999)} ms"
        for _ in range(20)
    ]
    return "\n".join(lines)


class Reader:
    """A model that reads so many logs a phase, one a call, and then says what it saw."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.asked = 0

    def __call__(self, request: Request) -> Message | str:
        """The reply to a request."""
        del request
        self.asked += 1
        if self.asked % self.calls == 0:
            return f"Read up to log {self.asked}: order{self.asked % 250} is late."
        call = ToolCall(f"call_{self.asked}", "read_log", json.dumps({"number": self.asked}))
        return assistant(f"Next is log {self.asked}.", calls=[call])


@dataclass(frozen=True)
class Shape:
    """A session: its phases, the calls of each, and whether a phase sees those before."""

    name: str
    phases: int
    calls: int
    alone: bool = False

    def cascade(self) -> dict[str, Any]:
        """The cascade that makes it."""
        own: dict[str, Any] = {"context": {"from": []}} if self.alone else {}
        rules = {"max_turns": self.calls + 1}
        return {
            "cascade_id": self.name,
            "auto_context": {},
            "phases": [
                {
                    "name": f"read{number}",
                    "instructions": f"Read the logs of day {number}, one by one, to the last.",
                    "tackle": ["read_log"],
                    "rules": rules,
                    **own,
                }
                for number in range(self.phases)
            ],
        }

    def write(self, store: str) -> None:
        """Run it; the session has the shape's name."""
        result = windlass.run_sync(
            self.cascade(),
            model="scripted/reader",
            store=store,
            tools=[read_log],
            providers={"scripted": Scripted(Reader(self.calls), window=10_000_000)},
            session_id=self.name,
        )
        assert result.status == "completed", result.error


LOOP = Shape("loop", 1, 1_000)
PHASES = Shape("phases", 10, 100)
MANY = Shape("many", 100, 100, alone=True)
LOOKS = (
    ["show"],
    ["show", "--call", "900"],
    ["explain", "900"],
    ["report"],
    ["report", "--prefix"],
)
COMMANDS: tuple[tuple[Shape, list[str]], ...] = (
    *((shape, [look[0], shape.name, *look[1:]]) for shape in (LOOP, PHASES) for look in LOOKS),
    (MANY, ["report", MANY.name]),
    (MANY, ["verify"]),
)


def seconds(command: list[str], store: str, output: Path) -> float:
    """How long a command takes as a process; `output` gets what it prints."""
    program = [str(Path(sys.executable).with_name("windlass")), *command, "--store", store]
    with output.open("wb") as file:
        start = time.perf_counter()
        subprocess.run(program, check=True, stdout=file, env={**os.environ, "COLUMNS": "120"})
        return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="a folder in which sessions are kept")
    parser.add_argument("--chdb", action="store_true", help="the ClickHouse engine, not SQLite")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{'session':10} {'command':32} {'seconds':>8}")
        for shape, command in COMMANDS:
            # A store for each: `verify` reads all that a store has.
            place = folder / f"{shape.name}{'-chdb' if given.chdb else ''}"
            store = f"chdb://{place}" if given.chdb else str(place)
            if not place.exists():
                shape.write(store)
            output = folder / f"{' '.join(command)}.txt"
            taken = statistics.median(seconds(command, store, output) for _ in range(given.runs))
            name = " ".join(command)
            figures[name] = taken
            print(f"{shape.name:10} windlass {name:23} {taken:8.2f}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
