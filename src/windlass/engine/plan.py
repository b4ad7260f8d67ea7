"""What one call would send: the context under its edits, the tools, and what they weigh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from windlass.caching.breakpoints import cache_key, mark
from windlass.caching.meter import prefix_report, weigh
from windlass.engine.check import check_budget, check_fits
from windlass.engine.events import Noted
from windlass.engine.injecting.blocks import inject
from windlass.engine.meters import cache_of
from windlass.engine.state import PhaseRun, Run
from windlass.engine.windows import in_record, narrow
from windlass.errors import ContextTooLong
from windlass.messages import Message, ToolSpec
from windlass.tokens import request_tokens
from windlass.window.assemble import assemble
from windlass.window.decision import Decision
from windlass.window.entries import Entry, apply, show
from windlass.window.seams import from_user, newest_within
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence

SHARE_LEFT = 0.8
"""What a new plan takes of the one that was too long, where the provider named no numbers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A call that can be sent.

    `sent` are its tokens by our count, `weighed` the same piece by piece; `saved` what a
    snowball would have sent beyond them, `snowball` how many messages that has. `bare` are
    the entries before injectors added their blocks.
    """

    entries: tuple[Entry, ...]
    tools: tuple[ToolSpec, ...]
    choice: str
    weighed: list[tuple[str, int]]
    sent: int
    saved: int
    snowball: int
    details: Mapping[str, Any]
    bare: tuple[Entry, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as they are sent."""
        return tuple(entry.message for entry in self.entries)


def plan_call(run: Run, phase: PhaseRun) -> Plan:
    """The phase's next call, from what was said and the edits in force.

    Raises SequenceError, ContextTooLong or BudgetExceeded: nothing is sent that cannot
    be accepted.
    """
    counter = phase.info.counter
    decision = None
    if phase.course is not None:
        window = phase.course.window()
        entries, decision = in_record(run, phase, window), window.decision
    else:
        own = show(phase.own, "said in this phase")
        entries = apply(assemble(phase.blocks, own), phase.edits)
    tools, choice = _tools(run, phase, entries)
    if phase.rule.sliding or phase.replanned:
        entries = _newest(phase, entries, tools)
    bare = entries
    entries, injected = inject(run, phase, entries, tools)
    messages = tuple(entry.message for entry in entries)
    check_sequence(messages, {spec.name for spec in tools})
    weighed = weigh(counter, messages, tools, tools_first=phase.info.tools_first)
    sent = sum(tokens for _, tokens in weighed)
    # What a snowball would have sent here: all that was said, unedited, and its tools.
    snowball = [entry.message for entry in phase.blocks.system]
    snowball += [item.message for item in run.record.born]
    whole = request_tokens(counter, snowball, run.definitions(phase.allowed, snowball))
    check_fits(phase, entries, sent)
    details = {
        "tool_choice": choice,
        "prefix": prefix_report(run.previous, weighed),
        "position": phase.position_cost,
        "budget": check_budget(run, phase, sent),
        "planner": _told(phase, decision),
        "injectors": injected,
    }
    snow = len(snowball)
    return Plan(tuple(entries), tools, choice, weighed, sent, whole - sent, snow, details, bare)


def longest_of(phase: PhaseRun) -> int:
    """Characters of the longest message that the phase may see."""
    blocks, course = phase.blocks, phase.course
    entries = assemble(blocks, show(phase.own, ""))
    items = course.items if course is not None else [entry.item for entry in entries]
    return max((item.message.chars for item in items), default=0)


def count_all(run: Run, phase: PhaseRun) -> None:
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
        narrow(run, phase, course, room)
    shorter = plan_call(run, phase)
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


def request_of(run: Run, phase: PhaseRun, plan: Plan) -> Request:
    """The plan as a request to the phase's model, with marks where its cache wants them."""
    name = phase.info.name
    long = cache_of(run, phase.info).lifetime.long
    blocks, held = phase.blocks, phase.injection
    run.sent = mark(
        run.sent,
        name,
        plan.messages,
        plan.tools,
        long=long,
        seam=len(blocks.system) + len(blocks.context) if blocks.context else 0,
        tail=held is not None and bool(held.text),
    )
    return Request(
        model=phase.info.name.partition("/")[2],
        messages=plan.messages,
        tools=plan.tools,
        tool_choice=plan.choice,
        max_output_tokens=phase.generation.max_output_tokens,
        temperature=phase.generation.temperature,
        reasoning_effort=phase.generation.reasoning_effort,
        output_schema=phase.generation.output_schema,
        load=run.record.keeper.picture,
        breakpoints=run.sent.places,
        long_breakpoints=run.sent.marks.long,
        cache_key=cache_key(plan.messages, plan.tools) if name.startswith("openai/") else None,
    )


def _told(phase: PhaseRun, decision: Decision | None) -> Mapping[str, Any] | None:
    """The planner's decision for the record, with the id of the message that it begins at."""
    if decision is None or phase.course is None:
        return None
    return {**asdict(decision), "message_id": phase.course.items[decision.position].id}


def _tools(run: Run, phase: PhaseRun, entries: Sequence[Entry]) -> tuple[tuple[ToolSpec, ...], str]:
    """The definitions to send, and the choice the model has."""
    said = [entry.message for entry in entries]
    if phase.course is not None:
        # A call that is folded keeps its definition: a list that changes breaks the cache.
        said = [item.message for item in phase.course.items]
    tools = run.definitions(phase.allowed, said)
    if not phase.tools:
        return tools, "none"
    # A forced tool is forced until it was called; else the phase could not end.
    return tools, "auto" if phase.forced_done else phase.generation.tool_choice


def _newest(
    phase: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec]
) -> tuple[Entry, ...]:
    """The newest whole turns that fit `newest_within`, with system prompt and instructions."""
    counter = phase.info.counter
    head = (*phase.blocks.system, *phase.blocks.context)
    pinned = {phase.instructions.id, *(entry.item.id for entry in head)}
    fixed = [entry.message for entry in entries if entry.item.id in pinned]
    room = phase.newest_within - request_tokens(counter, fixed, tools)
    rest = [entry for entry in entries if entry.item.id not in pinned]
    shown = pinned | {entry.item.id for entry in newest_within(rest, room, counter.message)}
    return from_user([entry for entry in entries if entry.item.id in shown])
