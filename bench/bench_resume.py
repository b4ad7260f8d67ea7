"""What a kill -9 costs a run that is resumed: nothing that was answered is sent again.

    python -m bench.bench_resume [--task] [--kills 200] [--seed 1] [--store ADDRESS] [--json FILE]

A child runs a cascade with tools, soundings and a sub-cascade, or (`--task`) a task in XML with
tools and inputs side by side. It is killed at a random moment
after its first request; then the session is resumed, and killed again, until it ends. Each end is
held against that of a run which nobody killed: the same outputs and state, no answered step sent
again, and no more requests than that run's and those in flight at the kills. Sessions are kept in
a folder of their own, or in the store at an address (`clickhouse://…`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import windlass
from windlass.api.opening import open_store
from windlass.history.base import SessionFilter, Store
from windlass.history.row_details import CallAnswered, CallSent, ReplyDetails, details_of
from windlass.history.step import Step
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.settings.settings import Settings
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool
from windlass.wire.base import Request

_DELAY_S: Final = 0.02
"""Seconds that each request takes."""
_PARALLEL: Final = 3
"""Requests that may be in flight at once."""

CHILD: Final = {
    "cascade_id": "child",
    "phases": [
        {"name": "find", "instructions": "Find {{ input.topic }}.", "tackle": ["look"]},
        {"name": "tell", "instructions": "Tell what was found."},
    ],
}
WHOLE: Final = {
    "cascade_id": "whole",
    "phases": [
        {
            "name": "note",
            "instructions": "Note {{ input.topic }}.",
            "tackle": ["look", "note"],
            "output_extraction": {"pattern": "(note)", "store_as": "kind"},
        },
        {
            "name": "draft",
            "instructions": "Draft.",
            "tackle": ["look"],
            "soundings": {
                "factor": 4,
                "max_parallel": _PARALLEL,
                "mutate": ["first way", "second way", "third way"],
                "evaluator": {"function": "longest"},
                "reforge": {"honing_prompt": "Better.", "factor_per_step": 2},
            },
        },
        {
            "name": "close",
            "instructions": "Close with {{ outputs.child }}.",
            "sub_cascades": [{"ref": "child.json"}],
        },
    ],
}


TASK: Final = """<task type="sequential"><description>Look after the build.</description>
<steps>
<task type="atomic" name="note"><description>Note the build.</description>
<tools><tool>look</tool><tool>note</tool></tools></task>
<task type="reduce" name="each" parallel="3"><description>Look at each.</description>
<inputs><input name="a">the roof</input><input name="b">the door</input>
<input name="c">the floor</input><input name="d">the lamp</input></inputs>
<inner_task><description>Look at it.</description><tools><tool>look</tool></tools></inner_task>
<reduction_task><description>Put it together.</description></reduction_task></task>
<task type="atomic" name="close"><description>Close.</description></task>
</steps></task>
"""


@tool(effects="none")
def look(at: str) -> str:
    """Look.

    Args:
        at: At what.
    """
    time.sleep(_DELAY_S / 4)
    return f"{at} is well, " * 40


def note(context: ToolContext, text: str) -> str:
    """Note.

    Args:
        context: What the run provides.
        text: What.
    """
    context.state["notes"] = [*context.state.get("notes", []), text]
    return f"noted {text}"


def longest(outputs: list[str]) -> int:
    """Pick the longest, of equals the last.

    Args:
        outputs: All.
    """
    return max(range(len(outputs)), key=lambda at: (len(outputs[at]), at))


async def answer(request: Request) -> Any:
    """What the model says; a line before tells that it was asked."""
    print("asked", flush=True)
    await asyncio.sleep(_DELAY_S)
    asked = " ".join(message.text for message in request.messages if message.role == "user")
    results = [message for message in request.messages[-3:] if message.role == "tool"]
    names = {spec.name for spec in request.tools}
    if not results and "look" in names:
        return assistant("I look.", calls=[ToolCall("c1", "look", json.dumps({"at": asked[-9:]}))])
    if len(results) == 1 and "note" in names and results[0].name == "look":
        return assistant("I note.", calls=[ToolCall("c2", "note", '{"text": "well"}')])
    return f"A note of {len(request.messages)} messages: {asked[-60:]}"


def run_child(folder: Path, store: str, session: str, *, resume: bool) -> None:
    """Run the cascade or go on with it, and print how it ended."""
    options: dict[str, Any] = {
        "model": "scripted/x",
        "store": store,
        "root": folder,
        "tools": [look, note, longest],
        "providers": {"scripted": Scripted(answer)},
    }
    cascade, task = folder / "whole.json", folder / "whole.xml"
    if task.exists():
        first: dict[str, Any] = {"task": task, "session_id": session}
        again = {"resume": session, "again": ["note"]}
        result = windlass.evaluate_sync(**(again if resume else first), **options)
    elif resume:
        result = windlass.resume_sync(session, again=["note", "longest"], **options)
    else:
        given = {"topic": "the build"}
        result = windlass.run_sync(cascade, given, session_id=session, **options)
    print("ended", json.dumps([result.status, dict(result.outputs), dict(result.state)]))


@dataclass
class Kills:
    """What a series of kills did. All but `kills`, `sessions` and `requests` must be 0."""

    kills: int = 0
    sessions: int = 0
    requests: int = 0
    sent_after_answer: int = 0
    too_many: int = 0
    other_ends: int = 0
    damage: int = 0


def child_process(folder: Path, store: str, session: str, how: str) -> subprocess.Popen[str]:
    """A process that runs or resumes a session."""
    command = [sys.executable, "-m", "bench.bench_resume", "--child", how, str(folder)]
    return subprocess.Popen(
        [*command, store, session], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def measure(kills: int, seed: int, store: str, folder: Path, *, task: bool) -> Kills:
    """Kill and resume sessions until so many kills were made."""
    chance, done = random.Random(seed), Kills()  # a sequence that can be had again
    kind = "task" if task else "cascade"
    if task:
        (folder / "whole.xml").write_text(TASK, encoding="utf-8")
    (folder / "whole.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    (folder / "child.json").write_text(json.dumps(CHILD), encoding="utf-8")
    asked, end, lasts_s = _to_the_end(child_process(folder, store, f"untouched-{kind}", "run"))
    while done.kills < kills:
        session, done.sessions, how = f"{kind}-{done.sessions}", done.sessions + 1, "run"
        requests, killed = 0, 0
        while True:
            process = child_process(folder, store, session, how)
            more, last = _until_killed(process, chance.uniform(0, lasts_s))
            requests += more
            if last is not None:
                done.other_ends += last != end
                break
            killed += 1
            status = _status(store, session)
            if status == "completed":  # killed before it could say so
                break
            how = "resume" if status else "run"
        done.kills, done.requests = done.kills + killed, done.requests + requests
        done.too_many += requests > asked + killed * _PARALLEL
    with open_store(Settings.read({"store": store}), existing=True) as history:
        done.sent_after_answer = sum(_sent_after_answer(history))
        done.damage = sum(found.severity == "damage" for found in history.verify())
    return done


def _to_the_end(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    """Its requests, its last line, and the seconds since its first request."""
    assert process.stdout is not None
    process.stdout.readline()
    start = time.monotonic()
    told, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors)
    *others, last = told.splitlines()
    return len(others) + 1, last, time.monotonic() - start


def _until_killed(process: subprocess.Popen[str], after_s: float) -> tuple[int, str | None]:
    """Its requests, and its last line; None where it was killed, so long after its first."""
    assert process.stdout is not None
    first = process.stdout.readline()
    if first.startswith("asked"):
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
    rest, errors = process.communicate()
    lines = [first, *rest.splitlines()]
    ended = next((line.strip() for line in lines if line.startswith("ended")), None)
    if process.returncode > 0:
        raise RuntimeError(errors)
    return sum(line.startswith("asked") for line in lines), ended


def _status(store: str, session: str) -> str | None:
    """How a session ended, or `running`; None: it did not begin."""
    with open_store(Settings.read({"store": store}), existing=True) as history:
        found = history.sessions(SessionFilter(prefix=session))
        return next((info.status for info in found if info.session_id == session), None)


def _sent_after_answer(store: Store) -> Iterator[int]:
    """For each session how many steps were sent though they were answered."""
    for info in store.sessions(SessionFilter(banks=False)):
        answered, again = set[Step](), 0
        for stored in store.rows(info.session_id):
            match details_of(stored.row):
                case CallSent(step=step):
                    again += step in answered
                case CallAnswered(step=step) | ReplyDetails(step=Step() as step):
                    answered.add(step)
                case _:
                    pass
        yield again


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", action="store_true", help="a task in XML, not a cascade")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="default: a folder of its own")
    parser.add_argument("--json", type=Path, help="write the figures to this file as JSON")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        how, folder, store, session = asked.child
        run_child(Path(folder), store, session, resume=how == "resume")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = asked.store or str(folder / "store")
        done = measure(asked.kills, asked.seed, store, folder, task=asked.task)
    for figure, value in asdict(done).items():
        print(f"{figure:20} {value:6,}")
    if asked.json:
        asked.json.write_text(json.dumps(asdict(done)) + "\n", encoding="utf-8")
    return int(bool(done.sent_after_answer or done.too_many or done.other_ends or done.damage))


if __name__ == "__main__":
    sys.exit(main())
