"""Prices as a user names them: a model's, a vector of the benchmarks, or numbers.

What the calls of a recording share with those before them, and the prices of bills.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, TypeAlias

from windlass.caching.meter import PrefixStream, SharedPrefix
from windlass.caching.prices import Prices, carried_cost
from windlass.caching.rates import Rate, input_dollars, output_dollars, prices_of, rate
from windlass.errors import UsageError, did_you_mean
from windlass.replays.numbered import NumberedMessages, common_length

_TOOLS: Final = -1
"""The number of the first tools among segments; messages have numbers from 0 on."""
USUAL_TTL_S: Final = 300.0
LONG_TTL_S: Final = 3_600.0
"""Seconds for which most caches keep a prefix."""


@dataclass(frozen=True, slots=True)
class Vector(Prices):
    """Prices with the `name` that tables show. What is written is kept for the usual time."""

    ttl_s: float | None = None
    name: str = ""

    @property
    def for_windows(self) -> Prices:
        """The same for planning windows: where no time is known, a prefix is kept for 5 minutes.

        Most caches that charge in this way keep it for that long.
        """
        ttl_s = USUAL_TTL_S if self.ttl_s is None and self.caches else self.ttl_s
        return Prices(self.read, self.write, self.minimum, self.step, ttl_s, tiers=self.tiers)


VECTORS: Final = (
    Vector(0.10, 1.25, 1_024, 1, name="anthropic"),
    Vector(0.10, 1.00, 1_024, 128, name="automatic"),
    Vector(1.0, 1.0, 0, 1, name="none"),
)
"""Anthropic-like, an automatic cache, no cache."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """When a call was sent, in seconds since 1970 (None: unknown), and the number of its tools."""

    time: float | None = None
    tools: int = 0


def measure_calls(
    windows: Iterable[Sequence[int]],
    numbered: NumberedMessages,
    heads: Iterable[RequestHead] = repeat(RequestHead()),
    ttl_s: float | None = None,
) -> list[SharedPrefix]:
    """Return each window's neutral tokens, and those it shares with the windows before it.

    A cache forgets a prefix after `ttl_s` seconds (None: never), and does not find it behind other
    tools, which stand in front of the messages.
    """
    stream, before = PrefixStream(ttl_s, numbered.common_tokens), list[int]()
    tools: int | None = None
    calls: list[SharedPrefix] = []
    for window, head in zip(windows, heads, strict=False):
        kept = common_length(window, before) if head.tools == tools else -1
        new = [(number, numbered.tokens[number]) for number in window[max(0, kept) :]]
        first = [] if kept >= 0 else [(_TOOLS - head.tools, 0.0)]
        calls.append(stream.add(kept + 1, [*first, *new], head.time))
        before, tools = list(window), head.tools
    return calls


OWN: Final = "own"
"""The prices of each recording's own model."""
_NAMED: Final = {vector.name: vector for vector in VECTORS}
_NUMBERS: Final = 4

PricesName: TypeAlias = str | Prices


@dataclass(frozen=True, slots=True)
class PricedVector:
    """Prices in units of a fresh input token, and in US dollars where they are a model's."""

    name: str
    """What tables call them."""
    vector: Vector
    rate: Rate | None = None
    assumed: str = ""
    """A sentence about what was assumed (empty: nothing)."""

    def dollars(self, units: float) -> float | None:
        """Return what `units` fresh input tokens cost in US dollars; None: no price is known."""
        return None if self.rate is None else input_dollars(self.rate, units)

    def carried_units(self, tokens: float, calls: int) -> float:
        """Return what a text costs in so many calls, in fresh input tokens: its first writes it."""
        return carried_cost(tokens, calls, read=self.vector.read, write=self.vector.write)

    def output_dollars(self, tokens_in: float, tokens_out: float) -> float:
        """Return what a reply costs in US dollars; 0 where no price is known."""
        if self.rate is None:
            return 0.0
        return output_dollars(self.rate, round(tokens_in), round(tokens_out))


def check_prices(named: Iterable[PricesName]) -> tuple[PricesName, ...]:
    """Return the prices, each once. Raises UsageError for unknown ones."""
    names = tuple(dict.fromkeys(named))
    for name in names:
        if name != OWN:
            find_prices(name, "")
    return names


def find_prices(named: PricesName, model: str) -> PricedVector:
    """Return the prices that a user names, for a recording with `model`.

    Raises UsageError for unknown ones.
    """
    if isinstance(named, Prices):
        name = f"{named.read:g},{named.write:g},{named.minimum},{named.step}"
        return PricedVector(name, _vector(name, named))
    if not isinstance(named, str):
        raise UsageError(f"prices are a name or Prices, not {named!r}")
    if named == OWN:
        return _own(model)
    if named in _NAMED:
        return PricedVector(named, _NAMED[named])
    if "/" in named:
        listed = rate(named)
        if listed is None or not listed.input:
            raise UsageError(
                f"model {named!r} has no price; set [prices.{named!r}] in windlass.toml, or take"
                f" one of {', '.join(_NAMED)}"
            )
        return _of_model(named, named, listed)
    return PricedVector(named, _vector(named, _numbers(named)))


def _own(model: str) -> PricedVector:
    listed = rate(model) if "/" in model.strip("/") else None
    if listed is not None and listed.input:
        return _of_model(OWN, model, listed)
    assumed = f"model {model!r} has no price: prices like Anthropic's are taken"
    return PricedVector(OWN, VECTORS[0], assumed=assumed)


def _of_model(name: str, model: str, listed: Rate) -> PricedVector:
    return PricedVector(name, _vector(model, prices_of(model, warn=lambda _: None)), listed)


def _numbers(named: str) -> Prices:
    """`read,write,minimum,step`; the last two may be left out."""
    parts = named.split(",")
    try:
        read, write, *more = map(float, parts)
    except ValueError:
        read, more = -1.0, [0.0] * _NUMBERS
    if read < 0 or len(parts) > _NUMBERS:
        raise UsageError(
            f"there are no prices {named!r}: {did_you_mean(named, _NAMED)}; or a model as"
            " provider/model, or READ,WRITE[,MINIMUM,STEP] in fresh input tokens, such as"
            " 0.1,1.25,1024,1"
        )
    minimum, step = ([int(one) for one in more] + [1_024, 1][len(more) :])[:2]
    return Prices(read, write, minimum if read < 1 else 0, step, None)


def _vector(name: str, prices: Prices) -> Vector:
    return Vector(
        prices.read,
        prices.write,
        prices.minimum,
        prices.step,
        prices.ttl_s,
        tiers=prices.tiers,
        name=name,
    )
