"""Prices out of the offline table, and what they make of the cache rules."""

from __future__ import annotations

import asyncio
import re
from datetime import date, timedelta

import pytest

from windlass.caching import rates
from windlass.caching.prices import Prices
from windlass.caching.provider_rules import ANTHROPIC, AS_OF, NO_CACHE
from windlass.caching.rates import (
    Rate,
    age_note,
    cache_of,
    cost,
    override,
    priced_as,
    prices_of,
    rate,
    search_fee,
    split_model,
    table_date,
)
from windlass.errors import UsageError
from windlass.settings.fields import PriceSettings


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


@pytest.mark.parametrize(("version", "read"), [("5", 1.0), ("5-1", 0.25)])
def test_what_a_vendor_tells_and_the_table_does_not(version: str, read: float) -> None:
    name = f"anthropic/claude-mythos-{version}"
    found = rate(name)
    assert found == Rate(name, 10.0, 50.0, read, 12.5, None, 20.0)
    # 300 fresh, 400 read, 300 written of which 100 for an hour, 10 out
    by_hand = (300 * 10 + 400 * read + 200 * 12.5 + 100 * 20 + 10 * 50) / 1e6
    told = cost(name, 1_000, 10, 400, 300, tokens_written_long=100)
    assert told == pytest.approx(by_hand)
    assert cost(f"{name}-20260930", 1_000, 0) == pytest.approx(0.01)
    assert rate("elsewhere/claude-mythos-5") is None


def test_a_model_that_alibaba_alone_serves_costs_what_the_router_lists() -> None:
    listed, own = rate("openrouter/qwen/qwen3.7-max"), rate("qwen/qwen3.7-max")
    assert listed is not None
    assert own is not None
    assert (own.input, own.output) == (listed.input, listed.output)
    assert cost("qwen/qwen3.7-max", 1_000, 10, 200) == cost(listed.model, 1_000, 10, 200)
    # Others serve the open ones, each at a price of its own.
    assert rate("openrouter/qwen/qwen3-32b") is not None
    assert rate("qwen/qwen3-32b") is None


@pytest.mark.parametrize(("days", "old"), [(0, False), (90, False), (91, True), (-5, False)])
def test_old_prices_and_rules_are_told(days: int, old: bool) -> None:
    told = age_note(date.fromisoformat(AS_OF) + timedelta(days=days))
    assert bool(told) is old
    if old:
        assert f"as of {AS_OF}, 91 days ago" in told


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
    OWN = PriceSettings(input=1.0, output=2.0, cache_read=0.1, cache_write=1.5)

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
        with override({name: self.OWN.model_copy(update={"cache_write_long": 3.0})}):
            by_hand = (300 * 1 + 400 * 0.1 + 100 * 1.5 + 200 * 3 + 100 * 2) / 1e6
            long = cost(name, 1_000, 100, 400, 300, tokens_written_long=200)
            assert long == pytest.approx(by_hand)
        assert rate(name) == listed

    def test_prices_a_model_that_no_table_has(self) -> None:
        assert cost("mine/m", 1_000, 0) is None
        with override({"mine/m": PriceSettings(input=1.0, output=2.0)}):
            assert cost("mine/m", 1_000_000, 0, 500_000, 200_000) == pytest.approx(1.0)
            assert rate("mine/m") == Rate("mine/m", 1.0, 2.0, 1.0, 1.0, None)
            assert cost("mine/other", 1_000, 0) is None
        with override({"mine/m": PriceSettings(input=0.0, output=0.0)}):
            assert cost("mine/m", 1_000, 10) == 0  # said, not assumed

    async def test_holds_for_one_run_and_not_for_the_one_beside_it(self) -> None:
        seen: dict[str, float | None] = {}

        async def one(name: str, price: float) -> None:
            with override({"mine/m": PriceSettings(input=price, output=0.0)}):
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
    with override({name: PriceSettings(input=1.0, output=1.0, search=0.002)}):
        assert search_fee(name, searches) == pytest.approx(0.002 * searches)


def test_dated_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenAI cut o3 from 10 to 2 dollars on 10 June 2025.
    for day, dollars in ((date(2025, 6, 9), 10.0), (date(2025, 6, 10), 2.0)):
        monkeypatch.setattr(rates, "_today", lambda day=day: day)
        rates._listed.cache_clear()
        found = rate("openai/o3")
        assert found is not None
        assert found.input == dollars
    rates._listed.cache_clear()


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


# ---- the table and the cache rules, put together -----------------------------------------


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        (
            "anthropic/claude-sonnet-4-5",
            Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0, tiers=((200_000, 2.0),)),
        ),
        ("anthropic/claude-haiku-4-5", Prices(0.1, 1.25, 4_096, 1, 300, write_long=2.0)),
        (
            "openrouter/anthropic/claude-sonnet-4.5",
            Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0, tiers=((200_000, 2.0),)),
        ),
        ("openai/gpt-5", Prices(0.1, 1.0, 1_024, 128, 300)),
        ("openai/gpt-4.1", Prices(0.25, 1.0, 1_024, 128, 300)),
        ("openai/gpt-5.6", Prices(0.1, 1.25, 1_024, 1, 1_800, tiers=((272_000, 2.0),))),
        ("gemini/gemini-2.5-flash", Prices(0.1, 1.0, 2_048, 1, 180)),
        ("gemini/gemini-2.5-pro", Prices(0.1, 1.0, 2_048, 1, 180, tiers=((200_000, 2.0),))),
        ("gemini/gemini-4-argon", Prices(0.05, 1.0, 4_096, 1, 180)),
        ("anthropic/claude-sonnet-5-5", Prices(0.05, 1.25, 512, 1, 300, write_long=2.0)),
        ("anthropic/claude-opus-5-5", Prices(0.05, 1.25, 512, 1, 300, write_long=2.0)),
        ("anthropic/claude-sonnet-5", Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0)),
        ("anthropic/claude-fable-5-1", Prices(0.025, 1.25, 512, 1, 300, write_long=2.0)),
        ("anthropic/claude-fable-5-2", Prices(0.025, 1.25, 1_024, 1, 300, write_long=2.0)),
        ("anthropic/claude-mythos-5", Prices(0.1, 1.25, 512, 1, 300, write_long=2.0)),
        ("anthropic/claude-mythos-5-1", Prices(0.025, 1.25, 512, 1, 300, write_long=2.0)),
        (
            "anthropic/claude-haiku-5-5",
            Prices(0.1, 1.25, 512, 1, 300, write_long=2.0, tiers=((100_000, 5.0),)),
        ),
        ("openai/gpt-6.1-sol", Prices(0.05, 1.25, 1_024, 1, 1_800, tiers=((272_000, 2.0),))),
        ("openai/gpt-6.1-terra", Prices(0.05, 1.25, 1_024, 1, 1_800, tiers=((272_000, 2.0),))),
        ("x-ai/grok-4.7", Prices(0.25, 1.0, 1_024, 128, 300, tiers=((199_999, 2.0),))),
        (
            "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            Prices(0.1, 1.25, 4_096, 1, 300, write_long=2.0),
        ),
        ("vertex/claude-sonnet-5-5", Prices(0.05, 1.25, 512, 1, 300, write_long=2.0)),
        ("azure/gpt-6.1-sol", Prices(0.05, 1.25, 1_024, 1, 1_800, tiers=((272_000, 2.0),))),
        ("zai/glm-5", Prices(0.2, 1.0, 1_024, 128, 300)),
        ("minimax/MiniMax-M2", Prices(0.1, 1.0, 512, 1, 300)),
        ("kimi/kimi-k3", Prices(0.1, 1.0, 256, 256, 300, write_long=2.0)),
        ("kimi/kimi-k2-thinking", Prices(0.25, 1.0, 256, 256, 300)),
        ("local/smollm2", Prices(0.0, 1.0, 0, 1, None)),
        # The table has no price for reading: what its rules say of others like it is not billed.
        ("openai/gpt-4", Prices(1.0, 1.0, 0, 1, None)),
    ],
)
def test_of_known_models(model: str, prices: Prices) -> None:
    warned: list[str] = []
    assert prices_of(model, warn=warned.append) == prices
    assert warned == []


def test_a_cache_that_is_made_without_asking_costs_nothing_to_write() -> None:
    # The router lists a price of storing, which is that of a cache made with marks.
    assert prices_of("openrouter/google/gemini-2.5-flash").write == 1.0


def test_an_unknown_model_gets_no_cache_and_a_warning_that_names_both() -> None:
    with pytest.warns(UserWarning, match=r"'openai/gpt-99' .* no prompt cache is assumed"):
        prices = prices_of("openai/gpt-99")
    assert prices == Prices(1.0, 1.0, 0, 1, None)
    assert not prices.caches


def test_a_price_without_rules_is_taken_with_a_warning() -> None:
    warned: list[str] = []
    own = {"mine/m": PriceSettings(input=2.0, output=4.0, cache_read=0.5, cache_write_long=3.0)}
    with override(own):
        prices = prices_of("mine/m", warn=warned.append)
    assert prices == Prices(0.25, 1.0, 1_024, 128, None, write_long=1.5)
    (text,) = warned
    assert "'mine/m'" in text
    assert "1,024 tokens" in text


def test_ones_own_price_is_taken_at_its_word() -> None:
    name = "anthropic/claude-sonnet-4-5"
    with override({name: PriceSettings(input=2.0, output=4.0, cache_read=0.2)}):
        assert prices_of(name) == Prices(0.1, 1.0, 1_024, 1, 300)
    with override({name: PriceSettings(input=2.0, output=4.0)}):
        assert not prices_of(name).caches
    with override({name: PriceSettings(input=0.0, output=0.0)}):  # no share of nothing: the rules
        assert prices_of(name) == Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0)


def test_cache_rules_of_what_nobody_lists() -> None:
    assert cache_of("anthropic/claude-sonnet-4-5") is ANTHROPIC
    assert cache_of("openai/gpt-99") is NO_CACHE
    with pytest.raises(UsageError, match="names no provider"):
        cache_of("gpt-5")


def test_only_what_costs_nothing_is_told_at_anothers_prices() -> None:
    assert priced_as("local/x", "openai/gpt-5", free=True) == "openai/gpt-5"
    assert priced_as("openai/gpt-99", "openai/gpt-5", free=False) == "openai/gpt-99"
