"""Making a call ready: everything that acts before it is planned.

What was said is handed to the window, edits fall due, the texts that the window wants are written,
and what is shown without having been said is put into the record. After it `plan.py` decides
what is sent and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from windlass.engine.cache import count_on
from windlass.engine.callouts import pin
from windlass.engine.check import input_room
from windlass.engine.events import Noted
from windlass.engine.injecting.blocks import prepare_blocks, tell_attached
from windlass.engine.plan import Plan, entries_of, plan_call
from windlass.engine.send import send
from windlass.engine.state import PhaseRun, Run
from windlass.engine.windows import room_for_messages
from windlass.errors import ContextTooLong, WindlassError
from windlass.fair import beside
from windlass.history.base import NodeType
from windlass.messages import Message, system, user
from windlass.prompts import cut_text
from windlass.tokens import request_tokens
from windlass.window.assemble import assemble, says_nothing
from windlass.window.course import Course, Window
from windlass.window.entries import Edit, show
from windlass.window.expire import expired
from windlass.window.policies.budget import TokenBudget
from windlass.window.proposals import Want
from windlass.wire.base import Request, Usage

SHARE_LEFT = 0.8
"""What a new plan takes of the one that was too long, where the provider named no numbers."""

_LEAST_SAID: Final = 200
"""Characters to which a message is cut at most when a model is asked for a text about many."""


async def prepare(run: Run, phase: PhaseRun) -> Sequence[Edit]:
    """Do all that acts before the phase's next call is planned; returns the edits that fell due."""
    _feed(run, phase)
    count_on(run, phase)
    tell_attached(run, phase)
    edits = expired(
        [one for one in (*phase.injected, *phase.own) if one.id not in phase.kept],
        phase.rule.expiry,
        turn=phase.turn,
        instructions=phase.instructions.id,
        committed=phase.edits,
    )
    phase.edits.update((edit.id, edit) for edit in edits)
    longest = longest_of(phase)
    if phase.course is not None:
        for edit in edits:
            phase.course.settle(edit)
        await beside(longest, phase.course.window)  # kept until something is said
        await _write_texts(run, phase)
        _record_inserts(run, phase, phase.course.window())
    await beside(longest, partial(_count_all, run, phase))
    entries, tools, _ = entries_of(run, phase)
    prepare_blocks(run, phase, entries, tools)
    return edits


def longest_of(phase: PhaseRun) -> int:
    """Characters of the longest message that the phase may see."""
    blocks, course = phase.blocks, phase.course
    entries = assemble(blocks, show(phase.own, ""))
    items = course.items if course is not None else [entry.item for entry in entries]
    return max((item.message.chars for item in items), default=0)


def _count_all(run: Run, phase: PhaseRun) -> None:
    """Count the tokens of all messages that a plan weighs; the counter remembers them."""
    for item in (*run.record.born, *phase.own):
        phase.info.counter.message(item.message)


def shorter_plan(run: Run, phase: PhaseRun, plan: Plan, refused: ContextTooLong) -> Plan:
    """A new plan after the provider counted more tokens than we did: the newest whole turns.

    The corrected count stays in force for the phase, and the record says so. A phase with a
    policy is pruned by it. Else what the user chose is not cut, because it is not ours to
    leave out: then, and where nothing can be left out, `refused` is raised.
    """
    course = phase.course
    if course is None and phase.rule.mode == "selective":
        raise refused
    before = phase.newest_within, phase.replanned
    policies = course.policies if course is not None else ()
    room = corrected_room(plan.sent, refused)
    phase.newest_within, phase.replanned = min(phase.newest_within, room), course is None
    if course is not None:
        _narrow(run, phase, course, room)
        _record_inserts(run, phase, course.window())
    shorter = plan_call(run, phase, run.record.clock())
    if shorter.sent >= plan.sent:
        phase.newest_within, phase.replanned = before
        if course is not None:
            course.policies = policies
            course.recount()
        raise refused
    run.net.needed = True  # everything is no shorter than what was refused
    name = phase.phase.name
    how = "with the newest turns" if course is None else "with the oldest turns pruned"
    told = (
        f"phase {name!r}: the provider refused {plan.sent:,} tokens (our count) as too long;"
        f" sent again {how}, {shorter.sent:,} tokens"
    )
    numbers = {"counted": refused.counted, "limit": refused.limit, "room": room}
    left_out = len(plan.entries) - len(shorter.entries)
    run.record.decide(
        name,
        told,
        kind="replan",
        turn=phase.turn,
        tokens_before=plan.sent,
        tokens_after=shorter.sent,
        messages_left_out=left_out,
        refused=str(refused),
        **numbers,
    )
    run.emit(Noted(name, told))
    return replace(shorter, details={**shorter.details, "replanned": numbers})


def corrected_room(sent: int, refused: ContextTooLong) -> int:
    """The most tokens, by our count, that the provider would take after it refused `sent`.

    >>> corrected_room(1_000, ContextTooLong("", counted=1_500, limit=1_200))
    800
    >>> corrected_room(1_000, ContextTooLong(""))
    800
    """
    counted, limit = refused.counted, refused.limit
    if counted and limit and 0 < limit < counted:
        return math.floor(sent * limit / counted)
    return math.floor(sent * SHARE_LEFT)


def _narrow(run: Run, work: PhaseRun, course: Course, room: int) -> None:
    """From now on a request of the phase may have `room` tokens at most, by our count."""
    limit = room_for_messages(run, work, room)
    course.policies = tuple(
        replace(each, limit=min(each.limit, limit)) if isinstance(each, TokenBudget) else each
        for each in course.policies
    )
    course.recount()


def _feed(run: Run, work: PhaseRun) -> None:
    """Hand the course what was said since, so that what the last call saw stands for good.

    Before anything else is decided: a step that is planned again after it was sent could
    come out differently.
    """
    if work.course is None:
        return
    for item in work.own[work.fed :]:
        work.fed += 1
        if not says_nothing(item.message):
            work.course.append(item, "said in this phase", at=run.record.times.get(item.id))
    pin(work)


def _record_inserts(run: Run, work: PhaseRun, window: Window) -> None:
    """Put into the record what the window brings in unasked, once each."""
    for new in window.inserts:
        if new.item.id not in work.brought:
            row = run.record.row(
                NodeType.CONTEXT_INJECTION,
                new.item.message,
                phase=work.phase.name,
                turn=work.turn,
                attempt=work.attempt,
                parent_id=work.trace_id,
                metadata={"kind": "expand", "reason": new.reason},
            )
            (work.brought[new.item.id],) = run.record.append([row])


async def _write_texts(run: Run, work: PhaseRun) -> None:
    """Ask the phase's model for the texts that its next window wants, once each.

    The tokens and the answer are recorded and charged; a model that fails changes nothing:
    the window stands without the text.
    """
    if work.course is None:
        return
    for want in work.course.window().wants:
        if want.key in work.asked:
            continue
        work.asked.add(want.key)
        told: dict[str, Any] = {"kind": "summary", "key": want.key}
        usage = Usage(0, 0)
        try:
            reply = await send(work, _request(work, want), lambda _: None)
        except WindlassError as error:
            told |= {"text": f"no text for the window: {error}"}
        else:
            usage = reply.usage
            told |= {"text": "a text for the window", "answer": reply.message.text}
            work.course.supply(want.key, reply.message.text)
        row = run.record.row(
            NodeType.DECISION,
            phase=work.phase.name,
            turn=work.turn,
            attempt=work.attempt,
            model=work.info.name,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            tokens_cached=usage.tokens_cached,
            cost=run.charge(work.info, usage, saved=0),
            metadata=told,
        )
        run.net.spent += row.cost or 0.0
        run.record.append([row])


def _request(work: PhaseRun, want: Want) -> Request:
    """The question for a text; where the model could not take it whole, each message is cut."""
    counter, room = work.info.counter, input_room(work.info, want.max_tokens)
    longest = max((message.chars for message in want.messages), default=0)
    while True:
        said = "\n\n".join(
            f"[{message.role}]\n{cut_text(_words(message), longest)}" for message in want.messages
        )
        messages = (system(want.purpose), user(said))
        if longest <= _LEAST_SAID or request_tokens(counter, messages) <= room:
            break
        longest //= 2
    return Request(
        model=work.info.name.partition("/")[2],
        messages=messages,
        tool_choice="none",
        max_output_tokens=want.max_tokens,
        temperature=0.0,
    )


def _words(message: Message) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([message.text] if message.text else []), *calls])
