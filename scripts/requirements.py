"""Print which test shows which requirement; exit 1 while a delivered part lacks one.

    python scripts/requirements.py [PART ...]

Lists the rows of the delivered parts (or of the parts named), each with the tests
that carry its id, and the rows of part `design` that have tests. Parts that are
not delivered are only counted.
"""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.requirements_plugin import (  # noqa: E402 - needs the line above
    Row,
    read_delivered,
    read_rows,
    shown_by,
)


class _Collected:
    """Keeps what pytest collected."""

    items: Sequence[pytest.Item] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def collect() -> Mapping[str, list[str]]:
    """From a row's id to its tests. Ends the program where none can be collected."""
    collected, said = _Collected(), io.StringIO()
    arguments = ["--collect-only", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    with redirect_stdout(said):
        ended = pytest.main(arguments, plugins=[collected])
    if ended is not pytest.ExitCode.OK:
        sys.exit(f"{said.getvalue()}\nthe tests could not be collected, see above")
    return shown_by(collected.items)


def rows_of(part: str, rows: Iterable[Row]) -> list[Row]:
    """The rows that `part` carries, alone or with others."""
    return [row for row in rows if part in row.parts]


def print_rows(part: str, rows: Iterable[Row], shown: Mapping[str, list[str]], width: int) -> None:
    """One line a row: part, id, text, first test; further tests below it."""
    rows = list(rows)
    longest = max((len(test) for row in rows for test in shown.get(row.id, ())), default=0)
    room = max(30, width - len(part) - longest - 12)
    for row in rows:
        text = textwrap.shorten(row.text, room, placeholder="...")
        first, *more = shown.get(row.id) or ["- no test"]
        head = f"{part}  {row.id:<6}  {text:<{room}}"
        print(f"{head}  {first}")
        for test in more:
            print(f"{'':<{len(head)}}  {test}")


def main(chosen: list[str]) -> int:
    """Print the tables; 1 where a delivered part is incomplete, 2 for an unknown part."""
    rows, delivered, shown = read_rows(ROOT), read_delivered(ROOT), collect()
    parts = list(dict.fromkeys(part for row in rows for part in row.parts))
    unknown = [part for part in chosen if part not in parts]
    if unknown:
        print(f"unknown part {unknown[0]!r}; known: {', '.join(parts)}", file=sys.stderr)
        return 2
    width = shutil.get_terminal_size((120, 24)).columns
    for part in chosen or delivered:
        print_rows(part, rows_of(part, rows), shown, width)
        print()
    incomplete = False
    for part in parts:
        carried = rows_of(part, rows)
        done = sum(row.id in shown for row in carried)
        lacking = part in delivered and done < len(carried)
        incomplete |= lacking
        state = "delivered, INCOMPLETE" if lacking else "delivered"
        print(
            f"{part:<10} {done:>3}/{len(carried):<3} {state if part in delivered else ''}".rstrip()
        )
    return int(incomplete)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
