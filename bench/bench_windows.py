"""Windows on recorded agent runs: their bill, what they keep in view, whether they are valid.

Run: `python -m bench.bench_windows [CONTESTANT ...] [--source NAME ...] [--half even|odd|all]
[--every N] [--prices NAME ...] [--check all|changed|chat] [--frontier] [--choose]
[--margins] [--json FILE]`, with WINDLASS_DATA naming the folder that holds
`trajectories/*.jsonl.gz` and `raw/` (default `../shared/data`).

A contestant is `everything`, `mask:TURNS`, `windlass:PROFILE[@bound][,OPTION=VALUE...]`, or
`langchain`, `agents`, `headroom` with their own defaults or `[:OPTION=VALUE...]` (`make peers`
makes their environments). `@bound`: for a model that binds signed thinking. Bills are
divided by sending everything; means are of sources, and beside them stands that of all recordings
together; the definitions stand in `bench/windows/`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.windows.contestants import Contestant, make
from bench.windows.measure import Bench, Checks, Outcome
from bench.windows.prices import VECTORS
from bench.windows.recordings import SOURCES, Recording, data_folder, load
from bench.windows.table import Row, as_json, choices, frontier, margins, row, tables

from windlass.replays.pricing import Vector

CONTESTANTS = (
    *("everything", "mask:5", "mask:10"),
    *("windlass:default", "windlass:default@bound", "windlass:lean@bound"),
)
PEERS = ("langchain", "langchain:trigger=8000", "agents", "headroom", "headroom:frozen=true")


class Found(NamedTuple):
    """One recording's outcomes, by contestant and price vector."""

    source: str
    place: int
    outcomes: dict[tuple[str, str], Outcome]


@dataclass(frozen=True)
class Task:
    """One recording to measure, at its place among all."""

    place: int
    recording: Recording
    names: tuple[str, ...]
    vectors: tuple[Vector, ...]
    checks: Checks


_made: dict[tuple[str, str], Contestant] = {}
"""The contestants of this process, by name and vector."""


def measure(task: Task) -> Found:
    """All contestants over one recording."""
    bench = Bench(task.recording)
    outcomes: dict[tuple[str, str], Outcome] = {}
    for name in task.names:
        vectors = list(task.vectors)
        while vectors:
            first = vectors[0]
            if (name, first.name) not in _made:
                _made[name, first.name] = make(name, first)
            contestant = _made[name, first.name]
            billed = [first] if contestant.by_price else vectors
            for vector, outcome in bench.run(contestant, billed, task.checks).items():
                outcomes[name, vector] = outcome
            vectors = vectors[len(billed) :]
    return Found(task.recording.source, task.place, outcomes)


def run(tasks: Iterator[Task], processes: int) -> list[Found]:
    """All tasks, in their order."""
    if processes < 2:
        return [measure(task) for task in tasks]
    # Forked, so that a contestant's modules are loaded once; results come as they are ready.
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        found = list(pool.imap_unordered(measure, tasks))
    return sorted(found, key=lambda one: one.place)


def rows_of(found: Sequence[Found]) -> list[Row]:
    """The rows of the table, by contestant, vector and source."""
    grouped: dict[tuple[str, str, str], list[Outcome]] = {}
    for one in found:
        for (name, vector), outcome in one.outcomes.items():
            grouped.setdefault((name, vector, one.source), []).append(outcome)
    names = list(dict.fromkeys((name, vector) for name, vector, _ in grouped))
    sources = list(dict.fromkeys(one.source for one in found))
    return [
        row(name, vector, source, grouped[name, vector, source])
        for name, vector in names
        for source in sources
    ]


def available(names: Sequence[str]) -> list[str]:
    """The contestants that can be run here; a line about each that cannot."""
    ready: list[str] = []
    for name in names:
        try:
            contestant = make(name, VECTORS[0])
            contestant.begin(Recording("probe", "probe", ()))
            contestant.close()
        except (FileNotFoundError, AttributeError) as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
        else:
            ready.append(name)
    return ready


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contestants", nargs="*", default=[*CONTESTANTS, *PEERS])
    parser.add_argument("--source", action="append", help=f"default: {', '.join(SOURCES)}")
    parser.add_argument("--half", choices=("all", "even", "odd"), default="all")
    parser.add_argument("--every", type=int, default=1, help="measure each N-th recording only")
    names = [vector.name for vector in VECTORS]
    parser.add_argument("--prices", action="append", choices=names, help="default: all")
    parser.add_argument("--check", choices=("all", "changed", "chat"), default="changed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--problems", type=int, default=3, help="invalid windows to tell about")
    parser.add_argument("--frontier", action="store_true", help="one line a contestant, compared")
    parser.add_argument(
        "--choose", action="store_true", help="for each source, what the others would choose"
    )
    parser.add_argument(
        "--margins", action="store_true", help="each against the first, and without each source"
    )
    parser.add_argument("--json", type=Path, help="write the table to this file as JSON")
    asked = parser.parse_args()
    if not (data_folder() / "trajectories").is_dir():
        print(f"no recordings in '{data_folder()}/trajectories'; set WINDLASS_DATA")
        return 0
    contestants = tuple(available(asked.contestants))
    vectors = tuple(one for one in VECTORS if one.name in (asked.prices or names))
    recordings = load(data_folder(), asked.source or SOURCES, asked.half, asked.every)
    began = time.perf_counter()
    found = run(
        (
            Task(place, recording, contestants, vectors, asked.check)
            for place, recording in enumerate(recordings)
        ),
        asked.processes,
    )
    rows = rows_of(found)
    print(frontier(rows) if asked.frontier else tables(rows))
    if asked.choose:
        print(choices(rows))
    if asked.margins:
        print(margins(rows))
    for name in contestants:
        told = [wrong for one in found for wrong in one.outcomes[name, vectors[0].name].problems]
        for wrong in told[: asked.problems]:
            print(f"{name}: {wrong}")
    print(f"{len(found)} recordings in {time.perf_counter() - began:.0f} s")
    if asked.json:
        asked.json.write_text(json.dumps(as_json(rows), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
