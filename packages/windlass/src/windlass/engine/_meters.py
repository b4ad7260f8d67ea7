"""The prompt cache of each model in a run; `turn/_cache.py` fills it call by call."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from windlass.caching.meter import Bill, Meter
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
    and `spent_whole` are their sums, in fresh input tokens, and `spent_before` both of them when
    the cache was forked. `held` is the share of what the cache should have given that the last
    report shows.
    """

    paid: Rate | None = None
    spent: float = 0.0
    spent_whole: float = 0.0
    spent_before: tuple[float, float] = (0.0, 0.0)
    held: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meter = Meter(self.prices)
        self.whole = Meter(self.prices)

    def saved(self, sent: Bill, whole: Bill, usage: Usage | None) -> float:
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

    def fork(self) -> ModelCache:
        """A copy for a sounding; the meters are shared, since a provider caches for all of them."""
        own = copy.copy(self)
        own.spent_before = self.spent, self.spent_whole
        return own

    def add_spent(self, own: ModelCache) -> None:
        """Add what was spent with a fork since it was made."""
        self.spent += own.spent - own.spent_before[0]
        self.spent_whole += own.spent_whole - own.spent_before[1]

    def with_sums_of(self, whole: ModelCache) -> ModelCache:
        """This fork, to go on in the place of the cache it was made from."""
        self.spent, self.spent_whole = whole.spent, whole.spent_whole
        self.spent_before = whole.spent_before
        return self


@dataclass(slots=True)
class ModelCaches:
    """The prompt caches of a run's models."""

    by_model: dict[str, ModelCache] = field(default_factory=dict[str, ModelCache])
    """The cache of each model that was called."""
    previous: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The last request as (identity, tokens), tools first: what a cache may hold of it."""

    def of(self, info: ModelInfo) -> ModelCache:
        """Return the cache of a model, made at the first question."""
        if info.name not in self.by_model:
            self.by_model[info.name] = cache_of_model(info)
        return self.by_model[info.name]

    def fork(self) -> ModelCaches:
        """Return a copy for a sounding: what the last call of each sounding was sent is its own."""
        caches = {name: cache.fork() for name, cache in self.by_model.items()}
        return ModelCaches(caches, list(self.previous))

    def for_task(self, *, parallel: bool) -> ModelCaches:
        """Return the caches for a task, which continues no earlier request.

        `parallel`: others run beside it, so that it counts on nothing of what they are sent.
        """
        return ModelCaches() if parallel else ModelCaches(self.by_model)

    def add_spent(self, own: ModelCaches) -> None:
        """Add what was spent with a fork, whether it is taken or not."""
        for name, cache in own.by_model.items():
            counted = self.by_model.setdefault(name, cache)
            if counted is not cache:
                counted.add_spent(cache)

    def adopt(self, taken: ModelCaches) -> None:
        """Take over the fork that was taken: the next call goes on from what it was sent.

        What all forks spent was added before.
        """
        for name, cache in taken.by_model.items():
            self.by_model[name] = cache.with_sums_of(self.by_model[name])
        self.previous = taken.previous


def cache_of_model(info: ModelInfo) -> ModelCache:
    """Return the cache of a model before its first call."""
    name = info.name
    assumed: list[str] = []
    billed_rate = rate(name)
    if info.free and billed_rate is None and not is_local(name):
        prices = UNCACHED  # nobody bills it: fewer tokens are all that counts
    else:
        prices = prices_of(name, warn=assumed.append)
    paid = None if info.free else billed_rate
    return ModelCache(name, prices, assumed[0] if assumed else "", paid=paid)
