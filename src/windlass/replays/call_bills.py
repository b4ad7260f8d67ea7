"""What the input tokens of a run's calls cost at a price vector, fresh input tokens = 1.

What a call shares with one of the 8 before it is read from the cache, the rest is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Final, NamedTuple

from windlass.caching.bill import cached_tokens, input_units
from windlass.caching.prices import Prices
from windlass.replays.numbered import NumberedMessages, common

LOOK_BACK: Final = 8
"""A call may find its prefix cached by one of so many calls before it."""
USUAL_TTL_S: Final = 300.0
"""Seconds that a prefix is kept by most caches."""


@dataclass(frozen=True, slots=True)
class Vector(Prices):
    """Prices with the `name` that tables call them by. What is written is kept the usual time."""

    ttl_s: float | None = None
    name: str = ""

    @property
    def for_windows(self) -> Prices:
        """The same for planning windows; a prefix is kept for five minutes where no time is known.

        So long do the caches last that are charged in this way.
        """
        ttl_s = USUAL_TTL_S if self.ttl_s is None and self.caches else self.ttl_s
        return Prices(self.read, self.write, self.minimum, self.step, ttl_s, tiers=self.tiers)


VECTORS: Final = (
    Vector(0.10, 1.25, 1_024, 1, name="anthropic"),
    Vector(0.10, 1.00, 1_024, 128, name="automatic"),
    Vector(1.0, 1.0, 0, 1, name="none"),
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


def cost(call: CallTokens, vector: Vector) -> float:
    """The price of one call: what is shared is read, the rest written."""
    return input_units(vector, call.tokens, cached_tokens(vector, call.shared))
