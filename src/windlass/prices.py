"""What tokens cost at hosted models: a maintained offline table, with its date.

The figures are those of the `genai-prices` package, which ships inside its own
wheel; nothing is fetched. A model that the table does not hold has no price:
`cost` then answers None, never zero. A user's own prices (`override`) go before the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from typing import Final

from windlass.errors import UsageError

CACHE_MINIMUM: Final = 1_024
"""Shortest prefix, in tokens, that a hosted provider's prompt cache keeps."""

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


@dataclass(frozen=True, slots=True)
class Rate:
    """US dollars a million tokens, at the first tier; `window` is in tokens (None: not listed)."""

    model: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    window: int | None


@dataclass(frozen=True, slots=True)
class Override:
    """A user's own price of a model, in US dollars a million tokens, without tiers.

    Without a price of their own, cached tokens cost what input costs.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


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

    fresh = base(chosen.input_mtok)
    if fresh is None:
        return None
    read = base(chosen.cache_read_mtok)
    write = base(chosen.cache_write_mtok)
    return Rate(
        model=name,
        input=fresh,
        output=base(chosen.output_mtok) or 0.0,
        cache_read=fresh if read is None else read,
        cache_write=fresh if write is None else write,
        window=found.context_window,
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
) -> float | None:
    """US dollars of one call; `tokens_in` includes the cached and the written ones.

    None: no price is known. Tiers and cache prices are the table's; a user's own
    price has no tiers. Cached tokens are billed as reads, written ones as
    writes of the short kind; where a model has no price for writing, as input.
    """
    found = rate(name)
    if found is None:
        return None
    cached = min(tokens_cached, tokens_in)
    written = min(tokens_written, tokens_in - cached)
    if name in _OVERRIDES.get({}):
        fresh = tokens_in - cached - written
        dollars = fresh * found.input + cached * found.cache_read + written * found.cache_write
        return (dollars + tokens_out * found.output) / 1e6
    from genai_prices import Usage, calc_price

    provider, model = _reference(name)
    priced = calc_price(
        Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cache_read_tokens=cached,
            cache_write_tokens=written,
        ),
        model_ref=model,
        provider_id=provider,
    )
    return float(priced.total_price)


@dataclass(frozen=True, slots=True)
class Billed:
    """One request of a stream as a caching provider would bill it; tokens and US dollars."""

    tokens: int
    cached: int
    dollars: float


def bill_stream(rate: Rate, requests: Sequence[Sequence[tuple[str, int]]]) -> list[Billed]:
    """What each request of a session costs with a prompt cache, input side only.

    A request is its messages in order as (identity, tokens); tools and system come
    first. The cached part is the longest common prefix with one of the previous 8
    requests, from `CACHE_MINIMUM` tokens on; the rest is written to the cache where
    the request is long enough to be kept at all, else it is plain input.
    """
    billed: list[Billed] = []
    for index, request in enumerate(requests):
        total = sum(tokens for _, tokens in request)
        shared = max(
            (_shared_tokens(request, earlier) for earlier in requests[max(0, index - 8) : index]),
            default=0,
        )
        cached = shared if shared >= CACHE_MINIMUM else 0
        fresh = rate.cache_write if total >= CACHE_MINIMUM else rate.input
        dollars = (cached * rate.cache_read + (total - cached) * fresh) / 1e6
        billed.append(Billed(total, cached, dollars))
    return billed


def _shared_tokens(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += mine[1]
    return shared
