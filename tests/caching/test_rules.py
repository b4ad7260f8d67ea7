"""Which cache rules hold for which model."""

from __future__ import annotations

import pytest

from windlass.caching.rules import (
    ANTHROPIC,
    DEEPSEEK,
    GEMINI,
    GROK,
    NO_CACHE,
    OPENAI,
    OPENAI_MARKED,
    OPENAI_OLDER,
    QWEN,
    CacheRules,
    cache_rules,
)


def test_cache_rules_by_model() -> None:
    assert cache_rules("openai", "gpt-5.6-mini") is OPENAI_MARKED
    assert cache_rules("openai", "gpt-5.1").write == 1.0
    assert cache_rules("openai", "gpt-4.1").read == 0.5
    assert cache_rules("openai", "someone/else") is NO_CACHE
    assert cache_rules("elsewhere", "gpt-5.6") is NO_CACHE
    assert cache_rules("local", "any").read == 0.0
    assert cache_rules("anthropic", "claude-opus-4-8") is ANTHROPIC
    assert cache_rules("gemini", "gemini-3-flash") is GEMINI
    assert cache_rules("gemini", "gemini-1.5-pro") is NO_CACHE


@pytest.mark.parametrize(
    ("model", "rules"),
    [
        ("anthropic/claude-sonnet-4.5", ANTHROPIC),
        ("~anthropic/claude-opus-latest", ANTHROPIC),
        ("openai/gpt-5.6-sol", OPENAI_MARKED),
        ("openai/gpt-5.1", OPENAI),
        ("openai/o3", OPENAI_OLDER),
        ("openai/gpt-oss-120b", NO_CACHE),
        ("google/gemini-2.5-flash", GEMINI),
        ("google/gemma-3-27b-it", NO_CACHE),
        ("deepseek/deepseek-v4-pro", DEEPSEEK),
        ("x-ai/grok-4.5", GROK),
        ("moonshotai/kimi-k2", GROK),
        ("qwen/qwen3-max", QWEN),
        ("z-ai/glm-5", NO_CACHE),
        ("local/anything", NO_CACHE),
        ("claude-sonnet-4.5", NO_CACHE),
    ],
)
def test_behind_the_router_the_vendors_rules_hold(model: str, rules: CacheRules) -> None:
    assert cache_rules("openrouter", model) is rules


def test_minimum_prefix_of_a_name_as_the_router_writes_it() -> None:
    assert cache_rules("openrouter", "x").minimum_for("anthropic/claude-opus-4.5") == 0
    assert ANTHROPIC.minimum_for("anthropic/claude-opus-4.5") == 4_096
    assert ANTHROPIC.minimum_for("anthropic/claude-sonnet-4.6") == 2_048
    assert DEEPSEEK.minimum_for("deepseek/deepseek-chat") == DEEPSEEK.step == 64


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-4-5-20251101", 4_096),
        ("claude-opus-4-8", 4_096),
        ("claude-haiku-4-5", 4_096),
        ("claude-sonnet-4-6", 2_048),
        ("claude-fable-5", 2_048),
        ("claude-sonnet-4-5", 1_024),
        ("claude-sonnet-4-20250514", 1_024),
        ("claude-opus-4-1", 1_024),
        ("claude-opus-4-20250514", 1_024),
        ("claude-opus-5-5", 4_096),
        ("claude-unheard-of", 4_096),
        ("claude-3-haiku-20240307", 2_048),
        ("claude-3-5-haiku-latest", 2_048),
        ("claude-3-5-sonnet-latest", 1_024),
        ("claude-3-opus-20240229", 1_024),
    ],
)
def test_minimum_prefix_of_anthropic(model: str, least: int) -> None:
    assert ANTHROPIC.minimum_for(model) == least


def test_minimum_prefix_of_the_others() -> None:
    assert GEMINI.minimum_for("gemini-2.5-flash") == 2_048
    assert GEMINI.minimum_for("gemini-2.5-pro") == 4_096
    assert OPENAI_MARKED.minimum_for("gpt-5.6") == 1_024
