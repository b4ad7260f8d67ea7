"""What a provider reported of the calls of a conversation, and what follows for the next.

Counts are corrected by it, and what the cache did decides what is counted on. What makes no
sense is left aside with a reason; nothing here raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from windlass.caching.model_cache import CacheState, Trust
from windlass.caching.prices import UNCACHED, Prices
from windlass.caching.rates import prices_of
from windlass.wire.base import Usage
from windlass.wire.usage import UsageCount, counted, read_usage

_CLEARLY: Final = 1.1
"""How many times the shortest prefix that is kept is clearly long enough to be."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a call should come to: its number, its tokens by our count, those that should be cached.

    `goes_on`: it began with all that the call before it was sent.
    """

    call: int
    tokens: int
    expected: int
    goes_on: bool


class Reports:
    """The reports so far of the calls to a model with a cache, whose trust they change.

    `calibration` is what the provider counts, divided by what we count; `ignored` says why the
    latest report was left aside (empty: it was not).
    """

    def __init__(self, cache: CacheState, calibration: float = 1.0) -> None:
        self._cache = cache
        self.calibration = calibration
        self.scale = calibration
        """What the counts of the next call were corrected by when it was planned."""
        self.unplanned = False
        """Whether a report is yet to be planned by: the call that it is of stands as it was."""
        self.answered_at: float | None = None
        """When the call that was reported last was answered, in seconds, if that was told."""
        self.ignored = ""
        self._latest = 0
        self._before = Trust()

    def hear(self, usage: Usage | Mapping[str, Any] | object, planned: Expectation) -> bool:
        """Take the report of a call. False: it was left aside."""
        report = self._read(usage, planned)
        if report is None:
            return False
        if planned.tokens > 0:
            self.calibration = report.tokens_in / planned.tokens
        if planned.call > self._latest:
            used = usage if isinstance(usage, Usage) else read_usage(usage)
            self._cache.note_writes(used.tokens_written, used.tokens_written_long)
        if planned.call < self._latest or report.cached is None:
            return True  # what the cache did since is known, or nothing is said of one
        due = planned.expected * report.tokens_in / planned.tokens if planned.tokens > 0 else 0.0
        if due < _CLEARLY * self._cache.prices.minimum and not report.cached:
            return True  # so short a beginning may not be kept at all
        if planned.call > self._latest:  # of one call told twice the last word counts
            self._latest, self._before = planned.call, self._cache.trust
        self._cache.trust = self._before.heard(
            planned.call,
            expected=planned.expected,
            total=planned.tokens,
            cached=report.cached,
            tokens_in=report.tokens_in,
            goes_on=planned.goes_on,
        )
        return True

    def _read(
        self, usage: Usage | Mapping[str, Any] | object, planned: Expectation
    ) -> UsageCount | None:
        try:
            report = counted(usage)
        except ValueError as wrong:
            self.ignored = f"the usage of call {planned.call} is left aside: {wrong}"
            return None
        self.ignored = ""
        return report


def prices_for(model: str | None, prices: Prices | None) -> tuple[Prices, str]:
    """Return the prices that windows are planned at, and what is assumed with them.

    Empty: nothing.

    Given ones stand; else they are the model's, and no cache where none is named.
    """
    if prices is not None:
        return prices, ""
    if model is None:
        return UNCACHED, "no model is named, so no prompt cache is assumed"
    assumed: list[str] = []
    own = prices_of(model, warn=assumed.append)
    for text in assumed:
        warnings.warn(text, stacklevel=3)
    return own, assumed[0] if assumed else ""
