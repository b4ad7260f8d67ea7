"""The usage that a provider reports, in the words of any format, and its contradictions.

The formats read the usage of their answers by it, too; what is impossible in it stands as it was
reported until `possible` corrects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from windlass.wire.base import Usage
from windlass.wire.calls import count, inside, needed
from windlass.wire.editing import compactions

_KEYS: Final[tuple[tuple[str, str, str], ...]] = (
    ("prompt_tokens", "prompt_tokens_details", "cached_tokens"),
    ("promptTokenCount", "", "cachedContentTokenCount"),
    ("prompt_token_count", "", "cached_content_token_count"),
)
"""The key of all input tokens, and the place of those that were read from a cache."""
_TOOLS_OF: Final = {
    "promptTokenCount": ("toolUsePromptTokenCount",),
    "prompt_token_count": ("tool_use_prompt_token_count",),
}
"""Where a usage counts input tokens besides those of its first key."""


@dataclass(frozen=True, slots=True)
class UsageCount:
    """Input tokens of a call as its provider counted them.

    `cached` of them were read from a cache (None: not reported).
    """

    tokens_in: int
    cached: int | None


def counted(usage: Usage | Mapping[str, Any] | object) -> UsageCount:
    """Read the input tokens from a usage.

    It is ours, or an object in OpenAI's, Anthropic's or Gemini's words, or one of their SDKs'.
    Raises ValueError in one clause where it says nothing of it, or contradicts itself.

    >>> counted({"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64}})
    UsageCount(tokens_in=90, cached=64)
    """
    if isinstance(usage, Usage):
        if wrong := contradiction(usage):
            raise ValueError(wrong)
        tokens = UsageCount(usage.tokens_in, usage.tokens_cached)
    else:
        tokens = _read(_as_mapping(usage))
    if tokens.tokens_in < 1:
        raise ValueError("it has no input tokens")
    if tokens.cached is not None and tokens.cached > tokens.tokens_in:
        raise ValueError(f"{tokens.cached:,} cached of {tokens.tokens_in:,} input tokens cannot be")
    return tokens


def read_usage(usage: Mapping[str, Any] | object) -> Usage:
    """Read a usage in the words of any format; impossible numbers are capped.

    The usage of compactions is added. Raises ValueError where it has no input tokens.
    """
    return possible(_reported(_as_mapping(usage)))


def usage_of_answer(usage: Any, *needs: str, name: str = "usage") -> Usage:
    """Return the usage that an answer reports under `name`, whatever it is.

    Raises ValueError where it lacks one of the counts that it `needs`.
    """
    used = needed(usage, Mapping, name)
    for key in needs:
        needed(used.get(key), int, f"{name}.{key}")
    return _reported(used)


def _reported(fields: Mapping[str, Any]) -> Usage:
    if compacted := compactions(fields):
        rest = {key: fields[key] for key in fields if key != "iterations"}
        return reduce(Usage.plus, map(_reported, compacted), _reported(rest))
    tokens = _read(fields)
    out = next(filter(None, (sum(count(fields, key) for key in keys) for keys in _OUT)), 0)
    details = inside(fields, "prompt_tokens_details", dict)
    kinds = inside(fields, "cache_creation", dict)
    long = count(kinds, "ephemeral_1h_input_tokens")
    created = count(fields, "cache_creation_input_tokens")
    written = max(created, long + count(kinds, "ephemeral_5m_input_tokens"))
    return Usage(
        tokens.tokens_in + written - created,
        out,
        tokens.cached or 0,
        written or count(details, "cache_write_tokens"),
        long,
        count(inside(fields, "server_tool_use", dict), "web_search_requests"),
        tier_of(fields),
    )


_TIERS: Final = ("batch", "flex", "priority", "fast")
_TIER_KEYS: Final = ("service_tier", "serviceTier", "speed", "trafficType", "traffic_type")


def tier_of(*told: Mapping[str, Any]) -> str:
    """Return the tier at which a call is billed, as `Usage` says it; empty: at list prices.

    `told` are the usage, and the answer where the provider says it there.
    """
    values = [str(one.get(key) or "").lower() for one in told for key in _TIER_KEYS]
    tiers = [tier for tier in _TIERS if any(value.endswith(tier) for value in values)]
    places = (str(one.get("inference_geo") or "").lower() for one in told)
    return " ".join([*tiers, *(["us"] if "us" in places else [])])


_OUT: Final = (
    ("completion_tokens",),
    ("output_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("candidates_token_count", "thoughts_token_count"),
)
"""The keys of output tokens, by format."""


def _as_mapping(usage: object) -> Mapping[str, Any]:
    dump = getattr(usage, "model_dump", None)
    fields = dump() if callable(dump) else usage
    if not isinstance(fields, Mapping):
        raise ValueError(f"{type(usage).__name__} is no usage")  # noqa: TRY004  # one error for all
    return fields


def _read(usage: Mapping[str, Any]) -> UsageCount:
    for key, place, cached in _KEYS:
        if usage.get(key) is not None:
            details = inside(usage, place, dict) if place else usage
            has_cache = details.get(cached) is not None
            # What Gemini's own tools returned is input that its first count leaves out.
            tokens = sum(count(usage, each) for each in (key, *_TOOLS_OF.get(key, ())))
            return UsageCount(tokens, count(details, cached) if has_cache else None)
    if usage.get("input_tokens") is None:
        keys = ", ".join(map(str, usage)) or "nothing"
        raise ValueError(
            "a usage has prompt_tokens, input_tokens or promptTokenCount; this one has " + keys
        )
    tokens = count(usage, "input_tokens")
    details = inside(usage, "input_tokens_details", dict)
    if details.get("cached_tokens") is not None:  # OpenAI's Responses: of all that was sent
        return UsageCount(tokens, count(details, "cached_tokens"))
    keys_of = ("cache_read_input_tokens", "cache_creation_input_tokens")
    has_cache = any(usage.get(key) is not None for key in keys_of)
    read, written = (count(usage, key) for key in keys_of)
    return UsageCount(tokens + read + written, read if has_cache else None)


def contradiction(usage: Usage) -> str:
    """Return what is impossible in a usage, in one clause; empty if nothing is."""
    named = {
        "input": usage.tokens_in,
        "output": usage.tokens_out,
        "cached": usage.tokens_cached,
        "written": usage.tokens_written,
        "written for long": usage.tokens_written_long,
    }
    for name, tokens in named.items():
        if tokens < 0:
            return f"{tokens:,} {name} tokens cannot be"
    if usage.tokens_cached + usage.tokens_written > usage.tokens_in:
        return (
            f"{usage.tokens_cached:,} cached and {usage.tokens_written:,} written of"
            f" {usage.tokens_in:,} input tokens cannot be"
        )
    return ""


def possible(usage: Usage) -> Usage:
    """Return the usage with impossible counts capped: none below 0 and none above the input."""
    tokens_in = max(0, usage.tokens_in)
    cached = min(max(0, usage.tokens_cached), tokens_in)
    written = min(max(0, usage.tokens_written), tokens_in - cached)
    return replace(
        usage,
        tokens_in=tokens_in,
        tokens_out=max(0, usage.tokens_out),
        tokens_cached=cached,
        tokens_written=written,
        tokens_written_long=min(max(0, usage.tokens_written_long), written),
    )
