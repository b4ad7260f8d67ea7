"""A chart is drawn from data, and said in words."""

from __future__ import annotations

import builtins
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from windlass.errors import ToolError
from windlass.tools.base import ToolContext, ToolOutput
from windlass_data.charts import create_chart

ROWS: list[Any] = [{"m": "Jan", "v": 3}, {"m": "Feb", "v": 9}, {"m": "Mar", "v": 6}]


def chart(context: ToolContext, data: Any = None, **options: Any) -> ToolOutput:
    """A bar chart of `data` without a title, but for the options."""
    given = {"kind": "bar", "title": "", "file": "" if data is None else json.dumps(data)}
    return create_chart(context, **(given | options))


def pixels(output: ToolOutput) -> Image.Image:
    (drawn,) = output.pictures
    assert drawn.data is not None
    image = Image.open(io.BytesIO(drawn.data)).convert("RGB")
    assert image.size == (drawn.width, drawn.height) == (800, 500)
    return image


def columns_of(image: Image.Image, colour: tuple[int, int, int]) -> int:
    """How many separate groups of columns hold the colour: the number of bars."""
    width, height = image.size
    loaded = image.load()
    assert loaded is not None
    groups, inside = 0, False
    for x in range(width):
        has = any(loaded[x, y] == colour for y in range(height))
        groups += has and not inside
        inside = has
    return groups


BLUE = (31, 119, 180)


class TestPicture:
    @pytest.mark.parametrize("kind", ["bar", "line", "scatter", "pie", "area", "histogram"])
    def test_is_drawn_in_each_form(self, context: ToolContext, kind: Any) -> None:
        drawn = pixels(chart(context, kind=kind, data=ROWS))
        colours = drawn.getcolors(800 * 500)
        assert colours is not None
        assert len(colours) > 20
        assert any(colour == BLUE for _, colour in colours) or kind in ("scatter", "area")

    def test_holds_several_series(self, context: ToolContext) -> None:
        data: list[Any] = [{"m": "a", "v": 1, "w": 5}, {"m": "b", "v": 2, "w": 3}]
        output = chart(context, x="m", y="v, w", data=data)
        assert columns_of(pixels(output), (255, 127, 14)) >= 2
        assert "\nv: min 1 (a)" in output.text
        assert "\nw: min 3 (b)" in output.text


class TestWords:
    def test_say_that_only_the_largest_are_drawn(self, context: ToolContext) -> None:
        data: list[Any] = [{"k": f"k{n}", "v": n} for n in range(90)]
        assert "the 40 largest of 90 are drawn" in chart(context, data=data).text
        pie = chart(context, kind="pie", data=data).text
        assert "the 82 smallest parts are drawn as 'other'" in pie


class TestSources:
    @pytest.mark.parametrize("file", ["shop.sqlite:orders", "shop.sqlite", "shop.orders"])
    def test_are_tables_of_sqlite_files(self, context: ToolContext, file: str) -> None:
        text = chart(context, file=file, x="id", y="price").text
        assert "Data: shop.sqlite:orders, x = id, 2 points" in text

    def test_are_the_only_file_where_none_is_named(self, context: ToolContext, root: Path) -> None:
        with pytest.raises(ToolError, match=r"name a file; tables: shop.orders"):
            chart(context)
        (root / "shop.sqlite").unlink()
        assert "data/sales.csv is the only one there" in chart(context).text

    @pytest.mark.parametrize(
        ("file", "said"),
        [
            ("../secret.csv", "outside the allowed folder"),
            ("data/leak.csv", "outside the allowed folder"),
            ("data/sale.csv", "did you mean 'sales.csv'"),
            ("notes.md", "names no table"),
            ("shop.sqlite:nothing", "names no table"),
        ],
    )
    def test_that_are_none_are_named(self, context: ToolContext, file: str, said: str) -> None:
        with pytest.raises(ToolError, match=said):
            chart(context, file=file)

    def test_may_hold_numbers_as_text(self, context: ToolContext) -> None:
        data: list[Any] = [{"x": "a", "y": "1.5"}, {"x": "b", "y": ""}, {"x": "c", "y": "2"}]
        assert "sum 3.5" in chart(context, data=data).text

    @pytest.mark.parametrize("text", ["[1, 2]", "[{]", "a,b\n", "[]"])
    def test_of_text_that_holds_no_rows_are_refused(self, context: ToolContext, text: str) -> None:
        with pytest.raises(ToolError, match=r"rows|names no table|no file"):
            chart(context, file=text)


TAXED: Any = [{"name": "a", "Net Sales": 1, "tax": 2}]


class TestColumns:
    @pytest.mark.parametrize("y", ["Net Sales", "net_sales", "NetSales", "net sale"])
    def test_are_found_when_nearly_right(self, context: ToolContext, y: str) -> None:
        assert "\nNet Sales: min 1 (a)" in chart(context, y=y, data=TAXED).text

    def test_that_are_unknown_name_the_known(self, context: ToolContext) -> None:
        with pytest.raises(ToolError, match="no column 'price' for y; known: Net Sales, name, tax"):
            chart(context, y="price", data=TAXED)

    def test_of_text_are_no_y(self, context: ToolContext) -> None:
        with pytest.raises(
            ToolError, match="y column 'name' is text; columns of numbers: Net Sales"
        ):
            chart(context, y="name", data=TAXED)

    def test_of_numbers_only_use_the_first_as_x(self, context: ToolContext) -> None:
        data: list[Any] = [{"year": 2001, "n": 5}, {"year": 2000, "n": 4}]
        text = chart(context, kind="line", data=data).text
        assert "x = year, 2 points from 2000 to 2001" in text
        assert "Values: 4 (2000), 5 (2001)" in text

    def test_that_stand_alone_are_numbered(self, context: ToolContext) -> None:
        text = chart(context, data=[{"n": 5}, {"n": 4}]).text
        assert "x was not given; it is the number of the row" in text


class TestLimits:
    def test_a_pie_takes_no_negative_parts(self, context: ToolContext) -> None:
        with pytest.raises(ToolError, match="a pie needs positive numbers"):
            chart(context, kind="pie", data=[{"a": "x", "b": -1}])

    def test_without_matplotlib_say_how_to_get_it(
        self, context: ToolContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = builtins.__import__

        def missing(name: str, *rest: Any) -> Any:
            if name.partition(".")[0] in ("matplotlib", "duckdb"):
                raise ModuleNotFoundError(name=name)
            return real(name, *rest)

        monkeypatch.setattr(builtins, "__import__", missing)
        with pytest.raises(ToolError, match=r"needs matplotlib: pip install 'windlass\[tools\]'"):
            chart(context, data=ROWS)
        with pytest.raises(ToolError, match=r"needs DuckDB: pip install 'windlass\[tools\]'"):
            chart(context, file="sales.csv")
