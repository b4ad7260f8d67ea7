"""What tokens cost at hosted models: a maintained offline table, with its date.

The figures are those of the `genai-prices` package, which ships inside its own
wheel; nothing is fetched. A model that the table does not hold has no price:
`cost` then answers None, never zero. A user's own prices (`override`) go before the table.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from typing import Final

from windlass.errors import UsageError

_PROVIDERS: Final = {"gemini": "google"}

_BEHIND_LITELLM: Final = {
    "azure_ai": "azure",
    "bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "together_ai": "together",
    "vertex_ai": "google",
    "xai": "x-ai",
}
"""Providers as litellm calls them, where the table has another name."""

_LONG_WRITE: Final = 2.0
"""A token that a Claude writes to its cache for an hour costs two fresh ones, where no
table says it (platform.claude.com, prompt caching)."""

_REMEMBERED: Final = 8
"""Requests back in which a `Meter` looks for a prefix: what went before them is seldom
longer than what they share."""
_SEARCH: Final = {"anthropic": 0.010, "openai": 0.010, "gemini": 0.014}
"""US dollars for one search of the web, beside its tokens, as the vendors list them in
2026; what some of them give free each day or month is not counted."""

_SEARCH_REQUEST: Final = {"gemini": (re.compile(r"gemini-[12]"), 0.035)}
"""Models whose vendor bills the request that searched, however often it did."""


@dataclass(frozen=True, slots=True)
class Rate:
    """US dollars a million tokens, at the first tier; `window` is in tokens (None: not listed).

    `cache_write_long` is the price of writing for an hour (None: there is no such kind).
    `tiers` are pairs (tokens, factor): a request with more input tokens than that costs
    this many times the price of input, on all its tokens.
    """

    model: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    window: int | None
    cache_write_long: float | None = None
    tiers: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Override:
    """A user's own price of a model, in US dollars a million tokens, without tiers.

    Without a price of their own, cached tokens cost what input costs, and those written
    for an hour what the others that are written cost. `search` is in US dollars for one
    search of the web.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    search: float | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model's input costs with its prompt cache, in units of a fresh input token.

    Args:
        read: A token read from the cache (0: nothing; 1: there is no cache).
        write: A token written to it for the usual time.
        minimum: The fewest tokens of a prefix that is kept.
        step: A hit's length is a multiple of it, in tokens.
        ttl_s: Seconds that a prefix is kept after its last use (None: no time is known).
        write_long: A token written for the longer time (None: there is no such kind).
        tiers: Pairs (tokens, factor), ascending: a request with more input tokens than
            that costs this many times as much, on all its tokens.

    Raises UsageError for what cannot be.

    >>> Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300, write_long=2.0).caches
    True
    """

    read: float
    write: float
    minimum: int
    step: int
    ttl_s: float | None
    write_long: float | None = None
    tiers: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        factors = [factor for _, factor in self.tiers]
        amounts = [self.read, self.write, self.write_long or 0.0, *factors]
        if not all(0 <= amount < math.inf for amount in amounts):
            raise UsageError("prices are numbers from 0 up, in units of a fresh input token")
        if self.minimum < 0 or self.step < 1:
            raise UsageError("minimum is a number of tokens from 0 up, step one from 1 up")
        if self.ttl_s is not None and not self.ttl_s > 0:
            raise UsageError("ttl_s is a number of seconds above 0, or None")
        if [above for above, _ in self.tiers] != sorted({above for above, _ in self.tiers}):
            raise UsageError("tiers are pairs (tokens, factor), each above the one before")

    @property
    def caches(self) -> bool:
        """Whether anything is ever cheaper for having been sent before."""
        return self.read < 1

    def factor(self, tokens: int) -> float:
        """How many times the base price a request with `tokens` input tokens costs."""
        return _factor(self.tiers, tokens) if self.tiers else 1.0


def _factor(tiers: Sequence[tuple[int, float]], tokens: int) -> float:
    return next((factor for above, factor in reversed(tiers) if tokens > above), 1.0)


_OVERRIDES: ContextVar[Mapping[str, Override]] = ContextVar("overrides")


@contextmanager
def override(prices: Mapping[str, Override]) -> Iterator[None]:
    """Meanwhile, and in the tasks begun meanwhile, `prices` go before the table's."""
    token = _OVERRIDES.set(prices)
    try:
        yield
    finally:
        _OVERRIDES.reset(token)


def split_model(name: str) -> tuple[str, str]:
    """`provider/model` as its two halves. Raises UsageError where there is no provider."""
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise UsageError(
            f"model {name!r} names no provider; write it as provider/model,"
            " for example 'anthropic/claude-sonnet-4-5' or 'local/smollm2'"
        )
    return provider, model


def _reference(name: str) -> tuple[str, str]:
    """The provider and the model of `provider/model` as the table calls them."""
    provider, model = split_model(name)
    if provider == "litellm" and "/" in model:
        provider, _, model = model.partition("/")
        return _BEHIND_LITELLM.get(provider, provider), model
    return _PROVIDERS.get(provider, provider), model


def is_own(name: str) -> bool:
    """Whether the price of `provider/model` is the user's own."""
    return name in _OVERRIDES.get({})


def rate(name: str) -> Rate | None:
    """The rate of `provider/model`: the user's own, else the listed one; None: neither is."""
    listed = _listed(name)
    own = _OVERRIDES.get({}).get(name)
    if own is None:
        return listed
    return Rate(
        model=name,
        input=own.input,
        output=own.output,
        cache_read=own.input if own.cache_read is None else own.cache_read,
        cache_write=own.input if own.cache_write is None else own.cache_write,
        window=None if listed is None else listed.window,
        cache_write_long=own.cache_write_long,
    )


@cache
def _listed(name: str) -> Rate | None:
    """The listed rate of `provider/model`, or None where the table does not hold it."""
    from genai_prices import data_snapshot
    from genai_prices.types import TieredPrices

    provider, model = _reference(name)
    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    prices = found.prices
    if isinstance(prices, list):
        # Dated prices: the first whose constraint is not in the future, newest first.
        today = _today()  # the one price question that depends on the day it is asked
        dated = [p for p in prices if _starts(p.constraint) <= today]
        chosen = max(dated or prices, key=lambda p: _starts(p.constraint)).prices
    else:
        chosen = prices

    def base(value: object) -> float | None:
        amount = value.base if isinstance(value, TieredPrices) else value
        return None if amount is None else float(str(amount))

    told = chosen.input_mtok
    fresh = base(told)
    if fresh is None:
        return None
    read = base(chosen.cache_read_mtok)
    write = base(chosen.cache_write_mtok)
    if write is not None and write < fresh:
        write += fresh  # what is listed is the storage, which is paid besides the input
    long = base(chosen.cache_write_1h_mtok)
    if long is None and "claude" in model:
        long = _LONG_WRITE * fresh
    tiers = told.tiers if isinstance(told, TieredPrices) and fresh else []
    return Rate(
        model=name,
        input=fresh,
        output=base(chosen.output_mtok) or 0.0,
        cache_read=fresh if read is None else read,
        cache_write=fresh if write is None else write,
        window=found.context_window,
        cache_write_long=long,
        tiers=tuple((tier.start, float(tier.price) / fresh) for tier in tiers),
    )


def _today() -> date:
    return datetime.now(tz=UTC).date()


def _starts(constraint: object) -> date:
    start = getattr(constraint, "start_date", None)
    return start if isinstance(start, date) else date.min


def table_date() -> str:
    """Which table this is: the package's version and its newest price in force, ISO date."""
    from genai_prices import data_snapshot

    today = _today()
    newest = max(
        start
        for provider in data_snapshot.get_snapshot().providers
        for model in provider.models
        for prices in (model.prices if isinstance(model.prices, list) else ())
        if (start := _starts(prices.constraint)) <= today
    )
    return f"genai-prices {version('genai-prices')}, newest price of {newest.isoformat()}"


def cost(
    name: str,
    tokens_in: int,
    tokens_out: int,
    tokens_cached: int = 0,
    tokens_written: int = 0,
    *,
    tokens_written_long: int = 0,
) -> float | None:
    """US dollars of one call; `tokens_in` includes the cached and the written ones.

    None: no price is known. Tiers and cache prices are the table's; a user's own price
    has no tiers. Cached tokens are billed as reads, written ones as writes, and those of
    them that were written for an hour (`tokens_written_long`) as long writes; where a
    model has no price for writing, as input.
    """
    found = rate(name)
    if found is None:
        return None
    cached = min(tokens_cached, tokens_in)
    written = min(tokens_written, tokens_in - cached)
    long = min(tokens_written_long, written)
    long_price = found.cache_write if found.cache_write_long is None else found.cache_write_long
    # What writing costs beyond input, in dollars a million times tokens.
    beyond = written * (found.cache_write - found.input) + long * (long_price - found.cache_write)
    if is_own(name):
        fresh = tokens_in - cached
        dollars = fresh * found.input + cached * found.cache_read + beyond
        return (dollars + tokens_out * found.output) / 1e6
    from genai_prices import Usage, calc_price

    provider, model = _reference(name)
    priced = calc_price(
        Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached),
        model_ref=model,
        provider_id=provider,
    )
    return float(priced.total_price) + beyond * _factor(found.tiers, tokens_in) / 1e6


def search_fee(name: str, searches: int) -> float | None:
    """US dollars that `searches` of the web for one request cost beside its tokens.

    None: no price is known. A user's own price goes before the table's.
    """
    provider, model = split_model(name)
    own = _OVERRIDES.get({}).get(name)
    if own is not None and own.search is not None:
        return own.search * searches
    old, fee = _SEARCH_REQUEST.get(provider, (None, 0.0))
    if old is not None and old.match(model):
        return fee * min(searches, 1)
    price = _SEARCH.get(provider)
    return None if price is None else price * searches


@dataclass(frozen=True, slots=True)
class Billed:
    """One request of a stream as a caching provider would bill it.

    `tokens` and those of them read from the cache; `units` is the input's price in fresh
    input tokens of the first tier. `goes_on`: it begins with all of the request before it.
    """

    tokens: int
    cached: int
    units: float
    goes_on: bool = False


class Meter:
    """Bills the requests of a session to one model with its cache, input side only.

    A request is its messages in order as (identity, tokens); tools and system come first.
    With n tokens in all, of which c are read, it costs `f(n) * (r*c + w*(n - c))` units: r and
    w are the prices of reading and writing, f the factor of its tier. c is the longest prefix
    it shares with one of the requests before it within `ttl_s`, cut to a multiple of `step`,
    or 0 below `minimum`; a request shorter than `minimum` is not kept, so its w is 1. So the
    providers bill a prefix whose marks, where they want any, stand where they pay
    (platform.claude.com, developers.openai.com: prompt caching).
    """

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._before = deque[tuple[Sequence[tuple[str, int]], int, float | None]]([], _REMEMBERED)

    def expect(self, request: Sequence[tuple[str, int]], at: float | None = None) -> Billed:
        """What the request would be billed, sent at `at` seconds (None: nothing expires)."""
        prices, total = self.prices, sum(tokens for _, tokens in request)
        shared, last = 0, -1
        for before, _, sent in self._before:
            last = _shared_tokens(request, before)
            if at is None or sent is None or prices.ttl_s is None or at - sent <= prices.ttl_s:
                shared = max(shared, last)
        cached = shared // prices.step * prices.step
        if cached < prices.minimum or not prices.caches:
            cached = 0
        fresh = prices.write if total >= prices.minimum else 1.0
        units = prices.factor(total) * (cached * prices.read + (total - cached) * fresh)
        return Billed(total, cached, units, bool(self._before) and last >= self._before[-1][1])

    def bill(
        self,
        request: Sequence[tuple[str, int]],
        at: float | None = None,
        reply: Sequence[tuple[str, int]] = (),
    ) -> Billed:
        """The same, and it was sent; `reply` is kept behind it, where a cache keeps replies."""
        billed = self.expect(request, at)
        self._before.append(([*request, *reply] if reply else request, billed.tokens, at))
        return billed


def bill_stream(
    prices: Prices,
    requests: Sequence[Sequence[tuple[str, int]]],
    times: Sequence[float] | None = None,
) -> list[Billed]:
    """What the requests of a session to one model cost; `times` are when each was sent."""
    meter = Meter(prices)
    return [meter.bill(one, times[at] if times else None) for at, one in enumerate(requests)]


def _shared_tokens(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += mine[1]
    return shared
