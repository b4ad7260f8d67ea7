"""How each provider caches prompts, as data.

Prices are in units of a fresh input token. Where sources conflict, the larger minimum and the
dearer write are used: reported usage corrects a plan that relied on too little, but one that relied
on too much has already paid. A vendor's own page takes precedence over other sources.

What vendors bill beside the list prices of tokens: other tiers, and searches of the web.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Mark: TypeAlias = Literal["cache_control", "prompt_cache_breakpoint"]

AS_OF: Final = "2026-11-24"
"""The day on which the facts of this module were last checked against their sources."""


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How one provider caches a prefix.

    `minimum`: pairs of a pattern for the model and the fewest tokens a cached prefix
    has there, the first match counts. `step`: a hit's length is a multiple of it.
    `breakpoints`: most marks in a request (0: there are none to set). `lookback`:
    how many blocks are looked at from a mark back, itself included (None: entries are
    looked for at marks alone). `seen`: how many marks are looked at where more may stand
    than are written. `mark`: the key of a mark on a block of a chat message.
    `automatic`: whether a prefix is cached without marks. `ttl_s` and `ttl_long_s` are seconds
    from the start of the last request that wrote or read a prefix. `source` says where the facts
    are from.
    """

    read: float
    write: float
    write_long: float | None = None
    minimum: tuple[tuple[str, int], ...] = (("", 0),)
    step: int = 1
    ttl_s: float | None = None
    ttl_long_s: float | None = None
    breakpoints: int = 0
    lookback: int | None = None
    seen: int = 0
    mark: Mark | None = None
    automatic: bool = True
    source: str = ""

    def minimum_for(self, model: str) -> int:
        """Return the fewest tokens of a cached prefix with `model`."""
        return next((least for pattern, least in self.minimum if re.search(pattern, model)), 0)


NO_CACHE: Final = CacheRules(read=1.0, write=1.0, automatic=False)
"""The rules of an unknown model: nothing is ever cheaper."""

LOCAL: Final = CacheRules(read=0.0, write=1.0)
"""The rules of a user's own server with a prefix cache: cached tokens are free."""

OPENAI: Final = CacheRules(
    # Automatic from 1,024 tokens, exact prefix; before GPT-5.6 in steps of 128, writes free. Kept
    # 5 to 10 minutes; second hand: GPT-5.5 for 24 hours, and older ones too where a request asks.
    read=0.1,
    write=1.0,
    minimum=(("", 1_024),),
    step=128,
    ttl_s=300,
    source="developers.openai.com, guides/prompt-caching",
)
# GPT-4o and the first o-models read at half price, GPT-4.1 and o3 at a quarter: the dearer.
OPENAI_OLDER: Final = replace(OPENAI, read=0.5)
OPENAI_MARKED: Final = CacheRules(
    # GPT-5.6 and later: writes 1.25, one implicit breakpoint at the latest message, which counts
    # as one of the 4 written for a request, ttl 30m at least; entries are looked for at the latest
    # 80 marks, no limit of blocks. Read at a tenth, by GPT-6.1 at half of that: the dearer.
    read=0.1,
    write=1.25,
    minimum=(("", 1_024),),
    ttl_s=1_800,
    breakpoints=4,
    seen=80,
    mark="prompt_cache_breakpoint",
    source="developers.openai.com, guides/prompt-caching",
)
OPENAI_AT_AZURE: Final = replace(
    # Models before GPT-5.6 write free, later ones do not; nothing is told there of marks.
    OPENAI_MARKED,
    breakpoints=0,
    seen=0,
    mark=None,
    source="learn.microsoft.com, azure/foundry, openai, prompt-caching",
)
ANTHROPIC: Final = CacheRules(
    # Read 0.1 (less from Opus 5.5, Sonnet 5.5 and Fable 5.1 on: the price table has it), write 1.25
    # (5 minutes) or 2 (1 hour), at most 4 breakpoints, each looks back 20 blocks. A lifetime begins
    # with the request that wrote or read the entry, not with its answer.
    read=0.1,
    write=1.25,
    write_long=2.0,
    minimum=(
        # Not in the copy of the page that was read: the most that it says of any 5.x.
        (r"(fable|mythos)-5[-.]2(?!\d)", 1_024),
        # The page, 7 Oct 2026; Opus 5.5 was measured at 512 to 517.
        (r"(fable|mythos|opus)-5|(sonnet|haiku)-5[-.]5(?!\d)", 512),
        # The page; openrouter.ai says 4096 of Opus 4.7 and 4.8.
        (r"opus-4[-.]7(?!\d)", 2_048),
        # The page; Sonnet 5 was measured at 1,023 to 1,029.
        (r"sonnet-5(?![-.]\d(?!\d))|opus-4[-.]8(?!\d)", 1_024),
        # The page.
        (r"(opus-4[-.][56]|haiku-4[-.]5)(?!\d)", 4_096),
        # Documented 1024, measured 2048 (anthropic-sdk-python#1194): what was measured stands.
        (r"sonnet-4[-.]6(?!\d)", 2_048),
        # docs.orq.ai and docs.truefoundry.com, after Anthropic's page: 2048 for Haiku 3 and 3.5.
        (r"claude-3([-.]5)?-haiku|haiku-3", 2_048),
        # Told 1024 by all sources: Sonnet 4.5 and before, Opus 4 and 4.1.
        (r"sonnet-4(?![-.]([6-9]|1\d)(?!\d))|opus-4(?![-.]([2-9]|1\d)(?!\d))|claude-3", 1_024),
        # Nothing is told of others: the largest of the table.
        ("", 4_096),
    ),
    ttl_s=300,
    ttl_long_s=3_600,
    breakpoints=4,
    lookback=20,
    mark="cache_control",
    automatic=False,
    source="platform.claude.com, docs, build-with-claude/prompt-caching, 7 Oct 2026",
)
BEDROCK: Final = replace(
    # The same caches, but that of Sonnet 4.5 begins later.
    ANTHROPIC,
    minimum=((r"sonnet-4[-.]5(?!\d)", 4_096), *ANTHROPIC.minimum),
    source="docs.aws.amazon.com, bedrock, prompt-caching",
)
GEMINI: Final = CacheRules(
    # Implicit caching, nothing for writes, not guaranteed: 2.5 Flash and Pro from 2,048 tokens, 3.x
    # and 4 Argon from 4,096. Read at a tenth, by Argon at half of that: the dearer.
    read=0.1,
    write=1.0,
    minimum=((r"gemini-2\.5", 2_048), ("", 4_096)),
    # No time is promised for the implicit cache; entries are seen for some minutes.
    ttl_s=180,
    source="ai.google.dev, gemini-api, caching, 13 Oct 2026",
)
DEEPSEEK: Final = CacheRules(
    # On disk, automatic, in units of 64 tokens, kept for hours. V4 reads at 0.02 (Flash) to 0.033
    # (Pro), as the price table has them: the dearer.
    read=0.033,
    write=1.0,
    minimum=(("", 64),),
    step=64,
    ttl_s=3_600,
    source="api-docs.deepseek.com, guides/kv_cache",
)
GROK: Final = replace(
    # Automatic, reads at a quarter, nothing for writes; docs.apiyi.com (2026-08, measured): blocks
    # of 128, hits are not guaranteed. Each server has its own cache. No minimum and no time are
    # told: those of OpenAI.
    OPENAI,
    read=0.25,
    source="openrouter.ai, prompt-caching; docs.apiyi.com",
)
KIMI: Final = CacheRules(
    # forum.moonshot.ai: automatic, read at a tenth, written at the price of input for 5 minutes;
    # for an hour (`prompt_cache_options`) at twice that, which the price table has for the models
    # that can. Leechael/pi-provider-kimi-code, docs/caching.md, measured: steps of 256 from the
    # first.
    read=0.1,
    write=1.0,
    minimum=(("", 256),),
    step=256,
    ttl_s=300,
    source="forum.moonshot.ai, context caching; Leechael/pi-provider-kimi-code, docs/caching.md",
)
MINIMAX: Final = CacheRules(
    # Automatic from 512 tokens, nothing for writes, for as long as the load allows: no time is
    # told, that of OpenAI. Marks as Anthropic's (written at 1.25) can be set and need not be.
    read=0.1,
    write=1.0,
    minimum=(("", 512),),
    ttl_s=300,
    source="platform.minimax.io, docs, text-prompt-caching",
)
ZAI: Final = replace(
    # Automatic, nothing for writes, reads at about a fifth by the price table. No minimum, no step
    # and no time are told: those of OpenAI.
    OPENAI,
    read=0.2,
    source="docs.z.ai, guides/capabilities/cache",
)
QWEN: Final = CacheRules(
    # Marks as Anthropic's, written at 1.25 and read at a tenth, from 1,024 tokens on, 5 minutes;
    # openrouter.ai passes them on.
    read=0.1,
    write=1.25,
    minimum=(("", 1_024),),
    ttl_s=300,
    breakpoints=4,
    lookback=20,
    mark="cache_control",
    automatic=False,
    source="alibabacloud.com, model-studio, context cache",
)

_GPT_WRITES: Final = r"gpt-5\.([6-9]|\d\d)|gpt-([6-9]|\d\d)"
"""GPT-5.6 and later, which charge for writing."""

_CACHES: Final[Mapping[str, tuple[tuple[str, CacheRules], ...]]] = MappingProxyType(
    {
        "openai": (
            (_GPT_WRITES, OPENAI_MARKED),
            (r"gpt-5", OPENAI),
            (r"gpt-4|^o\d|chatgpt", OPENAI_OLDER),
        ),
        "anthropic": (("claude", ANTHROPIC),),
        "gemini": ((r"gemini-(2\.5|[3-9])", GEMINI),),
        "vertex_ai": (("claude", ANTHROPIC), (r"gemini-(2\.5|[3-9])", GEMINI)),
        "bedrock": (("claude", BEDROCK),),
        "azure": (
            ("claude", ANTHROPIC),
            (_GPT_WRITES, OPENAI_AT_AZURE),
            (r"gpt-5", OPENAI),
            (r"gpt-4|^o\d", OPENAI_OLDER),
        ),
        "deepseek": (("", DEEPSEEK),),
        "x-ai": (("grok", GROK),),
        "moonshotai": (("kimi", KIMI),),
        "minimax": (("(?i)minimax", MINIMAX),),
        "zai": (("(?i)glm", ZAI),),
        "qwen": ((r"qwen(3|-plus|-max)", QWEN),),
        "local": (("", LOCAL),),
    }
)

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alibaba": "qwen",
        "aws": "bedrock",
        "azure_ai": "azure",
        "dashscope": "qwen",
        "google": "gemini",
        "kimi": "moonshotai",
        "moonshot": "moonshotai",
        "vertex": "vertex_ai",
        "xai": "x-ai",
        "z-ai": "zai",
    }
)
"""Providers by other names that recordings, routers and users give them."""

_ROUTED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        # openrouter.ai, prompt-caching: the vendor's own cache under the vendor's rules, with
        # `cache_control` where it wants marks; requests stick to the vendor that has the prefix.
        "openrouter": frozenset(
            {
                *("anthropic", "openai", "gemini", "deepseek", "x-ai", "moonshotai", "qwen"),
                *("minimax", "zai"),
            }
        ),
        # docs.litellm.ai, prompt caching: handed on to the vendor as it is, and the marks of a
        # Claude to the clouds that have it (Bedrock, Vertex, Azure AI) in their own form.
        "litellm": frozenset({*_CACHES.keys() - {"local"}, "openrouter"}),
    }
)
"""The vendors whose rules apply behind a router."""


def provider_of(name: str) -> str:
    """Return the usual name of a provider that goes by another one.

    >>> provider_of("aws"), provider_of("anthropic")
    ('bedrock', 'anthropic')
    """
    return _NAMES.get(name, name)


def cache_rules(provider: str, model: str) -> CacheRules:
    """Return the cache rules of `model` at `provider`; NO_CACHE for an unknown one.

    Behind a router, where `model` begins with its vendor, they are the vendor's.

    >>> cache_rules("openrouter", "anthropic/claude-sonnet-5.5") is ANTHROPIC
    True
    """
    if (vendors := _ROUTED.get(provider)) is not None:
        vendor, _, model = model.partition("/")
        vendor = provider_of(vendor.removeprefix("~"))  # `~` marks a vendor's newest
        return cache_rules(vendor, model) if vendor in vendors else NO_CACHE
    for pattern, rules in _CACHES.get(provider_of(provider), ()):
        if re.search(pattern, model):
            return rules
    return NO_CACHE


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
    """Return US dollars that a request's searches of the web cost beside its tokens.

    None: not known.
    """
    by_request, fee = _SEARCH_REQUEST.get(provider, (None, 0.0))
    if by_request is not None and by_request.match(model):
        return fee * min(searches, 1)
    price = _SEARCH.get(provider)
    return None if price is None else price * searches
