"""What one request to a model cost: made here alone, from what its row says and from prices.

A request of a hosted model cost what its row has. One of a model that costs nothing is told at the
prices of a hosted one: a call by what the hosted one's cache would hold of its session's requests,
anything else by its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windlass.caching.rates import cost, is_local, rate
from windlass.history.base import Row, Store

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


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request cost, or several. Tokens are those that providers reported.

    `dollars` are US dollars (None: no price is known). `told`: the model costs nothing, and another
    would have billed them.
    """

    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float | None = None
    told: bool = False

    def plus(self, other: Charge) -> Charge:
        """Both together: told where all that cost anything is; what has no price is in no sum."""
        known = [each.dollars for each in (self, other) if each.dollars is not None]
        return Charge(
            self.tokens_in + other.tokens_in,
            self.tokens_cached + other.tokens_cached,
            self.tokens_out + other.tokens_out,
            sum(known) if known else None,
            told=other.told if self.dollars is None else self.told and other.told,
        )


def is_free(model: str, dollars: float | None) -> bool:
    """Whether a request was free because its model is not sold, rather than sold for nothing."""
    return dollars == 0 and (is_local(model) or rate(model) is None)


def charge_of(row: Row, price_as: str, told: float | None = None) -> Charge:
    """The charge of a request that a row tells of; `told`: that of a call that cost nothing."""
    usage = row.tokens_in or 0, row.tokens_cached or 0, row.tokens_out or 0
    return _charge(str(row.model), row.cost, usage, price_as, told)


def _charge(
    model: str,
    dollars: float | None,
    usage: tuple[int, int, int],
    price_as: str,
    told: float | None,
) -> Charge:
    if not is_free(model, dollars):
        return Charge(*usage, dollars)
    tokens_in, _, tokens_out = usage
    dollars = cost(price_as, tokens_in, tokens_out) if told is None else told
    return Charge(*usage, dollars, told=True)


def charges_of(
    store: Store, names: Sequence[str], price_as: str, told: FreeCalls
) -> Iterator[tuple[Mapping[str, Any], Charge]]:
    """Each request of these sessions: the columns of its row, and its charge.

    `told` is asked for a session once, where a call of it cost nothing.
    """
    known = frozenset(names)
    named = list(names) if len(known) <= _NAMED else []
    where = f" AND session_id IN ({', '.join('?' * len(named))})" if named else ""
    calls: dict[str, Mapping[str, float | None]] = {}
    for row in store.query(_BILLED + where, named):
        name, model = row["session_id"], str(row["model"])
        if name not in known:
            continue
        free: float | None = None
        if row["node_type"] in CALLS and is_free(model, row["cost"]):
            if name not in calls:
                calls[name] = told(name)
            free = calls[name].get(row["trace_id"])
        usage = row["tokens_in"] or 0, row["tokens_cached"] or 0, row["tokens_out"] or 0
        yield row, _charge(model, row["cost"], usage, price_as, free)
