"""Conversations: each message that a person sends is answered by a phase of its own kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from windlass.cascade.model import Cascade, Phase, Rules, own_tackle
from windlass.engine._subcascades import phase_output
from windlass.engine.cascade import run_session
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.phase import Tried, settle, try_phase
from windlass.engine.phase.phase_setup import begin_phase
from windlass.engine.result import Result
from windlass.errors import UsageError
from windlass.history.base import CHAT, RAN, Ending, NodeType, Row, Store
from windlass.history.nesting import sessions_below
from windlass.history.row_details import Answer
from windlass.messages import Text, ToolCall, tool
from windlass.tasks.model import OPERATORS
from windlass.window.entries import Drop, Item, Replace
from windlass.wire.base import Usage

_KEPT: Final = ("system", "tackle", "injectors", "memory", "callouts", "intra_context")
_ASKED: Final = ("model", "max_output_tokens", "temperature", "reasoning_effort")


def add_chat(cascade: Cascade) -> Cascade:
    """Return the cascade with one more phase, which answers messages.

    It has the tools, the memory and the model of the last one, and sees all that was said.
    """
    last, names = cascade.phases[-1], {phase.name for phase in cascade.phases}
    if last.name == CHAT and last.instructions == CHAT:
        return cascade
    name = CHAT if CHAT not in names else f"{CHAT}_{len(names)}"
    kept: dict[str, Any] = {key: getattr(last, key) for key in (*_KEPT, *_ASKED)}
    rules = Rules(max_turns=last.rules.max_turns, approve=last.rules.approve)
    phase = Phase(name=name, instructions=CHAT, context_strategy="full", rules=rules)
    kept["tackle"] = own_tackle(last)
    phase = phase.model_copy(update=kept)
    # What it runs before a phase, and how often, is of no message.
    changes = {"phases": (*cascade.phases, phase), "soundings": None}
    changes |= {"output_schema": None, "tool_choice": None}
    return cascade.model_copy(update=changes)


def chat_cascade(model: str | None) -> dict[str, Any]:
    """Return a cascade for a person and a model alone."""
    phase = {"name": CHAT, "instructions": CHAT, "context_strategy": "full", "tackle": ["recall"]}
    named = {} if model is None else {"model": model}
    return {"cascade_id": CHAT, "auto_context": {}, **named, "phases": [phase]}


def recorded_cascade(recorded: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """The cascade of a session as its record holds it. Raises UsageError for a task file's."""
    if OPERATORS in recorded:
        raise UsageError(
            f"session {session_id!r} ran a task file; only cascades can be gone on with"
        )
    phases = [
        {key: value for key, value in phase.items() if key != "sub_cascades"}
        for phase in recorded["phases"]
    ]
    return {**{key: value for key, value in recorded.items() if key != RAN}, "phases": phases}


def recorded_answers(store: Store, session_id: str) -> list[tuple[str, str]]:
    """The questions of models that a session, or one under it, has answers to, as they came."""
    below = (info.session_id for info in sessions_below(store, [session_id]))
    rows = (each.row for name in (session_id, *below) for each in store.rows(name))
    answers = map(Answer.read, sorted(rows, key=lambda row: row.timestamp))
    return [(each.question, each.answer) for each in answers if each is not None]


def restore_session(run: CascadeRun) -> None:
    """Restore to a run what the record of its session holds."""
    record, session, store = run.record, run.session, run.record.store
    rows = record.rows()
    for stored in rows:
        if stored.id is not None:
            record.traces[stored.id] = stored.row.trace_id
            record.times[stored.id] = stored.row.timestamp
        if stored.row.tokens_in is not None:
            row = stored.row
            used = Usage(row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0)
            run.totals.add(used, row.cost, row.tokens_saved or 0)
    record.born = record.items()
    for edit in store.edits(record.session_id):
        because: Any = edit.because
        if edit.kind == "drop" or edit.replacement is None:
            session.edits[edit.message_id] = Drop(edit.message_id, because, edit.reason)
        else:
            session.edits[edit.message_id] = Replace(
                edit.message_id, edit.replacement, because, edit.reason
            )
    for change in store.state(record.session_id):
        session.state[change.key] = change.value
    tools = {phase.name for phase in run.cascade.phases if phase.tool is not None}
    for outcome in store.outcomes(record.session_id):
        if (name := outcome.phase) is not None:
            session.outputs[name] = phase_output(record, name, is_result=name in tools)


async def answer_message(run: CascadeRun, text: str) -> Result:
    """Return the answer of a run's last phase to a message of a person."""
    phase, session = run.cascade.phases[-1], run.session

    async def trying() -> Tried:
        _close_calls(run)
        before = [stored.row.turn or 0 for stored in run.record.rows(phase.name)]
        phase_run = await begin_phase(run, phase, message=text)
        phase_run.now.turn = max(before, default=0)
        return await try_phase(run, phase_run)

    async def work() -> Ending:
        ending = await settle(run, phase, trying())
        session.outputs.pop(phase.name, None)  # so that it is the last
        session.outputs[phase.name] = phase_output(run.record, phase.name)
        return ending

    return await run_session(run, work())


def _close_calls(run: CascadeRun) -> None:
    """Give each call that has no result one: a run may have ended before its tool ran."""
    waiting: list[tuple[Item, ToolCall]] = []
    for item in run.record.items():
        waiting += [(item, call) for call in item.message.tool_calls]
        if item.message.role == "tool":  # the newest call of that id: others may repeat it
            ids = [call.id for _, call in reversed(waiting)]
            if item.message.tool_call_id in ids:
                waiting.pop(-1 - ids.index(item.message.tool_call_id))
    for item, call in waiting:
        text = Text("[no result: the run ended before the tool ran]")
        message = tool(call, text, failed=True)
        row = Row(NodeType.TOOL_RESULT, message=message, parent_id=run.record.traces[item.id])
        run.record.add(replace(row, phase=item.phase, turn=item.turn, attempt=item.attempt))


def continue_session(held: CascadeRun, run: CascadeRun) -> CascadeRun:
    """Return the run with what an earlier run of the same session holds."""
    held.record.store, held.record.on_append = run.record.store, run.record.on_append
    held.record.recorded = None  # all of it was come by
    return replace(
        run,
        record=held.record,
        caches=held.caches,
        injected=held.injected,
        session=held.session,
        totals=held.totals,
        notices=held.notices,
    )
