"""What tokens cost at hosted models: a maintained offline table, with its date.

The figures are those of the `genai-prices` package, which ships inside its own wheel; nothing is
fetched. A model that the table does not hold has no price: `cost` then answers None, never zero. A
user's own prices (`override`) take precedence over the table.

`prices_of` puts the table, which knows dollars, and the cache rules together: from how many
tokens on a prefix is kept, in which steps and for how long.

Some listed prices begin on a given day, so this is the one module here that asks which day it is.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Final, Protocol

from windlass.caching.prices import UNCACHED, Prices, tier_factor
from windlass.caching.provider_rules import (
    AS_OF,
    NO_CACHE,
    CacheRules,
    cache_rules,
    listed_search_fee,
    provider_of,
    tier_factor_of,
)
from windlass.errors import UsageError

_IN_TABLE: Final = {
    "bedrock": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "together_ai": "together",
    "vertex_ai": "google",
}
"""The table's names of providers, where they differ."""

_ALIBABAS_OWN: Final = re.compile(r"qwen(\d+(\.\d+)?)?-(max|plus|flash)")
"""Models of Qwen that nobody but Alibaba serves. The table has no prices of Alibaba's; OpenRouter
passes on what the only host of a model asks (openrouter.ai, FAQ), so its prices are taken."""

_OLD_AFTER: Final = timedelta(days=90)
"""The age at which prices and cache rules count as old: vendors change theirs within a quarter."""

_USUAL_MINIMUM: Final = 1_024
_USUAL_STEP: Final = 128
"""The rules of most hosted caches; assumed if only a model's price is known."""

_LONG_WRITE: Final = 2.0
"""A token that a Claude writes to its cache for an hour costs two fresh ones, where no
table says it (platform.claude.com, prompt caching)."""

UNKNOWN_WINDOW: Final = 128_000
"""The window, in tokens, that is assumed for an unknown model."""

_WINDOWS: Final = (("gemini-2.5-pro", 1_048_576), ("gemini-3-pro", 1_048_576))
"""Windows of models that have a listed price but no listed window, by name prefix."""


@dataclass(frozen=True, slots=True)
class Rate:
    """US dollars per million tokens, at the first tier; `window` is in tokens (None: not listed).

    `cache_write_long` is the price of writing for an hour (None: there is no such kind).
    `tiers` are pairs (tokens, factor): a request with more input tokens than that costs
    this many times the price of input, on all its tokens; `output_tiers` are those of output.
    """

    model: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    window: int | None
    cache_write_long: float | None = None
    tiers: tuple[tuple[int, float], ...] = ()
    output_tiers: tuple[tuple[int, float], ...] = ()


_DOCUMENTED: Final = (
    # platform.claude.com, pricing: input 10, output 50; writes at 1.25 and 2; read at a tenth, from
    # 5.1 on at a fortieth. The table has Mythos 5.2 alone.
    (re.compile(r"claude-mythos-5[-.]1(?!\d)"), Rate("", 10.0, 50.0, 0.25, 12.5, None, 20.0)),
    (re.compile(r"claude-mythos-5(?![-.]\d(?!\d))"), Rate("", 10.0, 50.0, 1.0, 12.5, None, 20.0)),
)
"""Anthropic prices that the table lacks."""


class Override(Protocol):
    """A user's own price of a model, in US dollars per million tokens, without tiers.

    Without a price of their own, cached tokens cost what input costs, and those written
    for an hour what the others that are written cost. `search` is in US dollars for one
    search of the web.
    """

    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    cache_write_long: float | None
    search: float | None


_OVERRIDES: ContextVar[Mapping[str, Override]] = ContextVar("overrides")


@contextmanager
def override(prices: Mapping[str, Override]) -> Iterator[None]:
    """Within the context, and in tasks begun in it, `prices` override the table's."""
    token = _OVERRIDES.set(prices)
    try:
        yield
    finally:
        _OVERRIDES.reset(token)


def split_model(name: str) -> tuple[str, str]:
    """Return `provider/model` as its two halves. Raises UsageError where there is no provider."""
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise UsageError(
            f"model {name!r} names no provider; write it as provider/model,"
            " for example 'anthropic/claude-sonnet-5-5' or 'local/smollm2'"
        )
    return provider, model


def _reference(name: str) -> tuple[str, str]:
    """Return the provider and the model of `provider/model` as the table calls them."""
    provider, model = split_model(name)
    if provider == "litellm" and "/" in model:
        provider, _, model = model.partition("/")
    provider = provider_of(provider)
    if provider == "qwen" and _ALIBABAS_OWN.match(model):
        return "openrouter", f"qwen/{model}"
    return _IN_TABLE.get(provider, provider), model


_ELSEWHERE: Final = re.compile(
    r"(?:models/|arn:\S+/)?(?:(?:[a-z]{2,6}\.)?anthropic\.)?(?P<model>[^@]+?)(?:-v\d+:\d+)?(?:@\d{8})?"
)
"""A vendor's own name of a model in the names that Bedrock, Google's and others' records have."""


@cache
def _in_table(name: str) -> tuple[str, str] | None:
    """Return the provider and the model of `provider/model` that the table holds.

    None: it does not.

    A record may name Bedrock's or Vertex's name of a model beside the vendor's.
    """
    from genai_prices import data_snapshot

    provider, model = _reference(name)
    elsewhere = _ELSEWHERE.fullmatch(model)
    for each in (model, elsewhere["model"] if elsewhere else model):
        with suppress(LookupError):
            data_snapshot.get_snapshot().find_provider_model(each, None, provider, None)
            return provider, each
    return None


def _documented(name: str) -> Rate | None:
    """Return the rate of a model that its vendor documents and the table lacks."""
    provider, model = split_model(name)
    if provider != "anthropic":
        return None
    return next((replace(r, model=name) for known, r in _DOCUMENTED if known.match(model)), None)


def is_own(name: str) -> bool:
    """Return whether the price of `provider/model` is the user's own."""
    return name in _OVERRIDES.get({})


def rate(name: str) -> Rate | None:
    """Return the rate of `provider/model`: the user's own, else the listed one.

    None: neither is.
    """
    listed = _listed(name) or _documented(name)
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
    """Return the listed rate of `provider/model`, or None where the table does not hold it."""
    from genai_prices import data_snapshot
    from genai_prices.types import TieredPrices

    known = _in_table(name)
    if known is None:
        return None
    provider, model = known
    _, listed = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    prices = listed.prices
    if isinstance(prices, list):
        # Dated prices: the first whose constraint is not in the future, newest first.
        today = _today()  # the one price question that depends on the day it is asked
        dated = [p for p in prices if _starts(p.constraint) <= today]
        in_force = max(dated or prices, key=lambda p: _starts(p.constraint)).prices
    else:
        in_force = prices

    def base(value: object) -> float | None:
        amount = value.base if isinstance(value, TieredPrices) else value
        return None if amount is None else float(str(amount))

    input_price = in_force.input_mtok
    fresh = base(input_price)
    if fresh is None:
        return None
    read = base(in_force.cache_read_mtok)
    write = base(in_force.cache_write_mtok)
    if write is not None and write < fresh:
        write += fresh  # what is listed is the storage, which is paid besides the input
    long = base(in_force.cache_write_1h_mtok)
    if long is None and "claude" in model:
        long = _LONG_WRITE * fresh

    def tiers(value: object, first: float) -> tuple[tuple[int, float], ...]:
        listed_tiers = value.tiers if isinstance(value, TieredPrices) and first else []
        return tuple((tier.start, float(tier.price) / first) for tier in listed_tiers)

    output = base(in_force.output_mtok) or 0.0
    return Rate(
        model=name,
        input=fresh,
        output=output,
        cache_read=fresh if read is None else read,
        cache_write=fresh if write is None else write,
        window=listed.context_window or _window_by_name(model),
        cache_write_long=long,
        tiers=tiers(input_price, fresh),
        output_tiers=tiers(in_force.output_mtok, output),
    )


def _window_by_name(model: str) -> int | None:
    bare = model.rsplit("/", 1)[-1]
    return next((size for start, size in _WINDOWS if bare.startswith(start)), None)


def window_tokens(model: str | None) -> int:
    """Return the window of `provider/model` in tokens, by the table (None: no model is named).

    >>> window_tokens("anthropic/claude-sonnet-4-5"), window_tokens(None)
    (200000, 128000)
    """
    return listed_window(model) or UNKNOWN_WINDOW


def listed_window(model: str | None) -> int:
    """Return the window of `provider/model` in tokens, by the table; 0: it is not listed."""
    known = rate(model) if model and "/" in model.strip("/") else None
    return (known and known.window) or 0


def _today() -> date:
    return datetime.now(tz=UTC).date()


def _starts(constraint: object) -> date:
    start = getattr(constraint, "start_date", None)
    return start if isinstance(start, date) else date.min


def table_date() -> str:
    """Return which table this is: the package's version and its newest price in force, ISO date."""
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


def price_source(name: str) -> str:
    """Return the source of the price of `provider/model`, for people."""
    if is_own(name):
        return "your own, windlass.toml"
    if _listed(name) is None and _documented(name) is not None:
        return f"its vendor's pages of {AS_OF}"
    return table_date()


def age_note(today: date | None = None) -> str:
    """Return a sentence if prices and cache rules are older than 90 days, else empty.

    `today` is the day it is asked on (None: the clock's).
    """
    days = (today or _today()) - date.fromisoformat(AS_OF)
    if days <= _OLD_AFTER:
        return ""
    return (
        f"prices and cache rules are as of {AS_OF}, {days.days} days ago: vendors may have changed"
        " theirs since; a newer Windlass knows, and [prices] in windlass.toml overrides"
    )


def cost(
    name: str,
    tokens_in: int,
    tokens_out: int,
    tokens_cached: int = 0,
    tokens_written: int = 0,
    *,
    tokens_written_long: int = 0,
    searches: int = 0,
    tier: str = "",
) -> float | None:
    """Return US dollars of one call; `tokens_in` includes the cached and the written ones.

    None: no price is known, of the model, of its searches or of the tier that it ran at. Steps by
    length and cache prices are the table's; a user's own price has no steps. Cached tokens are
    billed as reads, written ones as writes, and those of them that were written for an hour
    (`tokens_written_long`) as long writes; where a model has no price for writing, as input.
    `searches` and `tier` are those of `Usage`.
    """
    factor, fee = _tier_factor(name, tier), search_fee(name, searches)
    tokens = _token_dollars(
        name,
        tokens_in,
        tokens_out,
        cached=tokens_cached,
        written=tokens_written,
        long=tokens_written_long,
    )
    return None if tokens is None or factor is None or fee is None else factor * tokens + fee


def _token_dollars(
    name: str,
    tokens_in: int,
    tokens_out: int,
    *,
    cached: int,
    written: int,
    long: int,
) -> float | None:
    """Return US dollars of the tokens of one call, at list prices."""
    price = rate(name)
    if price is None:
        return None
    cached = min(cached, tokens_in)
    written = min(written, tokens_in - cached)
    long = min(long, written)
    long_price = price.cache_write if price.cache_write_long is None else price.cache_write_long
    # What writing costs beyond input, in dollars a million times tokens.
    beyond = written * (price.cache_write - price.input) + long * (long_price - price.cache_write)
    known = _in_table(name)
    if is_own(name) or known is None or _listed(name) is None:
        fresh = tokens_in - cached
        dollars = fresh * price.input + cached * price.cache_read + beyond
        return (dollars + tokens_out * price.output) / 1e6
    from genai_prices import Usage, calc_price

    provider, model = known
    priced = calc_price(
        Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached),
        model_ref=model,
        provider_id=provider,
    )
    return float(priced.total_price) + beyond * tier_factor(price.tiers, tokens_in) / 1e6


def _tier_factor(name: str, tier: str) -> float | None:
    """Return how many times the list price the tokens of a call cost at a tier; None: not known."""
    factor = 1.0
    provider, model = split_model(name)
    for word in tier.split():
        times = tier_factor_of(provider, model, word)
        if times is None and not is_own(name):
            return None
        factor *= times or 1.0
    return factor


def search_fee(name: str, searches: int) -> float | None:
    """Return US dollars that `searches` of the web for one request cost besides its tokens.

    None: no price is known. A user's own price takes precedence over the table's.
    """
    if not searches:
        return 0.0
    provider, model = split_model(name)
    own = _OVERRIDES.get({}).get(name)
    if own is not None and own.search is not None:
        return own.search * searches
    return listed_search_fee(provider, model, searches)


def money_but_for(dollars: float | None, unpriced: int, what: str = "call") -> str:
    """Return a sum of US dollars for people, with the number of calls whose price is not known.

    >>> money_but_for(1.5, 2)
    '$1.50 but for 2 calls'
    """
    if dollars is None or not unpriced:
        return money(dollars)
    return f"{money(dollars)} but for {many(unpriced, what)}"


def money(dollars: float | None, digits: int | None = None) -> str:
    """Return US dollars for people, with their sign first: `-$0.1200`.

    With so many `digits`, or else four of less than a dollar and two of more; `no price` where none
    is known.
    """
    if dollars is None:
        return "no price"
    if digits is None:
        if dollars == 0:
            return "$0"
        digits = 4 if abs(dollars) < 1 else 2
    text = f"${abs(dollars):,.{digits}f}"
    return f"-{text}" if dollars < 0 and text.strip("$0.,") else text


def many(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things, for people: `1 call`, `2,000 calls`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def prices_of(model: str, *, warn: Callable[[str], None] | None = None) -> Prices:
    """Return what input costs at `provider/model`, in units of a fresh token of it.

    Prices are the table's, or the user's own, which are used as they are; where the listed price
    and the cache rules differ about writing, the dearer one counts. A model without a price is
    assumed to have no cache, and `warn` (default: a Python warning) receives the model and the
    assumption, as it does if a model's cache has a price but no known rules. The model on this
    machine keeps a prefix and reads it free.

    Raises UsageError for a name without a provider.
    """
    tell = _warn if warn is None else warn
    rules = cache_rules(*split_model(model))
    price = rate(model)
    if price is None and not is_local(model):
        tell(
            f"model {model!r} has no price in the table, so no prompt cache is assumed: a token"
            ' read from one would cost as much as a fresh one; set [prices."provider/model"]'
            " in windlass.toml"
        )
        return UNCACHED
    if price is None or price.input == 0:
        return _by_rules(rules, model)
    read, write = _share(price.cache_read, price), _share(price.cache_write, price)
    long = None if price.cache_write_long is None else _share(price.cache_write_long, price)
    if not is_own(model):
        # Where there are no marks to set, a listed price is that of a cache made on purpose.
        unmarked = rules.automatic and not rules.breakpoints
        write = rules.write if unmarked else max(write, rules.write)
        long = rules.write_long if long is None else long
    if read >= 1:
        return Prices(1.0, 1.0, 0, 1, None, tiers=price.tiers)
    if rules != NO_CACHE:
        minimum, step = rules.minimum_for(model), rules.step
    else:
        minimum, step = _USUAL_MINIMUM, _USUAL_STEP
        tell(
            f"model {model!r} has a price for cached tokens and no known rules; its cache is"
            f" taken to keep prefixes from {minimum:,} tokens on, in steps of {step}"
        )
    return Prices(read, write, minimum, step, rules.ttl_s, write_long=long, tiers=price.tiers)


def kin_of(name: str) -> str | None:
    """The listed model of the same vendor that is most like `provider/model`, of these the newest.

    Models are alike in the words of their names; of Anthropic's and Google's, any is like any other
    (None: none is).

    >>> kin_of("anthropic/claude-sonnet-99"), kin_of("openai/our-alias")
    ('anthropic/claude-sonnet-5-5', None)
    """
    from genai_prices import data_snapshot

    provider, model = _reference(name)
    listed = next(
        (each.models for each in data_snapshot.get_snapshot().providers if each.id == provider), []
    )
    usual = _USUAL_FAMILY.get(provider, frozenset())
    families = _family(model), usual
    prefix = name.removesuffix(model)
    for family in families:
        alike = [
            (common, -len(own - family), _version(one.id), one.id)
            for one in listed
            if (own := _family(one.id)) and (common := len(own & family))
        ]
        # A vendor's word alone makes no family.
        least = 1 if family is usual else len(family & _VENDOR_WORDS) + 1
        for common, _, _, ident in sorted(alike, reverse=True):
            if common >= least and rate(prefix + ident) is not None:
                return prefix + ident
    return None


_USUAL_FAMILY: Final = {
    "anthropic": frozenset({"claude", "sonnet"}),
    "google": frozenset({"gemini", "flash"}),
}
"""The models whose rules are taken for a name that says nothing, by the table's provider."""
_VENDOR_WORDS: Final = frozenset({"claude", "gemini"})


def _family(model: str) -> frozenset[str]:
    """Return the words of a model's name: no versions, dates or sizes."""
    return frozenset(word for word in re.split(r"[-_/.:@\s]+", model.lower()) if word.isalpha())


def _version(model: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"(?<!\d)\d{1,2}(?!\d)", model))


def cache_of(model: str) -> CacheRules:
    """Return the cache rules of `provider/model`; NO_CACHE where it is in no price table.

    An unlisted model is not known to cache either. Raises UsageError for a name without a provider.
    """
    is_listed = rate(model) is not None or is_local(model)
    return cache_rules(*split_model(model)) if is_listed else NO_CACHE


def priced_as(model: str, price_as: str, *, free: bool) -> str:
    """Return the model at whose prices the tokens of `model` are shown.

    A hosted model is shown at its own prices, even if none are known; one that costs nothing
    (`free`) at those of `price_as`, because the question is what it would cost elsewhere.
    """
    return price_as if free else model


def is_local(model: str) -> bool:
    """Return whether `provider/model` runs on this machine, in process."""
    return model.startswith("local/")


def input_dollars(price: Rate, units: float) -> float:
    """Return US dollars of `units` fresh input tokens of the first tier."""
    return units * price.input / 1e6


def output_dollars(price: Rate, tokens_in: int, tokens_out: int) -> float:
    """Return US dollars of a reply to a request of so many tokens; as `cost`, but faster."""
    return tokens_out * price.output * tier_factor(price.output_tiers, tokens_in) / 1e6


def _share(dollars: float, price: Rate) -> float:
    return round(dollars / price.input, 6)


def _by_rules(rules: CacheRules, model: str) -> Prices:
    return Prices(
        rules.read,
        rules.write,
        rules.minimum_for(model),
        rules.step,
        rules.ttl_s,
        write_long=rules.write_long,
    )


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
