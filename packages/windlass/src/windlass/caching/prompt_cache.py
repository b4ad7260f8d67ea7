"""A model's prompt cache, modelled: what it would read and write of requests, by their marks.

A request is its pieces in the order of the cache (tools, system prompt, messages), each as an
identity and tokens. Where marks are needed, an entry ends at each mark of a request that was sent;
a later request reads the longest entry that one of its marks looks back to. Where a cache is
automatic, it reads the longest beginning that any request had. `provider_rules.py` has the rules,
`bill.py` says what the tokens cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate

from windlass.caching.breakpoints import MarkRules
from windlass.caching.prices import Prices


@dataclass(frozen=True, slots=True)
class CachedPieces:
    """A request as a cache sees it.

    `prefixes` has an identity for each beginning, `sums` its tokens; `marks` are the pieces with a
    mark, and whether it asks for the longer time.
    """

    prefixes: tuple[bytes, ...]
    sums: tuple[float, ...]
    marks: Mapping[int, bool] = field(default_factory=dict[int, bool])

    @classmethod
    def of(cls, pieces: Sequence[tuple[bytes, float]], marks: Mapping[int, bool]) -> CachedPieces:
        """Return the request with these pieces, as (identity, tokens), and marks."""
        prefixes = list[bytes]()
        before = b""
        for identity, _ in pieces:
            before = blake2b(before + identity, digest_size=16).digest()
            prefixes.append(before)
        sums = accumulate(tokens for _, tokens in pieces)
        return cls(tuple(prefixes), tuple(sums), marks)

    @property
    def tokens(self) -> float:
        """Return the tokens of the request."""
        return self.sums[-1] if self.sums else 0.0


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a cache does with a request, in tokens: read from it, written to it, and of that long.

    `long` are those that are written for the longer time.
    """

    tokens: float
    read: float = 0.0
    written: float = 0.0
    long: float = 0.0


class PromptCache:
    """The cache of one model.

    Args:
        prices: What it charges; its minimum, step and lifetime are theirs.
        rules: The rules of its marks (None: it takes none).
        automatic: Whether it caches requests without marks, too.
    """

    def __init__(self, prices: Prices, rules: MarkRules | None, *, automatic: bool) -> None:
        self._prices = prices
        self._rules = rules
        self._automatic = automatic
        self._entries: dict[bytes, float] = {}
        """Until when each entry is kept, in seconds."""

    def expect(self, request: CachedPieces, at: float) -> CacheUse:
        """Return what the cache would do with a request that is sent at `at` seconds."""
        if not self._prices.caches or not request.sums:
            return CacheUse(request.tokens)
        marks = self._marks(request)
        if self._rules is None or not marks:
            if not self._automatic:
                return CacheUse(request.tokens)
            place = self._alive(request, range(len(request.sums) - 1, -1, -1), at)
            read = 0.0 if place is None else request.sums[place]
            read = self._whole(read)
            fresh = request.tokens - read if request.tokens >= self._prices.minimum else 0.0
            return CacheUse(request.tokens, read, fresh)
        places = [self._alive(request, self._looked_at(mark), at) for mark in marks]
        longest = max((place for place in places if place is not None), default=None)
        read = 0.0 if longest is None else self._whole(request.sums[longest])
        kept = [mark for mark in marks if request.sums[mark] >= self._prices.minimum]
        if not kept:
            return CacheUse(request.tokens, read)
        written = max(0.0, request.sums[max(kept)] - read)
        longs = [request.sums[mark] for mark in kept if request.marks.get(mark)]
        return CacheUse(request.tokens, read, written, max(0.0, max(longs, default=read) - read))

    def send(self, request: CachedPieces, at: float) -> None:
        """Keep what a request writes and reads, which is sent at `at` seconds."""
        if not self._prices.caches or not request.sums:
            return
        ttl = self._prices.ttl_s or float("inf")
        rules = self._rules
        marks = self._marks(request)
        if rules is None or not marks:
            if self._automatic:  # with marks of its own kind, it sets one at the end
                kept = request.prefixes if rules is None else request.prefixes[-1:]
                self._entries |= dict.fromkeys(kept, at + ttl)
            return
        for mark in marks:
            place = self._alive(request, self._looked_at(mark), at)
            long = request.marks.get(mark) and rules.ttl_long_s
            until = at + (long or ttl)
            for each in {mark, mark if place is None else place}:
                if request.sums[each] >= self._prices.minimum:
                    key = request.prefixes[each]
                    self._entries[key] = max(until, self._entries.get(key, 0.0))
        if len(self._entries) > _MOST:
            self._entries = {key: until for key, until in self._entries.items() if until > at}

    def _marks(self, request: CachedPieces) -> list[int]:
        return sorted(mark for mark in request.marks if 0 <= mark < len(request.sums))

    def _looked_at(self, mark: int) -> range:
        """Return the pieces at which an entry may end that a mark finds, the longest first."""
        back = 1 if self._rules is None or self._rules.lookback is None else self._rules.lookback
        return range(mark, max(-1, mark - back), -1)

    def _alive(self, request: CachedPieces, places: range, at: float) -> int | None:
        return next(
            (each for each in places if self._entries.get(request.prefixes[each], -1.0) >= at), None
        )

    def _whole(self, shared: float) -> float:
        """Give the tokens that are read of a common beginning: whole steps, from the minimum on."""
        step = self._prices.step
        return shared // step * step if shared >= self._prices.minimum else 0.0


_MOST = 50_000
"""Entries from which on those that have lapsed are forgotten."""
