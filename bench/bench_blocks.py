"""Windows under injectors: does a block at the end of every call make them pay less?

Each recording is billed four times: everything and windows, each with and without a DYNAMIC block
(plan, lessons and goal) at the end of the last message of every call. It stays there as history
until something in front of it changes, as with injectors: Windlass is told the block by
`Context.window(block=...)`, whose rules are the runner's. With `--real` the blocks are those of
all injectors that come with Windlass, rendered out of what the recording says, and the head of
every request has those of STABLE and SESSION. What blocks cost by themselves is what they add to
sending everything; windows should lose no more to them than that.

Run: `python -m bench.bench_blocks [--tokens 300 | --real] [--source NAME ...] [--every N]`, with
WINDLASS_DATA naming the folder that holds `trajectories/*.jsonl.gz`. Bills are divided by sending
everything, and hold what is fetched again; values and lines are those in view, without blocks and
with them ("too").
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench.windows.blocks import EverythingTold, Injected, Plain, Told, WindlassTold
from bench.windows.contestants import Contestant, Everything, Windlass
from bench.windows.measure import Bench, Outcome
from bench.windows.recordings import SOURCES, Recording, data_folder, load

from windlass.replays.pricing import VECTORS, Vector


@dataclass
class Row:
    """Sums over the recordings of a source, without blocks and with them.

    Money in fresh input tokens, with what is fetched again; `worst` is the dearest recording's
    windows over sending everything, both with blocks.
    """

    whole: list[float] = field(default_factory=lambda: [0.0, 0.0])
    windows: list[float] = field(default_factory=lambda: [0.0, 0.0])
    values: list[int] = field(default_factory=lambda: [0, 0])
    lines: list[int] = field(default_factory=lambda: [0, 0])
    needed: list[int] = field(default_factory=lambda: [0, 0])
    worst: float = 0.0

    def add(self, recording: Recording, vector: Vector, told: Told) -> None:
        """One more recording."""
        bench = Bench(recording)

        def run(contestant: Contestant) -> Outcome:
            return bench.run(contestant, [vector], "chat")[vector.name]

        ways = (
            (run(Everything()), run(Windlass("default", {}, vector))),
            (run(EverythingTold(told, vector)), run(WindlassTold(told, vector))),
        )
        for way, (whole, windows) in enumerate(ways):
            self.whole[way] += whole.bill
            self.windows[way] += windows.bill + windows.again
            self.values[way] += windows.values_seen
            self.lines[way] += windows.lines_seen
        self.needed = [self.needed[0] + windows.values, self.needed[1] + windows.lines]
        self.worst = max(self.worst, (windows.bill + windows.again) / whole.bill)

    def told(self) -> str:
        """The row of the table, but for its name."""
        (whole, whole_too), (windows, windows_too) = self.whole, self.windows
        bills = (windows, windows_too, whole_too - whole, windows_too - windows)
        seen = [
            f"{some[way] / all_of_them if all_of_them else 1:>8.3f}"
            for some, all_of_them in ((self.values, self.needed[0]), (self.lines, self.needed[1]))
            for way in (0, 1)
        ]
        shares = "".join(f"{one / whole:>13.3f}" for one in bills)
        return f"{shares}{self.worst:>8.2f}{''.join(seen)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=300, help="tokens of a block, about")
    parser.add_argument("--source", action="append", help=f"default: {', '.join(SOURCES)}")
    parser.add_argument("--every", type=int, default=4, help="measure each N-th recording only")
    parser.add_argument("--real", action="store_true", help="the blocks of all real injectors")
    asked = parser.parse_args()
    if not (data_folder() / "trajectories").is_dir():
        print(f"no recordings in '{data_folder()}/trajectories'; set WINDLASS_DATA")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        told: Told = Injected(Path(folder)) if asked.real else Plain(asked.tokens)
        rows: dict[tuple[str, str], Row] = defaultdict(Row)
        for recording in load(data_folder(), asked.source or SOURCES, "all", asked.every):
            for vector in VECTORS:
                rows[vector.name, recording.source].add(recording, vector, told)
    head = ("windows", "with blocks", "blocks cost", "in windows")
    seen = ("worst", "values", "too", "lines", "too")
    print(f"{'prices':<10} {'source':<24}" + "".join(f"{name:>13}" for name in head), end="")
    print("".join(f"{name:>8}" for name in seen))
    for (prices, source), row in sorted(rows.items()):
        print(f"{prices:<10} {source:<24}{row.told()}")
    if isinstance(told, Injected):
        for where, each in told.tokens.items():
            mean, most = sum(each) / len(each), max(each)
            print(f"tokens at the {where} of a request: {mean:.0f}, {most} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
