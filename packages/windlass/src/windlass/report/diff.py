"""Where two sessions part, and what each cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.caching.rates import many
from windlass.history.base import SessionFilter, SessionInfo, Store
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.messages import Message
from windlass.report.calls import Call, SessionRecord


@dataclass(frozen=True, slots=True)
class Difference:
    """The first call in which two sessions differ, from 1, and how (None: in none).

    `what` says it in words, `texts` are what each has there. `sessions` tell of both, each with all
    sessions under it.
    """

    call: int | None
    what: str
    texts: tuple[str, str]
    sessions: tuple[SessionInfo, SessionInfo]


def compare_sessions(store: Store, one: str, other: str) -> Difference:
    """Return where two sessions part. Raises UsageError for an unknown one."""
    mine, theirs = SessionRecord(store, one), SessionRecord(store, other)
    sessions = _with_totals(store, one), _with_totals(store, other)
    for number, (call, its) in enumerate(zip(mine.calls, theirs.calls, strict=False), start=1):
        if call.sent.request_hash != its.sent.request_hash:
            what, texts = _first_difference(_request(call), _request(its))
            return Difference(number, what, texts, sessions)
        if call.reply.key != its.reply.key:
            texts = (_words(call.reply), _words(its.reply))
            return Difference(number, "the replies differ", texts, sessions)
    if len(mine.calls) != len(theirs.calls):
        least = min(len(mine.calls), len(theirs.calls))
        what = f"one ends after {many(least, 'call')}"
        return Difference(least + 1, what, ("", ""), sessions)
    return Difference(None, "no call differs", ("", ""), sessions)


def _first_difference(
    mine: Sequence[Message], theirs: Sequence[Message]
) -> tuple[str, tuple[str, str]]:
    """Return the first message of two requests that differs, in words, and both texts."""
    for at, (message, other) in enumerate(zip(mine, theirs, strict=False), start=1):
        if message.key != other.key:
            return f"message {at} ({message.role}) differs", (_words(message), _words(other))
    if len(mine) != len(theirs):
        longer = mine if len(mine) > len(theirs) else theirs
        at = min(len(mine), len(theirs))
        texts = ["", ""]
        texts[longer is theirs] = _words(longer[at])
        return f"message {at + 1} is in one only", (texts[0], texts[1])
    return "the tools differ", ("", "")


def _words(message: Message) -> str:
    calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
    return " ".join([message.text, *calls]).strip()


def _request(call: Call) -> list[Message]:
    """Return what a call was sent."""
    return [seen.message for seen in call.seen]


def _with_totals(store: Store, session_id: str) -> SessionInfo:
    """Return a session, with what it and those under it cost."""
    listed = store.sessions(SessionFilter(prefix=session_id))
    own = next(info for info in listed if info.session_id == session_id)
    return nest_with_totals([own], sessions_below(store, [session_id]))[0]
