"""What kills of a batch do while somebody resumes its sessions beside it: nothing happens twice.

    python -m bench.bench_beside [--kills 60] [--seed 1] [--rows 24] [--json FILE]

A batch pays once for each row, by a tool whose effect nobody can take back, and asks a model three
times. A second process goes on with sessions of it at random. The batch is killed (SIGKILL) at a
random moment, and the other process half of the times; then both begin again, until every row has
its line. All is counted where it happens: payments in a file, requests at the model.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import windlass
from windlass.api.opening import load_engine
from windlass.errors import SessionHeld, UsageError, WindlassError
from windlass.history.base import SessionFilter
from windlass.history.row_details import CallAnswered, CallSent, ReplyDetails, details_of
from windlass.history.sqlite import SqliteStore
from windlass.history.step import Step
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.tools.registry import tool
from windlass.wire.base import Request

WORKERS: Final = 4
CALLS: Final = 3
"""Requests of a row that nobody disturbs."""
_DELAY_S: Final = 0.05
"""Seconds that a request takes."""
CASCADE: Final = {
    "cascade_id": "pay",
    "phases": [
        {"name": "pay", "instructions": "Pay {{ input.n }}.", "tackle": ["transfer"]},
        {"name": "tell", "instructions": "Tell of {{ input.n }}."},
    ],
}


@tool(effects="external")
def transfer(number: str) -> str:
    """Pay.

    Args:
        number: Which row.
    """
    _note("paid", number)
    time.sleep(_DELAY_S / 3)  # it is done, and nobody knows yet
    return f"paid {number}"


async def answer(request: Request) -> Any:
    """What the model says; that it was asked is noted."""
    first = next(each.text for each in request.messages if each.role == "user")
    last = request.messages[-1]
    number = first.removeprefix("Pay ").rstrip(".")
    step = f"{number} {len(request.messages)} {last.role}"
    _note("asked", step)
    print("asked", flush=True)
    await asyncio.sleep(_DELAY_S)
    if last.role == "user" and last.text.startswith("Pay "):
        arguments = json.dumps({"number": number})
        return assistant("I pay.", calls=[ToolCall("c1", "transfer", arguments)])
    return f"{last.role} of {number}"


def _note(name: str, text: str) -> None:
    handle = os.open(f"{name}.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{text}\n".encode())  # in one piece, whoever else writes
    os.close(handle)


def _noted(folder: Path, name: str) -> list[str]:
    file = folder / f"{name}.txt"
    return file.read_text().splitlines() if file.exists() else []


def _options() -> dict[str, Any]:
    providers = {"scripted": Scripted(answer)}
    return {"model": "scripted/x", "tools": [transfer], "providers": providers, "store": "store"}


def run_batch(rows: int) -> None:
    """Run the batch, or go on with it."""
    inputs = [{"n": number} for number in range(rows)]
    options: dict[str, Any] = {"out": "r.jsonl", "workers": WORKERS, "resume": True}
    windlass.batch_sync(CASCADE, inputs, **options, **_options())


def resume_at_random(seed: int) -> None:
    """Go on with sessions of the batch, one after the other, until standard input ends."""
    chance = random.Random(seed)
    load_engine()
    print("ready", flush=True)
    while not _ended():
        if not Path("store", "windlass.sqlite").exists():
            continue
        with SqliteStore.open_existing(Path("store")) as store:
            which = SessionFilter(banks=False, under=())
            left = [one.session_id for one in store.sessions(which) if one.status != "completed"]
        if left:
            try:
                result = windlass.resume_sync(chance.choice(left), **_options())
                print(result.status, flush=True)
            except SessionHeld:
                print("refused", flush=True)
            except UsageError:  # it completed meanwhile
                print("too late", flush=True)
        time.sleep(chance.uniform(0.0, _DELAY_S))


def _ended() -> bool:
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


@dataclass
class Beside:
    """What a series of kills came to. All from `paid_twice` on must be 0.

    `completed_beside` sessions the other process went on with to their end, and `refused_beside` it
    could not take, as they were running. `unsure` rows wait for a person, as a process was killed
    while the tool ran. `asked_again` requests were in flight at a kill, and were sent again.
    """

    kills: int = 0
    batches: int = 0
    rows: int = 0
    requests: int = 0
    completed_beside: int = 0
    refused_beside: int = 0
    unsure: int = 0
    asked_again: int = 0
    paid_twice: int = 0
    unpaid: int = 0
    sent_after_answer: int = 0
    asked_too_often: int = 0
    two_sessions: int = 0
    two_outputs: int = 0
    lost: int = 0
    damage: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing happened twice and nothing is lost."""
        wrong = (self.paid_twice, self.unpaid, self.sent_after_answer, self.asked_too_often)
        return not any((*wrong, self.two_sessions, self.two_outputs, self.lost, self.damage))


def _child(folder: Path, *what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.bench_beside", "--child", *what]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environ = {**os.environ, "PYTHONPATH": path}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def _ready(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """The process, which has begun to work (or ended: then there was nothing to do)."""
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _end(process: subprocess.Popen[str]) -> list[str]:
    """What a process printed, which is to end; it must not fail by itself."""
    told, errors = process.communicate(timeout=300)
    if process.returncode > 0:
        raise RuntimeError(errors)
    return told.splitlines()


class _Other:
    """The process beside the batch."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._process = _ready(_child(folder, "resume", str(chance.randrange(1_000_000))))

    def end(self, done: Beside, *, kill: bool) -> None:
        """End it, by a kill or when it is done with a session; count what it did."""
        if kill:
            self._process.send_signal(signal.SIGKILL)
        told = _end(self._process)
        done.completed_beside += told.count("completed")
        done.refused_beside += told.count("refused")


def kill_beside(root: Path, kills: int, seed: int, rows: int) -> Beside:
    """Kill batches so often, with a process that resumes beside them, and say what was found."""
    chance, done = random.Random(seed), Beside()  # a sequence that can be had again
    while done.kills < kills:
        folder = root / f"batch{done.batches}"
        folder.mkdir()
        done.batches += 1
        before, both = done.kills, 0
        other = _Other(folder, chance)
        while done.kills < kills and _killed_once(folder, rows, chance):
            done.kills += 1
            if chance.random() < 0.3:
                other.end(done, kill=True)
                other, both = _Other(folder, chance), both + 1
        other.end(done, kill=False)
        _end(_child(folder, "batch", str(rows)))
        _check(folder, rows, done, done.kills - before + both)
    return done


def _killed_once(folder: Path, rows: int, chance: random.Random) -> bool:
    """Run the batch until it is killed; False: it came to its end before."""
    batch = _ready(_child(folder, "batch", str(rows)))
    time.sleep(chance.uniform(0.0, rows * CALLS * _DELAY_S / WORKERS))
    is_killed = batch.poll() is None
    batch.send_signal(signal.SIGKILL)
    _end(batch)
    time.sleep(chance.uniform(0.0, 10 * _DELAY_S))
    return is_killed


def _check(folder: Path, rows: int, done: Beside, kills: int) -> None:
    """Count what a batch came to that was killed so often."""
    paid = Counter(_noted(folder, "paid"))
    lines = (folder / "r.jsonl").read_text().splitlines()
    done.rows += rows
    done.paid_twice += sum(count > 1 for count in paid.values())
    done.lost += rows - len({json.loads(line)["row"] for line in lines})
    asked = _noted(folder, "asked")
    done.requests += len(asked)
    again = len(asked) - len(set(asked))
    done.asked_again += again
    done.asked_too_often += again > kills * (WORKERS + 1)
    with SqliteStore.open_existing(folder / "store") as store:
        infos = {info.session_id: info for info in store.sessions(SessionFilter(banks=False))}
        of_rows = Counter(name.rpartition(".")[2] for name in infos)
        done.two_sessions += sum(count > 1 for count in of_rows.values())
        for name, info in infos.items():
            row = int(name.rpartition(".")[2])
            ended = [each.status for each in store.outcomes(name) if each.phase is None]
            done.two_outputs += ended.count("completed") > 1
            done.unpaid += info.status == "completed" and paid[str(row - 1)] != 1
            done.sent_after_answer += _sent_after_answer(store, name)
            if info.status == "waiting":
                done.unsure += 1
                done.lost += paid[str(row - 1)] == 0 and not _goes_on(folder, name)
            elif info.status != "completed":
                done.lost += 1
        done.damage += sum(one.severity == "damage" for one in store.verify())


def _goes_on(folder: Path, session: str) -> bool:
    """Whether a session goes on whose payment was not made, once a person says so."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(io.StringIO()):
            again = windlass.resume_sync(session, again=["transfer"], **_options())
    except WindlassError:
        return False
    finally:
        os.chdir(here)
    return again.status == "completed"


def _sent_after_answer(store: SqliteStore, session: str) -> int:
    """How many steps of a session were sent though they were answered."""
    answered, again = set[Step](), 0
    for stored in store.rows(session):
        match details_of(stored.row):
            case CallSent(step=step):
                again += step in answered
            case CallAnswered(step=step) | ReplyDetails(step=Step() as step):
                answered.add(step)
            case _:
                pass
    return again


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--json", type=Path, help="write the figures to this file as JSON")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        kind, number = given.child
        (run_batch if kind == "batch" else resume_at_random)(int(number))
        return 0
    with tempfile.TemporaryDirectory() as name:
        done = kill_beside(Path(name), given.kills, given.seed, given.rows)
    for figure, value in asdict(done).items():
        print(f"{figure.replace('_', ' '):20} {value:6,}")
    print("sound" if done.sound else "NOT SOUND")
    if given.json:
        given.json.write_text(json.dumps(asdict(done)) + "\n", encoding="utf-8")
    return int(not done.sound)


if __name__ == "__main__":
    sys.exit(main())
