"""Prices out of the offline table, and bills computed by hand."""

from __future__ import annotations

import asyncio
import re
from datetime import date

import pytest

from windlass import prices
from windlass.errors import UsageError
from windlass.prices import (
    Override,
    Rate,
    bill_stream,
    cost,
    override,
    rate,
    split_model,
    table_date,
)


def test_known_prices() -> None:
    # anthropic.com/pricing: Claude Sonnet 4.5, dollars a million tokens up to 200K
    sonnet = rate("anthropic/claude-sonnet-4-5")
    assert sonnet is not None
    assert (sonnet.input, sonnet.output) == (3.0, 15.0)
    assert (sonnet.cache_read, sonnet.cache_write) == (0.3, 3.75)
    assert sonnet.window
    assert sonnet.window >= 200_000


def test_no_price_for_writing_means_the_plain_one() -> None:
    # OpenAI bills what it caches as plain input and half of it when it is read.
    gpt = rate("openai/gpt-4o")
    assert gpt is not None
    assert (gpt.input, gpt.cache_read, gpt.cache_write) == (2.5, 1.25, 2.5)


def test_gemini_is_found_under_its_vendor() -> None:
    flash = rate("gemini/gemini-2.5-flash")
    assert flash is not None
    assert (flash.input, flash.output) == (0.3, 2.5)


@pytest.mark.parametrize("name", ["openai/no-such-model", "nobody/gpt", "local/smollm2"])
def test_an_unknown_model_has_no_price_rather_than_none_to_pay(name: str) -> None:
    assert rate(name) is None
    assert cost(name, 1_000, 100) is None


def test_cost_by_hand() -> None:
    name = "anthropic/claude-sonnet-4-5"
    # 600 fresh at 3, 400 read at 0.3, 100 out at 15 dollars a million
    by_hand = (600 * 3 + 400 * 0.3 + 100 * 15) / 1e6
    assert cost(name, 1_000, 100, 400) == pytest.approx(by_hand)
    assert cost(name, 1_000, 100) == pytest.approx((1_000 * 3 + 100 * 15) / 1e6)
    assert cost(name, 0, 0) == 0


def test_what_was_written_to_a_cache_costs_what_writing_costs() -> None:
    # 300 fresh at 3, 400 read at 0.3, 300 written at 3.75, 100 out at 15 dollars a million
    by_hand = (300 * 3 + 400 * 0.3 + 300 * 3.75 + 100 * 15) / 1e6
    assert cost("anthropic/claude-sonnet-4-5", 1_000, 100, 400, 300) == pytest.approx(by_hand)
    # OpenAI's older models have no price for writing: it is input
    assert cost("openai/gpt-4o", 1_000, 0, 400, 300) == cost("openai/gpt-4o", 1_000, 0, 400)


def test_more_cached_or_written_than_sent_is_never_billed() -> None:
    name = "anthropic/claude-sonnet-4-5"
    assert cost(name, 100, 0, 900, 900) == pytest.approx(100 * 0.3 / 1e6)
    assert cost(name, 100, 0, 40, 900) == pytest.approx((40 * 0.3 + 60 * 3.75) / 1e6)


def test_long_contexts_have_a_tier_of_their_own() -> None:
    # Gemini 2.5 Pro: 1.25 dollars a million tokens up to 200,000, 2.50 beyond
    name = "gemini/gemini-2.5-pro"
    assert cost(name, 100_000, 0) == pytest.approx(0.125)
    assert cost(name, 300_000, 0) == pytest.approx(0.75)


class TestOverride:
    OWN = Override(input=1.0, output=2.0, cache_read=0.1, cache_write=1.5)

    def test_goes_before_the_table_and_only_meanwhile(self) -> None:
        name = "anthropic/claude-sonnet-4-5"
        listed = rate(name)
        assert listed is not None
        with override({name: self.OWN}):
            own = rate(name)
            assert own == Rate(name, 1.0, 2.0, 0.1, 1.5, listed.window)
            by_hand = (300 * 1 + 400 * 0.1 + 300 * 1.5 + 100 * 2) / 1e6
            assert cost(name, 1_000, 100, 400, 300) == pytest.approx(by_hand)
            assert rate("openai/gpt-4o") is not None
        assert rate(name) == listed

    def test_prices_a_model_that_no_table_has(self) -> None:
        assert cost("mine/m", 1_000, 0) is None
        with override({"mine/m": Override(input=1.0, output=2.0)}):
            assert cost("mine/m", 1_000_000, 0, 500_000, 200_000) == pytest.approx(1.0)
            assert rate("mine/m") == Rate("mine/m", 1.0, 2.0, 1.0, 1.0, None)
            assert cost("mine/other", 1_000, 0) is None
        with override({"mine/m": Override(input=0.0, output=0.0)}):
            assert cost("mine/m", 1_000, 10) == 0  # said, not assumed

    async def test_holds_for_one_run_and_not_for_the_one_beside_it(self) -> None:
        seen: dict[str, float | None] = {}

        async def one(name: str, price: float) -> None:
            with override({"mine/m": Override(input=price, output=0.0)}):
                await asyncio.sleep(0)
                seen[name] = cost("mine/m", 1_000_000, 0)

        await asyncio.gather(one("a", 1.0), one("b", 2.0))
        assert seen == {"a": 1.0, "b": 2.0}


def test_dated_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenAI cut o3 from 10 to 2 dollars on 10 June 2025.
    for day, dollars in ((date(2025, 6, 9), 10.0), (date(2025, 6, 10), 2.0)):
        monkeypatch.setattr(prices, "_today", lambda day=day: day)
        prices._listed.cache_clear()
        found = rate("openai/o3")
        assert found is not None
        assert found.input == dollars
    prices._listed.cache_clear()


@pytest.mark.parametrize("name", ["gpt-4o", "/gpt-4o", "openai/", ""])
def test_a_name_without_provider(name: str) -> None:
    with pytest.raises(UsageError, match="write it as provider/model"):
        split_model(name)


def test_split() -> None:
    assert split_model("local/smollm2") == ("local", "smollm2")
    assert split_model("openrouter/google/gemini-2.5-flash") == (
        "openrouter",
        "google/gemini-2.5-flash",
    )


def test_the_table_says_its_date() -> None:
    assert re.fullmatch(r"genai-prices \S+, newest price of \d{4}-\d\d-\d\d", table_date())


ROUND = Rate("x/y", input=1.0, output=5.0, cache_read=0.1, cache_write=1.25, window=None)


def test_a_stream_by_hand() -> None:
    first = [("a", 1_000), ("b", 500)]
    billed = bill_stream(
        ROUND,
        [
            first,
            [*first, ("c", 300)],
            [("a", 1_000), ("c", 300)],  # shares 1,000 < 1,024: nothing is read
            [*first, ("d", 10)],  # shared with a request further back
        ],
    )
    assert [(one.tokens, one.cached) for one in billed] == [
        (1_500, 0),
        (1_800, 1_500),
        (1_300, 0),
        (1_510, 1_500),
    ]
    assert [one.dollars * 1e6 for one in billed] == pytest.approx(
        [1_500 * 1.25, 1_500 * 0.1 + 300 * 1.25, 1_300 * 1.25, 1_500 * 0.1 + 10 * 1.25]
    )


def test_a_short_request_is_not_cached_at_all() -> None:
    (one,) = bill_stream(ROUND, [[("a", 1_023)]])
    assert one.dollars == pytest.approx(1_023 / 1e6)


def test_only_the_last_eight_requests_are_looked_at() -> None:
    shared = [("a", 2_000)]
    others = [[(f"x{number}", 2_000)] for number in range(8)]
    assert bill_stream(ROUND, [shared, *others[:7], shared])[-1].cached == 2_000
    assert bill_stream(ROUND, [shared, *others, shared])[-1].cached == 0


def test_an_empty_stream() -> None:
    assert bill_stream(ROUND, []) == []
    assert bill_stream(ROUND, [[]])[0].tokens == 0
