"""What a wrapped client costs beside the same client as it is, in many users' set-ups.

    python -m bench.bench_wrap [NAME ...] [--all] [--calls N] [--check] [--write]

Each set-up (`bench/wrapping/setups.py`) is a user's program, run twice against servers on loopback
that refuse, cache and bill as the vendors do (`tests/providers/model_server.py`): with a plain
client, and with one that is wrapped. *Plain* is what that user sends without Windlass, with their
own cache marks or without any. Bills are of the input, in US dollars. Cells above 1.01 of plain,
and those with a refusal, are marked `!`.

`--all` adds set-ups that have each pair of values of different attributes. `--check` ends with 1
where a cell is marked. `--write` writes the tables of `docs/figures.md` and `docs/loop.md`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.wrapping.measure import Cell, measure
from bench.wrapping.setups import SETUPS, Setup, cover

_FEW: Final = 10
"""Calls of each of the many set-ups of `--all`."""
DOCS: Final = Path(__file__).parent.parent / "docs"
_BEGINS: Final = "<!-- python -m bench.bench_wrap --write -->\n"
_ENDS: Final = "<!-- end -->"
_TABLE: Final = re.compile(f"{re.escape(_BEGINS)}.*?{_ENDS}", re.DOTALL)
_HEADS: Final = (
    *("set-up", "model", "system prompt", "marks", "tools", "shape", "sent"),
    *("calls", "plain", "wrapped", "share", "refused"),
)
_LOOPS: Final = (
    *("loop", "marked at its end", "loop, bound", "marked at its end, bound"),
    *("loop, chat", "loop, responses", "loop, gemini"),
)
PAGES: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "figures.md": (tuple(SETUPS), _HEADS),
    "loop.md": (_LOOPS, ("model", "marks", "calls", "plain", "wrapped", "share", "refused")),
}
"""The pages that have a table of it: its set-ups and its columns."""


def cells_of(name: str, cell: Cell) -> dict[str, str]:
    """The texts of a row, by their heads."""
    setup = replace(cell.setup, calls=cell.calls)
    bills = f"${cell.plain:.4f}", f"${cell.wrapped:.4f}", f"{cell.share:.1%}".replace("%", " %")
    texts = (name, *setup.columns, str(setup.calls), *bills, str(len(cell.refused)))
    return dict(zip(_HEADS, texts, strict=True))


def page_table(page: str, cells: Mapping[str, Cell]) -> str:
    """The table of a page."""
    names, heads = PAGES[page]
    rows = [[cells_of(name, cells[name])[head] for head in heads] for name in names]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def write_pages(cells: Mapping[str, Cell], folder: Path = DOCS) -> None:
    """Write the tables of all pages, between their marks."""
    for page in PAGES:
        file = folder / page
        before, after = _TABLE.split(file.read_text(encoding="utf-8"))
        file.write_text(f"{before}{_BEGINS}{page_table(page, cells)}{_ENDS}{after}", "utf-8")


def line(name: str, cell: Cell) -> str:
    """A row of the table that is printed."""
    bills = f"{cell.plain:>10.4f}{cell.wrapped:>10.4f}{cell.share:>9.1%}{'!' * cell.fails:2}"
    about = " | ".join(cell.setup.columns)
    return f"{name:34.34}{cell.calls:>6}{bills}{len(cell.refused):>7}  {about}"


def measure_all(setups: Iterable[tuple[str, Setup]]) -> Iterator[tuple[str, Cell]]:
    """Measure set-ups, and print each as soon as it is there."""
    heads = f"{'calls':>6}{'plain $':>10}{'wrapped $':>10}{'share':>9}  {'refused':>7}"
    print(f"{'set-up':34}{heads}")
    for name, setup in setups:
        cell = measure(setup)
        print(line(name, cell), flush=True)
        yield name, cell


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--calls", type=int)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in SETUPS]:
        parser.error(f"no set-up {unknown[0]!r}; there are {', '.join(SETUPS)}")
    if options.write and (options.names or options.calls):
        parser.error("--write needs all set-ups with all their calls")
    setups = {name: SETUPS[name] for name in options.names or SETUPS}
    if options.calls:
        setups = {name: replace(one, calls=options.calls) for name, one in setups.items()}
    if options.all:
        pairs = enumerate(cover(options.calls or _FEW), 1)
        setups |= {f"pairs {number}": setup for number, setup in pairs}
    cells = dict(measure_all(setups.items()))
    worst = max(cells, key=lambda name: cells[name].share)
    failures = [name for name, cell in cells.items() if cell.fails]
    print(f"\nworst: {worst}, {cells[worst].share:.1%} of plain")
    print(f"{len(failures)} of {len(cells)} above 1.01 or refused: {'; '.join(failures) or 'none'}")
    if options.write:
        write_pages(cells)
    return int(options.check and bool(failures))


if __name__ == "__main__":
    sys.exit(main())
