"""Why a call saw what it saw: the values behind `windlass explain`.

`show` tells what was sent; here stands, for every message said before the call, what
became of it, by which rule, and how its original is got back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice, takewhile
from typing import Any, Final, Literal, TypeAlias

from windlass.history.base import (
    BORN,
    EditRecord,
    NodeType,
    Row,
    Store,
    StoredRow,
)
from windlass.history.decisions import (
    TELL_OF_WINDOWS,
    DecisionUnread,
    PersonDecided,
    PhaseChoice,
    Routed,
    SoundingsDecided,
    ToolCalled,
    ValidatorAsked,
    VisitBegun,
    WindowSelection,
    text_of,
)
from windlass.history.details import NotChosen, PlannerDetails
from windlass.history.marks import find_callouts
from windlass.history.row_details import (
    Answer,
    ReplyDetails,
    TimeOver,
    ToolAttemptFailed,
    Validation,
    WardJudged,
    continued,
    kind_of,
)
from windlass.messages import Message
from windlass.report.call_views import note_text
from windlass.report.calls import Call, SeenMessage, SessionRecord
from windlass.report.provider_edits import call_sentences
from windlass.tasks.model import OPERATORS
from windlass.window.options import Policy
from windlass.window.originals import reference

Action: TypeAlias = Literal[
    "shown", "with a block", "shortened", "folded", "not shown", "brought in"
]


@dataclass(frozen=True, slots=True)
class MessageDecision:
    """What became of one message at a call."""

    message_id: str
    role: str
    phase: str | None
    turn: int | None
    action: Action
    """Shown as it was said; the same with a block of injectors at its end; shortened; folded into
    another message; not shown; or brought in by a source or a rule."""
    because: str | None
    """The name of the edit (None: there was none)."""
    reason: str
    """Why, in a clause."""
    chars_before: int
    """Characters of text and arguments as they were said."""
    chars_after: int
    """Those that were sent."""
    tokens: int
    """What was sent, by the engine's count (0: it was not sent)."""
    reference: str
    """What `recall` takes."""
    callout: str | None = None
    """Its name, where it was called out before the call."""
    score: float | None = None
    """Of what the phase could have chosen and did not: the score of the choice."""
    rank: int | None = None
    """Its rank in that choice."""
    not_chosen: str | None = None
    """Why it was not chosen, as `NotChosen` of `history/details.py` names it."""


@dataclass(frozen=True, slots=True)
class PlannerDecision(PlannerDetails):
    """What the planner decided about edits that are not free.

    `row` is the number in the decisions of the first message that it is about (None: it is not
    among them).
    """

    row: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One call explained: the policy in force, what it decided, and what that saved."""

    session_id: str
    call: Call
    decisions: tuple[MessageDecision, ...]
    """In the order of the messages."""
    selection: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The call's `context_selection` record (empty: no policy was in force)."""
    differs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The options of the policy that its profile sets otherwise."""
    planner: PlannerDecision | None = None
    """What the planner decided (None: nothing that is not free was proposed)."""
    notes: tuple[str, ...] = ()
    """What was decided for the phase before the call and is no edit: a switch, a second plan, a
    summary, a cache that is not counted on, what the provider did to the context, and what was
    assumed for the call."""
    status: str = "running"
    """How its phase ended; how the session stands where it has not."""
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the explanation for programs; without a decision of the planner that is empty."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return told | {"planner": self.planner or {}}


def explain_call(store: Store, session_id: str, number: int) -> Explanation:
    """Call `number` of a session, from 1. Raises UsageError where there is none."""
    return explain(SessionRecord(store, session_id), number)


def explain(record: SessionRecord, number: int) -> Explanation:
    """Return the same of a session that was read. Raises UsageError where there is no such call."""
    store, session_id, call = record.store, record.session_id, record.call(number)
    rows, at = record.rows, record.rows.index(call.stored)
    selections = (
        WindowSelection.read(stored.row)
        for stored in rows[at:]
        if stored.row.parent_id == call.row.trace_id
    )
    selection = next(filter(None, selections), None)
    before = call.history.rows
    # Edits that were decided after the call did not shape it.
    edits = store.edits(session_id)[: call.details.edits]
    notes = (
        *_texts(before, _is_note, None, call.phase),
        *_tool_phases(before),
        *_texts(before, _is_pre_ward, call.phase),
        *_routes(rows[:at], rows[at:], call.phase),
        *_verdicts(rows[at + 1 :], call),
    )
    if call.sounding_index is not None:
        notes = (*notes, *islice(_texts(rows[at:], SoundingsDecided.read, call.phase), 1))
    callouts = {callout.message_id: callout.name for callout in find_callouts(before)}
    if OPERATORS in record.start.cascade:
        notes = (*notes, _OF_TASKS)
        shared = (record.by_id[shown.message_id] for shown in call.shown)
        before = sorted({row.seq: row for row in (*before, *shared)}.values(), key=_seq)
    by_message = {edit.message_id: edit for edit in edits}
    left = _left_out(before, call)
    decisions = tuple(
        _with_score(decision, left.get(decision.message_id))
        for decision in _decisions(call, before, by_message, callouts)
    )
    ended = [each for each in store.outcomes(session_id) if each.phase == call.phase]
    done = call_sentences(call)
    return Explanation(
        session_id=session_id,
        call=call,
        decisions=decisions,
        selection=selection.as_json() if selection else {},
        differs=_differing(selection),
        planner=_plan(call, decisions),
        notes=(*notes, *done, *(f"assumed: {text}" for text in call.details.assumed or ())),
        status=(ended[-1] if ended else store.session_status(session_id)).status,
        reason=ended[-1].reason if ended else None,
    )


def _seq(stored: StoredRow) -> int:
    return stored.seq


def _left_out(before: Sequence[StoredRow], call: Call) -> Mapping[str, NotChosen]:
    """Return what the phase could have chosen and did not, by the message's id."""
    of_phase = (PhaseChoice.read(stored.row) for stored in before if stored.row.phase == call.phase)
    choices = list(filter(None, of_phase))
    left = choices[-1].messages.not_chosen if choices else ()
    return {each.id: each for each in left}


_BECAUSE: Final = {
    "budget": "no room was left for it",
    "limit": "as many messages were chosen as may be",
    "threshold": "it has nothing of the task",
    "repeat": "a chosen message says the same",
    "model": "the model that was asked did not pick it",
}


def _with_score(decision: MessageDecision, left: NotChosen | None) -> MessageDecision:
    if left is None or decision.action != "not shown":
        return decision
    rank = "no rank" if left.rank is None else f"rank {left.rank}"
    return replace(
        decision,
        reason=f"not chosen: {_BECAUSE[left.because]} (score {left.score:g}, {rank})",
        score=left.score,
        rank=left.rank,
        not_chosen=left.because,
    )


def _texts(
    rows: Iterable[StoredRow], tells: Callable[[Row], object], *phases: str | None
) -> Iterator[str]:
    """Return what those rows of phases say that tell of something."""
    in_phases = (stored.row for stored in rows if stored.row.phase in phases)
    return (text_of(row) for row in in_phases if tells(row))


def _verdicts(after: Iterable[StoredRow], call: Call) -> Iterator[str]:
    """Yield what validators, the schema and people said of the reply, before the next call."""
    for row in (stored.row for stored in after if stored.row.phase == call.phase):
        if row.sounding_index not in (None, call.sounding_index):
            continue
        if row.sounding_index == call.sounding_index and ReplyDetails.read(row) is not None:
            return
        if any(kind.read(row) is not None for kind in _OF_REPLY):
            yield note_text(row)


_OF_REPLY: Final = (
    ValidatorAsked,
    Validation,
    WardJudged,
    PersonDecided,
    DecisionUnread,
    Answer,
    TimeOver,
)


def _is_pre_ward(row: Row) -> bool:
    """Return whether a ward says something of the input before the phase began."""
    judged = WardJudged.read(row)
    return judged is not None and judged.place == "pre"


def _tool_phases(before: Sequence[StoredRow]) -> Iterator[str]:
    """Yield which tools phases ran since the call before, and how often they failed."""
    since = takewhile(lambda each: ReplyDetails.read(each.row) is None, reversed(before))
    for row in reversed([each.row for each in since]):
        if ToolCalled.read(row) or ToolAttemptFailed.read(row):
            yield text_of(row)


def _routes(
    before: Sequence[StoredRow], after: Sequence[StoredRow], phase: str | None
) -> Iterator[str]:
    """Yield why the phase came next, for which time it runs, and why it went on where it did."""
    routes = ((Routed.read(each.row), each.row) for each in reversed(before))
    came = (text_of(row) for route, row in routes if route and route.target == phase)
    again = _texts(reversed(before), VisitBegun.read, phase)
    for texts in (came, again, _texts(after, Routed.read, phase)):
        yield from islice(texts, 1)


_OF_TASKS: Final = (
    "a task sees what stands in its sections; what other tasks said is not listed one by one"
)


def _is_note(row: Row) -> bool:
    """Return whether a row tells why a window is as it is: a decision, or how its phase chose."""
    return PhaseChoice.read(row) is not None or kind_of(row) in TELL_OF_WINDOWS


def _differing(selection: WindowSelection | None) -> Mapping[str, Any]:
    if selection is None:
        return {}
    usual, config = Policy.of(selection.policy).settings(), selection.config
    return {name: value for name, value in config.items() if usual.get(name) != value}


def _plan(call: Call, decisions: Sequence[MessageDecision]) -> PlannerDecision | None:
    plan = call.details.planner
    if plan is None:
        return None
    ids = [decision.message_id for decision in decisions]
    first = plan.message_id
    figures = {each.name: getattr(plan, each.name) for each in fields(plan)}
    return PlannerDecision(**figures, row=ids.index(first) if first in ids else None)


def _decisions(
    call: Call,
    before: Sequence[StoredRow],
    edits: Mapping[str, EditRecord],
    callouts: Mapping[str, str],
) -> Iterator[MessageDecision]:
    window = {seen.message_id: seen for seen in call.seen}
    replaced = continued(before)
    for stored in before:
        row, message = stored.row, stored.row.message
        if stored.id is None or message is None:
            continue
        seen, edit = window.get(stored.id), edits.get(stored.id)
        if seen is None and row.node_type not in BORN:
            continue
        decision = MessageDecision(
            message_id=stored.id,
            role=message.role,
            phase=row.phase,
            turn=row.turn,
            action="not shown",
            because=None,
            reason="the phase's context does not include it",
            chars_before=message.chars,
            chars_after=0,
            tokens=0,
            reference=reference(message),
            callout=callouts.get(stored.id),
        )
        if seen is not None:
            yield _shown(decision, seen, edit, is_copy=row.node_type not in _ORIGINALS)
        elif stored.id in replaced:
            why = "it was cut, and stands whole in the reply that goes on with it"
            yield replace(decision, action="folded", reason=why)
        else:
            yield _hidden(decision, message, edit)


_ORIGINALS = BORN | {NodeType.SYSTEM}
"""Rows that are no copies of other messages."""


def _shown(
    decision: MessageDecision, seen: SeenMessage, edit: EditRecord | None, *, is_copy: bool
) -> MessageDecision:
    action: Action = "brought in" if is_copy else "shown"
    if seen.edit is not None:
        action = "shortened"
    elif seen.has_block:
        action = "with a block"
    return replace(
        decision,
        role=seen.role,
        action=action,
        because=seen.because,
        reason=edit.reason if edit is not None and seen.because else seen.reason,
        chars_after=seen.message.chars,
        tokens=seen.tokens,
    )


def _hidden(
    decision: MessageDecision, message: Message, edit: EditRecord | None
) -> MessageDecision:
    if edit is not None and edit.kind == "drop":
        # What is pruned is shown nowhere; any other edit drops a message into the text of another.
        action: Action = "not shown" if edit.because == "prune" else "folded"
        return replace(decision, action=action, because=edit.because, reason=edit.reason)
    if not message.parts and not message.tool_calls:
        return replace(decision, reason="it says nothing, and no provider takes that back")
    return decision
