"""What cost most in a whole store: its sessions, phases, calls and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from windlass.history.base import SessionFilter, SessionInfo, Store
from windlass.history.nesting import sessions_below
from windlass.ledger.charges import CALLS, Charge, charges_of
from windlass.report.account import AccountTree, told_calls
from windlass.report.calls import without_numbers
from windlass.report.contents import MESSAGES, MessageCost, dearest_messages

_LOOKED: Final = 20
"""Sessions in which the dearest messages are looked for."""


@dataclass(slots=True)
class RankedCost:
    """What a session, a phase, a call, a cascade or a day cost in all.

    Tokens are those that the provider reported.
    """

    name: str
    within: str = ""
    """What it is a part of: the cascade of a session or phase, the session of a call."""
    sessions: int = 1
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    """US dollars; of a model that costs nothing, what the hosted one would have billed."""
    unpriced: int = 0
    """Calls whose cost is not known, and not in `dollars`."""

    @property
    def weight(self) -> tuple[float, int]:
        """By what it is ranked."""
        return self.dollars, self.tokens_in

    def add(self, other: RankedCost) -> None:
        """Count another one in."""
        self.calls += other.calls
        self.tokens_in += other.tokens_in
        self.tokens_cached += other.tokens_cached
        self.tokens_out += other.tokens_out
        self.dollars += other.dollars
        self.unpriced += other.unpriced


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The dearest of a store, each list with the dearest first.

    A session counts with all sessions under it.
    """

    total: RankedCost
    cascades: tuple[RankedCost, ...]
    days: tuple[RankedCost, ...]
    """The days on which sessions began, in UTC, newest first."""
    sessions: tuple[RankedCost, ...]
    phases: tuple[RankedCost, ...]
    calls: tuple[RankedCost, ...]
    messages: tuple[MessageCost, ...]
    """Those of the `looked` dearest sessions."""
    looked: int


def store_report(
    store: Store, which: SessionFilter, price_as: str, *, limit: int = MESSAGES
) -> StoreReport:
    """The `limit` dearest of the sessions that fit; see `session_cost` for `price_as`."""
    roots = store.sessions(which)
    listed = {info.session_id: info for info in roots}
    below = sessions_below(store, listed)
    root_of = _roots(listed, below)
    cascade_of = {info.session_id: info.cascade_id for info in [*below, *roots]}
    total = RankedCost("all sessions", sessions=len(root_of) - len(below))
    sessions = {name: RankedCost(name, info.cascade_id) for name, info in listed.items()}
    phases: dict[tuple[str, str], RankedCost] = {}
    calls: list[tuple[RankedCost, Mapping[str, Any]]] = []
    seen: set[tuple[str, str]] = set()
    for row, charge in charges_of(store, list(root_of), price_as, told_calls(store, price_as)):
        name = row["session_id"]
        one = _billed(row, charge)
        cascade, phase = cascade_of[name], without_numbers(row["phase_name"] or "-")
        line = phases.setdefault((cascade, phase), RankedCost(phase, cascade, sessions=0))
        line.sessions += (name, phase) not in seen
        seen.add((name, phase))
        for each in (total, sessions[root_of[name]], line):
            each.add(one)
        if one.calls:
            calls.append((one, row))
            if len(calls) > _KEPT:
                calls = _dearest_calls(calls, limit)
    ranked = dearest_first(sessions.values())
    messages, looked = _messages(store, ranked, price_as, limit)
    days = _summed(ranked, lambda each: day_of(listed[each.name].started))
    return StoreReport(
        total=total,
        cascades=tuple(_summed(ranked, lambda each: each.within)),
        days=tuple(sorted(days, key=attrgetter("name"), reverse=True)),
        sessions=tuple(ranked[:limit]),
        phases=tuple(dearest_first(phases.values())[:limit]),
        calls=tuple(_numbered(store, _dearest_calls(calls, limit))),
        messages=messages,
        looked=looked,
    )


_KEPT: Final = 10_000
"""Calls that are held before all but the dearest are let go."""


def dearest_first(rows: Iterable[RankedCost]) -> list[RankedCost]:
    """The rows, those first that cost most."""
    return sorted(rows, key=attrgetter("weight"), reverse=True)


def day_of(seconds: float) -> str:
    """The day of a time, in UTC: `2026-01-21`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _roots(roots: Mapping[str, SessionInfo], below: Sequence[SessionInfo]) -> dict[str, str]:
    """The session of `roots` that each session counts with."""
    root_of = {name: name for name in roots}
    for info in below:  # level by level, so that a parent comes first
        root_of.setdefault(info.session_id, root_of[info.parent_id or ""])
    return root_of


def _billed(row: Mapping[str, Any], charge: Charge) -> RankedCost:
    """A row with a bill: a call, or what a model was asked beside calls."""
    return RankedCost(
        f"{row['phase_name'] or '-'}:{row['turn_number'] or 0}",
        row["session_id"],
        calls=int(row["node_type"] in CALLS),
        tokens_in=charge.tokens_in,
        tokens_out=charge.tokens_out,
        tokens_cached=charge.tokens_cached,
        dollars=charge.dollars or 0.0,
        unpriced=int(charge.dollars is None),
    )


_Ranked = tuple[RankedCost, Mapping[str, Any]]


def _dearest_calls(calls: list[_Ranked], limit: int) -> list[_Ranked]:
    return sorted(calls, key=lambda each: each[0].weight, reverse=True)[:limit]


def _numbered(store: Store, calls: Sequence[_Ranked]) -> Iterator[RankedCost]:
    """The calls with their numbers in their sessions before their names."""
    traces: dict[str, dict[str, int]] = {}
    for call, row in calls:
        name = row["session_id"]
        if name not in traces:
            listed = store.calls(name)
            traces[name] = {each.trace_id: number for number, each in enumerate(listed, start=1)}
        number = traces[name].get(row["trace_id"])
        call.name = f"call {number}, {call.name}" if number else call.name
        yield call


def _summed(
    sessions: Sequence[RankedCost], key: Callable[[RankedCost], str]
) -> Sequence[RankedCost]:
    """The sessions added up by a key, the dearest first."""
    sums: dict[str, RankedCost] = {}
    for each in sessions:
        line = sums.setdefault(key(each), RankedCost(key(each), sessions=0))
        line.sessions += 1
        line.add(each)
    return dearest_first(sums.values())


def _messages(
    store: Store, sessions: Sequence[RankedCost], price_as: str, limit: int
) -> tuple[tuple[MessageCost, ...], int]:
    """The dearest messages, and in how many of the sessions they were looked for.

    No message costs more than its session, so that what is left need not be looked at.
    """
    found: list[MessageCost] = []
    for looked, session in enumerate(sessions):
        enough = len(found) == limit and (found[-1].dollars or 0.0) >= session.dollars
        if looked == _LOOKED or enough:
            return tuple(found), looked
        accounts = AccountTree.read(store, session.name, price_as).walk()
        found += dearest_messages(accounts)
        found = sorted(found, key=lambda each: each.dollars or 0.0, reverse=True)[:limit]
    return tuple(found), len(sessions)
