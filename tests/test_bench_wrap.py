"""A wrapped client never costs more than a plain one: named set-ups, and any others."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from bench.bench_wrap import DOCS, PAGES, cells_of, line, main, write_pages
from bench.wrapping.measure import BAR, Cell, measure
from bench.wrapping.setups import SETUPS, Setup, cover, draw
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

FEW = 8
WHOLE = {
    "the time behind the mark": 0.3101,
    "twenty documents": 0.3084,
    "short results, marked": 0.0334,
}
"""What a plain client costs with all calls of a set-up, in US dollars."""
LOOPS = {"loop": 8, "loop, bound": 12, "loop, chat": 9, "loop, responses": 10, "loop, gemini": 13}
"""The most that a wrapped client may cost in loops without marks of the user's, as a percentage of
the loop with a mark at its end."""
MARKED_AT_ITS_END = {"loop": "marked at its end", "loop, bound": "marked at its end, bound"}
CHEAP = ("loop, bound", "questions, responses", "short results")


def check(cell: Cell) -> None:
    """Nothing was refused, and it costs at most what it may."""
    assert cell.refused == ()
    assert cell.share <= BAR, line("", cell)


@pytest.mark.parametrize(
    "name",
    [
        *("marked at its end, bound", "an hour, then minutes", "the time in the mark"),
        *("questions, marked", "tools that change", "interleaved", "history cut off, gemini"),
        *("searches that pause", "breakpoints of the user's", "short results, tools change"),
    ],
)
def test_a_wrapped_client_costs_no_more(name: str) -> None:
    check(measure(replace(SETUPS[name], calls=FEW)))


@pytest.mark.parametrize("name", WHOLE)
def test_nor_does_it_with_all_calls(name: str) -> None:
    cell = measure(SETUPS[name])
    assert cell.plain == pytest.approx(WHOLE[name], abs=1e-4)
    check(cell)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_stay_as_cheap_as_they_were(name: str) -> None:
    cell = measure(SETUPS[name])
    assert cell.calls == 26
    plain = measure(SETUPS[MARKED_AT_ITS_END[name]]).plain if name in MARKED_AT_ITS_END else 0.0
    assert round(100 * cell.wrapped / (plain or cell.plain)) <= LOOPS[name]


@given(st.integers(0, 2**32))
# The same set-ups everywhere: of those drawn at random one in 150 costs up to half a
# cent more, around the shortest prefix that is cached (design/decisions.md).
@settings(max_examples=25, phases=(Phase.explicit, Phase.generate), derandomize=True)
def test_nor_does_it_in_any_other_set_up(seed: int) -> None:
    setup = draw(random.Random(seed), FEW)
    note(str(setup))
    check(measure(setup))


class TestSetups:
    def test_two_values_or_more_of_each_attribute_are_named(self) -> None:
        named = list(SETUPS.values())
        assert len(named) >= 14
        assert all(setup.makes_sense() for setup in named)
        assert len(set(named)) == len(named)
        for at in range(6):
            assert len({setup.columns[at] for setup in named}) > 2

    def test_the_others_have_each_pair_of_values(self) -> None:
        few = set(cover(FEW))
        assert all(setup.makes_sense() for setup in few)
        one = draw(random.Random(5), FEW)
        pairs = {(setup.model, setup.shape) for setup in few}
        assert (one.model, one.shape) in pairs
        assert {setup.transport for setup in few} == {"plain", "streamed", "raw", "async"}

    @pytest.mark.parametrize(
        "setup",
        [
            Setup("gpt-5", "chat", marks="last"),
            Setup("gpt-5", "anthropic"),
            Setup("claude-sonnet-5", form="text", marks="system"),
            Setup("claude-sonnet-5", tools="none", marks="tools"),
            Setup("claude-sonnet-5", form="none", changes="end"),
            Setup("gemini-2.5-flash", "gemini", transport="raw"),
        ],
    )
    def test_what_no_user_sends_makes_no_sense(self, setup: Setup) -> None:
        assert not setup.makes_sense()


class TestTables:
    def test_a_cell_above_the_bar_ends_the_check_with_1(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for wrapped, refused, status in ((1.0, (), 0), (1.02, (), 1), (0.5, ("no",), 1)):
            cell = Cell(SETUPS["loop"], 26, 1.0, wrapped, refused)
            monkeypatch.setattr("bench.bench_wrap.measure", lambda _, cell=cell: cell)
            assert main(["loop", "--check"]) == status
            printed_text = capsys.readouterr().out
            assert ("!" in printed_text.splitlines()[1]) == bool(status)
            assert f"worst: loop, {wrapped:.1%}" in printed_text
        assert main(["loop"]) == 0

    def test_pages_have_all_rows_and_the_figures_of_today(self) -> None:
        rows = {page: rows_of(page) for page in PAGES}
        for page, (names, heads) in PAGES.items():
            assert [len(row) for row in rows[page]] == [len(heads)] * len(names)
        names, heads = PAGES["figures.md"]
        by_name = dict(zip(names, rows["figures.md"], strict=True))
        for name in names:
            description = (name, *SETUPS[name].columns)
            assert by_name[name][: len(description)] == list(description)
        for name in CHEAP:
            printed = cells_of(name, measure(SETUPS[name]))
            assert by_name[name] == [printed[head] for head in heads]
        loops = PAGES["loop.md"]
        for name, row in zip(loops[0], rows["loop.md"], strict=True):
            assert row == [by_name[name][heads.index(head)] for head in loops[1]]

    def test_they_are_written_between_their_marks(self, tmp_path: Path) -> None:
        cells = {name: Cell(one, one.calls, 1.0, 0.25, ()) for name, one in SETUPS.items()}
        for page in PAGES:
            (tmp_path / page).write_text((DOCS / page).read_text("utf-8"), "utf-8")
        for _ in range(2):
            write_pages(cells, tmp_path)
            for page, (names, _heads) in PAGES.items():
                text = (tmp_path / page).read_text("utf-8")
                assert text.count("| 25.0 % | 0 |") == len(names)
                assert text.splitlines()[-1] == (DOCS / page).read_text("utf-8").splitlines()[-1]


def rows_of(page: str) -> list[list[str]]:
    """The rows of the table of a page, by columns."""
    text = (DOCS / page).read_text(encoding="utf-8")
    table = text.split("<!-- python -m bench.bench_wrap --write -->\n")[1].split("<!-- end -->")[0]
    return [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
