"""What the input of a run's calls costs, in units of a fresh input token.

The prefix that a call shares with one of the 8 calls before it is read from the cache; the rest is
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Final, NamedTuple

from windlass.caching.bill import cached_tokens, input_units
from windlass.caching.prices import Prices
from windlass.replays.numbered import NumberedMessages, common_length

LOOK_BACK: Final = 8
"""How many earlier calls may have cached the prefix of a call."""
USUAL_TTL_S: Final = 300.0
LONG_TTL_S: Final = 3_600.0
"""Seconds for which most caches keep a prefix."""


@dataclass(frozen=True, slots=True)
class Vector(Prices):
    """Prices with the `name` that tables show. What is written is kept for the usual time."""

    ttl_s: float | None = None
    name: str = ""

    @property
    def for_windows(self) -> Prices:
        """The same for planning windows: where no time is known, a prefix is kept for 5 minutes.

        Most caches that charge in this way keep it for that long.
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
    """Neutral tokens of one call, and how many of them it shares with an earlier call's prefix."""

    tokens: float
    shared: float

    def scaled(self, scale: float) -> CallTokens:
        """The same in tokens of a model that counts `scale` tokens for a neutral one."""
        return CallTokens(self.tokens * scale, self.shared * scale)


class CallHead(NamedTuple):
    """When a call was sent, in seconds since 1970 (None: unknown), and the number of its tools."""

    time: float | None = None
    tools: int = 0

    def finds(self, earlier: CallHead, ttl_s: float | None) -> bool:
        """Whether a cache may still hold what the earlier call had in front.

        Not where that one had other tools, or was sent more than `ttl_s` seconds before.
        """
        if self.tools != earlier.tools:
            return False
        if ttl_s is None or self.time is None or earlier.time is None:
            return True
        return self.time - earlier.time <= ttl_s


def measure_calls(
    windows: Iterable[Sequence[int]],
    numbered: NumberedMessages,
    heads: Iterable[CallHead] = repeat(CallHead()),
    ttl_s: float | None = None,
) -> list[CallTokens]:
    """Each window's tokens, and the longest prefix it shares with one of the 8 before it.

    A cache forgets a prefix after `ttl_s` seconds (None: never).
    """
    before: list[tuple[Sequence[int], CallHead]] = []
    calls: list[CallTokens] = []
    for window, head in zip(windows, heads, strict=False):
        sums = [0.0, *accumulate(map(numbered.tokens.__getitem__, window))]
        shared = 0.0
        for earlier, other in before:
            if not head.finds(other, ttl_s):
                continue
            same = common_length(window, earlier)
            length = sums[same]
            if same < min(len(window), len(earlier)):
                length += numbered.common_tokens(window[same], earlier[same])
            shared = max(shared, length)
        calls.append(CallTokens(sums[-1], shared))
        before = [*before[1 - LOOK_BACK :], (window, head)]
    return calls


def price_call(call: CallTokens, vector: Vector) -> float:
    """The price of one call: what it shares is read from the cache, the rest is written."""
    return input_units(vector, call.tokens, cached_tokens(vector, call.shared))
