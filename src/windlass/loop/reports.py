"""What a provider reported of the calls of a conversation, and what follows for the next.

Counts are corrected by it, and what the cache did decides what is counted on. What makes no
sense is left aside with a reason; nothing here raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.caching.prices import UNCACHED, Prices
from windlass.caching.rates import prices_of
from windlass.caching.trust import Trust
from windlass.wire.base import Usage
from windlass.wire.usage import Counted, counted


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call as it was planned: its number, its tokens by our count, those that should be cached.

    `goes_on`: it began with all that the call before it was sent.
    """

    call: int
    tokens: int
    expected: int
    goes_on: bool


class Reports:
    """The reports so far.

    `calibration` is what the provider counts, divided by what we count; `trust` what is thought
    of its cache; `ignored` why the latest report was left aside (empty: it was not).
    """

    def __init__(self, calibration: float = 1.0) -> None:
        self.calibration = calibration
        self.trust = Trust()
        self.ignored = ""
        self._latest = 0
        self._before = Trust()

    def hear(self, usage: Usage | Mapping[str, Any] | object, asked: PlannedCall) -> bool:
        """Take the report of a call. False: it was left aside."""
        told = self._read(usage, asked)
        if told is None:
            return False
        if asked.tokens > 0:
            self.calibration = told.tokens_in / asked.tokens
        if asked.call < self._latest or told.cached is None:
            return True  # what the cache did since is known, or nothing is said of one
        if asked.call > self._latest:  # of one call told twice the last word counts
            self._latest, self._before = asked.call, self.trust
        self.trust = self._before.heard(
            asked.call,
            expected=asked.expected,
            total=asked.tokens,
            cached=told.cached,
            tokens_in=told.tokens_in,
            goes_on=asked.goes_on,
        )
        return True

    def _read(
        self, usage: Usage | Mapping[str, Any] | object, asked: PlannedCall
    ) -> Counted | None:
        try:
            told = counted(usage)
        except ValueError as wrong:
            self.ignored = f"the usage of call {asked.call} is left aside: {wrong}"
            return None
        self.ignored = ""
        return told


def prices_for(model: str | None, prices: Prices | None) -> tuple[Prices, str]:
    """The prices that windows are planned at, and what is assumed with them (empty: nothing).

    Given ones stand; else they are the model's, and no cache where none is named.
    """
    if prices is not None:
        return prices, ""
    if model is None:
        return UNCACHED, "no model is named, so no prompt cache is assumed"
    told: list[str] = []
    found = prices_of(model, warn=told.append)
    for text in told:
        warnings.warn(text, stacklevel=3)
    return found, told[0] if told else ""
