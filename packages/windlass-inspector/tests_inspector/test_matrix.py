"""The matrix as a page shows it: its picture, its colours, its HTML."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.report.matrix import CALLS, Cell, Matrix, MatrixColumn, MatrixRow
from windlass_inspector._matrix_page import DARK, LIGHT, matrix_png, matrix_section

CSS = (files("windlass_inspector") / "static" / "matrix.css").read_text()
SCRIPT = (files("windlass_inspector") / "static" / "inspector.js").read_text()
HOSTILE = "<script>alert(1)</script>\u202e\" onload='x'"


def matrix(
    cells: list[list[Cell]], *, first: int = 1, calls: int | None = None, **more: Any
) -> Matrix:
    """A matrix of these cells."""
    width = len(cells[0]) if cells else 0
    return Matrix(
        more.get("name", "s"),
        tuple(
            MatrixRow(f"m{at}", "the reply", more.get("phase", "a"), at, 10 * at)
            for at in range(len(cells))
        ),
        tuple(MatrixColumn(first + at, "a", at, more.get("dollars", 0.5)) for at in range(width)),
        b"".join(bytes(row) for row in cells),
        width if calls is None else calls,
        more.get("left_out", 0),
    )


EVERY = [list(Cell), [*reversed(Cell)]]


class Tags(HTMLParser):
    """The tags of a page, each with its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def grid(self) -> dict[str, str | None]:
        return next(each for each in self.of("div") if each.get("id") == "matrix-grid")


def lightness(colour: str) -> float:
    """L* of a colour `#rrggbb`, from 0 (black) to 100 (white)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    y = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


class TestThePicture:
    def test_has_a_pixel_for_each_cell_in_the_colours_of_the_scheme(self) -> None:
        image = pytest.importorskip("PIL.Image")
        for dark, colours in ((False, LIGHT), (True, DARK)):
            read = image.open(io.BytesIO(matrix_png(matrix(EVERY), dark=dark))).convert("RGBA")
            for at, cell in enumerate(Cell):
                *rgb, alpha = read.getpixel((at, 0))
                assert bytes(rgb).hex() == colours[cell][1:]
                assert alpha == (0 if cell == Cell.ABSENT else 255)
                assert read.getpixel((len(Cell) - 1 - at, 1)) == (*rgb, alpha)


class TestColours:
    @pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
    def test_differ_in_lightness(self, colours: dict[Cell, str]) -> None:
        for one, other in combinations(colours.values(), 2):
            assert abs(lightness(one) - lightness(other)) > 5, (one, other)

    def test_of_the_legend_are_those_of_the_picture(self) -> None:
        light, dark = CSS.split("prefers-color-scheme: dark", 1)
        for scheme, colours in ((light, LIGHT), (dark, DARK)):
            found = dict(re.findall(r"--cell-(\d): (#[0-9a-f]{6})", scheme))
            assert found == {str(int(cell)): colours[cell] for cell in Cell if cell}
        for cell in Cell:
            assert not cell or f".cell-{cell} rect {{ fill: var(--cell-{cell}) }}" in CSS


class TestTheSection:
    def test_says_all_without_the_script(self) -> None:
        page = Tags(matrix_section(matrix(EVERY), "/session/s"))
        assert page.grid["role"] == "img"
        assert page.grid["aria-label"] == "2 messages by 9 calls"
        for cell in Cell:
            assert cell.words in page.text
        assert "shown 2, digested 3, masked 4, folded 5" in page.text
        assert "at most $0.5000, call 1" in page.text
        assert "at most 10 tokens, message 2" in page.text
        (image,) = page.of("img")
        assert (image["width"], image["height"]) == (str(9 * 24), str(2 * 14))
        assert image["src"] == "/session/s/matrix.png?first=1"

    def test_has_nothing_that_the_security_policy_forbids(self) -> None:
        html = matrix_section(matrix(EVERY, phase=HOSTILE, name=HOSTILE), "/session/s")
        page = Tags(html)
        assert {"script", "style", "link", "iframe"}.isdisjoint(name for name, _ in page.tags)
        named = [name for _, attributes in page.tags for name in attributes]
        assert not [name for name in named if name == "style" or name.startswith("on")]
        assert "<script>" in page.text
        assert "\u202e" not in html
        idents = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(idents) == len(set(idents))

    def test_has_what_the_script_looks_for(self) -> None:
        page = Tags(matrix_section(matrix(EVERY), "/session/s"))
        idents = {attributes.get("id") for _, attributes in page.tags}
        for ident in re.findall(r'getElementById\("([\w-]+)"\)', SCRIPT):
            assert ident in idents
        cursor = [each for each in page.of("svg") if each.get("class") == "matrix-cursor"]
        assert len(cursor) == 1
        assert len([each for each in page.of("rect") if "class" in each]) == 4
        given = {name.removeprefix("data-") for name in page.grid if name.startswith("data-")}
        assert given == {"rows", "columns", "first", "width", "height", "cells", "calls"}
        assert page.grid["data-cells"] == "/session/s/cell"

    def test_of_many_calls_leads_to_the_others(self) -> None:
        part = matrix(EVERY, first=CALLS + 1, calls=3 * CALLS, left_out=7)
        page = Tags(matrix_section(part, "/session/s"))
        links = [each["href"] for each in page.of("a")]
        assert links == ["/session/s/matrix?first=1", f"/session/s/matrix?first={CALLS + 10}"]
        assert "calls 1,001 to 1,009 of 3,000; 7 older messages are left out" in page.text

    def test_of_no_call_says_so(self) -> None:
        page = Tags(matrix_section(matrix([]), "/session/s"))
        assert "no call of this session is recorded" in page.text
        assert not page.of("img")

    def test_without_a_price_has_no_bars_and_says_so(self) -> None:
        page = Tags(matrix_section(matrix(EVERY, dollars=None), "/session/s"))
        assert "No call has a price." in page.text
        assert "$" not in page.text

    @given(rows=st.integers(1, 2_500), columns=st.integers(1, 1_000), first=st.integers(1, 5_000))
    def test_numbers_at_the_edges_stand_inside_and_apart(
        self, rows: int, columns: int, first: int
    ) -> None:
        empty = Matrix(
            "s",
            tuple(MatrixRow("m", "the reply", "a", 1, 1) for _ in range(rows)),
            tuple(MatrixColumn(first + at, "a", 1, 0.5) for at in range(columns)),
            bytes(rows * columns),
            first + columns,
            0,
        )
        page = Tags(matrix_section(empty, "/session/s"))
        (picture,) = page.of("img")
        above = [float(each["x"] or "") for each in page.of("text") if each["x"] != "48"]
        beside = [float(each["y"] or "") for each in page.of("text") if each["x"] == "48"]
        for places, size in ((above, picture["width"]), (beside, picture["height"])):
            assert all(0 <= place <= float(size or "") for place in places)
            assert all(b - a >= 14 for a, b in pairwise(places))
