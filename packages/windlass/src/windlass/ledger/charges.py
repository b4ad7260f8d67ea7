"""What requests to models cost: made here alone, from what was counted and from prices.

A request of a hosted model cost what its record has. One of a model that costs nothing is shown at
the prices of a hosted one: a call by what the hosted one's cache would hold of its session's
requests, anything else by its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from windlass.caching.rates import cost, is_local, rate
from windlass.history.base import Row, SessionInfo, Store
from windlass.history.row_details import ReplyDetails
from windlass.wire.base import Usage

_NAMED: Final = 500
"""Sessions that are named in a query; of more, all rows are read."""
_BILLED: Final = (
    "SELECT session_id, phase_name, turn_number, trace_id, node_type, model, cost, tokens_in,"
    " tokens_cached, tokens_out FROM unified_logs WHERE model IS NOT NULL"
    " AND (tokens_in IS NOT NULL OR cost IS NOT NULL"
    " OR (node_type IN ('agent', 'follow_up') AND metadata_json NOT LIKE '%\"inherited\":%'))"
)
"""What has a bill, and calls without one: of an imported session, whose usage was not recorded."""
CALLS: Final = frozenset({"agent", "follow_up"})
"""The types of rows that are calls; others are what models were asked beside them."""

FreeCalls: TypeAlias = Callable[[str], Mapping[str, float | None]]
"""What the calls of a session would have cost that cost nothing, by their traces."""

_Key = TypeVar("_Key")
_Sum = TypeVar("_Sum", bound="Charge")


@dataclass(slots=True, kw_only=True)
class Charge:
    """What a request cost, or several together. Tokens are those that providers reported."""

    calls: int = 0
    """How many of the requests are calls, and not asked beside them."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Of the input, what was read from a cache."""
    tokens_written: int = 0
    """Of the input, what was written to a cache, for whatever time."""
    tokens_written_long: int = 0
    """Of `tokens_written`, what was written for an hour, which costs more."""
    tokens_out: int = 0
    searches: int = 0
    """The provider's own searches of the web."""
    dollars: float | None = 0.0
    """US dollars of what has a price (None: nothing has)."""
    notional: float = 0.0
    """Of `dollars`, what nobody bills: it is taken from another model, since its own is free."""
    estimated: int = 0
    """Calls whose output was not recorded, and is estimated."""
    unpriced: int = 0
    """Requests without a price, which are not in `dollars`."""

    counts: ClassVar[tuple[str, ...]] = (
        *("calls", "tokens_in", "tokens_cached", "tokens_written", "tokens_written_long"),
        *("tokens_out", "searches", "notional", "estimated", "unpriced"),
    )
    """What is added up number by number."""
    money: ClassVar[tuple[str, ...]] = ("dollars",)
    """What is added up as far as it is known."""

    @property
    def fresh(self) -> int:
        """Return tokens that were neither read from a cache nor written to one."""
        return max(0, self.tokens_in - self.tokens_cached - self.tokens_written)

    @property
    def share_cached(self) -> float | None:
        """Return the share of the input that was read from a cache (None: there was no input)."""
        return self.tokens_cached / self.tokens_in if self.tokens_in else None

    @property
    def weight(self) -> tuple[float, int]:
        """By what charges are ranked: dollars, and of those without a price the tokens."""
        return self.dollars or 0.0, self.tokens_in

    @property
    def is_notional(self) -> bool:
        """Return whether nobody bills any of it."""
        return self.notional > 0 and self.notional == self.dollars

    def add(self, other: Charge) -> None:
        """Count another one in; what the other does not have is nothing."""
        is_empty = not self.dollars and not any(getattr(self, name) for name in self.counts)
        for name in self.counts:
            if more := getattr(other, name, 0):
                setattr(self, name, getattr(self, name) + more)
        if other.dollars is not None:
            was_none = self.dollars is None
            for name in self.money:
                amount, own = getattr(other, name, None), getattr(self, name)
                both = None if own is None or amount is None else own + amount
                setattr(self, name, amount if was_none else both)
        elif is_empty:
            for name in self.money:
                setattr(self, name, None)


def total_of(charges: Iterable[Charge]) -> Charge:
    """Return the charges added up."""
    total = Charge()
    for charge in charges:
        total.add(charge)
    return total


def sums_by(
    charges: Iterable[tuple[_Key, Charge]], line: Callable[[_Key], _Sum]
) -> dict[_Key, _Sum]:
    """The charges added up by key, in the order in which keys come; `line` makes an empty sum."""
    sums: dict[_Key, _Sum] = {}
    for key, charge in charges:
        if key not in sums:
            sums[key] = line(key)
        sums[key].add(charge)
    return sums


def dearest_first(sums: Iterable[_Sum]) -> list[_Sum]:
    """Return those first that cost most."""
    return sorted(sums, key=attrgetter("weight"), reverse=True)


def is_free(model: str, dollars: float | None) -> bool:
    """Whether a request was free because its model is not sold, rather than sold for nothing."""
    return dollars == 0 and (is_local(model) or rate(model) is None)


def usage_of(row: Row) -> Usage:
    """Return the tokens of the request that a row tells of."""
    reply = ReplyDetails.read(row) or ReplyDetails()
    return Usage(
        row.tokens_in or 0,
        row.tokens_out or 0,
        row.tokens_cached or 0,
        reply.tokens_written,
        reply.tokens_written_long,
        reply.searches,
        reply.tier,
    )


def charge_of(
    model: str,
    dollars: float | None,
    usage: Usage,
    price_as: str,
    at_others: float | None = None,
    *,
    is_call: bool = True,
    estimated: bool = False,
) -> Charge:
    """Return the charge of a request.

    Args:
        model: Who answered it.
        dollars: What its record says it cost (None: no price is known).
        usage: Its tokens.
        price_as: At whose prices one is shown that cost nothing.
        at_others: What it would have cost there (None: what its tokens cost without a cache).
        is_call: Whether it is a call, and not asked beside one.
        estimated: Whether its output was not recorded, and is estimated.
    """
    notional = 0.0
    if is_free(model, dollars):
        at_tokens = cost(price_as, usage.tokens_in, usage.tokens_out)
        dollars = at_tokens if at_others is None else at_others
        notional = dollars or 0.0
    return Charge(
        tokens_in=usage.tokens_in,
        tokens_cached=usage.tokens_cached,
        tokens_written=usage.tokens_written,
        tokens_written_long=usage.tokens_written_long,
        tokens_out=usage.tokens_out,
        searches=usage.searches,
        dollars=dollars,
        notional=notional,
        calls=int(is_call),
        estimated=int(estimated),
        unpriced=int(dollars is None),
    )


def charges_of(
    store: Store, names: Sequence[str], price_as: str, free_calls: FreeCalls
) -> Iterator[tuple[Mapping[str, Any], Charge]]:
    """Yield each request of these sessions: the columns of its row, and its charge.

    `free_calls` is asked for a session once, where a call of it cost nothing. What was written to a
    cache is no column, and 0 here.
    """
    known = frozenset(names)
    named = list(names) if len(known) <= _NAMED else []
    where = f" AND session_id IN ({', '.join('?' * len(named))})" if named else ""
    by_trace: dict[str, Mapping[str, float | None]] = {}
    for row in store.query(_BILLED + where, named):
        name, model = row["session_id"], str(row["model"])
        if name not in known:
            continue
        is_call, at_others = row["node_type"] in CALLS, None
        if is_call and is_free(model, row["cost"]):
            if name not in by_trace:
                by_trace[name] = free_calls(name)
            at_others = by_trace[name].get(row["trace_id"])
        usage = Usage(row["tokens_in"] or 0, row["tokens_out"] or 0, row["tokens_cached"] or 0)
        yield row, charge_of(model, row["cost"], usage, price_as, at_others, is_call=is_call)


def roots_of(names: Iterable[str], below: Iterable[SessionInfo]) -> dict[str, str]:
    """Return the session of `names` that each session counts with: itself, or the one it ran under.

    `below` are all that ran under them, level by level, so that a parent comes first.
    """
    root_of = {name: name for name in names}
    for info in below:
        root_of.setdefault(info.session_id, root_of[info.parent_id or ""])
    return root_of
