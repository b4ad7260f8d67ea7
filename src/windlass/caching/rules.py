"""How each provider caches prompts, as data.

Prices are in units of a fresh input token. Where sources conflict the larger
minimum and the dearer write stand: a plan that counts on too little is corrected
by the usage reported, one that counts on too much has paid already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Mark: TypeAlias = Literal["cache_control", "prompt_cache_breakpoint"]


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How one provider caches a prefix.

    `minimum`: pairs of a pattern for the model and the fewest tokens a cached prefix
    has there, the first match counts. `step`: a hit's length is a multiple of it.
    `breakpoints`: most marks in a request (0: there are none to set). `lookback`:
    how many blocks are looked at from a mark back, itself included (None: entries are
    looked for at marks alone). `seen`: how many marks are looked at where more may stand
    than are written. `mark`: the key of a mark on a block of a chat message.
    `automatic`: whether a prefix is cached without marks.
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

    def minimum_for(self, model: str) -> int:
        """The fewest tokens of a cached prefix with `model`."""
        return next((least for pattern, least in self.minimum if re.search(pattern, model)), 0)


NO_CACHE: Final = CacheRules(read=1.0, write=1.0, automatic=False)
"""An unknown model: nothing is ever cheaper."""

LOCAL: Final = CacheRules(read=0.0, write=1.0)
"""A server of one's own with a prefix cache: what is cached costs nothing."""

OPENAI: Final = CacheRules(
    # developers.openai.com, guides/prompt-caching: automatic from 1,024 tokens, exact
    # prefix; before GPT-5.6 in steps of 128, writes free. Kept 5 to 10 minutes.
    read=0.1,
    write=1.0,
    minimum=(("", 1_024),),
    step=128,
    ttl_s=300,
)
OPENAI_OLDER: Final = CacheRules(
    # GPT-4o and the first o-models read at half price, GPT-4.1 and o3 at a quarter: the dearer.
    read=0.5,
    write=1.0,
    minimum=(("", 1_024),),
    step=128,
    ttl_s=300,
)
OPENAI_MARKED: Final = CacheRules(
    # The same page on GPT-5.6 and later: writes 1.25, one implicit breakpoint at the latest
    # message, at most 4 written for a request, ttl 30m; entries are looked for at the latest 80
    # marks, no limit of blocks.
    read=0.1,
    write=1.25,
    minimum=(("", 1_024),),
    ttl_s=1_800,
    breakpoints=4,
    seen=80,
    mark="prompt_cache_breakpoint",
)
ANTHROPIC: Final = CacheRules(
    # platform.claude.com, prompt caching: read 0.1, write 1.25 (5 minutes) or 2 (1 hour), at
    # most 4 breakpoints, each looks back 20 blocks.
    read=0.1,
    write=1.25,
    write_long=2.0,
    minimum=(
        # anthropics/skills (2026-07) says 4096 for Opus 4.5 to 4.8 and Haiku 4.5, others less.
        (r"(opus-4[-.][5-8]|haiku-4[-.]5)(?!\d)", 4_096),
        # The same: 2048 for Fable 5 and Sonnet 4.6 (sdk#1194: documented 1024, observed 2048).
        (r"fable-5|sonnet-4[-.]6(?!\d)", 2_048),
        # docs.orq.ai and docs.truefoundry.com, after Anthropic's page: 2048 for Haiku 3 and 3.5.
        (r"claude-3([-.]5)?-haiku|haiku-3", 2_048),
        # Told 1024 by all sources: Sonnet 4.5 and before, Opus 4 and 4.1.
        (r"sonnet-4(?![-.]([6-9]|1\d)(?!\d))|opus-4(?![-.]([2-9]|1\d)(?!\d))|claude-3", 1_024),
        # Opus 5, Mythos 5 (512) and Sonnet 5 (1024) are told by one source each, *-5-5 by
        # none: the largest of the table.
        ("", 4_096),
    ),
    ttl_s=300,
    ttl_long_s=3_600,
    breakpoints=4,
    lookback=20,
    mark="cache_control",
    automatic=False,
)
GEMINI: Final = CacheRules(
    # ai.google.dev, context caching: implicit caching at a tenth, nothing for writes, not
    # guaranteed. 3 Flash 1024, 3 Pro 4096, 2.5 Flash 1024, 2.5 Pro 4096 there; apiyi (2026-06,
    # citing Google) 4096 for 3, 3.1 and 3.5, 2048 for 2.5: the larger of both.
    read=0.1,
    write=1.0,
    minimum=((r"gemini-2\.5-flash", 2_048), ("", 4_096)),
    # No time is promised for the implicit cache; entries are seen for some minutes.
    ttl_s=180,
)
DEEPSEEK: Final = CacheRules(
    # api-docs.deepseek.com, guides/kv_cache: on disk, automatic, in units of 64 tokens, kept
    # for hours. openrouter.ai, prompt-caching: reads at a tenth, writes as input.
    read=0.1,
    write=1.0,
    minimum=(("", 64),),
    step=64,
    ttl_s=3_600,
)
GROK: Final = CacheRules(
    # openrouter.ai, prompt-caching, on Grok and Kimi: automatic, reads at a quarter, nothing
    # for writes. docs.apiyi.com (2026-08, measured with Grok): blocks of 128, hits are not
    # guaranteed. No minimum and no time are told: those of OpenAI.
    read=0.25,
    write=1.0,
    minimum=(("", 1_024),),
    step=128,
    ttl_s=300,
)
QWEN: Final = CacheRules(
    # alibabacloud.com, model-studio, context cache, as openrouter.ai passes it on: marks as
    # Anthropic's, written at 1.25 and read at a tenth, from 1,024 tokens on, 5 minutes.
    read=0.1,
    write=1.25,
    minimum=(("", 1_024),),
    ttl_s=300,
    breakpoints=4,
    lookback=20,
    mark="cache_control",
    automatic=False,
)

_CACHES: Final[Mapping[str, tuple[tuple[str, CacheRules], ...]]] = MappingProxyType(
    {
        "openai": (
            (r"gpt-5\.([6-9]|\d\d)|gpt-([6-9]|\d\d)", OPENAI_MARKED),
            (r"gpt-5", OPENAI),
            (r"gpt-4|^o\d|chatgpt", OPENAI_OLDER),
        ),
        "anthropic": (("claude", ANTHROPIC),),
        "gemini": ((r"gemini-(2\.5|[3-9])", GEMINI),),
        "vertex_ai": (("claude", ANTHROPIC), (r"gemini-(2\.5|[3-9])", GEMINI)),
        "deepseek": (("", DEEPSEEK),),
        "x-ai": (("grok", GROK),),
        "moonshotai": (("kimi", GROK),),
        "qwen": ((r"qwen(3|-plus|-max)", QWEN),),
        "local": (("", LOCAL),),
    }
)


_ROUTED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # openrouter.ai, prompt-caching: the vendor's own cache under the vendor's rules, with
        # `cache_control` where it wants marks; requests stick to the vendor that has the prefix.
        "openrouter": {
            "google": "gemini",
            **{
                name: name
                for name in ("anthropic", "openai", "deepseek", "x-ai", "moonshotai", "qwen")
            },
        },
        # docs.litellm.ai, prompt caching: handed on to the vendor as it is, and the marks of a
        # Claude to the clouds that have it (Bedrock, Vertex, Azure AI) in their own form.
        "litellm": {
            "xai": "x-ai",
            "bedrock": "anthropic",
            "azure_ai": "anthropic",
            **{name: name for name in ("anthropic", "openai", "gemini", "deepseek")},
            **{name: name for name in ("vertex_ai", "openrouter")},
        },
    }
)
"""What stands behind a router, by the vendor's name there."""


def cache_rules(provider: str, model: str) -> CacheRules:
    """The cache rules of `model` at `provider`; NO_CACHE for one that is not known.

    Behind a router, where `model` begins with its vendor, they are the vendor's.

    >>> cache_rules("openrouter", "anthropic/claude-sonnet-4.5") is ANTHROPIC
    True
    """
    if (vendors := _ROUTED.get(provider)) is not None:
        vendor, _, model = model.partition("/")
        provider = vendors.get(vendor.removeprefix("~"), "")  # `~` marks a vendor's newest
        if provider in _ROUTED:
            return cache_rules(provider, model)
    for pattern, rules in _CACHES.get(provider, ()):
        if re.search(pattern, model):
            return rules
    return NO_CACHE
