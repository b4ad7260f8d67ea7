"""Where two sessions part, and what each cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.caching.rates import many
from windlass.history.base import CallRecord, SessionFilter, SessionInfo, Store
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.messages import Message
from windlass.report._session_record import SessionRecord


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
    """Where two sessions part. Raises UsageError for an unknown one."""
    mine, theirs = _Session(store, one), _Session(store, other)
    sessions = mine.info, theirs.info
    pairs = zip(mine.sent_calls, theirs.sent_calls, strict=False)
    for number, (call, its) in enumerate(pairs, start=1):
        if call.request_hash != its.request_hash:
            what, texts = _first_difference(mine.request(call), theirs.request(its))
            return Difference(number, what, texts, sessions)
        replies = mine.reply(call), theirs.reply(its)
        if replies[0].key != replies[1].key:
            texts = (_words(replies[0]), _words(replies[1]))
            return Difference(number, "the replies differ", texts, sessions)
    if len(mine.sent_calls) != len(theirs.sent_calls):
        least = min(len(mine.sent_calls), len(theirs.sent_calls))
        what = f"one ends after {many(least, 'call')}"
        return Difference(least + 1, what, ("", ""), sessions)
    return Difference(None, "no call differs", ("", ""), sessions)


def _first_difference(
    mine: Sequence[Message], theirs: Sequence[Message]
) -> tuple[str, tuple[str, str]]:
    """The first message of two requests that differs, in words, and both texts."""
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


class _Session(SessionRecord):
    """A session, with what it cost."""

    def __init__(self, store: Store, session_id: str) -> None:
        super().__init__(store, session_id)
        listed = store.sessions(SessionFilter(prefix=session_id))
        own = next(info for info in listed if info.session_id == session_id)
        self.info = nest_with_totals([own], sessions_below(store, [session_id]))[0]
        self._replies = {each.row.trace_id: each.row.message for each in self.rows}

    def request(self, call: CallRecord) -> list[Message]:
        """What a call was sent."""
        return [self.sent(shown)[1] for shown in call.shown]

    def reply(self, call: CallRecord) -> Message:
        """What a call was answered."""
        message = self._replies[call.trace_id]
        assert message is not None
        return message
