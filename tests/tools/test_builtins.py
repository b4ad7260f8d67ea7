"""The other builtins: state, search, forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ToolError
from windlass.messages import ToolCall
from windlass.tools.base import ToolContext
from windlass.tools.registry import builtin
from windlass.tools.runner import run_tool
from windlass.tools.searching import web_search
from windlass_data.forecasts import forecast

EXAMPLES = Path(__file__).parents[2] / "examples"


class TestSetState:
    async def test_needs_a_key(self, context: ToolContext) -> None:
        call = ToolCall("1", "set_state", '{"key": " ", "value": 1}')
        assert (await run_tool(builtin().get("set_state"), call, context)).error


def searched(context: ToolContext, query: str, max_results: int = 5) -> str:
    """What a search of the folder alone answers."""
    found = web_search(context, query, max_results)
    assert isinstance(found, str)
    return found


class TestSearch:
    @pytest.fixture
    def corpus(self, context: ToolContext) -> ToolContext:
        return replace(context, search_folder=EXAMPLES / "corpus")

    def test_needs_words(self, corpus: ToolContext) -> None:
        with pytest.raises(ToolError, match="give some words"):
            searched(corpus, ' " ')


def months(values: list[float]) -> str:
    rows = [f"{2020 + at // 12}-{at % 12 + 1:02},{value}" for at, value in enumerate(values)]
    return "\n".join(["month,v", *rows])


class TestForecast:
    def test_continues_a_season_exactly(self, context: ToolContext) -> None:
        wave = [5.0, 9, 1, 7, 3, 3, 8, 2, 6, 4, 0, 10]
        text = forecast(context, file=months(wave * 4), periods=3)
        assert "Method: same place of the season before (12)" in text
        assert "\n2024-01: 5\n2024-02: 9\n2024-03: 1\n" in text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"file": months([1.0, 2, 3])}, "at least 6 points, there are 3"),
            ({"file": months([1.0] * 9), "periods": 0}, "periods must be 1 to 120, not 0"),
            ({"file": "city,v\na,1\n"}, "needs dates or numbers as x; 'city' is text"),
        ],
    )
    def test_refuses_what_it_cannot_do(
        self, context: ToolContext, options: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(ToolError, match=said):
            forecast(context, **options)

    def test_says_that_uneven_dates_are_taken_as_even(self, context: ToolContext) -> None:
        days = [1, 2, 4, 7, 8, 20, 21, 30]
        text = forecast(
            context, file="d,v\n" + "\n".join(f"2024-01-{day:02},{day}" for day in days)
        )
        assert "\n+1: " in text
        assert "the points were taken as evenly spaced" in text


class TestExampleData:
    def test_is_small_and_carries_its_licence(self) -> None:
        folder = EXAMPLES / "data"
        assert sum(each.stat().st_size for each in folder.iterdir()) < 100_000
        assert "MIT License" in (folder / "LICENSE.plotnine").read_text()
        assert "LICENSE.plotnine" in (folder / "README.md").read_text()

    def test_corpus_documents_have_a_title_and_fit_a_page(self) -> None:
        documents = sorted((EXAMPLES / "corpus").glob("*.md"))
        assert 8 <= len(documents) <= 15
        for document in documents:
            text = document.read_text()
            assert text.startswith("# "), document.name
            assert 150 <= len(text.split()) <= 400, document.name
