"""Why a call saw what it saw: the values behind `windlass explain`.

`show` tells what was sent; here stands, for every message said before the call, what
became of it, by which rule, and how its original is got back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from windlass.engine.record import BORN
from windlass.engine.windows import FOLDED
from windlass.history.base import EditRecord, Keeper, NodeType, Row, StoredRow
from windlass.history.callouts import called_out
from windlass.messages import Message
from windlass.operators.model import OPERATORS
from windlass.report.show import CallView, Seen, view_call, view_session
from windlass.window.blocks import BECAUSE
from windlass.window.options import Policy
from windlass.window.originals import reference

Action: TypeAlias = Literal[
    "shown", "with a block", "shortened", "folded", "not shown", "brought in"
]


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one message at a call.

    `action`: shown as it was said, so and with a block of injectors at its end, shortened,
    folded into another message, not shown, or brought in by a source or a rule. `callout` is its
    name where it was called out before the call. `because` names the edit (None: none), `reason`
    says it in a clause. Sizes in characters of text and arguments; `tokens` of what was sent, by
    the engine's count (0: not sent). `reference` is what `recall` takes.
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """One call explained: the policy in force, its decisions in order, what they saved.

    `selection` is the call's `context_selection` record (empty: no policy was in force);
    `differs` are the policy's options that its profile has otherwise; `planner` what the planner
    decided about edits that are not free (empty: none was proposed), as `window.planner.Decision`
    names it, with `row`, the first message it is about, as its number in `decisions`; `notes`
    what was decided for the phase before the call that is no edit: a switch, a second plan, a
    summary, a cache that is not counted on, and what was assumed for the call.
    """

    session_id: str
    call: CallView
    decisions: tuple[Decision, ...]
    selection: Mapping[str, Any] = field(default_factory=dict[str, Any])
    differs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    planner: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()


def explain_call(keeper: Keeper, session_id: str, number: int) -> Explanation:
    """Call `number` of a session, from 1. Raises UsageError where there is none."""
    call = view_call(view_session(keeper, session_id), number)
    rows = list(keeper.rows(session_id))
    trace = keeper.calls(session_id)[number - 1].trace_id
    at = next(place for place, stored in enumerate(rows) if stored.row.trace_id == trace)
    beside = (stored.row for stored in rows[at:] if stored.row.parent_id == trace)
    chosen = (row.metadata for row in beside if row.node_type == NodeType.CONTEXT_SELECTION)
    selection = next(chosen, {})
    # Edits that were decided after the call do not tell of it.
    edits = keeper.edits(session_id)[: call.details.get("edits")]
    notes = tuple(
        str(stored.row.metadata["text"])
        for stored in rows[:at]
        if stored.row.phase in (None, call.phase) and _is_told(stored.row)
    )
    names = {one.message_id: one.name for one in called_out(rows[:at])}
    if OPERATORS in keeper.start(session_id).cascade:
        notes = (*notes, _OF_TASKS)
        before = [one for one in rows[:at] if one.row.phase == call.phase or _is_in(one, call)]
    else:
        before = rows[:at]
    decisions = tuple(
        replace(one, callout=names.get(one.message_id))
        for one in _decisions(call, before, {edit.message_id: edit for edit in edits})
    )
    return Explanation(
        session_id=session_id,
        call=call,
        decisions=decisions,
        selection=selection,
        differs=_differing(selection),
        planner=_planned(call, decisions),
        notes=(*notes, *(f"assumed: {one}" for one in call.details.get("assumed", ()))),
    )


_OF_TASKS: Final = (
    "a task sees what stands in its sections; what other tasks said is not listed one by one"
)


def _is_in(stored: StoredRow, call: CallView) -> bool:
    return any(one.message_id == stored.id for one in call.seen)


_TOLD = (
    "breaker",
    "switched_off",
    "replan",
    "summary",
    "cache",
    "injector",
    "user_context",
    "fresh_context",
    "tree",
    "resume",
)
"""The decisions, by their kind, that tell why a window is as it is."""


def _is_told(row: Row) -> bool:
    """Whether a row tells why a window is as it is: a decision, or how its phase chose."""
    if row.node_type == NodeType.CONTEXT_SELECTION:
        return row.metadata.get("selection_type") == "inter_phase"
    return row.node_type == NodeType.DECISION and row.metadata.get("kind") in _TOLD


def _differing(selection: Mapping[str, Any]) -> Mapping[str, Any]:
    if not selection:
        return {}
    usual = Policy.of(str(selection["policy"])).settings()
    config: Mapping[str, Any] = selection["config"]
    return {name: value for name, value in config.items() if usual.get(name) != value}


def _planned(call: CallView, decisions: Sequence[Decision]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = call.details.get("planner", {})
    if not told:
        return {}
    ids = (one.message_id for one in decisions)
    row = next((n for n, ident in enumerate(ids) if ident == told.get("message_id")), None)
    return {**told, "row": row}


def _decisions(
    call: CallView, before: list[StoredRow], edits: Mapping[str, EditRecord]
) -> Iterator[Decision]:
    seen = {one.message_id: one for one in call.seen}
    for stored in before:
        message = stored.row.message
        if stored.id is None or message is None:
            continue
        one = seen.get(stored.id)
        if one is not None:
            edit = edits.get(stored.id) if one.because else None
            yield _shown(one, message, edit, brought_in=stored.row.node_type not in _OWN)
        elif stored.row.node_type in BORN:
            yield _hidden(stored, stored.id, message, edits.get(stored.id))


_OWN = BORN | {NodeType.SYSTEM}
"""What is no copy of something that was said."""


def _shown(one: Seen, original: Message, edit: EditRecord | None, *, brought_in: bool) -> Decision:
    action: Action = "shortened" if one.because else "brought in" if brought_in else "shown"
    if one.because == BECAUSE:
        action = "with a block"
    return Decision(
        message_id=one.message_id,
        role=one.role,
        phase=one.phase,
        turn=one.turn,
        action=action,
        because=one.because,
        reason=edit.reason if edit is not None else one.reason,
        chars_before=original.chars,
        chars_after=one.message.chars,
        tokens=one.tokens,
        reference=reference(original),
    )


def _hidden(
    stored: StoredRow, message_id: str, message: Message, edit: EditRecord | None
) -> Decision:
    action: Action = "not shown"
    because, reason = None, "the phase's context does not include it"
    if edit is not None and edit.kind == "drop":
        because, reason = edit.because, edit.reason
        action = "folded" if FOLDED in reason else "not shown"
    elif not message.parts and not message.tool_calls:
        reason = "it says nothing, and no provider takes that back"
    return Decision(
        message_id=message_id,
        role=message.role,
        phase=stored.row.phase,
        turn=stored.row.turn,
        action=action,
        because=because,
        reason=reason,
        chars_before=message.chars,
        chars_after=0,
        tokens=0,
        reference=reference(message),
    )
