"""HTML pages: self-contained, without a script, all escaped, figures with names."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import jinja2
import pytest

from windlass.report.page import _environment as environment
from windlass.report.page import page

BARS = """{% extends "base.html" %}{% import "figures.html" as figures %}{% block body %}
{{ figures.bars("tokens", ["fresh", "read"], rows) }}
{{ figures.lines("tokens by call", "call", [("sent", amounts)], text) }}
{% endblock %}"""


def made(**values: object) -> str:
    return environment().from_string(BARS).render(title="<b>", text="{:,}".format, **values)


def tags(text: str, name: str) -> list[ET.Element]:
    return [one for svg in re.findall(r"(?s)<svg.*?</svg>", text) for one in parsed(svg, name)]


def parsed(svg: str, name: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(name))


def test_a_page_stands_alone_and_escapes_every_value() -> None:
    text = made(rows=[("<i>", [3, 1], "4 & more")], amounts=[1, 2])
    assert "<i>" not in text
    assert "<title>&lt;b&gt;</title>" in text
    assert "4 &amp; more" in text
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)=["'](?!data:)|@import|url\(""", text)


def test_bars_are_as_long_as_their_amounts_and_named() -> None:
    text = made(rows=[("a", [300, 100], "400"), ("b", [50, 150], "200")], amounts=[1])
    rects = tags(text, "rect")
    assert [float(rect.attrib["width"]) for rect in rects] == [750, 250, 125, 375]
    assert [float(rect.attrib["x"]) for rect in rects] == [0, 750, 0, 125]
    assert [title.text for title in tags(text, "title")][:2] == ["a: 400", "b: 200"]
    assert '<span class="key c1"></span>fresh' in text


def test_a_line_ends_at_its_amounts() -> None:
    text = made(rows=[("a", [0, 0], "0")], amounts=[0, 50, 100])
    points = tags(text, "polyline")[0].attrib["points"].split()
    assert [tuple(map(float, point.split(","))) for point in points] == [
        *((0, 100), (500, 50.5), (1000, 1))
    ]
    assert "tokens by call, from call 1 to 3, at most 100" in text


@pytest.mark.parametrize("amounts", [[], [0], [7]])
def test_few_or_no_amounts_make_a_figure_too(amounts: list[int]) -> None:
    assert len(tags(made(rows=[("a", [0], "-")], amounts=amounts), "polyline")) == 1


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_place() -> None:
    with pytest.raises(jinja2.UndefinedError):
        "".join(page("base.html", {}))
