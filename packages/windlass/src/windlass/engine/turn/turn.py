"""One call, from entry to exit: the whole story of a turn.

A turn is one model call and the tool results it asked for. Read from top to
bottom: prepare what acts before (`prepare.py`), plan what is sent (`plan.py`), send, record, run
the tools, record. The reply is recorded before any tool runs, so that no paid answer and no effect
of a tool is ever without its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import CallEnded, CallStarted, TextArrived
from windlass.engine.injecting.each_call import note_sent
from windlass.engine.phase.callouts import mark_matches
from windlass.engine.resume.journal import TakenStep, bill_step
from windlass.engine.turn._answer import answer_calls, refuse_calls
from windlass.engine.turn._cache import take_report
from windlass.engine.turn._plan import (
    Plan,
    call_record,
    has_room,
    join_reply,
    plan_call,
    plan_rest,
    request_of,
    tell_budget,
    tell_choice,
)
from windlass.engine.turn._prepare import longest_of, plan_again, prepare
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import send
from windlass.engine.turn.windows import (
    keep_originals,
    selection_row,
    take_new_edits,
    tell_thinking,
)
from windlass.errors import BadRequest, ContextTooLong, ThinkingRefused
from windlass.history.base import NodeType, Row
from windlass.history.decisions import Continuation
from windlass.history.window_rows import edit_records
from windlass.messages import user
from windlass.safety.fairness import run_in_thread, wait_for_turn
from windlass.text.prompts import CONTINUE_TEXT
from windlass.window.entries import Edit, Entry, Item
from windlass.wire.base import Reply


async def take_turn(run: CascadeRun, phase_run: PhaseRun) -> Reply:
    """Make the phase's next call, run the tools it asks for, and record both.

    Raises ContextTooLong or BudgetExceeded before anything is sent, ProviderError
    when the call fails, and ContextTooLong when the provider takes no shorter call either.
    """
    await wait_for_turn()
    phase_run.now.turn += 1

    # Prepare: all that acts before the call is planned.
    edits = await prepare(run, phase_run)

    # Plan: what is sent, and why. Never send what cannot be accepted. What the record holds is
    # planned as of then, and what is new as of now.
    run.record.set_time(run.journal.sent_at(run.step_of(phase_run)))
    plan = plan_call(run, phase_run, run.record.clock())
    tell_choice(run, phase_run, plan.sent, plan.sent + plan.saved)

    # Send and record. What is refused as too long, or for its thinking, is planned anew, once.
    try:
        reply, item = await _call(run, phase_run, plan, edits)
    except (ContextTooLong, ThinkingRefused) as refused:
        plan = plan_again(run, phase_run, plan, refused)
        reply, item = await _call(run, phase_run, plan, edits)

    # What was cut at its limit goes on once. No call of a tool is ever put together from two.
    cut = reply.finish == "length" and not reply.message.tool_calls
    if cut and reply.message.text.strip() and (rest := _ask_for_rest(run, phase_run, plan, item)):
        with suppress(ContextTooLong, BadRequest):  # then the part stands
            reply, item = await _call(run, phase_run, rest)

    # Run what it asked for.
    if reply.message.tool_calls:
        answer = refuse_calls if phase_run.now.closing else answer_calls
        await answer(run, phase_run, reply.message, run.record.traces[item.id])
    return reply


def _ask_for_rest(run: CascadeRun, phase_run: PhaseRun, plan: Plan, cut: Item) -> Plan | None:
    """Return the call that asks for the rest of a reply; None where it has no room."""
    name, now, most = phase_run.phase.name, phase_run.now, phase_run.generation
    question = user(CONTINUE_TEXT)
    added = sum(map(phase_run.info.counter.message, (cut.message, question)))
    if not has_room(phase_run, plan.sent + added):
        return None
    text = f"phase {name!r}: the reply was cut at its output limit of {most.max_output_tokens:,}"
    text += " tokens; asked once to go on"
    run.tell(name, text, Continuation(now.turn), detail=True)
    row = phase_run.row(NodeType.CONTEXT_INJECTION, question)
    row = replace(row, parent_id=run.record.traces[cut.id], details=Continuation())
    asked = run.record.add(row)
    return plan_rest(
        run.caches.previous, phase_run, plan, cut, Entry(asked, question, "asks for the rest")
    )


async def _call(
    run: CascadeRun, phase_run: PhaseRun, plan: Plan, edits: Sequence[Edit] = ()
) -> tuple[Reply, Item]:
    """Send what is planned, and record the reply; `edits` are those that fell due before.

    A reply that goes on with one that was cut is recorded with the text of both.
    """
    record, rest_of = run.record, plan.rest_of
    started, is_recorded = record.clock(), record.follows_record
    taken = await _send(run, phase_run, plan)

    # What it cost, beside what it should have.
    reply, details = take_report(run, phase_run, plan, taken.reply, started)
    billed = note_sent(run, phase_run, plan.call, bare=plan.bare, tools=plan.tools, at=started)
    run.caches.previous = plan.weighed
    reply, told = bill_step(run.journal, replace(taken, reply=reply))
    price = run.charge(phase_run.info, reply.usage, saved=plan.saved)
    if rest_of is not None:
        told = replace(told, continues=rest_of.id, rest=reply.message.text)
        reply = replace(reply, message=join_reply(rest_of.message, reply.message))
        record.withdraw(rest_of)
        phase_run.messages.own.remove(rest_of)

    # The reply with what the call saw and why, in one batch.
    new_edits = [*edits, *take_new_edits(phase_run)]
    tell_thinking(run, phase_run, new_edits)
    changes = edit_records(new_edits)
    row = record.stamp(replace(_reply_row(phase_run, plan, reply, price), details=told))
    details = replace(details, blocks_bill=billed, edits=record.edits + len(changes))
    rows = [row]
    if phase_run.rule.policy is not None:
        rows.append(selection_row(phase_run, phase_run.rule.policy, plan.entries, row))
    call = call_record(phase_run, plan, row.trace_id, details)
    items = record.append(rows, calls=[call], edits=changes)

    # From now on it is said.
    phase_run.messages.own += items
    phase_run.window.driver.answered(items[0], goes_on=None if rest_of is None else rest_of.id)
    mark_matches(run, phase_run, items)
    await run_in_thread(longest_of(phase_run), partial(keep_originals, run, phase_run, new_edits))
    usage = reply.usage
    totals = (usage.tokens_in, usage.tokens_out, usage.tokens_cached, price, reply.seconds)
    run.emit(CallEnded(phase_run.phase.name, phase_run.now.turn, *totals, is_recorded))
    return reply, items[0]


def _reply_row(phase_run: PhaseRun, plan: Plan, reply: Reply, price: float | None) -> Row:
    """Return the row of a reply, with what its call took and left out."""
    asked_by_results = phase_run.messages.own[-1].node == NodeType.TOOL_RESULT
    node = NodeType.FOLLOW_UP if asked_by_results else NodeType.AGENT
    row = phase_run.row(node, reply.message)
    return replace(
        with_usage(row, phase_run.info.name, reply.usage, price),
        parent_id=phase_run.trace_id,
        duration_ms=reply.seconds * 1_000,
        full_history_size=plan.snowball,
        context_size=len(plan.entries),
        tokens_saved=plan.saved,
    )


async def _send(run: CascadeRun, phase_run: PhaseRun, plan: Plan) -> TakenStep:
    name = phase_run.phase.name
    if plan.details.budget is not None:
        tell_budget(run, phase_run, plan.sent)
    now, tokens = phase_run.now, (plan.sent, plan.sent + plan.saved)
    run.emit(CallStarted(name, now.turn, now.attempt, *tokens, run.record.follows_record))
    request = request_of(run.record, phase_run, plan)
    return await send(run, phase_run, request, lambda text: run.emit(TextArrived(name, text)))
