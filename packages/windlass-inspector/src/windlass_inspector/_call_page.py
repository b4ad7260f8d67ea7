"""The page of a call: its window beside all that was said before, what each paid, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.public import (
    Call,
    Explanation,
    InspectedSession,
    MessageDecision,
    PaidMessage,
    SeenMessage,
    UsageError,
    call_sentences,
    many,
)
from windlass_inspector._inspector import Inspector, number_in
from windlass_inspector._message_page import BodyPart, beginning, parts_of

_ROWS: Final = 60
"""Messages of a page."""
_CHANGES: Final = 12
"""Messages that the difference from the call before names of each kind."""

ONLY: Final[Mapping[str, Sequence[str]]] = {
    "sent": ("shown", "with a block", "shortened", "brought in"),
    "changed": ("shortened", "folded", "with a block"),
    "hidden": ("not shown", "folded"),
}
"""What of the messages can be asked for, by what became of them."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of the history beside what the call was sent of it."""

    decision: MessageDecision
    paid: PaidMessage | None
    said: Sequence[BodyPart]
    """As it was said; empty where that was sent."""
    sent: Sequence[BodyPart]
    """What was sent (empty: nothing was)."""
    beginning: str


@dataclass(frozen=True, slots=True)
class WindowDifference:
    """How a window differs from that of the call before."""

    number: int
    """The number of the call before."""
    added: Sequence[SeenMessage]
    changed: Sequence[SeenMessage]
    gone: Sequence[SeenMessage]
    added_count: int
    changed_count: int
    gone_count: int


def call_page(inspector: Inspector, request: Request) -> Response:
    """Return what one call saw, and why."""
    session = inspector.session(request)
    text = request.path_params["call"]
    number = number_in(text)
    if number is None:
        if text.isdecimal():
            raise UsageError(f"session {session.session_id!r} has no call {text:.20}")
        raise HTTPException(404)
    call, explained = session.call(number), session.explain(number)
    only = request.query_params.get("only", "")
    decisions = [
        each for each in explained.decisions if only not in ONLY or each.action in ONLY[only]
    ]
    begin = _begin(request, len(decisions))
    is_billed = inspector.billed(session)
    paid = {each.position: each for each in session.paid_in(number)}
    return inspector.respond(
        "call.html",
        session,
        {
            "call": call,
            "explained": explained,
            "reply": parts_of(call.reply, 20_000),
            "rows": _rows(session, call, decisions[begin : begin + _ROWS], paid),
            "begin": begin,
            "step": _ROWS,
            "total": len(decisions),
            "only": only if only in ONLY else "",
            "counts": {
                name: sum(each.action in actions for each in explained.decisions)
                for name, actions in ONLY.items()
            },
            "all_count": len(explained.decisions),
            "difference": _difference(session, call),
            "prefix": session.prefixes[number - 1] if is_billed else None,
            "price": session.costs.get(number) if is_billed else None,
            "parts": session.call_report(number).parts
            if is_billed and number in session.costs
            else (),
            "is_billed": is_billed,
            "planner": _planner(explained),
            "policy": _policy(explained),
            "sentences": call_sentences(call),
        },
    )


def _begin(request: Request, rows: int) -> int:
    at = number_in(request.query_params.get("from", "")) or 0
    return min(at, max(0, rows - 1)) // _ROWS * _ROWS


def _rows(
    session: InspectedSession,
    call: Call,
    decisions: Sequence[MessageDecision],
    paid: Mapping[int, PaidMessage],
) -> list[MessageRow]:
    entries = enumerate(call.shown)
    places = {entry.message_id: at for at, entry in entries}
    rows: list[MessageRow] = []
    for decision in decisions:
        original = session.said(decision.message_id)
        at = places.get(decision.message_id)
        seen = None if at is None else call.see(at)
        is_other = seen is None or seen.message.key != original.key
        rows.append(
            MessageRow(
                decision=decision,
                paid=None if at is None else paid.get(at),
                said=parts_of(original) if is_other else (),
                sent=() if seen is None else parts_of(seen.message),
                beginning=beginning(original),
            )
        )
    return rows


def _difference(session: InspectedSession, call: Call) -> WindowDifference | None:
    """Return what is new, changed and gone in a window; None: there was no call before."""
    before = session.before(call.number)
    if before is None:
        return None
    # By entries: a message is put together only where it is named.
    now, was = call.shown, before.shown
    places = {entry.message_id: at for at, entry in enumerate(was)}
    ids = {entry.message_id for entry in now}
    added = [at for at, entry in enumerate(now) if entry.message_id not in places]
    gone = [at for at, entry in enumerate(was) if entry.message_id not in ids]
    changed = [
        at
        for at, entry in enumerate(now)
        if (old := places.get(entry.message_id)) is not None and was[old].shown_as != entry.shown_as
    ]
    return WindowDifference(
        before.number,
        [call.see(at) for at in added[:_CHANGES]],
        [call.see(at) for at in changed[:_CHANGES]],
        [before.see(at) for at in gone[:_CHANGES]],
        len(added),
        len(changed),
        len(gone),
    )


_VERDICTS: Final = {
    "commit": "The edits were made: they pay.",
    "defer": "The edits wait: they do not pay yet, or may not before the run ends.",
    "cold": "Nothing that was sent before is cached, so that no edit costs anything.",
    "quiet": "The edits wait: the window is so short that it would no longer be cached.",
    "held": "The edits were left undone: the model binds the thinking behind them.",
}


def _planner(explained: Explanation) -> dict[str, Any] | None:
    """Return the planner's decision and its numbers; None where it was asked nothing."""
    plan = explained.planner
    if plan is None:
        return None
    message_id = None if plan.row is None else explained.decisions[plan.row].message_id
    numbers: list[tuple[str, str, str]] = []
    if plan.removed:
        over_read = plan.write - plan.read
        numbers = [
            ("N", "calls to come that are counted on", f"{plan.calls:g}"),
            ("D", "tokens that the edits remove", f"{plan.removed:,}"),
            ("S", "tokens behind them that stay, and are read anew", f"{plan.stay:,}"),
            ("d", "tokens that stand in their place", f"{plan.put:,}"),
            ("r", "price of a token that is read", f"{plan.read:g}"),
            ("w - r", "what writing costs beyond reading", f"{round(over_read, 6):g}"),
            ("gain", "N · r · D - (w - r) · (S + d), in fresh tokens", f"{plan.gain:,.0f}"),
        ]
    return {
        "verdict": plan.verdict,
        "said": _VERDICTS.get(plan.verdict, plan.verdict),
        "waiting": many(plan.waiting, "edit"),
        "message_id": message_id,
        "numbers": numbers,
    }


def _policy(explained: Explanation) -> str:
    """Return which policy was in force, in a sentence."""
    selection = explained.selection
    if not selection:
        return "No policy was in force: nothing was shortened from call to call."
    shortened = f"{selection['masked_count']} of the {selection['context_size']} messages sent"
    differs = ", ".join(f"{name} {value}" for name, value in explained.differs.items())
    text = f"Policy {selection['policy']} ({selection['policy_hash']}): {shortened} stand shortened"
    return f"{text}; set otherwise: {differs}." if differs else f"{text}."
