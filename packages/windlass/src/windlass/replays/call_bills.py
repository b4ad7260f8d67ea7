"""What the calls of a recording share with those before them, and the prices of bills."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from windlass.caching.meter import PrefixStream, SharedPrefix
from windlass.caching.prices import Prices
from windlass.replays.numbered import NumberedMessages, common_length

_TOOLS: Final = -1
"""The number of the first tools among segments; messages have numbers from 0 on."""
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


@dataclass(frozen=True, slots=True)
class RequestHead:
    """When a call was sent, in seconds since 1970 (None: unknown), and the number of its tools."""

    time: float | None = None
    tools: int = 0


def measure_calls(
    windows: Iterable[Sequence[int]],
    numbered: NumberedMessages,
    heads: Iterable[RequestHead] = repeat(RequestHead()),
    ttl_s: float | None = None,
) -> list[SharedPrefix]:
    """Return each window's neutral tokens, and those it shares with the windows before it.

    A cache forgets a prefix after `ttl_s` seconds (None: never), and does not find it behind other
    tools, which stand in front of the messages.
    """
    stream, before = PrefixStream(ttl_s, numbered.common_tokens), list[int]()
    tools: int | None = None
    calls: list[SharedPrefix] = []
    for window, head in zip(windows, heads, strict=False):
        kept = common_length(window, before) if head.tools == tools else -1
        new = [(number, numbered.tokens[number]) for number in window[max(0, kept) :]]
        first = [] if kept >= 0 else [(_TOOLS - head.tools, 0.0)]
        calls.append(stream.add(kept + 1, [*first, *new], head.time))
        before, tools = list(window), head.tools
    return calls
