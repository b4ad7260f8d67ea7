"""What a run keeps of each model's prompt cache, and of what its windows saved and cost.

Plain holders; `cache.py` fills them call by call.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from windlass.caching.meter import Billed, Meter
from windlass.caching.model_cache import CacheState
from windlass.caching.prices import UNCACHED
from windlass.caching.rates import Rate, cost, input_dollars, is_local, prices_of, rate

if TYPE_CHECKING:
    from windlass.providers.base import ModelInfo
    from windlass.wire.base import Usage


@dataclass
class ModelCache(CacheState):
    """The cache of one model in a run, with what the requests cost.

    `paid` is the rate that is really billed (None: it costs nothing, or nobody knows). `meter`
    bills the requests as they were sent, `whole` as they would have been without windows; `spent`
    and `spent_whole` are their sums, in fresh input tokens. `held` is the share of what the cache
    should have given that the last report shows.
    """

    paid: Rate | None = None
    spent: float = 0.0
    spent_whole: float = 0.0
    held: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meter = Meter(self.prices)
        self.whole = Meter(self.prices)

    def saved(self, sent: Billed, whole: Billed, usage: Usage | None) -> float:
        """US dollars by which the input of a call cost less than sending everything would have.

        `sent` and `whole` are both requests by our count. What was sent cost what its `usage`
        says. For everything our count is corrected by that report: its tokens, the share of them
        that the cache gave, the share that was written to it. Without a report (None) both bills
        are by our count.
        """
        if self.paid is None:
            return 0.0
        if usage is None or usage.tokens_in < 1 or not sent.tokens:
            return input_dollars(self.paid, whole.units - sent.units)
        if sent.cached:
            should = sent.cached / sent.tokens
            self.held = min(1.0, usage.tokens_cached / usage.tokens_in / should)
        tokens = round(usage.tokens_in * whole.tokens / sent.tokens)
        read = round(usage.tokens_in * self.held * whole.cached / sent.tokens)
        read = min(tokens, max(read, usage.tokens_cached))
        fresh = usage.tokens_in - usage.tokens_cached
        share, long = 1.0, 0.0
        if fresh and sent.tokens >= self.prices.minimum:  # a shorter one is never written
            share, long = usage.tokens_written / fresh, usage.tokens_written_long / fresh
        elif whole.tokens < self.prices.minimum:
            share = 0.0
        written = round(share * (tokens - read)), round(long * (tokens - read))
        name = self.paid.model
        everything = cost(name, tokens, 0, read, written[0], tokens_written_long=written[1])
        billed = cost(name, **asdict(replace(usage, tokens_out=0)))
        return (everything or 0.0) - (billed or 0.0)


@dataclass(slots=True)
class Net:
    """What the windows of a session saved, and what models were asked for them, in US dollars.

    `calls` are those that had a window and a price. `needed`: everything could not have been sent,
    because the model or the user's own limits do not let it.
    """

    calls: int = 0
    saved: float = 0.0
    spent: float = 0.0
    needed: bool = False

    @property
    def net(self) -> float:
        """Saved less spent; negative where windows lost money."""
        return self.saved - self.spent


def cache_of_model(info: ModelInfo) -> ModelCache:
    """What is known of the cache of a model before its first call."""
    name = info.name
    assumed: list[str] = []
    billed_rate = rate(name)
    if info.free and billed_rate is None and not is_local(name):
        prices = UNCACHED  # nobody bills it: fewer tokens are all that counts
    else:
        prices = prices_of(name, warn=assumed.append)
    paid = None if info.free else billed_rate
    return ModelCache(name, prices, assumed[0] if assumed else "", paid=paid)
