"""What a model's prompt cache is worth: the price table and the cache rules, put together.

The table knows dollars, the rules of the wire know from how many tokens on a prefix is
kept, in which steps and for how long. Who plans or bills needs both in one value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

from windlass.prices import Prices, Rate, is_own, rate, split_model
from windlass.wire.rules import NO_CACHE, CacheRules, cache_rules

UNCACHED: Final = Prices(read=1.0, write=1.0, minimum=0, step=1, ttl_s=None)
"""The prices of a model without a prompt cache: every token is fresh, every time."""
_USUAL_MINIMUM: Final = 1_024
_USUAL_STEP: Final = 128
"""What most hosted caches keep to; assumed of one whose price alone is known."""


def prices_of(model: str, *, warn: Callable[[str], None] | None = None) -> Prices:
    """What input costs at `provider/model`, in units of a fresh token of it.

    Prices are the table's, or the user's own, which are taken at their word; where the
    listed price and the cache rules differ about writing, the dearer one counts. A
    model without a price is taken to have no cache, and `warn` (default: a Python warning)
    is told the model and what is assumed of it. So it is where the cache of a model has a
    price but no known rules. The model on this machine keeps a prefix and reads it free.

    Raises UsageError for a name without a provider.
    """
    tell = _warn if warn is None else warn
    rules = cache_rules(*split_model(model))
    found = rate(model)
    if found is None and not is_local(model):
        tell(
            f"model {model!r} has no price in the table, so no prompt cache is assumed: a token"
            ' read from one would cost as much as a fresh one; set [prices."provider/model"]'
            " in windlass.toml"
        )
        return UNCACHED
    if found is None or found.input == 0:
        return _by_rules(rules, model)
    read, write = _share(found.cache_read, found), _share(found.cache_write, found)
    long = None if found.cache_write_long is None else _share(found.cache_write_long, found)
    if not is_own(model):
        # Where there are no marks to set, a listed price is that of a cache made on purpose.
        unmarked = rules.automatic and not rules.breakpoints
        write = rules.write if unmarked else max(write, rules.write)
        long = rules.write_long if long is None else long
    if read >= 1:
        return Prices(1.0, 1.0, 0, 1, None, tiers=found.tiers)
    if rules != NO_CACHE:
        minimum, step = rules.minimum_for(model), rules.step
    else:
        minimum, step = _USUAL_MINIMUM, _USUAL_STEP
        tell(
            f"model {model!r} has a price for cached tokens and no known rules; its cache is"
            f" taken to keep prefixes from {minimum:,} tokens on, in steps of {step}"
        )
    return Prices(read, write, minimum, step, rules.ttl_s, write_long=long, tiers=found.tiers)


def cache_of(model: str) -> CacheRules:
    """The cache rules of `provider/model`; NO_CACHE where it is in no price table.

    What nobody lists is not known to be cached either. Raises UsageError for a name
    without a provider.
    """
    known = rate(model) is not None or is_local(model)
    return cache_rules(*split_model(model)) if known else NO_CACHE


def priced_as(model: str, price_as: str, *, free: bool) -> str:
    """The model at whose prices the tokens of `model` are told.

    A hosted model is told at its own, also where none is known; one that costs nothing
    (`free`) at those of `price_as`, because what it would cost elsewhere is the question.
    """
    return price_as if free else model


def is_local(model: str) -> bool:
    """Whether `provider/model` runs on this machine, in process."""
    return model.startswith("local/")


def input_dollars(found: Rate, units: float) -> float:
    """US dollars of `units` fresh input tokens of the first tier."""
    return units * found.input / 1e6


def _share(dollars: float, found: Rate) -> float:
    return round(dollars / found.input, 6)


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
