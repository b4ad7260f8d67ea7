"""Numbers before lines are found in whole texts as they are in single lines."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from windlass.window.encode.gutters import bare_lines, moved, number_of

SIGNS = st.sampled_from("→\t:|")
LINES = st.one_of(
    st.text("ab 1→\t:|", max_size=8),
    st.builds("{:>{}}{}{}".format, st.integers(0, 2_000), st.integers(1, 6), SIGNS, st.text("a1:")),
)


def bare(line: str) -> str:
    return re.sub(r"^ *\d+(?:→|\t|:|\|)", "", line)


@given(st.lists(LINES, min_size=1, max_size=9))
def test_a_text_is_as_its_lines_are(lines: list[str]) -> None:
    numbered = [one for one in lines if bare(one) != one]
    shown = bare_lines("\n".join(lines))
    assert shown == ([bare(one) for one in lines] if numbered else lines)
    assert [one for one in lines if number_of(one) is not None] == numbered


@given(LINES, st.integers(1, 2_000))
def test_a_number_that_was_raised_is_read_back(line: str, by: int) -> None:
    number = number_of(line)
    assert number_of(moved(line, by)) == (None if number is None else number + by)
    assert bare(moved(line, by)) == bare(line)
