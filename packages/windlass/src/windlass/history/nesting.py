"""Sessions under sessions: sub-cascades and soundings, level by level and as a list with totals.

A store that was edited may say that a session runs itself: each is met once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from windlass.history.base import SessionFilter, SessionInfo, Store
from windlass.history.blobs import damage_error

_LEVELS: Final = 100
"""How deep sessions are nested at most: more than any run makes."""


def sessions_below(store: Store, sessions: Iterable[str]) -> list[SessionInfo]:
    """Return all sub-cascades of these sessions, level by level, in the order in which they ran.

    Raises StoreError where they are nested deeper than any run nests them.
    """
    found: list[SessionInfo] = []
    above = tuple(sessions)
    met = set(above)
    for _ in range(_LEVELS):
        if not above:
            return found
        below = [
            info
            for info in store.sessions(SessionFilter(under=above))[::-1]
            if info.session_id not in met
        ]
        found += below
        above = tuple(info.session_id for info in below)
        met.update(above)
    raise damage_error(f"sessions are nested more than {_LEVELS} levels deep, as {above[0]!r} is")


def nest_with_totals(
    sessions: Sequence[SessionInfo], below: Sequence[SessionInfo] | None = None
) -> list[SessionInfo]:
    """Return the sessions, each followed by those of them that are its sub-cascades.

    Calls, tokens and cost of each are with those of all its sub-cascades: `below` are all that
    there are of any (None: they are among the sessions).
    """
    every = {info.session_id: info for info in [*(below or ()), *sessions]}
    totals = dict(every)
    for info, above in reversed(_with_parents(list(every.values()))):
        if above is not None:
            totals[above] = _with(totals[above], totals[info.session_id])
    return [totals[info.session_id] for info, _ in _with_parents(sessions)]


def _with_parents(sessions: Sequence[SessionInfo]) -> list[tuple[SessionInfo, str | None]]:
    """Return each session once behind its parent, with the parent where that is among them.

    Of those that run each other in a circle, the first is taken for one without a parent.
    """
    listed = {info.session_id for info in sessions}
    children: dict[str | None, list[SessionInfo]] = defaultdict(list)
    for info in sessions:
        children[info.parent_id if info.parent_id in listed else None].append(info)
    ordered: list[tuple[SessionInfo, str | None]] = []
    met: set[str] = set()
    for first in [*children[None], *sessions]:
        waiting: list[tuple[SessionInfo, str | None]] = [(first, None)]
        while waiting:
            info, above = waiting.pop()
            if info.session_id not in met:
                met.add(info.session_id)
                ordered.append((info, above))
                name = info.session_id
                waiting += [(child, name) for child in reversed(children[name])]
    return ordered


def _with(info: SessionInfo, child: SessionInfo) -> SessionInfo:
    costs = [each.cost for each in (info, child) if each.cost is not None]
    return replace(
        info,
        calls=info.calls + child.calls,
        tokens_in=info.tokens_in + child.tokens_in,
        tokens_out=info.tokens_out + child.tokens_out,
        tokens_cached=info.tokens_cached + child.tokens_cached,
        cost=sum(costs) if costs else None,
    )
