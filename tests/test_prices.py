"""Prices out of the offline table, and bills computed by hand."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import date

import pytest

from windlass import prices
from windlass.errors import UsageError
from windlass.prices import (
    Override,
    Prices,
    Rate,
    bill_stream,
    cost,
    override,
    rate,
    search_fee,
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


LONG = "anthropic/claude-sonnet-4-5"


def test_what_was_written_for_an_hour_costs_twice_the_input() -> None:
    # of 300 written 200 for an hour, at 6 dollars a million
    by_hand = (300 * 3 + 400 * 0.3 + 100 * 3.75 + 200 * 6 + 100 * 15) / 1e6
    assert cost(LONG, 1_000, 100, 400, 300, tokens_written_long=200) == pytest.approx(by_hand)
    # above 200,000 tokens all of it is twice as dear, output one and a half times
    by_hand = (100_000 * 6 + 150_000 * 12 + 10 * 22.5) / 1e6
    told = cost(LONG, 250_000, 10, 0, 150_000, tokens_written_long=150_000)
    assert told == pytest.approx(by_hand)


def test_more_written_for_an_hour_than_written_is_never_billed() -> None:
    told = cost(LONG, 100, 0, 0, 40, tokens_written_long=900)
    assert told == pytest.approx((60 * 3 + 40 * 6) / 1e6)


def test_where_no_table_has_the_long_price_of_a_claude_it_is_twice_the_input() -> None:
    routed = "openrouter/anthropic/claude-sonnet-4.5"
    found = rate(routed)
    assert found is not None
    assert (found.input, found.cache_write_long) == (3.0, 6.0)
    told = cost(routed, 1_000, 0, 0, 1_000, tokens_written_long=1_000)
    assert told == pytest.approx(1_000 * 6 / 1e6)
    gpt = rate("openai/gpt-5.6")
    assert gpt is not None
    assert gpt.cache_write_long is None
    # Where there is no such kind, what is told of it is a plain write.
    assert cost("openai/gpt-5.6", 1_000, 0, 0, 500, tokens_written_long=500) == cost(
        "openai/gpt-5.6", 1_000, 0, 0, 500
    )


def test_a_listed_price_of_storage_comes_beside_the_input() -> None:
    # The router lists 0.0833 dollars for keeping a million tokens, which are input besides.
    found = rate("openrouter/google/gemini-2.5-flash")
    assert found is not None
    assert found.input < found.cache_write < 2 * found.input
    assert cost("openrouter/google/gemini-2.5-flash", 1_000, 0, 0, 1_000) == pytest.approx(
        found.cache_write / 1e3
    )


def test_more_cached_or_written_than_sent_is_never_billed() -> None:
    name = "anthropic/claude-sonnet-4-5"
    assert cost(name, 100, 0, 900, 900) == pytest.approx(100 * 0.3 / 1e6)
    assert cost(name, 100, 0, 40, 900) == pytest.approx((40 * 0.3 + 60 * 3.75) / 1e6)


def test_long_contexts_have_a_tier_of_their_own() -> None:
    # Gemini 2.5 Pro: 1.25 dollars a million tokens up to 200,000, 2.50 beyond
    name = "gemini/gemini-2.5-pro"
    assert cost(name, 100_000, 0) == pytest.approx(0.125)
    assert cost(name, 300_000, 0) == pytest.approx(0.75)
    found = rate(name)
    assert found is not None
    assert found.tiers == ((200_000, 2.0),)


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
            # without a price of its own the long kind costs what writing costs
            long = cost(name, 1_000, 100, 400, 300, tokens_written_long=300)
            assert long == pytest.approx(by_hand)
        with override({name: replace(self.OWN, cache_write_long=3.0)}):
            by_hand = (300 * 1 + 400 * 0.1 + 100 * 1.5 + 200 * 3 + 100 * 2) / 1e6
            long = cost(name, 1_000, 100, 400, 300, tokens_written_long=200)
            assert long == pytest.approx(by_hand)
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


@pytest.mark.parametrize(
    ("name", "searches", "fee"),
    [
        ("anthropic/claude-sonnet-4-5", 3, 0.03),
        ("openai/gpt-5-search-api", 1, 0.01),
        ("gemini/gemini-3-pro", 2, 0.028),
        ("gemini/gemini-2.5-flash", 4, 0.035),
        ("gemini/gemini-2.5-flash", 0, 0.0),
        ("vllm/qwen3", 1, None),
        ("openrouter/openai/gpt-5.5", 1, None),
    ],
)
def test_a_search_has_a_price_of_its_own(name: str, searches: int, fee: float | None) -> None:
    assert search_fee(name, searches) == (fee if fee is None else pytest.approx(fee))
    with override({name: Override(input=1.0, output=1.0, search=0.002)}):
        assert search_fee(name, searches) == pytest.approx(0.002 * searches)


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


ROUND = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)


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
    assert [one.units for one in billed] == pytest.approx(
        [1_500 * 1.25, 1_500 * 0.1 + 300 * 1.25, 1_300 * 1.25, 1_500 * 0.1 + 10 * 1.25]
    )


def test_a_short_request_is_not_cached_at_all() -> None:
    (one,) = bill_stream(ROUND, [[("a", 1_023)]])
    assert one.units == pytest.approx(1_023)
    (one,) = bill_stream(replace(ROUND, minimum=1_023), [[("a", 1_023)]])
    assert one.units == pytest.approx(1_023 * 1.25)


def test_a_shared_prefix_below_the_models_own_minimum_is_not_read() -> None:
    twice = [[("a", 4_000)], [("a", 4_000), ("b", 200)]]
    assert [one.cached for one in bill_stream(ROUND, twice)] == [0, 4_000]
    dear = bill_stream(replace(ROUND, minimum=4_096), twice)
    assert [one.cached for one in dear] == [0, 0]
    assert [one.units for one in dear] == pytest.approx([4_000, 4_200 * 1.25])


def test_a_hit_is_cut_to_whole_steps() -> None:
    (_, second) = bill_stream(replace(ROUND, step=128), [[("a", 1_300)], [("a", 1_300)]])
    assert second.cached == 1_280
    assert second.units == pytest.approx(1_280 * 0.1 + 20 * 1.25)
    (_, second) = bill_stream(replace(ROUND, step=2_048), [[("a", 1_300)], [("a", 1_300)]])
    assert second.cached == 0


def test_a_prefix_expires_unless_it_is_used() -> None:
    same = [[("a", 2_000)]] * 4
    told = bill_stream(ROUND, same, [0.0, 300.0, 600.0, 901.0])
    assert [one.cached for one in told] == [0, 2_000, 2_000, 0]
    assert bill_stream(replace(ROUND, ttl_s=None), same, [0.0, 1e3, 1e6, 1e9])[-1].cached == 2_000


def test_long_requests_are_billed_at_their_tier() -> None:
    tiered = replace(ROUND, tiers=((2_000, 2.0), (4_000, 3.0)))
    told = bill_stream(tiered, [[("a", 2_000)], [("a", 2_000), ("b", 1)], [("c", 4_001)]])
    assert [one.units for one in told] == pytest.approx(
        [2_000 * 1.25, 2 * (2_000 * 0.1 + 1.25), 3 * 4_001 * 1.25]
    )


def test_without_a_cache_nothing_is_read() -> None:
    plain = Prices(1.0, 1.0, 0, 1, None)
    told = bill_stream(plain, [[("a", 2_000)]] * 2)
    assert [(one.cached, one.units) for one in told] == [(0, 2_000.0)] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": -0.1},
        {"write": float("nan")},
        {"write_long": float("inf")},
        {"minimum": -1},
        {"step": 0},
        {"ttl_s": 0},
        {"tiers": ((200, 2.0), (100, 3.0))},
        {"tiers": ((200, -2.0),)},
    ],
)
def test_prices_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(ROUND, **wrong)  # type: ignore[arg-type]


def test_only_the_last_eight_requests_are_looked_at() -> None:
    shared = [("a", 2_000)]
    others = [[(f"x{number}", 2_000)] for number in range(8)]
    assert bill_stream(ROUND, [shared, *others[:7], shared])[-1].cached == 2_000
    assert bill_stream(ROUND, [shared, *others, shared])[-1].cached == 0


def test_an_empty_stream() -> None:
    assert bill_stream(ROUND, []) == []
    assert bill_stream(ROUND, [[]])[0].tokens == 0
