"""The page of forks: what a session was forked from, what was forked from it, what ran under it."""

# Names of views are constants, and values are always bound.
# ruff: noqa: S608
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import (
    FORKED_FROM,
    RAN,
    InspectedSession,
    SessionFilter,
    SessionInfo,
    Store,
    in_words,
)
from windlass_inspector._inspector import Inspector

_LOOKED: Final = 500
"""Sessions of the same cascade that are looked at, the newest."""
_DEEP: Final = 50
"""Levels of forks of forks."""


@dataclass(frozen=True, slots=True)
class ForkLine:
    """A session of the tree. `inherited` are the calls that it has from the one above."""

    info: SessionInfo
    depth: int
    inherited: int
    is_this: bool
    state: str


def forks_page(inspector: Inspector, request: Request) -> Response:
    """Return the tree of forks that a session stands in, and the sessions under it."""
    session = inspector.session(request)
    tree = list(_tree(session))
    return inspector.respond(
        "forks.html",
        session,
        {
            "tree": tree,
            "looked": _LOOKED,
            "children": [
                (child, in_words(child.status, child.reason)) for child in session.view.children
            ],
            "top": session.session_id,
        },
    )


def _tree(session: InspectedSession) -> Iterator[ForkLine]:
    """Yield the tree, each session below the one that it was forked from."""
    store = session.store
    which = SessionFilter(cascade=session.view.cascade_id, with_key=RAN, banks=False)
    infos = {info.session_id: info for info in store.sessions(which, limit=_LOOKED)}
    top, above = session.session_id, session.session_id
    for _ in range(_DEEP):  # whatever it goes back to is a part of the tree, however old
        if not _is_known(store, above, infos):
            break
        top, origin = above, _origin(store, above)
        if origin is None or origin == session.session_id:
            break
        above = origin
    below: dict[str, list[str]] = defaultdict(list)
    for name in sorted(infos, key=lambda name: infos[name].started):
        if (origin := _origin(store, name)) is not None:
            below[origin].append(name)
    names = list(_walk(top, below))
    inherited = _inherited(store, [name for name, _ in names])
    for name, depth in names:
        info = infos[name]
        state = in_words(info.status, info.reason)
        is_this = name == session.session_id
        yield ForkLine(info, depth, inherited.get(name, 0), is_this, state)


def _is_known(store: Store, name: str, infos: dict[str, SessionInfo]) -> bool:
    """Return whether the store has a session, which then is among the `infos`.

    Others were removed.
    """
    if name not in infos:
        found = store.sessions(SessionFilter(prefix=name))
        infos |= {info.session_id: info for info in found if info.session_id == name}
    return name in infos


def _walk(top: str, below: Mapping[str, list[str]]) -> Iterator[tuple[str, int]]:
    waiting, met = [(top, 0)], set[str]()
    while waiting:
        name, depth = waiting.pop()
        if name in met or depth > _DEEP:
            continue
        met.add(name)
        yield name, depth
        waiting += [(each, depth + 1) for each in reversed(below.get(name, []))]


def _origin(store: Store, name: str) -> str | None:
    ran = store.start(name).cascade.get(RAN)
    origin = ran.get(FORKED_FROM) if isinstance(ran, Mapping) else None
    return origin if isinstance(origin, str) else None


def _inherited(store: Store, names: list[str]) -> Mapping[str, int]:
    """Return how many calls of each session another one made and paid for."""
    marks = ", ".join("?" * len(names))
    rows = store.query(
        "SELECT session_id, count(*) AS calls FROM unified_logs"
        f" WHERE session_id IN ({marks}) AND node_type IN ('agent', 'follow_up')"
        " AND metadata_json LIKE '%\"inherited\":%' GROUP BY session_id",
        names,
    )
    return {row["session_id"]: int(row["calls"]) for row in rows}
