"""What tools that wait and compactions saved in a session, beside the calls that were billed.

A definition that waits was not written by the first call, nor where nothing was cached, and not
read by the others. A compaction that was made by itself left fewer tokens to read, or to write
where the cache was cold; the text that it made was written once. One that the client asked for
saves nothing here: what it would have left is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from windlass.public import OWN, Account, Prices, find_prices
from windlass_agents.compaction_moments import CACHED_LONG_S
from windlass_agents.conversation_compaction import DUE
from windlass_agents.deferred_tools import ToolDecision, decisions_of
from windlass_agents.kept_compactions import KeptCompaction, KeptCompactions


@dataclass(frozen=True, slots=True)
class BilledCall:
    """A call as far as a saving depends on it."""

    time: float
    """Seconds since 1970."""
    is_cold: bool
    """Whether most of what was sent was not cached."""


def dollars_saved(
    store: Path, agent: str, session: str, main: Account, accounts: Iterable[Account]
) -> tuple[float, float]:
    """Return what tools that wait, and compactions, saved in a session, in US dollars.

    `main` is its own conversation, `accounts` all, those of its subagents included.
    """
    decisions = list(decisions_of(store, agent, session).values())
    tools = sum(
        _dollars(one, lambda calls, prices: units_of_tools(calls, decisions, prices))
        for one in accounts
    )
    made = [one for one in KeptCompactions(store, agent, session) if one.block and not one.thread]
    ends = [one.time for one in made[1:]] + [math.inf]
    compactions = sum(
        _dollars(main, partial(units_of_compaction, made=one, until=end))
        for one, end in zip(made, ends, strict=False)
    )
    return tools, compactions


def _dollars(account: Account, units: Callable[[list[BilledCall], Prices], float]) -> float:
    calls = [
        BilledCall(call.row.timestamp, 2 * call.tokens_cached < call.tokens_in)
        for call in account.calls
    ]
    name = next(iter(account.names.values()), "")
    found = find_prices(OWN, name)
    prices: Prices = found.vector
    written = sum(one.tokens_written for one in account.costs)
    written_long = sum(one.tokens_written_long for one in account.costs)
    if 2 * written_long > written and prices.write_long is not None:
        prices = Prices(prices.read, prices.write_long, prices.minimum, prices.step, CACHED_LONG_S)
    return found.dollars(units(calls, prices)) or 0.0


def units_of_tools(
    calls: Sequence[BilledCall], decisions: Iterable[ToolDecision], prices: Prices
) -> float:
    """Return what definitions that wait would have cost in front, in fresh input tokens."""
    tokens = sum(one.tokens for one in decisions if one.deferred)
    return sum(tokens * (prices.write if call.is_cold else prices.read) for call in calls)


def units_of_compaction(
    calls: Sequence[BilledCall], prices: Prices, *, made: KeptCompaction, until: float
) -> float:
    """Return what a compaction saved until a time, in fresh input tokens."""
    later = [call for call in calls if made.time < call.time <= until]
    if not made.block or not later or made.trigger != DUE:
        return 0.0
    before = max((call.time for call in calls if call.time <= made.time), default=0.0)
    gone = made.tokens_before - made.tokens_after
    # The text is new, so the first call has written it; whether what went would have been read
    # there, the pause says.
    was_cached = not prices.lapsed(later[0].time - before)
    first = made.tokens_before * (prices.read if was_cached else prices.write)
    first -= made.tokens_after * prices.write
    return first + sum(gone * (prices.write if one.is_cold else prices.read) for one in later[1:])
