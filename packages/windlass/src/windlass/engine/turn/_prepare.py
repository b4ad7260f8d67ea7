"""Making a call ready: everything that acts before it is planned.

What was said is handed to the window, edits fall due, the texts that the window wants are written,
and what is shown without having been said is put into the record. After it `plan.py` decides
what is sent and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.each_call import prepare_blocks
from windlass.engine.phase.callouts import pin
from windlass.engine.turn._plan import Plan, entries_of, plan_call
from windlass.engine.turn.record import Recorder, with_usage
from windlass.engine.turn.send import send
from windlass.engine.turn.windows import room_for_messages
from windlass.errors import ContextTooLong, ThinkingRefused, WindlassError
from windlass.history.base import NodeType
from windlass.history.decisions import Replanned, Summary, ThinkingLeftOut
from windlass.history.details import RefusedTokens
from windlass.messages import Message, system, user
from windlass.safety.fairness import run_in_thread
from windlass.text.prompts import UNFINISHED, cut_text
from windlass.text.tokens import request_tokens
from windlass.window.blocks import says_nothing
from windlass.window.entries import Edit, Want
from windlass.window.expire import expired
from windlass.wire.base import Request, Usage
from windlass.wire.thinking import thinks

SHARE_LEFT = 0.8
"""The share that a new plan has of one that was too long, where the provider gave no numbers."""

_LEAST_SAID: Final = 200
"""Characters to which a message is cut at most when a model is asked for a text about many."""


async def prepare(run: CascadeRun, phase_run: PhaseRun) -> Sequence[Edit]:
    """Do all that acts before the phase's next call is planned; returns the edits that fell due."""
    driver, conversation = phase_run.window.driver, phase_run.conversation
    _feed_conversation(run.record.times, phase_run)
    driver.count_on_cache()
    driver.count_blocks()
    edits = expired(
        [
            one
            for one in (*phase_run.messages.injected, *phase_run.messages.own)
            if one.id not in phase_run.window.kept
        ],
        phase_run.rule.expiry,
        turn=phase_run.now.turn,
        instructions=phase_run.instructions.id,
        committed=phase_run.window.edits,
    )
    phase_run.window.edits.update((edit.id, edit) for edit in edits)
    for edit in edits:
        conversation.settle(edit)
    longest = longest_of(phase_run)
    await run_in_thread(longest, conversation.window)  # kept until something is said
    await _write_texts(run, phase_run)
    await run_in_thread(longest, partial(_count_all, run.record, phase_run))
    entries, tools, _ = entries_of(run, phase_run)
    prepare_blocks(run, phase_run, entries, tools)
    return edits


def longest_of(phase_run: PhaseRun) -> int:
    """Characters of the longest message that the phase may see."""
    return max((item.message.chars for item in phase_run.conversation.items), default=0)


def _count_all(record: Recorder, phase_run: PhaseRun) -> None:
    """Count the tokens of all messages that a plan weighs; the counter remembers them."""
    for item in (*record.born, *phase_run.messages.own):
        phase_run.info.counter.message(item.message)


def plan_again(
    run: CascadeRun, phase_run: PhaseRun, plan: Plan, refused: ContextTooLong | ThinkingRefused
) -> Plan:
    """Return a new plan after the provider refused one: shorter, or without thinking."""
    if isinstance(refused, ThinkingRefused):
        return plan_without_thinking(run, phase_run, plan, refused)
    return shorter_plan(run, phase_run, plan, refused)


def shorter_plan(run: CascadeRun, phase_run: PhaseRun, plan: Plan, refused: ContextTooLong) -> Plan:
    """Return a new plan after the provider counted more tokens than we did: the newest whole turns.

    The corrected count stays in force for the phase, and the record says so. A phase with a
    policy is pruned by it. Else what the user chose is not cut, because it is not ours to
    leave out: then, and where nothing can be left out, `refused` is raised.
    """
    conversation, pruned = phase_run.conversation, phase_run.rule.policy is not None
    if not pruned and phase_run.rule.mode == "selective":
        raise refused
    before = phase_run.window.newest_within, phase_run.window.replanned
    policies = conversation.policies
    room = corrected_room(plan.sent, refused)
    phase_run.window.newest_within = min(phase_run.window.newest_within, room)
    phase_run.window.replanned = not pruned
    _lower_limit(run, phase_run, room)
    shorter = plan_call(run, phase_run, run.record.clock())
    if shorter.sent >= plan.sent:
        phase_run.window.newest_within, phase_run.window.replanned = before
        conversation.policies = policies
        conversation.recount()
        raise refused
    run.totals.net.needed = True  # everything is no shorter than what was refused
    name = phase_run.phase.name
    how = "with the oldest turns pruned" if pruned else "with the newest turns"
    notice = (
        f"phase {name!r}: the provider refused {plan.sent:,} tokens (our count) as too long;"
        f" sent again {how}, {shorter.sent:,} tokens"
    )
    numbers = RefusedTokens(refused.counted, refused.limit, room)
    left_out = len(plan.entries) - len(shorter.entries)
    told = Replanned(
        turn=phase_run.now.turn,
        tokens_before=plan.sent,
        tokens_after=shorter.sent,
        messages_left_out=left_out,
        refused=str(refused),
        counted=refused.counted,
        limit=refused.limit,
        room=room,
    )
    run.tell(name, notice, told)
    return replace(shorter, details=replace(shorter.details, replanned=numbers))


def plan_without_thinking(
    run: CascadeRun, phase_run: PhaseRun, plan: Plan, refused: ThinkingRefused
) -> Plan:
    """Return a new plan without any signed thinking, after the provider refused it.

    The session is planned from then on as if the model bound its thinking. Raises `refused`
    where there was no thinking to leave out.
    """
    if not any(map(thinks, plan.messages)):
        raise refused
    phase_run.window.driver.thinking_refused()
    again = plan_call(run, phase_run, run.record.clock())
    name = phase_run.phase.name
    text = f"phase {name!r}: the provider refused earlier thinking; sent again without any"
    run.tell(name, text, ThinkingLeftOut(phase_run.now.turn, refused=str(refused)))
    return again


def corrected_room(sent: int, refused: ContextTooLong) -> int:
    """Return the most tokens, by our count, that the provider would take after it refused `sent`.

    >>> corrected_room(1_000, ContextTooLong("", counted=1_500, limit=1_200))
    800
    >>> corrected_room(1_000, ContextTooLong(""))
    800
    """
    counted, limit = refused.counted, refused.limit
    if counted and limit and 0 < limit < counted:
        return math.floor(sent * limit / counted)
    return math.floor(sent * SHARE_LEFT)


def _lower_limit(run: CascadeRun, phase_run: PhaseRun, room: int) -> None:
    """From now on a request of the phase may have `room` tokens at most, by our count."""
    driver = phase_run.window.driver
    if driver.most_tokens is not None:
        driver.limit(min(driver.most_tokens, room_for_messages(run, phase_run, room)))


def _feed_conversation(times: Mapping[str, float], phase_run: PhaseRun) -> None:
    """Hand the conversation what was said since, so that what the last call saw stands for good.

    Before anything else is decided: a step that is planned again after it was sent could
    come out differently.
    """
    for item in phase_run.messages.own[phase_run.window.fed :]:
        phase_run.window.fed += 1
        if not says_nothing(item.message):
            at = times.get(item.id)
            phase_run.conversation.append(item, "said in this phase", at=at)
    pin(phase_run)


async def _write_texts(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Ask the phase's model for the texts that its next window wants, once each.

    The tokens and the answer are recorded and charged; a model that fails changes nothing:
    the window stands without the text.
    """
    for want in phase_run.conversation.window().wants:
        if want.key in phase_run.window.requested:
            continue
        phase_run.window.requested.add(want.key)
        details, usage = Summary(want.key), Usage(0, 0)
        try:
            taken = await send(run, phase_run, _request_for(phase_run, want), asks="text")
        except WindlassError as error:
            text = f"no text for the window: {error}"
        else:
            reply = taken.reply
            usage, answer = reply.usage, reply.message.text
            details = Summary(want.key, answer)
            if reply.finish in ("refusal", "filter") or not answer.strip():
                why = UNFINISHED.get(reply.finish, UNFINISHED["empty"])
                text = f"no text for the window: {why}"
            else:
                text = "a text for the window"
                phase_run.conversation.supply(want.key, answer)
        price = run.charge(phase_run.info, usage)
        run.totals.net.spent += price or 0.0
        row = replace(phase_run.row(NodeType.DECISION), text=text, details=details)
        run.record.append([with_usage(row, phase_run.info.name, usage, price)])


def _request_for(phase_run: PhaseRun, want: Want) -> Request:
    """The question for a text; where the model could not take it whole, each message is cut."""
    counter, room = phase_run.info.counter, phase_run.info.input_room(want.max_tokens)
    longest = max((message.chars for message in want.messages), default=0)
    while True:
        texts = "\n\n".join(
            f"[{message.role}]\n{cut_text(_as_words(message), longest)}"
            for message in want.messages
        )
        messages = (system(want.purpose), user(texts))
        if longest <= _LEAST_SAID or request_tokens(counter, messages) <= room:
            break
        longest //= 2
    return phase_run.info.question(messages, want.max_tokens)


def _as_words(message: Message) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([message.text] if message.text else []), *calls])
