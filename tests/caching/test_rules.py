"""Which cache rules hold for which model."""

from __future__ import annotations

import pytest

from windlass.caching.provider_rules import (
    _CACHES,
    ANTHROPIC,
    BEDROCK,
    DEEPSEEK,
    GEMINI,
    GROK,
    KIMI,
    LOCAL,
    MINIMAX,
    NO_CACHE,
    OPENAI,
    OPENAI_AT_AZURE,
    OPENAI_MARKED,
    OPENAI_OLDER,
    QWEN,
    ZAI,
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
        ("moonshotai/kimi-k2", KIMI),
        ("qwen/qwen3-max", QWEN),
        ("z-ai/glm-5", ZAI),
        ("minimax/minimax-m3", MINIMAX),
        ("local/anything", NO_CACHE),
        ("claude-sonnet-4.5", NO_CACHE),
    ],
)
def test_behind_the_router_the_vendors_rules_hold(model: str, rules: CacheRules) -> None:
    assert cache_rules("openrouter", model) is rules


@pytest.mark.parametrize(
    ("provider", "model", "rules"),
    [
        ("bedrock", "us.anthropic.claude-sonnet-5-5", BEDROCK),
        ("aws", "global.anthropic.claude-opus-5-5", BEDROCK),
        ("vertex", "claude-sonnet-5-5", ANTHROPIC),
        ("vertex_ai", "gemini-3.1-pro-preview", GEMINI),
        ("azure", "claude-sonnet-5-5", ANTHROPIC),
        ("azure", "gpt-6.1-sol", OPENAI_AT_AZURE),
        ("azure_ai", "gpt-5", OPENAI),
        ("azure", "gpt-oss-120b", NO_CACHE),
        ("zai", "GLM-5.2", ZAI),
        ("z-ai", "glm-5.2", ZAI),
        ("minimax", "MiniMax-M2.7", MINIMAX),
        ("qwen", "qwen3.7-max", QWEN),
        ("kimi", "kimi-k3", KIMI),
        ("moonshot", "kimi-k3", KIMI),
        ("xai", "grok-4.7", GROK),
        ("litellm", "bedrock/anthropic.claude-sonnet-5-5", BEDROCK),
        ("litellm", "vertex_ai/claude-sonnet-5-5", ANTHROPIC),
        ("litellm", "azure/gpt-6.1-sol", OPENAI_AT_AZURE),
        ("litellm", "moonshot/kimi-k3", KIMI),
        ("litellm", "openrouter/z-ai/glm-5", ZAI),
        ("openrouter", "bedrock/claude", NO_CACHE),
    ],
)
def test_clouds_and_vendors_by_the_names_they_go_by(
    provider: str, model: str, rules: CacheRules
) -> None:
    assert cache_rules(provider, model) is rules


def test_every_rule_that_was_looked_up_says_where() -> None:
    for listed in _CACHES.values():
        for _, rules in listed:
            assert bool(rules.source) is (rules is not LOCAL)


def test_minimum_prefix_of_a_name_as_the_router_writes_it() -> None:
    assert cache_rules("openrouter", "x").minimum_for("anthropic/claude-opus-4.5") == 0
    assert ANTHROPIC.minimum_for("anthropic/claude-opus-4.5") == 4_096
    assert ANTHROPIC.minimum_for("anthropic/claude-sonnet-4.6") == 2_048
    assert DEEPSEEK.minimum_for("deepseek/deepseek-chat") == DEEPSEEK.step == 64


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-4-5-20251101", 4_096),
        ("claude-opus-4-6", 4_096),
        ("claude-opus-4-7", 2_048),
        ("claude-opus-4-8", 1_024),
        ("claude-haiku-4-5", 4_096),
        ("claude-sonnet-4-6", 2_048),
        ("claude-fable-5", 512),
        ("claude-fable-5-1", 512),
        ("claude-fable-5-2", 1_024),
        ("claude-mythos-5-1-20260930", 512),
        ("claude-mythos-5-2", 1_024),
        ("claude-sonnet-5", 1_024),
        ("claude-sonnet-5-20260601", 1_024),
        ("claude-sonnet-5-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-opus-5", 512),
        ("claude-sonnet-4-5", 1_024),
        ("claude-sonnet-4-20250514", 1_024),
        ("claude-opus-4-1", 1_024),
        ("claude-opus-4-20250514", 1_024),
        ("claude-opus-5-5", 512),
        ("claude-opus-5.5", 512),
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
    assert GEMINI.minimum_for("gemini-2.5-pro") == 2_048
    assert GEMINI.minimum_for("gemini-3.8-flash") == GEMINI.minimum_for("gemini-4-argon") == 4_096
    assert BEDROCK.minimum_for("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == 4_096
    assert BEDROCK.minimum_for("global.anthropic.claude-opus-5-5") == 512
    assert KIMI.minimum_for("kimi-k3") == KIMI.step == 256
    assert MINIMAX.minimum_for("MiniMax-M2.7") == 512
    assert OPENAI_MARKED.minimum_for("gpt-5.6") == 1_024
