"""What a run keeps of each model's prompt cache, and of what its windows saved and cost.

Plain holders; `cache.py` fills them call by call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.economics import UNCACHED, is_local, prices_of
from windlass.prices import Meter, Prices, Rate, rate
from windlass.window.pauses import Lifetime, Pauses
from windlass.window.trust import Trust

if TYPE_CHECKING:
    from windlass.engine.state import Run
    from windlass.providers.base import ModelInfo


@dataclass(slots=True)
class ModelCache:
    """What is known of the cache of one model in a run.

    `prices` are what it charges, `assumed` what is assumed of them (empty: nothing), `paid` the
    rate that is really billed (None: it costs nothing, or nobody knows). `sent` meters the
    requests as they were sent, `whole` as they would have been without windows; `spent` and
    `spent_whole` are their sums, in fresh input tokens. `calls` were made; `trust`, `pauses` and
    `lifetime` are those of the next.
    """

    prices: Prices
    assumed: str = ""
    paid: Rate | None = None
    calls: int = 0
    spent: float = 0.0
    spent_whole: float = 0.0
    trust: Trust = field(default_factory=Trust)
    pauses: Pauses = field(default_factory=Pauses)
    lifetime: Lifetime = field(default_factory=Lifetime)

    def __post_init__(self) -> None:
        self.sent = Meter(self.prices)
        self.whole = Meter(self.prices)

    sent: Meter = field(init=False)
    whole: Meter = field(init=False)


@dataclass(slots=True)
class Net:
    """What the windows of a session saved, and what models were asked for them, in US dollars.

    `calls` are those that had a window and a price.
    """

    calls: int = 0
    saved: float = 0.0
    spent: float = 0.0

    @property
    def net(self) -> float:
        """Saved less spent; negative where windows lost money."""
        return self.saved - self.spent


def cache_of(run: Run, info: ModelInfo) -> ModelCache:
    """What the run knows of the cache of a model."""
    name = info.name
    if name not in run.caches:
        told: list[str] = []
        found = rate(name)
        if info.free and found is None and not is_local(name):
            prices = UNCACHED  # nobody bills it: fewer tokens are all that counts
        else:
            prices = prices_of(name, warn=told.append)
        paid = None if info.free else found
        run.caches[name] = ModelCache(prices, told[0] if told else "", paid)
    return run.caches[name]
