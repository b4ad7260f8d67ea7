"""The price table and the cache rules, put together."""

from __future__ import annotations

import pytest

from windlass.economics import cache_of, priced_as, prices_of
from windlass.errors import UsageError
from windlass.prices import Override, Prices, override
from windlass.wire.rules import ANTHROPIC, NO_CACHE


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
        ("gemini/gemini-2.5-pro", Prices(0.1, 1.0, 4_096, 1, 180, tiers=((200_000, 2.0),))),
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
    own = {"mine/m": Override(input=2.0, output=4.0, cache_read=0.5, cache_write_long=3.0)}
    with override(own):
        prices = prices_of("mine/m", warn=warned.append)
    assert prices == Prices(0.25, 1.0, 1_024, 128, None, write_long=1.5)
    (text,) = warned
    assert "'mine/m'" in text
    assert "1,024 tokens" in text


def test_ones_own_price_is_taken_at_its_word() -> None:
    name = "anthropic/claude-sonnet-4-5"
    with override({name: Override(input=2.0, output=4.0, cache_read=0.2)}):
        assert prices_of(name) == Prices(0.1, 1.0, 1_024, 1, 300)
    with override({name: Override(input=2.0, output=4.0)}):
        assert not prices_of(name).caches
    with override({name: Override(input=0.0, output=0.0)}):  # no share of nothing: the rules
        assert prices_of(name) == Prices(0.1, 1.25, 1_024, 1, 300, write_long=2.0)


def test_cache_rules_of_what_nobody_lists() -> None:
    assert cache_of("anthropic/claude-sonnet-4-5") is ANTHROPIC
    assert cache_of("openai/gpt-99") is NO_CACHE
    with pytest.raises(UsageError, match="names no provider"):
        cache_of("gpt-5")


def test_only_what_costs_nothing_is_told_at_anothers_prices() -> None:
    assert priced_as("local/x", "openai/gpt-5", free=True) == "openai/gpt-5"
    assert priced_as("openai/gpt-99", "openai/gpt-5", free=False) == "openai/gpt-99"
