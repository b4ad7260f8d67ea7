"""Start-up: `import windlass` and `windlass --help`, beside the bare interpreter.

Run: python bench/bench_startup.py [--runs 11] [--json]

Whole processes, timed one after the other in turn so that a drifting machine
drifts for all of them; medians are printed. The bars of the design are 0.15 s for
the import and 0.20 s for the help page, interpreter included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import windlass": [sys.executable, "-c", "import windlass"],
    "from windlass import Cascade": [sys.executable, "-c", "from windlass import Cascade"],
    "windlass --help": [str(Path(sys.executable).with_name("windlass")), "--help"],
    "windlass schema": [str(Path(sys.executable).with_name("windlass")), "schema"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the start of the import and the commands.")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(options.runs + 1):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if number:  # the first round warms the file cache
                seconds[name].append(time.perf_counter() - started)
    rows = {
        name: {
            "median_s": statistics.median(times),
            "min_s": min(times),
            "max_s": max(times),
        }
        for name, times in seconds.items()
    }
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"Start-up, {options.runs} runs each, whole processes, seconds")
    print(f"{'command':<30} {'median':>8} {'min':>8} {'max':>8}")
    for name, row in rows.items():
        print(f"{name:<30} {row['median_s']:8.3f} {row['min_s']:8.3f} {row['max_s']:8.3f}")


if __name__ == "__main__":
    main()
