"""What a kill -9 takes from the history: nothing that was acknowledged, and no half batch.

    python bench/bench_kill9.py [--kills 200] [--seed 1] [--json FILE]

A child appends batches as fast as it can (small and large bodies, pictures, calls)
and prints a line after each append has returned. It is killed at a random moment: most
times 5 to 80 ms after its first line, else anywhere from its start on, so that the
making of a store is met as well. Then the store is opened again: every acknowledged
batch must be there as it was given, no batch in part, and `verify` must find nothing
but files that no record names.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.history.base import (
    Batch,
    CallRecord,
    NodeType,
    Outcome,
    Row,
    SessionStart,
    ShownMessage,
    StateChange,
    request_hash,
)
from windlass.history.sqlite import SqliteStore, verify_store
from windlass.messages import Picture, tool, user

_A_STORE: Final = 20
"""Kills that one store sees before the next is begun."""


@dataclass
class Report:
    """What a series of kills did. `lost`, `partial`, `changed` and `damage` must be 0.

    `orphan_notes` counts files that no record names, anew at each check of a store.
    """

    kills: int = 0
    fresh_stores: int = 0
    acknowledged: int = 0
    unacknowledged_but_whole: int = 0
    rows: int = 0
    lost: int = 0
    partial: int = 0
    changed: int = 0
    damage: int = 0
    orphan_notes: int = 0
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether nothing acknowledged was lost and nothing is there in part."""
        return self.lost == self.partial == self.changed == self.damage == 0


def make_batch(session: str, number: int) -> Batch:
    """Batch `number` of a session, always the same: the parent can tell what must be there."""
    dice = random.Random(f"{session} {number}")
    rows: list[Row] = []
    for at in range(dice.choice((1, 1, 1, 1, 2, 3, 10))):
        size = dice.choice((10, 300, 2_000, 3_900, 4_200, 20_000))
        text = f"{session}/{number}/{at} " + dice.randbytes(size // 2).hex()
        pictures: dict[str, bytes] = {}
        message = tool(f"call_{at}", text)
        if dice.random() < 0.15:
            data = dice.randbytes(dice.choice((100, 9_000)))
            sha = hashlib.sha256(data).hexdigest()
            pictures[sha] = data
            message = user(text, Picture(sha, "image/png", 1, 1, "made.png"))
        rows.append(
            Row(
                node_type=NodeType.TOOL_RESULT,
                trace_id=f"{session}-{number}-{at}",
                timestamp=1_763_000_000.0 + number,
                message=message,
                phase="work",
                turn=number,
                pictures=pictures,
                keep_pictures=bool(pictures),
            )
        )
    first = rows[0].message
    assert first is not None
    call = CallRecord(
        trace_id=rows[0].trace_id,
        model="none",
        shown=(ShownMessage(f"{first.content_hash}-1", "said in this phase", size),),
        request_hash=request_hash([first.key], ()),
        tools=(),
        sent_tokens=size,
        full_tokens=size * number,
    )
    return Batch(
        session,
        rows=rows,
        calls=[call],
        state=[StateChange("work", "number", number)],
        outcomes=[Outcome("completed", 0.0, "work", rows[0].trace_id)] if number % 7 == 0 else (),
        start=SessionStart("kill9", "none", {}, {}, 0.0) if number == 0 else None,
    )


def child(folder: Path, session: str) -> None:
    """Append until killed; one line for each batch whose append has returned."""
    store = SqliteStore(folder)
    number = 0
    while True:
        store.append(make_batch(session, number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


def _run_and_kill(folder: Path, session: str, dice: random.Random) -> int:
    """How many batches a child acknowledged before it was killed."""
    command = [sys.executable, __file__, "--child", str(folder), session]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines: list[bytes] = []
    if dice.random() < 0.8:
        lines.append(process.stdout.readline())
        time.sleep(dice.uniform(0.005, 0.080))
    else:
        time.sleep(dice.uniform(0.02, 0.30))
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.stdout.close()
    if process.wait() != -signal.SIGKILL:
        raise RuntimeError("the child ended by itself: see its error above")
    # A line cut short by the kill acknowledges nothing.
    return sum(line.endswith(b"\n") for line in lines)


def _check(folder: Path, session: str, acknowledged: int, report: Report) -> None:
    with SqliteStore(folder) as store:
        stored = list(store.rows(session))
        state = store.state(session)
        calls = store.calls(session)
        at = number = 0
        while at < len(stored):
            batch = make_batch(session, number)
            there = stored[at : at + len(batch.rows)]
            if len(there) < len(batch.rows):
                report.partial += 1
            given = [dataclasses.replace(row, pictures={}) for row in batch.rows]
            if [one.row for one in there] != given[: len(there)]:
                report.changed += 1
            for row in batch.rows[: len(there)]:
                for sha, data in row.pictures.items():
                    report.changed += store.picture(sha) != data
            at += len(batch.rows)
            number += 1
        if [change.value for change in state] != list(range(number)) or len(calls) != number:
            report.partial += 1
        report.rows += len(stored)
        report.acknowledged += acknowledged
        report.lost += max(0, acknowledged - number)
        report.unacknowledged_but_whole += max(0, number - acknowledged)
    for finding in verify_store(folder):
        if finding.severity == "note":
            report.orphan_notes += 1
        else:
            report.damage += 1
            print(f"{session}: {finding.where}: {finding.what}", file=sys.stderr)


def kill_and_check(root: Path, kills: int, seed: int = 1) -> Report:
    """Kill a writing child `kills` times in stores under `root` and report what was found."""
    dice = random.Random(seed)
    report = Report()
    begun = time.monotonic()
    for number in range(kills):
        folder = root / f"store{number // _A_STORE}"
        report.fresh_stores += not folder.exists()
        session = f"session-{number}"
        acknowledged = _run_and_kill(folder, session, dice)
        _check(folder, session, acknowledged, report)
        report.kills += 1
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {kills} kills", end="", file=sys.stderr)
    report.seconds = time.monotonic() - begun
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to be tried")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        child(Path(given.child[0]), given.child[1])
    with tempfile.TemporaryDirectory(dir=given.folder) as root:
        report = kill_and_check(Path(root), given.kills, given.seed)
    for name, value in dataclasses.asdict(report).items():
        shown = f"{value:.1f}" if isinstance(value, float) else f"{value:,}"
        print(f"{name.replace('_', ' '):28} {shown:>10}")
    print("sound" if report.sound else "NOT SOUND")
    if given.json is not None:
        given.json.write_text(json.dumps(dataclasses.asdict(report), indent=2) + "\n")
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
