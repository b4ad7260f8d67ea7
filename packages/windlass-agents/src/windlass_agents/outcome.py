"""What hooks saved, from what happened: each session's bill beside that of sending everything.

What was fetched again is taken from the saving: the calls that asked for it, and what its text cost
in all calls after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.public import (
    Account,
    AccountTree,
    Charge,
    Interval,
    Message,
    Settings,
    Store,
    UsageError,
    WindlassError,
    arguments_of,
    cost_of,
    difference_of_means,
    first_words,
    open_place,
    rate,
)
from windlass_agents.agent_events import is_recall
from windlass_agents.hook_journal import HookLine, deliveries, main_transcript
from windlass_agents.hooked_sessions import store_hooked
from windlass_agents.project_stores import usual_store
from windlass_agents.savings import dollars_saved
from windlass_agents.status import journal_sessions

_REFUSAL: Final = re.compile(r"(?:Exit code \d+\s+)?windlass: [^\n]+")
"""What the command says in place of an original, also where the agent hides that it failed."""
_FEWEST: Final = 2
"""Sessions on each side from which on they are compared."""


@dataclass(frozen=True, slots=True)
class HookedSession:
    """A session of an agent with a hook, with its subagents."""

    session_id: str
    """Its name in the store."""
    agent: str
    title: str
    calls: int
    shortened: int
    """Results whose short form the model got."""
    fetched: int
    """Calls that fetched an original back."""
    held_out: bool
    dollars: float | None
    """What was billed (None: not known)."""
    saved: float | None
    """What was saved, less what was fetched back (None: no price is known)."""
    saved_by_tools: float = 0.0
    """What of it tools that wait saved."""
    saved_by_compactions: float = 0.0
    """And what compactions saved that nobody asked for."""


@dataclass(frozen=True, slots=True)
class HookReport:
    """What hooks did to the sessions of a store."""

    sessions: tuple[HookedSession, ...]
    not_taken: int
    """Short forms that were answered and not shown; none of them counts as a saving."""
    per_session: Interval | None
    """Dollars of a session with the hook, less those of one that was held out: the interval of the
    difference of the means (None: too few)."""
    per_call: Interval | None
    """The same of the dollars of a call."""


def hook_report(settings: Settings, since: float, note: Callable[[str], None]) -> HookReport:
    """Return what hooks did in the sessions that began since a time, in seconds since 1970.

    The sessions are put into the store as far as they are not there. `note` gets a sentence for
    each that cannot be. Raises UsageError where the store is no folder.
    """
    folder = hook_store(settings)
    found: list[HookedSession] = []
    not_taken = 0
    for lines in journal_sessions(folder):
        first = lines[0]
        if first.time < since:
            continue
        told = deliveries(lines, main_transcript(lines))
        not_taken += sum(one is False for one in told.values())
        try:
            session = hooked_session(folder, settings.price_as, lines)
        except WindlassError as error:
            note(f"the session {first.session} is left out: {error}")
            continue
        if session is None:
            note(f"the session {first.session} is left out: its transcript is gone")
        else:
            found.append(session)
    return HookReport(tuple(found), not_taken, *_compared(found))


def hooked_session(folder: Path, price_as: str, lines: Sequence[HookLine]) -> HookedSession | None:
    """Return what a hook did in a session, which is put into the store as far as it is not there.

    None: its transcript is gone. Raises WindlassError where it cannot be stored.
    """
    stored = store_hooked(folder, lines[0].agent, lines[0].session)
    if not stored:
        return None
    ids = [one.session_id for one in stored]
    with open_place(folder, os.environ, existing=True) as store:
        return _measured(store, price_as, ids, lines)


def hook_store(settings: Settings) -> Path:
    """Return the folder in which hooks write.

    Raises UsageError for a store that has an address, and StoreError for an unnamed link.
    """
    if settings["store"].origin == "default":
        return usual_store(settings.folder)
    if isinstance(settings.store, Path):
        return settings.store
    raise UsageError("--store: hooks write into a folder, and an address is none")


def _measured(
    store: Store, price_as: str, ids: Sequence[str], lines: Sequence[HookLine]
) -> HookedSession:
    """Return a session, by the names in the store of its conversations."""
    accounts: dict[str, Account] = {}
    total = Charge()
    for name in dict.fromkeys(ids):
        if store.start(name).parent_id not in ids:  # those under a session come with it
            tree = AccountTree.read(store, name, price_as)
            accounts |= {one.record.session_id: one for _, one in tree.walk()}
            total.add(cost_of(tree).total)
    fetched = [_fetched(account) for account in accounts.values()]
    is_priced = all(rate(name) for one in accounts.values() for name in one.names.values())
    said = (stored.row.message for stored in accounts[ids[0]].record.rows)
    saved, by_tools, by_compactions = None, 0.0, 0.0
    if is_priced:
        session = store.folder, lines[0].agent, lines[0].session
        by_tools, by_compactions = dollars_saved(*session, accounts[ids[0]], accounts.values())
        saved = _saved(accounts.values()) - sum(cost for _, cost in fetched)
        saved += by_tools + by_compactions
    return HookedSession(
        session_id=ids[0],
        agent=lines[0].agent,
        title=first_words([message for message in said if message]) or lines[0].session,
        calls=total.calls,
        shortened=sum(len(store.edits(name)) for name in accounts),
        fetched=sum(count for count, _ in fetched),
        held_out=any(line.outcome == "held out" for line in lines),
        dollars=None if total.unpriced else total.dollars,
        saved=saved,
        saved_by_tools=by_tools,
        saved_by_compactions=by_compactions,
    )


def _saved(accounts: Iterable[Account]) -> float:
    """What originals would have cost in the place of their short forms, less what these cost."""
    return sum(
        account.snowball.paid(name).paid - account.sent.paid(name).paid
        for account in accounts
        for name in {
            one.message_id for one in account.record.store.edits(account.record.session_id)
        }
    )


def _fetched(account: Account) -> tuple[int, float]:
    """Return how often originals were fetched back, and what that cost in US dollars.

    What was asked for in vain is not fetched back, but it cost as much.
    """
    count, cost = 0, 0.0
    dollars = {
        call.row.trace_id: one.dollars or 0.0
        for call, one in zip(account.calls, account.costs, strict=True)
    }
    asked: set[str] = set()
    for stored in account.record.rows:
        message = stored.row.message
        if message is None:
            continue
        if message.role == "tool" and message.tool_call_id in asked and stored.id is not None:
            count += not _is_refusal(message)
            cost += account.sent.paid(stored.id).paid
        calls = {call.id for call in message.tool_calls if is_recall(call.name, arguments_of(call))}
        if calls:
            asked |= calls
            cost += dollars.get(stored.row.trace_id, 0.0)
    return count, cost


def _is_refusal(result: Message) -> bool:
    """Return whether a result says that there is no such original."""
    return result.failed or not result.text or _REFUSAL.fullmatch(result.text.strip()) is not None


def _compared(
    sessions: Sequence[HookedSession],
) -> tuple[Interval | None, Interval | None]:
    """Return sessions with the hook beside those that were held out, by session and by call."""
    sides: list[tuple[list[float], list[float]]] = []
    for held_out in (False, True):
        known = [
            (one.dollars, one.calls)
            for one in sessions
            if one.held_out == held_out and one.dollars is not None and one.calls
        ]
        sides.append(([each for each, _ in known], [each / calls for each, calls in known]))
    (hooked, hooked_calls), (held, held_calls) = sides
    if min(len(hooked), len(held)) < _FEWEST:
        return None, None
    return difference_of_means(hooked, held), difference_of_means(hooked_calls, held_calls)
