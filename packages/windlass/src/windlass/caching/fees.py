"""What vendors bill beside the list prices of tokens: other tiers, and searches of the web."""

from __future__ import annotations

import re
from typing import Final

from windlass.caching.provider_rules import provider_of

_ANY_MODEL: Final = re.compile("")
_TIERS: Final = {
    "batch": (
        (("anthropic", "openai", "azure", "gemini", "vertex_ai", "bedrock"), _ANY_MODEL, 0.5),
    ),
    "flex": ((("openai", "azure", "gemini", "vertex_ai"), _ANY_MODEL, 0.5),),
    "fast": (
        (("anthropic",), re.compile(r"claude-opus-(4[-.]8|5)(?!\d)"), 2.0),
        (("anthropic",), re.compile(r"claude-opus-4[-.][67](?!\d)"), 6.0),
    ),
    "us": ((("anthropic",), _ANY_MODEL, 1.1),),
}
"""How many times the list price tokens cost at a tier of `Usage`, by provider and model, as their
pages of prices list it in 2026 (platform.claude.com: pricing, fast mode, data residency;
developers.openai.com: pricing; ai.google.dev: pricing). What priority costs is agreed with the
vendor, or differs by model."""

_SEARCH: Final = {"anthropic": 0.010, "openai": 0.010, "gemini": 0.014}
"""US dollars for one search of the web, beside its tokens, as the vendors list them in
2026; free daily or monthly quotas are not counted."""

_SEARCH_REQUEST: Final = {"gemini": (re.compile(r"gemini-[12]"), 0.035)}
"""Models whose vendor bills each request that searched, however often it did."""


def tier_factor_of(provider: str, model: str, word: str) -> float | None:
    """Return how many times the list price tokens cost at one word of a tier; None: not known.

    >>> tier_factor_of("openai", "gpt-5", "flex"), tier_factor_of("openai", "gpt-5", "priority")
    (0.5, None)
    """
    for providers, models, times in _TIERS.get(word, ()):
        if provider_of(provider) in providers and models.match(model):
            return times
    return None


def listed_search_fee(provider: str, model: str, searches: int) -> float | None:
    """US dollars that a request's searches of the web cost beside its tokens; None: not known."""
    by_request, fee = _SEARCH_REQUEST.get(provider, (None, 0.0))
    if by_request is not None and by_request.match(model):
        return fee * min(searches, 1)
    price = _SEARCH.get(provider)
    return None if price is None else price * searches
