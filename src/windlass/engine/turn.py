"""One call, from entry to exit: the whole story of a turn.

A turn is one model call and the tool results it asked for. Read from top to
bottom: assemble, let edits fall due, check, send, record, run the tools, record.
The reply is recorded before any tool runs, so that no paid answer and no effect
of a tool is ever without its record.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.engine.answer import answer_calls
from windlass.engine.check import check_budget, check_fits
from windlass.engine.events import CallEnded, CallStarted, TextArrived
from windlass.engine.prefix import prefix_report, weigh
from windlass.engine.send import send
from windlass.engine.state import PhaseRun, Run
from windlass.history.base import CallRecord, EditRecord, NodeType, Shown, request_hash
from windlass.messages import ToolSpec
from windlass.providers.base import Reply, Request
from windlass.tokens import request_tokens
from windlass.window.assemble import assemble
from windlass.window.entries import Entry, Replace, apply, show
from windlass.window.expire import expired, reference
from windlass.window.seams import from_user, newest_within
from windlass.wire.openai import check_sequence


async def take_turn(run: Run, phase: PhaseRun) -> Reply:
    """Make the phase's next call, run the tools it asks for, and record both.

    Raises ContextTooLong or BudgetExceeded before anything is sent, ProviderError
    when the call fails.
    """
    phase.turn += 1
    name, record, counter = phase.phase.name, run.record, phase.info.counter

    # What was said, in order, under the edits that have fallen due by now.
    edits = expired(
        (*phase.injected, *phase.own),
        phase.rule.expiry,
        turn=phase.turn,
        instructions=phase.instructions.id,
        committed=phase.edits,
        can_recall="recall" in phase.tools,
    )
    phase.edits.update((edit.id, edit) for edit in edits)
    entries = apply(assemble(phase.blocks, show(phase.own, "said in this phase")), phase.edits)
    tools, choice = _tools(run, phase, entries)
    if phase.rule.sliding:
        entries = _newest(phase, entries, tools)

    # Never send what cannot be accepted.
    messages = tuple(entry.message for entry in entries)
    check_sequence(messages, {spec.name for spec in tools})
    weighed = weigh(counter, messages, tools, tools_first=phase.info.tools_first)
    sent = sum(tokens for _, tokens in weighed)
    # What a snowball would have sent here: all that was said, unedited, and its tools.
    snowball = [entry.message for entry in phase.blocks.system]
    snowball += [item.message for item in record.born]
    saved = request_tokens(counter, snowball, run.definitions(phase.allowed, snowball)) - sent
    check_fits(phase, entries, sent)
    details = {
        "tool_choice": choice,
        "prefix": prefix_report(run.previous, weighed),
        "position": phase.position_cost,
        "budget": check_budget(run, phase, sent),
    }

    # Send.
    run.emit(CallStarted(name, phase.turn, phase.attempt, sent, sent + saved))
    started = record.clock()
    reply = await send(
        phase,
        Request(
            model=phase.info.name.partition("/")[2],
            messages=messages,
            tools=tools,
            tool_choice=choice,
            max_output_tokens=phase.generation.max_output_tokens,
            temperature=phase.generation.temperature,
            reasoning_effort=phase.generation.reasoning_effort,
            output_schema=phase.generation.output_schema,
            load=record.keeper.picture,
        ),
        lambda text: run.emit(TextArrived(name, text)),
    )
    seconds = record.clock() - started
    run.previous = weighed
    price = run.charge(phase.info, reply.usage, saved=saved)

    # Record the reply with what the call saw and why, in one batch.
    asked_by_results = phase.own[-1].node == NodeType.TOOL_RESULT
    row = record.row(
        NodeType.FOLLOW_UP if asked_by_results else NodeType.AGENT,
        reply.message,
        phase=name,
        turn=phase.turn,
        attempt=phase.attempt,
        parent_id=phase.trace_id,
        model=phase.info.name,
        tokens_in=reply.usage.tokens_in,
        tokens_out=reply.usage.tokens_out,
        tokens_cached=reply.usage.tokens_cached,
        cost=price,
        duration_ms=seconds * 1_000,
        full_history_size=len(snowball),
        context_size=len(messages),
        tokens_saved=saved,
        metadata={"finish": reply.finish},
    )
    specs = [spec.to_openai() for spec in tools]
    call = CallRecord(
        trace_id=row.trace_id,
        model=phase.info.name,
        shown=tuple(_shown(entry, counter.message(entry.message)) for entry in entries),
        request_hash=request_hash([message.key for message in messages], specs),
        tools=tuple(specs),
        sent_tokens=sent,
        full_tokens=sent + saved,
        bodies=tuple(entry.message for entry in entries if entry.edited),
        details={key: value for key, value in details.items() if value is not None},
    )
    originals = {item.id: item.message for item in (*phase.injected, *phase.own)}
    phase.own += record.append([row], calls=[call], edits=[_edit_record(edit) for edit in edits])
    for edit in edits:
        if (original := originals[edit.id]).role == "tool":
            ref = reference(original)
            record.keeper.store_tool_result(record.session_id, ref, original.key)
    usage = reply.usage
    told = (usage.tokens_in, usage.tokens_out, usage.tokens_cached, price, seconds)
    run.emit(CallEnded(name, phase.turn, *told))

    # Run what it asked for.
    if reply.message.tool_calls:
        await answer_calls(run, phase, reply.message, row.trace_id)
    return reply


def _tools(run: Run, phase: PhaseRun, entries: Sequence[Entry]) -> tuple[tuple[ToolSpec, ...], str]:
    """The definitions to send, and the choice the model has."""
    tools = run.definitions(phase.allowed, [entry.message for entry in entries])
    if not phase.tools:
        return tools, "none"
    # A forced tool is forced until it was called; else the phase could not end.
    return tools, "auto" if phase.forced_done else phase.generation.tool_choice


def _newest(
    phase: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec]
) -> tuple[Entry, ...]:
    """`context_strategy: sliding`: system prompt, instructions, and the newest whole turns."""
    counter = phase.info.counter
    pinned = {phase.instructions.id, *(entry.item.id for entry in phase.blocks.system)}
    fixed = [entry.message for entry in entries if entry.item.id in pinned]
    room = phase.newest_within - request_tokens(counter, fixed, tools)
    rest = [entry for entry in entries if entry.item.id not in pinned]
    shown = pinned | {entry.item.id for entry in newest_within(rest, room, counter.message)}
    return from_user([entry for entry in entries if entry.item.id in shown])


def _shown(entry: Entry, tokens: int) -> Shown:
    body = entry.message.key if entry.edited else None
    return Shown(entry.item.id, entry.reason, tokens, shown_as=body, because=entry.because)


def _edit_record(edit: Replace) -> EditRecord:
    return EditRecord(edit.id, "replace", edit.because, edit.reason, edit.replacement)
