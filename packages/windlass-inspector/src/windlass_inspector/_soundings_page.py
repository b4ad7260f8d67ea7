"""The page of soundings: several answers to one phase side by side, and which was taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.public import Call, InspectedSession, StoredRow, decisions, in_words
from windlass_inspector._inspector import Inspector
from windlass_inspector._message_page import BodyPart, parts_of

_WAIT_S: Final = 1.0
"""Seconds that the page waits for the bills of its soundings."""


@dataclass(frozen=True, slots=True)
class SoundingColumn:
    """One sounding: what it cost and said. `session` is its own, where it is a whole cascade."""

    index: int
    model: str
    calls: Sequence[Call]
    tokens_in: int
    dollars: float | None
    answer: Sequence[BodyPart]
    is_taken: bool
    said: Sequence[str]
    """What became of it, in sentences."""
    session: str | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A visit of a phase with soundings."""

    phase: str
    columns: Sequence[SoundingColumn]
    decision: str


def soundings_page(inspector: Inspector, request: Request) -> Response:
    """Return the soundings of a session, phase by phase."""
    session = inspector.session(request)
    inspector.billed(session, _WAIT_S)
    return inspector.respond("soundings.html", session, {"phases": list(_phases(session))})


def _phases(session: InspectedSession) -> Iterator[SideBySide]:
    since = 0
    for stored in session.record.rows:
        decided = decisions.SoundingsDecided.read(stored.row)
        if decided is None:
            continue
        rows = [
            each
            for each in session.record.rows
            if since < each.seq <= stored.seq and each.row.phase == stored.row.phase
        ]
        since = stored.seq
        taken = set(decided.joined or ()) | {decided.winner}
        columns = [*_columns(session, rows, taken), *_whole(session, rows, taken)]
        yield SideBySide(stored.row.phase or "-", columns, decisions.text_of(stored.row))


def _columns(
    session: InspectedSession, rows: Sequence[StoredRow], taken: set[int | None]
) -> Iterator[SoundingColumn]:
    """Yield the soundings among the rows of a phase."""
    of_trace = {call.row.trace_id: call for call in session.view.calls}
    indices = dict.fromkeys(
        each.row.sounding_index for each in rows if each.row.sounding_index is not None
    )
    for index in sorted(index for index in indices if index is not None):
        own = [each for each in rows if each.row.sounding_index == index]
        calls = [of_trace[each.row.trace_id] for each in own if each.row.trace_id in of_trace]
        ended = next((end for each in own if (end := decisions.SoundingEnded.read(each.row))), None)
        dollars = (session.costs[call.number].dollars for call in calls)
        known = [each for each in dollars if each is not None]
        said = [decisions.text_of(each.row) for each in rows if _is_of(each, index)]
        yield SoundingColumn(
            index=index,
            model=(ended and ended.model) or (calls[-1].model if calls else "-"),
            calls=calls,
            tokens_in=sum(call.tokens_in for call in calls),
            dollars=sum(known) if known else None,
            answer=parts_of(calls[-1].reply) if calls else (),
            is_taken=index in taken,
            said=[text for text in dict.fromkeys(said) if text],
        )


def _is_of(stored: StoredRow, index: int) -> bool:
    """Return whether a row says what became of a sounding."""
    judged = decisions.Evaluation.read(stored.row)
    if judged is not None and judged.sounding == index:
        return True
    return (
        stored.row.sounding_index == index and decisions.SoundingEnded.read(stored.row) is not None
    )


def _whole(
    session: InspectedSession, rows: Sequence[StoredRow], taken: set[int | None]
) -> Iterator[SoundingColumn]:
    """Yield the soundings that are sessions of their own, where a whole cascade was sounded."""
    infos = {info.session_id: info for info in session.view.children}
    for stored in rows:
        ended = decisions.SoundingEnded.read(stored.row)
        info = None if ended is None else infos.get(ended.session_id or "")
        if ended is None or info is None:
            continue
        said = (each.row.message for each in session.store.rows(info.session_id))
        replies = [message for message in said if message and message.role == "assistant"]
        yield SoundingColumn(
            index=ended.index,
            model=ended.model or info.model,
            calls=(),
            tokens_in=info.tokens_in,
            dollars=info.cost,
            answer=parts_of(replies[-1]) if replies else (),
            is_taken=ended.index in taken,
            said=(decisions.text_of(stored.row),),
            session=info.session_id,
            state=in_words(info.status, info.reason),
        )
