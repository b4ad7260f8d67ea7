"""HTML pages: self-contained, without a script, all escaped, figures with names."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from windlass.report.page import _environment as environment

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


@pytest.mark.parametrize("amounts", [[], [0], [7]])
def test_few_or_no_amounts_make_a_figure_too(amounts: list[int]) -> None:
    assert len(tags(made(rows=[("a", [0], "-")], amounts=amounts), "polyline")) == 1
