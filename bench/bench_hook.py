"""What a hook costs: processor time and wall time of `windlass agent run`, event by event.

Run: python bench/bench_hook.py [--events 40] [--json]

Each event is a new result of a tool of 1, 50 or 500 kB, told by a new process, as an agent does
with the command that `windlass agent install` writes; rows of the mod are requests to the process
that stays, without the time that the agent itself takes for them.
The processor time is that of the short process, its start included, and of the one that stays,
together. The bar is 50 ms at 50 kB (p95). The last rows are the first event of a user, for which
the process that stays has to start: how long the agent waits, and what both processes take.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import windlass
from windlass_agents import client
from windlass_agents.installing import hook_command

KILOBYTES = (1, 50, 500)
BAR_MS = 50.0
"""Processor time at 50 kB, the 95th of 100 events."""
MOST_S = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What an event took, in milliseconds."""

    client: float
    staying: float
    wall: float

    @property
    def both(self) -> float:
        """The processor time of both processes."""
        return self.client + self.staying


class Agent:
    """An agent of a user with a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.environment = {
            "HOME": str(folder),
            "XDG_STATE_HOME": str(self.state),
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(Path(windlass.__file__).parents[1]),
        }
        self.folder = folder
        self.calls = 0

    def event(self, kilobytes: int) -> dict[str, object]:
        """A new result."""
        self.calls += 1
        return {
            "session": f"session of {kilobytes} kB",
            "call_id": f"c{self.calls}",
            "tool": "bash",
            "arguments": {"command": f"make part-{self.calls}"},
            "text": output(kilobytes, self.calls),
            "model": "anthropic/claude-sonnet-4-5",
            "folder": str(self.folder),
        }

    def ask(self, kilobytes: int) -> tuple[Cost, bool]:
        """What a request took as the mod makes it, and whether it was answered."""
        body = json.dumps({"agent": "plain", "event": self.event(kilobytes)})
        began = time.perf_counter()
        connection = http.client.HTTPConnection("windlass")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(client.mod_socket(str(self.state / "windlass")))
        connection.request("POST", "/result", body)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return Cost(0.0, 0.0, 1000 * (time.perf_counter() - began)), answer.status == HTTPStatus.OK

    def run(self, kilobytes: int) -> tuple[Cost, bool]:
        """What an event took, and whether it was answered; the staying process is not counted."""
        told = self.event(kilobytes)
        words = [*hook_command(), "agent", "run", "plain"]
        began = time.perf_counter()
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        answer = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        seconds = usage.ru_utime + usage.ru_stime
        return Cost(1000 * seconds, 0.0, 1000 * wall), bool(answer)

    def staying(self) -> int:
        """The process that stays (0: there is none)."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_one = b"windlass_agents.server" in (folder / "cmdline").read_bytes().split(b"\0")
                if is_one and (folder / "cwd").readlink().is_relative_to(self.state):
                    return int(folder.name)
            except OSError:
                continue
        return 0

    def end(self) -> None:
        """End the process that stays."""
        if process := self.staying():
            os.kill(process, signal.SIGKILL)


def output(kilobytes: int, number: int) -> str:
    """What a build says, another one each time."""
    lines, size = [f"== build {number}"], 0
    while size < 1000 * kilobytes:
        at = len(lines)
        lines.append(f"[{at:>6}] CC src/part_{number}/unit_{at * 7919 % 9973}.c -O2  {at % 17} ms")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def processor_ms(process: int) -> float:
    """The processor time of a process so far, its ended threads included (Linux)."""
    return 1000 * time.clock_gettime((~process << 3) | 2)


@contextmanager
def new_agent() -> Iterator[Agent]:
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(Path(folder))
        try:
            yield agent
        finally:
            agent.end()
            time.sleep(0.1)


Way = Callable[[Agent, int], tuple[Cost, bool]]
"""By which way an agent tells a result of so many kilobytes."""


def warm_costs(kilobytes: int, events: int, way: Way) -> list[Cost]:
    """What each of some events took where the process stays already."""
    with new_agent() as agent:
        until = time.monotonic() + MOST_S
        while not agent.run(kilobytes)[1]:
            assert time.monotonic() < until, "the hook does not answer"
        process, costs = agent.staying(), []
        for _ in range(events):
            before = processor_ms(process)
            cost, is_answered = way(agent, kilobytes)
            assert is_answered, "the process did not answer"
            costs.append(Cost(cost.client, processor_ms(process) - before, cost.wall))
        return costs


def cold_cost() -> Cost:
    """What the first event took, and what it took to start the process that stays."""
    with new_agent() as agent:
        cost, _ = agent.run(1)
        until = time.monotonic() + MOST_S
        while not agent.run(1)[1]:
            assert time.monotonic() < until, "the process does not start"
        return Cost(cost.client, processor_ms(agent.staying()), cost.wall)


def quantile(values: list[float], share: float) -> float:
    """The value that such a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * len(ordered)))]


def row(costs: list[Cost]) -> dict[str, float]:
    columns: dict[str, Callable[[Cost], float]] = {
        "client": lambda cost: cost.client,
        "staying": lambda cost: cost.staying,
        "both": lambda cost: cost.both,
        "wall": lambda cost: cost.wall,
    }
    return {
        f"{name}_{label}_ms": round(quantile([column(cost) for cost in costs], share), 1)
        for name, column in columns.items()
        for label, share in (("p50", 0.5), ("p95", 0.95))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What `windlass agent run` costs an event.")
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {
        f"{size} kB{word}": row(warm_costs(size, options.events, way))
        for word, way in (("", Agent.run), (", mod", Agent.ask))
        for size in KILOBYTES
    }
    rows["first event"] = row([cold_cost() for _ in range(5)])
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"windlass agent run, {options.events} events each, milliseconds (p50 / p95)")
    print(f"{'result':<12} {'short process':>16} {'process stays':>16} {'both':>16} {'wall':>16}")
    for name, cells in rows.items():
        pairs = (
            f"{cells[f'{column}_p50_ms']:.0f} / {cells[f'{column}_p95_ms']:.0f}"
            for column in ("client", "staying", "both", "wall")
        )
        print(f"{name:<12} " + " ".join(f"{pair:>16}" for pair in pairs))
    worst = rows["50 kB"]["both_p95_ms"]
    print(f"at 50 kB, p95 of both: {worst:.0f} ms; the bar is {BAR_MS:.0f} ms")


if __name__ == "__main__":
    main()
