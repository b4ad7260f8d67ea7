"""What a wrapped client's calls cost, beside what its plain requests would have cost.

Both are billed by one formula (`caching/bill.py`) and the same rules of the cache. What was sent is
what the provider counted. The plain request is what a cache would have made of it that had seen
plain requests alone, corrected by what the provider counted of the one that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from windlass.caching.bill import usage_units
from windlass.caching.breakpoints import MarkRules
from windlass.caching.prices import Prices
from windlass.caching.prompt_cache import CachedPieces, CacheUse, PromptCache
from windlass.wire.base import Usage

GUARD: Final = 1.01
"""How many times the bill of the plain requests may be reached."""


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """What a request and the plain one in its place would make of their caches, at `at` seconds."""

    sent: CachedPieces
    plain: CachedPieces
    sent_use: CacheUse
    plain_use: CacheUse
    at: float

    @property
    def is_plain(self) -> bool:
        """Return whether the plain request itself is sent, to a cache that holds the same of it."""
        return (
            self.sent.prefixes == self.plain.prefixes
            and self.sent.marks == self.plain.marks
            and self.sent_use == self.plain_use
        )

    def plain_usage(self, usage: Usage) -> Usage:
        """What the provider would have counted of the plain request; of the one sent, `usage`."""
        if self.is_plain:
            return usage
        scale = usage.tokens_in / self.sent.tokens if self.sent.tokens else 1.0
        expected = self.sent_use.read * scale
        held = min(1.0, usage.tokens_cached / expected) if expected else 1.0
        plain = self.plain_use
        read, missed = plain.read * held, plain.read * (1 - held)
        written = plain.written + missed if plain.written else 0.0
        return replace(
            usage,
            tokens_in=round(plain.tokens * scale),
            tokens_cached=round(read * scale),
            tokens_written=round(written * scale),
            tokens_written_long=round(plain.long * scale),
        )


class ModelAccount:
    """The calls to one model.

    Args:
        prices: What its cache charges.
        rules: The rules of its marks (None: it takes none).
        automatic: Whether it caches requests without marks, too.
    """

    def __init__(self, prices: Prices, rules: MarkRules | None, *, automatic: bool) -> None:
        self.prices = prices
        self.sent_units = 0.0
        self.plain_units = 0.0
        """Both bills of the input so far, in fresh input tokens."""
        self._sent = PromptCache(prices, rules, automatic=automatic)
        self._plain = PromptCache(prices, rules, automatic=automatic)

    def expect(self, sent: CachedPieces, plain: CachedPieces, at: float) -> ExpectedUse:
        """Return what both requests would make of their caches."""
        return ExpectedUse(
            sent, plain, self._sent.expect(sent, at), self._plain.expect(plain, at), at
        )

    def units(self, use: CacheUse) -> float:
        """Return what the input of a request costs, in fresh input tokens."""
        return usage_units(self.prices, use.tokens, use.read, use.written, use.long)

    def take(self, expected: ExpectedUse) -> None:
        """A request was answered: the caches hold what it, and the plain one, wrote."""
        self._sent.send(expected.sent, expected.at)
        self._plain.send(expected.plain, expected.at)

    def add(self, usage: Usage, plain: Usage, times: int = 1) -> None:
        """Add what was counted of a call, and would have been of the plain one."""
        self.sent_units += times * self._of(usage)
        self.plain_units += times * self._of(plain)

    def _of(self, usage: Usage) -> float:
        return self.units(
            CacheUse(
                usage.tokens_in,
                usage.tokens_cached,
                usage.tokens_written,
                usage.tokens_written_long,
            )
        )

    def premium(self, expected: ExpectedUse) -> float:
        """What writing to the cache costs a request more than the plain one, to be read later."""
        dearer = max(0.0, self.prices.write - 1)
        return dearer * max(0.0, expected.sent_use.written - expected.plain_use.written)

    def passes(self, outstanding: float) -> bool:
        """Whether the bill is above the plain one's, but for what is written and yet to be read."""
        return self.sent_units - outstanding > GUARD * self.plain_units


def estimate(use: CacheUse) -> Usage:
    """Return what a provider that says nothing may have counted."""
    whole = replace(Usage(0, 0), tokens_in=round(use.tokens), tokens_cached=round(use.read))
    return replace(whole, tokens_written=round(use.written), tokens_written_long=round(use.long))
