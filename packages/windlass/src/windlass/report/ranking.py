"""What cost most in a whole store: its sessions, phases, calls and messages.

What recordings of a folder cost by day, project, model or session. Nothing is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

from windlass.history.base import SessionFilter, Store
from windlass.history.nesting import sessions_below
from windlass.importing.recording import RecordedCall, Recording
from windlass.ledger.charges import Charge, charge_of, charges_of, dearest_first, roots_of, sums_by
from windlass.report.account import AccountTree, free_calls
from windlass.report.calls import without_numbers
from windlass.report.contents import MESSAGES, MessageCost, dearest_messages
from windlass.wire.base import Usage

_LOOKED: Final = 20
"""Sessions in which the dearest messages are looked for."""


@dataclass(slots=True)
class RankedCost(Charge):
    """What a session, a phase, a call, a cascade, a project or a day cost in all."""

    name: str
    within: str = ""
    """What it is a part of: the cascade of a session or phase, the session of a call."""
    sessions: int = 1


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
    """Return the `limit` dearest of the sessions that fit; see `session_cost` for `price_as`."""
    roots = store.sessions(which)
    listed = {info.session_id: info for info in roots}
    below = sessions_below(store, listed)
    root_of = roots_of(listed, below)
    cascade_of = {info.session_id: info.cascade_id for info in [*below, *roots]}
    total = RankedCost("all sessions", sessions=len(root_of) - len(below))
    sessions = {name: RankedCost(name, info.cascade_id) for name, info in listed.items()}
    phases: dict[tuple[str, str], RankedCost] = {}
    calls: list[_ChargedRow] = []
    seen: set[tuple[str, str]] = set()
    for row, charge in charges_of(store, list(root_of), price_as, free_calls(store, price_as)):
        name = row["session_id"]
        cascade, phase = cascade_of[name], without_numbers(row["phase_name"] or "-")
        line = phases.setdefault((cascade, phase), RankedCost(phase, cascade, sessions=0))
        line.sessions += (name, phase) not in seen
        seen.add((name, phase))
        for each in (total, sessions[root_of[name]], line):
            each.add(charge)
        if charge.calls:
            calls.append((charge, row))
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


def day_of(seconds: float) -> str:
    """Return the day of a time, in UTC: `2026-01-21`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


_ChargedRow: TypeAlias = tuple[Charge, Mapping[str, Any]]


def _dearest_calls(calls: list[_ChargedRow], limit: int) -> list[_ChargedRow]:
    return sorted(calls, key=lambda each: each[0].weight, reverse=True)[:limit]


def _numbered(store: Store, calls: Sequence[_ChargedRow]) -> Iterator[RankedCost]:
    """Yield the calls with their numbers in their sessions before their places."""
    traces: dict[str, dict[str, int]] = {}
    for charge, row in calls:
        name = row["session_id"]
        if name not in traces:
            listed = store.calls(name)
            traces[name] = {each.trace_id: number for number, each in enumerate(listed, start=1)}
        number = traces[name].get(row["trace_id"])
        place = f"{row['phase_name'] or '-'}:{row['turn_number'] or 0}"
        line = RankedCost(f"call {number}, {place}" if number else place, name)
        line.add(charge)
        yield line


def _summed(
    sessions: Sequence[RankedCost], key: Callable[[RankedCost], str]
) -> Sequence[RankedCost]:
    """Return the sessions added up by a key, the dearest first."""
    keyed = ((key(each), each) for each in sessions)
    sums = sums_by(keyed, lambda name: RankedCost(name, sessions=0))
    for each in sessions:
        sums[key(each)].sessions += 1
    return dearest_first(sums.values())


def _messages(
    store: Store, sessions: Sequence[RankedCost], price_as: str, limit: int
) -> tuple[tuple[MessageCost, ...], int]:
    """Return the dearest messages, and in how many of the sessions they were looked for.

    No message costs more than its session, so that what is left need not be looked at.
    """
    found: list[MessageCost] = []
    for looked, session in enumerate(sessions):
        enough = len(found) == limit and (found[-1].dollars or 0.0) >= (session.dollars or 0.0)
        if looked == _LOOKED or enough:
            return tuple(found), looked
        accounts = AccountTree.read(store, session.name, price_as).walk()
        found += dearest_messages(accounts)
        found = sorted(found, key=lambda each: each.dollars or 0.0, reverse=True)[:limit]
    return tuple(found), len(sessions)


By: TypeAlias = Literal["day", "project", "model", "session"]
"""What costs are added up by."""

UNKNOWN: Final = "not recorded"
"""The day, or the project, of what does not tell it."""


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What recordings cost, a row each; `total` is all of it.

    Days, in UTC, come newest first, other rows the dearest first. A session counts with its side
    chains; a row that has a part of it counts it once. `estimated` calls have an output that was
    not recorded and is estimated.
    """

    by: By
    rows: tuple[RankedCost, ...]
    total: RankedCost
    estimated: int


def folder_report(recordings: Iterable[Recording], by: By) -> FolderReport:
    """Return what the recordings cost, call by call."""
    rows: dict[str, RankedCost] = {}
    sessions: dict[str, set[str]] = {}
    titles: dict[str, str] = {}
    projects: dict[str, str] = {}
    total = RankedCost("all", sessions=0)
    for recording in recordings:
        session = recording.parent or recording.name
        titles.setdefault(session, recording.titled)
        projects[session] = projects.get(session) or recording.project
        for call in recording.calls:
            day = UNKNOWN if call.time is None else day_of(call.time)
            names = {"model": call.model, "day": day, "session": session}
            name = names.get(by) or project_of(projects[session])
            charge = _charge(call)
            rows.setdefault(name, RankedCost(name)).add(charge)
            sessions.setdefault(name, set()).add(session)
            total.add(charge)
    for name, row in rows.items():
        row.sessions = len(sessions[name])
        if by == "session":
            row.name, row.within = titles[name], name
    total.sessions = len(titles)
    ranked = dearest_first(rows.values())
    if by == "day":
        ranked.sort(key=lambda row: (row.name != UNKNOWN, row.name), reverse=True)
    return FolderReport(by, tuple(ranked), total, total.estimated)


def _charge(call: RecordedCall) -> Charge:
    used, dollars = call.usage or Usage(0, 0), call.dollars
    return charge_of(call.model, dollars, used, call.model, dollars, estimated=call.estimated)


def project_of(folder: str) -> str:
    """Return a project by the last part of the folder in which the program worked."""
    parts = [part for part in re.split(r"[\\/]", folder) if part]
    return parts[-1] if parts else UNKNOWN
