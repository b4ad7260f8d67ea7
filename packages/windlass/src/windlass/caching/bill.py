"""What the input of a request costs with a prompt cache: the one formula, and its parts.

A request of n tokens, of which the cache holds c and u are not written to it, costs

    f(n) * (r * c + w * (n - c - u) + u)

fresh input tokens of the first tier: r and w are the prices of reading and of writing a token, f is
the factor of the request's tier. A request shorter than the shortest prefix that a cache keeps is
not written, so its w is 1.
"""

from __future__ import annotations

from windlass.caching.prices import Prices


def cached_tokens(prices: Prices, shared: float) -> float:
    """Return how many tokens the cache holds of a prefix of `shared` tokens that was sent before.

    They are a multiple of its step, and 0 below its minimum or where nothing is cached.
    """
    cached = shared // prices.step * prices.step
    return cached if prices.caches and cached >= prices.minimum else 0


def fresh_price(prices: Prices, tokens: float) -> float:
    """Return the price of each token that the cache does not hold, by the size of the request."""
    return prices.write if tokens >= prices.minimum else 1.0


def input_units(
    prices: Prices,
    tokens: float,
    cached: float,
    *,
    unwritten: float = 0,
    fresh: float | None = None,
) -> float:
    """Return what the input of a request costs, in fresh input tokens of the first tier.

    Args:
        prices: What its model charges.
        tokens: The tokens of the request.
        cached: Those of them that are read from the cache.
        unwritten: Those that stand behind the last cache mark, and so are not written to it.
        fresh: The price of a token that is not cached (None: what `fresh_price` says).
    """
    price = fresh_price(prices, tokens) if fresh is None else fresh
    written = tokens - cached - unwritten
    return prices.factor(tokens) * (cached * prices.read + written * price + unwritten)


def usage_units(
    prices: Prices, tokens: float, read: float, written: float = 0.0, long: float = 0.0
) -> float:
    """Say what the input of a request costs, by what its provider counted, in fresh input tokens.

    Args:
        prices: What its model charges.
        tokens: The tokens of the request.
        read: Those of them that were read from the cache.
        written: Those that were written to it.
        long: Those of the written ones that were written for the longer time.
    """
    units = input_units(prices, tokens, read, unwritten=tokens - read - written, fresh=prices.write)
    dearer = 0.0 if prices.write_long is None else prices.write_long - prices.write
    return units + prices.factor(tokens) * long * dearer
