"""Attempts at a phase until an output is accepted, and the turns of each."""

from __future__ import annotations

from dataclasses import replace

from windlass.engine._phase_run import PhaseRun, StateCopy
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import LimitHit, Validated
from windlass.engine.phase.rule_texts import ask_for_call, ask_for_json, retry_message, turn_message
from windlass.engine.phase.sources import last_said
from windlass.engine.phase.verdicts import Guard, Verdict, judge
from windlass.engine.turn.record import Recorder
from windlass.engine.turn.turn import take_turn
from windlass.errors import BadRequest, OutputInvalid, PhaseFailed
from windlass.history.base import COMPLETED, Ending, NodeType, Reason
from windlass.history.decisions import ReplyUnfinished, TurnsUsedUp
from windlass.history.row_details import Validation
from windlass.messages import user
from windlass.text.prompts import UNFINISHED, repair_text, ward_text
from windlass.window.entries import Item
from windlass.wire.base import Reply
from windlass.wire.calls import is_output


async def run_attempts(run: CascadeRun, phase_run: PhaseRun) -> tuple[Ending, Item | None]:
    """Attempts until one is accepted; returns how the phase ended, and its output."""
    rules, name, now = phase_run.phase.rules, phase_run.phase.name, phase_run.now
    guard, by_wards = Guard(run, phase_run.phase), 0
    while True:
        cut_short, verdict = await _run_turns(run, phase_run, guard)
        output, text = last_said(phase_run.messages.own), _text_of_attempt(phase_run)
        if verdict is None:
            verdict = await judge(run, phase_run, text, rules.loop_until, cut_short, recorded=True)
        repairs = False
        if verdict is None:
            ending = Ending("incomplete", cut_short) if cut_short else COMPLETED
        else:
            repairs = verdict.by_schema and cut_short in (None, "length") and not now.repaired
            _record_verdict(run, phase_run, text, verdict, repairs=repairs)
            run.emit(Validated(name, now.attempt, verdict.valid, verdict.reason))
            ending = COMPLETED if verdict.valid else Ending("incomplete", cut_short or "turns")
        if repairs and verdict is not None:
            now.repaired = True
            _say(run.record, phase_run, repair_text(verdict.reason))
            continue
        exhausted = now.attempt - by_wards >= rules.max_attempts
        if verdict is None or verdict.valid or (exhausted and rules.on_exhausted == "continue"):
            refused = await guard.check("post", phase_run, text)
            if not refused:
                return ending, output
            verdict, by_wards = Verdict(valid=False, reason=refused), by_wards + 1
        elif exhausted:
            kind = OutputInvalid if verdict.by_schema else PhaseFailed
            raise kind(
                f"phase {name!r} used up its {rules.max_attempts} attempts;"
                f" the last was refused: {verdict.reason or 'no reason given'}"
            )
        # A failed attempt leaves no trace in the state.
        now.begin_attempt(StateCopy(run.session.state))
        phase_run.tools.use_state(now.state)
        why = verdict.reason
        text = retry_message(run, phase_run, why, by_schema=verdict.by_schema)
        if phase_run.generation.wanted:
            text += f"\n\n{ask_for_call(phase_run.generation)}"
        _say(run.record, phase_run, text)


def _record_verdict(
    run: CascadeRun, phase_run: PhaseRun, text: str, verdict: Verdict, *, repairs: bool = False
) -> None:
    attempt, reason = phase_run.now.attempt, verdict.reason
    told = Validation(attempt, text, reason, verdict.valid, repairs)
    row = phase_run.row(NodeType.VALIDATION)
    run.record.append([replace(row, parent_id=phase_run.trace_id, details=told)])


async def _run_turns(
    run: CascadeRun, phase_run: PhaseRun, guard: Guard
) -> tuple[Reason | None, Verdict | None]:
    """Turns until a reply asks for no tool, or with `turn_prompt` until none is left.

    Returns why they ended before (None: they did not), and the verdict of `loop_until` where it
    ended them. To mend its output an attempt has one turn.
    """
    rules, repairs = phase_run.phase.rules, phase_run.now.repaired
    most = rules.max_turns
    goes_on = rules.turn_prompt is not None and not repairs
    for number in range(1, 2 if repairs else most + 1):
        _say_what_fork_adds(run, phase_run)
        reply = await _take_turn(run, phase_run)
        refused = await guard.check("turn", phase_run, reply.message.text)
        if refused and number < most and not repairs:
            phase_run.now.route = None
            _say(run.record, phase_run, ward_text(refused))
            continue
        if phase_run.now.route is not None:
            return None, None
        if reply.message.tool_calls:
            continue
        cut_short = _why_cut_short(run, phase_run, reply)
        if cut_short or not goes_on or number == most:
            return cut_short, None
        verdict = await _judge_early(run, phase_run)
        if verdict is not None and verdict.valid:
            return None, verdict
        why = "" if verdict is None else verdict.reason
        _say(run.record, phase_run, turn_message(run, phase_run, number + 1, why))
    if not repairs:
        limit: Reason | None = "turns" if most > 1 else None  # a call, its tools, and the answer
        _tell_closing(run, phase_run.phase.name, most)
        phase_run.now.closing = True
        reply = await _take_turn(run, phase_run)
        phase_run.now.closing = False
        await guard.check("turn", phase_run, reply.message.text)
        if not reply.message.tool_calls:
            return _why_cut_short(run, phase_run, reply) or limit, None
    return "turns", None


def _tell_closing(run: CascadeRun, name: str, most: int) -> None:
    """Tell that the turns are used up; of a phase with one turn that is no limit."""
    one_more = "one more call answers what the tools gave, without tools"
    if most == 1:
        text = f"phase {name!r} has one turn (max_turns is 1); {one_more}"
    else:
        text = f"phase {name!r} reached its max_turns of {most}; {one_more}"
    run.tell(name, text, TurnsUsedUp(most))
    if most > 1:
        run.emit(LimitHit(name, "turns", f"phase {name!r}", most, most))


async def _judge_early(run: CascadeRun, phase_run: PhaseRun) -> Verdict | None:
    """The verdict on a reply after which turns are left; None: the phase has no `loop_until`.

    What is accepted is recorded where the attempt ends.
    """
    validator = phase_run.phase.rules.loop_until
    if validator is None:
        return None
    text = _text_of_attempt(phase_run)
    verdict = await judge(run, phase_run, text, validator, recorded=True)
    if verdict is not None and not verdict.valid:
        _record_verdict(run, phase_run, text, verdict)
    return verdict


def _text_of_attempt(phase_run: PhaseRun) -> str:
    """Return the last text that was said in the attempt."""
    last = last_said(phase_run.messages.of_attempt(phase_run.now.attempt))
    return last.message.text if last else ""


async def _take_turn(run: CascadeRun, phase_run: PhaseRun) -> Reply:
    """Return a turn, and another one where the provider took no schema."""
    try:
        return await take_turn(run, phase_run)
    except BadRequest as refused:
        text = ask_for_json(run, phase_run, refused)
        if text is None:
            raise
    _say(run.record, phase_run, text)
    return await take_turn(run, phase_run)


def _why_cut_short(run: CascadeRun, phase_run: PhaseRun, reply: Reply) -> Reason | None:
    """Return why a reply without calls does not end its phase in order (None: it does).

    A picture is an answer, also one that a tool made in the attempt.
    """
    reason: Reason | None = None
    if reply.finish in ("length", "refusal", "filter"):
        reason = reply.finish
    elif reply.finish == "window":
        reason = "length"
    elif not any(map(is_output, reply.message.parts)):
        attempt = phase_run.now.attempt
        own = [item for item in phase_run.messages.own if item.attempt == attempt]
        made = any(item.message.pictures for item in own if item.message.role == "tool")
        reason = None if made else "empty"
    if reason is not None:
        name = phase_run.phase.name
        why = UNFINISHED["window" if reply.finish == "window" else reason]
        run.tell(name, f"phase {name!r}: {why}", ReplyUnfinished(reason))
    return reason


def _say_what_fork_adds(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Say what a fork adds, before the first call that is not answered in its origin."""
    journal, now = run.journal, phase_run.now
    turn = run.record.turn(phase_run.phase.name, now.attempt, now.turn + 1)
    if journal.message and not journal.is_answered(turn):
        _say(run.record, phase_run, journal.message)
        journal.message = ""


def _say(record: Recorder, phase_run: PhaseRun, text: str) -> None:
    """Say something to the model, as the user."""
    row = replace(phase_run.row(NodeType.USER, user(text)), parent_id=phase_run.trace_id)
    phase_run.messages.own.append(record.add(row))
