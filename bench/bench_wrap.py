"""What a wrapped client costs beside the same client as it is, in many users' set-ups.

    python -m bench.bench_wrap [NAME ...] [--all] [--calls N] [--check] [--write]

Each set-up (`bench/wrapping/setups.py`) is a user's program, run twice against servers on loopback
that refuse, cache and bill as the vendors do (`tests/providers/model_server.py`): with a plain
client, and with one that is wrapped. *Plain* is what that user sends without Windlass, with their
own cache marks or without any. Bills are of the input, in US dollars. Cells above 1.01 of plain are
marked `!`.

`--all` adds set-ups that have each pair of values of different attributes. `--check` ends with 1
where a cell is above 1.01, or anything was refused. `--write` writes the tables
of `docs/figures.md` and `docs/loop.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from bench.wrapping.measure import Cell, measured
from bench.wrapping.setups import SETUPS, Setup, covering

_FEW = 10
"""Calls of each of the many set-ups of `--all`."""


def line(name: str, cell: Cell) -> str:
    """A row of the table."""
    bills = f"{cell.plain:>10.4f}{cell.wrapped:>10.4f}{cell.share:>9.1%}{'!' * cell.fails:2}"
    return f"{name:34.34}{cell.calls:>6}{bills}{len(cell.refused):>7}  {cell.setup}"


def table(setups: Iterable[tuple[str, Setup]]) -> Iterator[tuple[str, Cell]]:
    """Measure set-ups, and print each as soon as it is there."""
    heads = f"{'calls':>6}{'plain $':>10}{'wrapped $':>10}{'share':>9}  {'refused':>7}"
    print(f"{'set-up':34}{heads}")
    for name, setup in setups:
        cell = measured(setup)
        print(line(name, cell), flush=True)
        yield name, cell


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--calls", type=int)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in SETUPS]:
        parser.error(f"no set-up {unknown[0]!r}; there are {', '.join(SETUPS)}")
    if unknown := [name for name in given.names if name not in SETUPS]:
        parser.error(f"no set-up {unknown[0]!r}; there are {', '.join(SETUPS)}")
    chosen = {name: SETUPS[name] for name in given.names or SETUPS}
    if given.calls:
        chosen = {name: replace(one, calls=given.calls) for name, one in chosen.items()}
    if given.all:
        pairs = enumerate(covering(given.calls or _FEW), 1)
        chosen |= {f"pairs {number}": setup for number, setup in pairs}
    cells = list(table(chosen.items()))
    worst, cell = max(cells, key=lambda one: one[1].share)
    failing = [name for name, one in cells if one.fails]
    print(f"\nworst: {worst}, {cell.share:.1%} of plain")
    print(f"{len(failing)} of {len(cells)} above 1.01 or refused: {', '.join(failing) or 'none'}")
    return int(given.check and bool(failing))


if __name__ == "__main__":
    sys.exit(main())
