"""What each piece of the requests to a model costs: its share of the input's bill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.caching.bill import fresh_price
from windlass.caching.meter import Bill, PrefixStream, Segments, bill_of
from windlass.caching.prices import Prices


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a piece: in how many calls it was sent, its tokens in all of them, its price.

    `paid` is in fresh input tokens of the first tier, or what these were counted in.
    """

    calls: int = 0
    tokens: int = 0
    paid: float = 0.0

    def __add__(self, other: Share) -> Share:
        return Share(self.calls + other.calls, self.tokens + other.tokens, self.paid + other.paid)

    def times(self, factor: float) -> Share:
        """Return the same at so many times the price."""
        return replace(self, paid=self.paid * factor)


class SharedStream:
    """Bills requests to one model as a `Meter` does, and says what each of their pieces cost.

    Each request is given as what is new in it.

    A piece pays for its place: the part of it that the cache holds is read, the rest is written. So
    the shares of all pieces add up to the bill. Time and memory grow with what is new or written
    again in each request.
    """

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._stream = PrefixStream(prices.ttl_s)
        # The name of each piece of the last request, its tokens, and the calls and the price of a
        # token that is read so far when it came.
        self._standing: list[tuple[str, int, int, float]] = []
        self._calls, self._read = 0, 0.0
        self._paid: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])

    def bill(
        self, kept: int, more: Segments, names: Sequence[str], at: float | None = None
    ) -> Bill:
        """Return the next request: the first `kept` pieces of the last one, then `more`.

        `names` are what those are called in `shares`.
        """
        self._settle(self._standing[kept:])
        del self._standing[kept:]
        new = zip(names, more, strict=True)
        self._standing += [(name, tokens, self._calls, self._read) for name, (_, tokens) in new]
        tokens, shared = self._stream.add(kept, more, at)
        billed = bill_of(self.prices, int(tokens), int(shared), goes_on=self._stream.goes_on)
        factor = self.prices.factor(billed.tokens)
        self._calls += 1
        self._read += factor * self.prices.read
        fresh = fresh_price(self.prices, billed.tokens)
        left = billed.tokens - billed.cached if fresh != self.prices.read else 0
        for name, tokens, _, _ in reversed(self._standing):
            if left <= 0:
                break
            self._paid[name][2] += min(tokens, left) * factor * (fresh - self.prices.read)
            left -= tokens
        return billed

    def shares(self) -> Mapping[str, Share]:
        """Return what each piece has cost so far, by its name."""
        self._settle(self._standing)
        self._standing = [
            (name, tokens, self._calls, self._read) for name, tokens, _, _ in self._standing
        ]
        return {
            name: Share(int(calls), int(tokens), units)
            for name, (calls, tokens, units) in self._paid.items()
        }

    def _settle(self, pieces: Sequence[tuple[str, int, int, float]]) -> None:
        for name, tokens, calls, read in pieces:
            paid = self._paid[name]
            paid[0] += self._calls - calls
            paid[1] += tokens * (self._calls - calls)
            paid[2] += tokens * (self._read - read)
