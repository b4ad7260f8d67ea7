"""What a model's input costs with its prompt cache, in units of a fresh input token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.errors import UsageError


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model's input costs with its prompt cache, in units of a fresh input token.

    Args:
        read: Price of a token read from the cache (0: free; 1: there is no cache).
        write: Price of a token written to it for the usual time.
        minimum: The fewest tokens of a cached prefix.
        step: A hit's length is a multiple of it, in tokens.
        ttl_s: Seconds that a prefix is kept from the start of the last request that wrote or read
            it (None: no time is known).
        write_long: A token written for the longer time (None: there is no such kind).
        tiers: Pairs (tokens, factor), ascending: a request with more input tokens than
            that costs this many times as much, on all its tokens.

    Raises UsageError for impossible values.

    >>> Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300, write_long=2.0).caches
    True
    """

    read: float
    write: float
    minimum: int
    step: int
    ttl_s: float | None
    write_long: float | None = None
    tiers: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        factors = [factor for _, factor in self.tiers]
        amounts = [self.read, self.write, self.write_long or 0.0, *factors]
        if not all(0 <= amount < math.inf for amount in amounts):
            raise UsageError("prices are numbers from 0 up, in units of a fresh input token")
        if self.minimum < 0 or self.step < 1:
            raise UsageError("minimum is a number of tokens from 0 up, step one from 1 up")
        if self.ttl_s is not None and not self.ttl_s > 0:
            raise UsageError("ttl_s is a number of seconds above 0, or None")
        if [above for above, _ in self.tiers] != sorted({above for above, _ in self.tiers}):
            raise UsageError("tiers are pairs (tokens, factor), each above the one before")

    @property
    def caches(self) -> bool:
        """Return whether tokens are ever cheaper because they were sent before."""
        return self.read < 1

    def factor(self, tokens: float) -> float:
        """Return how many times the base price a request with `tokens` input tokens costs."""
        return tier_factor(self.tiers, tokens) if self.tiers else 1.0

    def lapsed(self, seconds: float | None) -> bool:
        """Return whether a prefix last used so many seconds ago has expired.

        None: not known, so no.
        """
        return seconds is not None and self.ttl_s is not None and seconds > self.ttl_s


def tier_factor(tiers: Sequence[tuple[int, float]], tokens: float) -> float:
    """Return the factor of the highest tier that a request with `tokens` input tokens is above.

    Estimates may be fractions of a token: the nearest whole number counts.
    """
    tokens = round(tokens)
    return next((factor for above, factor in reversed(tiers) if tokens > above), 1.0)


FETCH_OUTPUT_TOKENS: Final = 60
"""Tokens of the call that fetches a result again."""
OUTPUT_PRICE: Final = 5.0
"""The price of an output token in fresh input tokens."""
CALLS_CARRIED: Final = 3
"""The number of further calls that read a result fetched again."""


def carried_cost(tokens: float, calls: int, *, read: float, write: float) -> float:
    """What a text costs in so many calls, in fresh input tokens: one writes it, others read it."""
    return tokens * (write + (calls - 1) * read) if calls else 0.0


def fetch_cost(window: float, result: float, *, read: float, write: float) -> float:
    """What fetching a result again costs, in fresh input tokens: a call, and reads of the result.

    `window` are the tokens of the call that lacks it, `result` its own.
    """
    asked = window * read + FETCH_OUTPUT_TOKENS * OUTPUT_PRICE
    return asked + carried_cost(result, 1 + CALLS_CARRIED, read=read, write=write)


UNCACHED: Final = Prices(read=1.0, write=1.0, minimum=0, step=1, ttl_s=None)
"""The prices of a model without a prompt cache: every token is fresh, every time."""
