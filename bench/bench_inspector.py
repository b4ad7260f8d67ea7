"""How long the matrix of a long session takes, and how large it is.

    python -m bench.bench_inspector [--runs N] [--folder FOLDER]

The session has 1,000 calls that were sent up to 2,000 messages (`bench_reading.LOOP`). Writing it
takes a minute; with `--folder` it is kept there and found again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.bench_reading import LOOP

from windlass.history.places import open_place
from windlass.report.calls import SessionRecord
from windlass.report.matrix import cell_text, matrix_of
from windlass_inspector._matrix_page import matrix_png, matrix_section

_Made = TypeVar("_Made")


def timed(what: str, runs: int, make: Callable[[], _Made], size: Callable[[_Made], int]) -> _Made:
    """Print the median of some runs, in processor time, and the size of what is made; return it."""
    taken = []
    made = make()  # the first time imports and templates are loaded, too
    for _ in range(runs):
        start = time.process_time()
        made = make()
        taken.append(time.process_time() - start)
    print(f"{what:36} {statistics.median(taken) * 1_000:7.1f} {size(made):10,}", flush=True)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="a folder in which the session is kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = (given.folder or Path(temporary)).absolute() / LOOP.name
        if not place.exists():
            LOOP.write(str(place))
        with open_place(place, {}, existing=True) as store:
            print(f"{'':36} {'ms':>7} {'bytes':>10}")
            runs = given.runs
            record = timed(
                "session read from its store",
                runs,
                lambda: SessionRecord(store, LOOP.name),
                lambda _: sum(each.stat().st_size for each in place.rglob("*") if each.is_file()),
            )
            costs = {number: 0.01 for number, _ in enumerate(record.sent_calls, start=1)}
            matrix = timed(
                "matrix", runs, lambda: matrix_of(record, costs), lambda made: len(made.cells)
            )
            timed(
                "what became of each, in words",
                runs,
                matrix.told,
                lambda told: sum(map(len, told)),
            )
            timed("picture, PNG", runs, lambda: matrix_png(matrix), len)
            timed(
                "section of the page, HTML",
                runs,
                lambda: matrix_section(matrix, "/session/loop"),
                len,
            )
            timed("text of a cell", runs, lambda: cell_text(record, matrix, 1_000, 700), len)
            size = f"{len(matrix.columns):,} calls by {len(matrix.rows):,} messages"
            print(f"{size}, Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
