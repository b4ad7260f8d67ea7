"""How many recorded calls a second one core replays, reading the files included.

Run: `python -m bench.bench_replay [--policy NAME ...] [--every N]`, with WINDLASS_DATA naming the
folder that holds `raw/` (files as their programs wrote them) and `trajectories/*.jsonl.gz` (default
`../shared/data`). Seconds are those of the processor, so that others on the machine count little.
The bar is 300 calls a second with the default policies, `everything` and `default`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain

from bench.windows.recordings import SOURCES, data_folder, load

from windlass.importing.recording import Recording
from windlass.importing.streams import recordings
from windlass.replays.named_policies import policies_of
from windlass.replays.replayable import recording_of_list
from windlass.replays.running import replay_all

MODEL = "anthropic/claude-sonnet-4-5"
"""Whose prices hold for recordings that name no model."""


def sources(every: int) -> Iterator[tuple[str, Iterator[Recording]]]:
    """The recordings of each folder of raw files, and of each file of trajectories."""
    for folder in sorted((data_folder() / "raw").iterdir()):
        if folder.is_dir():
            yield f"raw/{folder.name}", recordings(folder)
    for source in SOURCES:
        listed = (
            recording_of_list(one.messages, MODEL)
            for one in load(data_folder(), [source], "all", every)
        )
        yield source, listed


def row(name: str, found: Iterator[Recording], policies: Sequence[str]) -> str:
    """One line of the table."""
    began = time.process_time()
    replayed = replay_all(found, policies_of(policies), ("own",))
    seconds = time.process_time() - began
    calls = sum(one.call_count for one in replayed.recordings)
    results = sum(one.results for one in replayed.recordings)
    return (
        f"{name:28} {len(replayed.recordings):>10,} {calls:>8,} {results:>8,}"
        f" {seconds:>8.2f} {calls / seconds:>8,.0f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", nargs="+", default=["everything", "default"])
    parser.add_argument("--every", type=int, default=4, help="of the trajectories")
    asked = parser.parse_args()
    if not (data_folder() / "raw").is_dir():
        print(f"no recordings in '{data_folder()}/raw'; set WINDLASS_DATA")
        return 0
    listed = sources(asked.every)
    first = next(listed)
    # What is loaded once, such as the vocabulary, counts for no row.
    replay_all(recordings(data_folder() / first[0]), policies_of(asked.policy), ("own",))
    heads = (f"{name:>8}" for name in ("calls", "results", "seconds", "calls/s"))
    print(f"{'source':28} {'recordings':>10}", *heads)
    for name, found in chain([first], listed):
        print(row(name, found, asked.policy))
    return 0


if __name__ == "__main__":
    sys.exit(main())
