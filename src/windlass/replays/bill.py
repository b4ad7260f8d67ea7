"""What the input tokens of a run's calls cost at a price vector, fresh input tokens = 1.

What a call shares with one of the 8 before it is read from the cache, the rest is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Final, NamedTuple

from windlass.caching.prices import Prices, tier_factor
from windlass.replays.numbered import NumberedMessages, common

LOOK_BACK: Final = 8
"""A call may find its prefix cached by one of so many calls before it."""
USUAL_TTL_S: Final = 300.0
"""Seconds that a prefix is kept by most caches."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Prices of an input token that is read from the cache, or written to it.

    A prefix under `minimum` tokens is not kept; a longer one is found in whole `step`s, within
    `ttl_s` seconds (None: at any time). `tiers` are as in `Prices`.
    """

    name: str
    read: float
    write: float
    minimum: int
    step: int
    ttl_s: float | None = None
    tiers: tuple[tuple[int, float], ...] = ()

    @property
    def prices(self) -> Prices:
        """The same for planning windows; a prefix is kept for five minutes where no time is known.

        So long do the caches last that are charged in this way.
        """
        ttl_s = USUAL_TTL_S if self.ttl_s is None and self.read < 1 else self.ttl_s
        return Prices(self.read, self.write, self.minimum, self.step, ttl_s, tiers=self.tiers)


VECTORS: Final = (
    Vector("anthropic", 0.10, 1.25, 1_024, 1),
    Vector("automatic", 0.10, 1.00, 1_024, 128),
    Vector("none", 1.0, 1.0, 0, 1),
)
"""Anthropic-like, an automatic cache, no cache."""


class CallTokens(NamedTuple):
    """Neutral tokens of one call, and how many of them an earlier call's prefix holds."""

    tokens: float
    shared: float

    def scaled(self, scale: float) -> CallTokens:
        """The same in tokens of which a neutral one has so many."""
        return CallTokens(self.tokens * scale, self.shared * scale)


def sent(
    windows: Iterable[Sequence[int]],
    shown: NumberedMessages,
    times: Iterable[float | None] = repeat(None),
    ttl_s: float | None = None,
    heads: Iterable[int] = repeat(0),
) -> list[CallTokens]:
    """Each window's tokens, and the longest prefix it shares with one of the 8 before it.

    `times` are when they were sent, in seconds (None: unknown): after more than `ttl_s` a prefix
    is forgotten. `heads` say which stood in front of the same tools: others share nothing.
    """
    before: list[tuple[Sequence[int], float | None, int]] = []
    calls: list[CallTokens] = []
    for window, time, head in zip(windows, times, heads, strict=False):
        sums = [0.0, *accumulate(map(shown.tokens.__getitem__, window))]
        shared = 0.0
        for earlier, then, other in reversed(before):
            if head != other:
                continue
            if ttl_s is not None and time is not None and then is not None and time - then > ttl_s:
                continue
            same = common(window, earlier)
            if same < min(len(window), len(earlier)):
                shared = max(shared, sums[same] + shown.head(window[same], earlier[same]))
            else:
                shared = max(shared, sums[same])
        calls.append(CallTokens(sums[-1], shared))
        before = [*before[1 - LOOK_BACK :], (window, time, head)]
    return calls


def cached_tokens(call: CallTokens, vector: Vector) -> float:
    """What of a call is read from the cache."""
    if call.shared < vector.minimum or vector.read >= 1:
        return 0.0
    return call.shared - call.shared % vector.step


def cost(call: CallTokens, vector: Vector) -> float:
    """The price of one call: what is shared is read, the rest written.

    A call under the minimum writes nothing; its tokens are fresh ones.
    """
    cached = cached_tokens(call, vector)
    fresh = vector.write if call.tokens >= vector.minimum else 1.0
    units = cached * vector.read + (call.tokens - cached) * fresh
    return units * tier_factor(vector.tiers, round(call.tokens)) if vector.tiers else units
