"""Tables with room are laid out as rich lays them out, in a fraction of its time."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table as RichTable
from rich.text import Text

from windlass.cli import output, printed_tables
from windlass.safety.escaping import escaped
from windlass.text.cell_tables import CellTable, NumberCell

CELLS = st.one_of(
    st.text("ab ,1\n\t\x1b日é", max_size=30),
    st.sampled_from(["1,234", "word by word " * 9, "x" * 90, "", "日本" * 30]),
)


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4),
    right=st.sets(st.integers(0, 2)),
    whole=st.sets(st.just(1)),
)
def test_where_nothing_is_folded_a_table_is_what_rich_makes_of_it(
    rows: Sequence[tuple[str, str, str]], right: set[int], whole: set[int]
) -> None:
    columns = ["name", "tokens in", "why"]
    expected = RichTable(title="\ntitle", title_justify="left", pad_edge=False, box=None)
    for at, column in enumerate(columns):
        justify = "right" if at in right else "left"
        expected.add_column(column, justify=justify, overflow="fold", no_wrap=at in whole)  # type: ignore[arg-type]
    for row in rows:
        expected.add_row(*(Text(escaped(cell)) for cell in row))
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        for at in range(2):
            screen = output.Screen(width=600, file=io.StringIO())
            patch.setattr(printed_tables, "out", screen)
            if at:
                screen.print(expected, soft_wrap=False)
            else:
                cells = [
                    [NumberCell(cell) if at in right else cell for at, cell in enumerate(row)]
                    for row in rows
                ]
                heads = [column for at, column in enumerate(columns) if at in whole]
                printed_tables.print_table(CellTable(columns, cells), "\ntitle", whole=heads)
            printed.append(screen.file.getvalue())  # type: ignore[attr-defined]
    lines = [[line.rstrip() for line in text.split("\n")] for text in printed]
    assert lines[0] == lines[1]
    assert printed[0].split("\n") == lines[0]  # no blanks at the ends
