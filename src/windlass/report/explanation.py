"""Why a call saw what it saw: the values behind `windlass explain`.

`show` tells what was sent; here stands, for every message said before the call, what
became of it, by which rule, and how its original is got back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from windlass.history.base import (
    BORN,
    SOUNDINGS,
    EditRecord,
    NodeType,
    Row,
    Store,
    StoredRow,
)
from windlass.history.callout_rows import called_out
from windlass.history.details import NotChosen
from windlass.history.row_details import continued
from windlass.messages import Message
from windlass.report.calls import (
    CallView,
    RecordedSession,
    Seen,
    rows_before,
    view_call,
    view_recorded,
)
from windlass.report.provider_edits import call_sentences
from windlass.tasks.model import OPERATORS
from windlass.window.options import Policy
from windlass.window.originals import reference

Action: TypeAlias = Literal[
    "shown", "with a block", "shortened", "folded", "not shown", "brought in"
]


@dataclass(frozen=True, slots=True)
class MessageDecision:
    """What became of one message at a call.

    `action`: shown as it was said, so and with a block of injectors at its end, shortened,
    folded into another message, not shown, or brought in by a source or a rule. `callout` is its
    name where it was called out before the call. `because` names the edit (None: none), `reason`
    says it in a clause. Sizes in characters of text and arguments; `tokens` of what was sent, by
    the engine's count (0: not sent). `reference` is what `recall` takes. Of what the phase could
    have chosen and did not, `score` and `rank` are those of the choice, and `not_chosen` says why
    not, as `history.details.NotChosen` names it.
    """

    message_id: str
    role: str
    phase: str | None
    turn: int | None
    action: Action
    because: str | None
    reason: str
    chars_before: int
    chars_after: int
    tokens: int
    reference: str
    callout: str | None = None
    score: float | None = None
    rank: int | None = None
    not_chosen: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One call explained: the policy in force, its decisions in order, what they saved.

    `selection` is the call's `context_selection` record (empty: no policy was in force);
    `differs` are the policy's options that its profile has otherwise; `planner` what the planner
    decided about edits that are not free (empty: none was proposed), as `window.planner.Decision`
    names it, with `row`, the first message it is about, as its number in `decisions`; `notes`
    what was decided for the phase before the call that is no edit: a switch, a second plan, a
    summary, a cache that is not counted on, what the provider did to the context, and what was
    assumed for the call. `status` and
    `reason` say how its phase ended (`running`: it has not, or was killed).
    """

    session_id: str
    call: CallView
    decisions: tuple[MessageDecision, ...]
    selection: Mapping[str, Any] = field(default_factory=dict[str, Any])
    differs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    planner: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    status: str = "running"
    reason: str | None = None


def explain_call(store: Store, session_id: str, number: int) -> Explanation:
    """Call `number` of a session, from 1. Raises UsageError where there is none."""
    session = RecordedSession.read(store, session_id)
    call = view_call(view_recorded(session), number)
    rows, trace = session.rows, session.calls[number - 1].trace_id
    at = next(place for place, stored in enumerate(rows) if stored.row.trace_id == trace)
    selections = (
        stored.row.metadata
        for stored in rows[at:]
        if stored.row.parent_id == trace and stored.row.node_type == NodeType.CONTEXT_SELECTION
    )
    selection = next(selections, {})
    before = rows_before(rows, rows[at])
    # Edits that were decided after the call did not shape it.
    edits = store.edits(session_id)[: call.details.get("edits")]
    notes = tuple(
        str(stored.row.metadata["text"])
        for stored in before
        if stored.row.phase in (None, call.phase) and _is_note(stored.row)
    )
    if call.sounding_index is not None:
        notes = (*notes, *_fates(rows, call.phase))
    callouts = {callout.message_id: callout.name for callout in called_out(before)}
    if OPERATORS in session.start.cascade:
        notes = (*notes, _OF_TASKS)
        seen = {seen.message_id for seen in call.seen}
        before = [row for row in before if row.row.phase == call.phase or row.id in seen]
    by_message = {edit.message_id: edit for edit in edits}
    left = _left_out(before, call)
    decisions = tuple(
        _with_score(decision, left.get(decision.message_id))
        for decision in _decisions(call, before, by_message, callouts)
    )
    ended = [each for each in store.outcomes(session_id) if each.phase == call.phase]
    done = call_sentences(call.details, call.seen)
    return Explanation(
        session_id=session_id,
        call=call,
        decisions=decisions,
        selection=selection,
        differs=_differing(selection),
        planner=_plan(call, decisions),
        notes=(*notes, *done, *(f"assumed: {text}" for text in call.details.get("assumed", ()))),
        status=ended[-1].status if ended else "running",
        reason=ended[-1].reason if ended else None,
    )


def _left_out(before: Sequence[StoredRow], call: CallView) -> Mapping[str, NotChosen]:
    """What the phase could have chosen and did not, by the message's id."""
    choices = [
        stored.row.metadata
        for stored in before
        if stored.row.phase == call.phase
        and stored.row.node_type == NodeType.CONTEXT_SELECTION
        and stored.row.metadata.get("selection_type") == "inter_phase"
    ]
    left: list[NotChosen] = choices[-1].get("not_chosen", []) if choices else []
    return {each["id"]: each for each in left}


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
    rank = "no rank" if left["rank"] is None else f"rank {left['rank']}"
    return replace(
        decision,
        reason=f"not chosen: {_BECAUSE[left['because']]} (score {left['score']:g}, {rank})",
        score=left["score"],
        rank=left["rank"],
        not_chosen=left["because"],
    )


def _fates(rows: Iterable[StoredRow], phase: str | None) -> list[str]:
    """What became of the soundings of a phase."""
    return [
        str(stored.row.metadata["text"])
        for stored in rows
        if stored.row.phase == phase and stored.row.metadata.get("kind") == SOUNDINGS
    ]


_OF_TASKS: Final = (
    "a task sees what stands in its sections; what other tasks said is not listed one by one"
)


_NOTED = (
    "breaker",
    "switched_off",
    "replan",
    "summary",
    "continuation",
    "cache",
    "injector",
    "user_context",
    "fresh_context",
    "tree",
    "resume",
    "thinking",
)
"""The decisions, by their kind, that tell why a window is as it is."""


def _is_note(row: Row) -> bool:
    """Whether a row tells why a window is as it is: a decision, or how its phase chose."""
    if row.node_type == NodeType.CONTEXT_SELECTION:
        return row.metadata.get("selection_type") == "inter_phase"
    return row.node_type == NodeType.DECISION and row.metadata.get("kind") in _NOTED


def _differing(selection: Mapping[str, Any]) -> Mapping[str, Any]:
    if not selection:
        return {}
    usual = Policy.of(str(selection["policy"])).settings()
    config: Mapping[str, Any] = selection["config"]
    return {name: value for name, value in config.items() if usual.get(name) != value}


def _plan(call: CallView, decisions: Sequence[MessageDecision]) -> Mapping[str, Any]:
    plan = call.details.get("planner")
    if not plan:
        return {}
    ids = [decision.message_id for decision in decisions]
    first = plan.get("message_id")
    return {**plan, "row": ids.index(first) if first in ids else None}


def _decisions(
    call: CallView,
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
    decision: MessageDecision, seen: Seen, edit: EditRecord | None, *, is_copy: bool
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
