"""How far a provider's cache can be relied on, by its reports of each call.

A plan assumes that what the previous call sent is still cached. If a report shows much less, the
provider routed the call elsewhere, dropped the entry, or caches nothing. The plan then relies on no
cache until a report shows that it holds again.

Pure: knows tokens expected and tokens reported, no prices, no messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.5
"""A report falls short under this share of what was expected. Hits and misses are far apart
(all or nothing, or an older entry), counts of unknown vocabularies are not exact."""
GIVEN_UP: Final = 3
"""After so many calls in a row that fell short, plans assume no cache at all."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What the reports say so far.

    `missed` is the number of calls in a row whose report fell short; `clause` describes the last of
    them (empty: the cache holds).
    """

    missed: int = 0
    clause: str = ""

    @property
    def cold(self) -> bool:
        """Whether the next call is planned as though nothing were cached."""
        return self.missed > 0

    @property
    def absent(self) -> bool:
        """Whether calls are planned as though there were no cache at all."""
        return self.missed >= GIVEN_UP

    def heard(
        self,
        call: int,
        *,
        expected: float,
        total: float,
        cached: int,
        tokens_in: int,
        goes_on: bool,
    ) -> Trust:
        """Return the trust after a report of the call with this number.

        Of `total` tokens by our count `expected` should have been cached; the provider read
        `cached` of `tokens_in`. Shares are compared, so that the two may count differently.
        `goes_on`: the call began with all that the one before was sent. After an edit, reading less
        than expected means nothing, because no entry needs to end there.
        """
        if expected <= 0 or total <= 0 or tokens_in <= 0:
            return self
        should = expected / total * tokens_in
        if cached >= SHARE * should:
            return Trust()
        if not goes_on:
            return self
        clause = f"call {call} read {cached:,} tokens from the cache where about {should:,.0f} were"
        return Trust(self.missed + 1, f"{clause} expected")

    @property
    def assumed(self) -> str:
        """What is assumed for the next call, in one sentence without its end; empty: nothing."""
        if self.absent:
            return f"no cache is counted on, for {self.missed} calls in a row: {self.clause}"
        return f"planned as cold: {self.clause}" if self.cold else ""
