"""The list of sessions, and the search in what was said: a page of each at a time."""

# Names of views are constants, and values are always bound.
# ruff: noqa: S608
from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import (
    IMPORTED,
    OPERATORS,
    STATES,
    Charge,
    Message,
    SessionFilter,
    SessionInfo,
    Store,
    UsageError,
    assistant,
    charges_of,
    did_you_mean,
    first_words,
    free_calls,
    in_words,
    roots_of,
    sessions_below,
    sums_by,
    user,
    words_of,
)
from windlass_inspector._inspector import Inspector, kind_of, number_in, shares_saved

_SHOWN: Final = 50
"""Sessions of a page."""
_WORDS: Final = 90
"""Characters of a session's first words."""
_FOUND: Final = 50
"""Places of a page of the search."""
_SEARCH_S: Final = 0.8
"""Seconds after which a search shows what it has found, and where it would go on."""
_AROUND: Final = 90
"""Characters before and behind what is found."""
_COMPARED: Final = 1_000
"""Characters of the text that the database compares, which takes no pattern of any length."""
_SPACES: Final = re.compile(r"\s+")
_SIGNS: Final = re.compile(r"[%_\\]")
"""What acts in a pattern of SQL."""

KINDS: Final[Mapping[str, SessionFilter]] = {
    "run": SessionFilter(without_keys=(IMPORTED, OPERATORS)),
    "task": SessionFilter(with_key=OPERATORS),
    "imported": SessionFilter(with_key=IMPORTED),
}
"""The kinds of sessions that can be asked for, and what they fit."""


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A line of the list; calls, tokens and money with all sessions under it."""

    info: SessionInfo
    words: str
    kind: str
    state: str
    under: int
    """The sessions under it."""
    charge: Charge
    saved: float | None
    """The share of what sending everything would have sent that was not sent."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """A place in which a text stands. `trace` is the trace of its row."""

    session: str
    trace: str
    role: str
    phase: str
    turn: int
    before: str
    text: str
    behind: str


def sessions_page(inspector: Inspector, request: Request) -> Response:
    """Return the sessions that fit, newest first; with `q` the places where that text stands."""
    given = {
        name: request.query_params.get(name, "").strip()
        for name in ("name", "model", "kind", "state", "q")
    }
    which = _filter(given)
    page_number = max(1, _number(request, "page", 1))
    if given["q"]:
        at = max(0, _number(request, "at", 0))
        found, go_on = search(inspector.store, which, given["q"], at)
        return inspector.respond(
            "search.html",
            None,
            {"given": given, "found": found, "go_on": go_on, "kinds": KINDS, "states": STATES},
        )
    offset = (page_number - 1) * _SHOWN
    listed = inspector.store.sessions(which, limit=_SHOWN + 1, offset=offset)
    shown = list(_listed(inspector, listed[:_SHOWN]))
    return inspector.respond(
        "sessions.html",
        None,
        {
            "given": given,
            "sessions": shown,
            "page_number": page_number,
            "has_more": len(listed) > _SHOWN,
            "is_filtered": any(given.values()),
            "price_as": inspector.price_as
            if any(each.charge.is_notional for each in shown)
            else "",
            "folder": str(inspector.store.folder),
            "kinds": KINDS,
            "states": STATES,
        },
    )


def _number(request: Request, name: str, otherwise: int) -> int:
    number = number_in(request.query_params.get(name, ""))
    return otherwise if number is None else number


def _filter(given: Mapping[str, str]) -> SessionFilter:
    """Return what the form asks for. Raises UsageError for a kind or state that there is not."""
    for name, known in (("kind", KINDS), ("state", STATES)):
        if given[name] and given[name] not in known:
            raise UsageError(f"{name} {given[name]!r}: {did_you_mean(given[name], known)}")
    of_kind = KINDS.get(given["kind"], SessionFilter())
    is_asked = bool(given["name"] or given["model"] or given["state"])
    return SessionFilter(
        name=given["name"],
        model=given["model"],
        status=given["state"] or None,
        banks=False,
        # What is asked for is listed alone; otherwise what ran under others counts with them.
        under=None if is_asked or given["q"] else (),
        with_key=of_kind.with_key,
        without_keys=of_kind.without_keys,
    )


def _listed(inspector: Inspector, sessions: Sequence[SessionInfo]) -> Iterator[ListedSession]:
    store, price_as = inspector.store, inspector.price_as
    names = [info.session_id for info in sessions]
    root_of = roots_of(names, sessions_below(store, names) if names else [])
    under = Counter(root_of.values())
    saved = shares_saved(store, root_of)
    charges = charges_of(store, list(root_of), price_as, free_calls(store, price_as))
    of_roots = ((root_of[row["session_id"]], charge) for row, charge in charges)
    sums = sums_by(of_roots, lambda _: Charge())
    for info in sessions:
        start = store.start(info.session_id)
        yield ListedSession(
            info=info,
            words=_words(store, info.session_id),
            kind=kind_of(start),
            state=in_words(info.status, info.reason),
            under=under[info.session_id] - 1,
            charge=sums.get(info.session_id, Charge()),
            saved=saved.get(info.session_id),
        )


def _words(store: Store, session_id: str) -> str:
    """Return the first words of a session, by the beginnings of its first messages."""
    rows = store.query(
        "SELECT role, preview FROM conversation WHERE session_id = ?"
        " AND role IN ('user', 'assistant') AND node_type <> 'context_injection' LIMIT 6",
        [session_id],
    )
    said = [_beginning(row["role"], row["preview"] or "") for row in rows]
    if None in said:  # a message of several parts
        return words_of(store, session_id, _WORDS)
    return (
        first_words((each for each in said if each), _WORDS) or store.start(session_id).cascade_id
    )


def _beginning(role: str, preview: str) -> Message | None:
    if preview.startswith(("[{", '[{"')):
        return None
    return user(preview) if role == "user" else assistant(preview)


# ---- the search ------------------------------------------------------------------------


def search(
    store: Store, which: SessionFilter, text: str, at: int
) -> tuple[list[FoundText], int | None]:
    """Return the places where a text stands, in the sessions from the one at `at` on, newest first.

    The second value is where it would go on (None: all were looked at). Small and capital letters
    are the same, where they are ASCII.
    """
    until, found = time.monotonic() + _SEARCH_S, list[FoundText]()
    while sessions := store.sessions(which, limit=_SHOWN, offset=at):
        for info in sessions:
            found += _places(store, info.session_id, text)
            at += 1
            if len(found) >= _FOUND or time.monotonic() > until:
                return found, at
    return found, None


def _places(store: Store, session_id: str, text: str) -> Iterator[FoundText]:
    # What is stored is JSON, in which some characters are written otherwise. Databases differ in
    # how signs of a pattern are escaped, so each stands for any character, and is compared below.
    needle = json.dumps(text, ensure_ascii=False)[1:-1].lower()
    pattern = f"%{_SIGNS.sub('_', needle[:_COMPARED])}%"
    rows = store.query(
        "SELECT trace_id, role, phase_name, turn_number, content_json, tool_calls_json"
        " FROM unified_logs WHERE session_id = ?"
        f" AND (lower(content_json) LIKE ? OR lower(tool_calls_json) LIKE ?) LIMIT {_FOUND}",
        [session_id, pattern, pattern],
    )
    for row in rows:
        whole = "\n".join(_texts(row))
        at = whole.lower().find(text.lower())
        if at >= 0:
            yield _place(session_id, row, whole, at, at + len(text))


def _place(session_id: str, row: Mapping[str, Any], whole: str, at: int, end: int) -> FoundText:
    begin = max(0, at - _AROUND)
    return FoundText(
        session_id,
        row["trace_id"],
        row["role"] or "",
        row["phase_name"] or "-",
        row["turn_number"] or 0,
        ("…" if begin else "") + _SPACES.sub(" ", whole[begin:at]),
        whole[at:end],
        _SPACES.sub(" ", whole[end : end + _AROUND]) + ("…" if end + _AROUND < len(whole) else ""),
    )


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    content = json.loads(row["content_json"] or "null")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield str(part.get("text") or part.get("data") or "")
    for call in json.loads(row["tool_calls_json"] or "[]"):
        yield f"{call['name']}({call['arguments']})"
