"""One phase: what it may see is fixed, then attempts of turns, then what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from windlass.caching.meter import shared_tokens, weigh
from windlass.caching.rates import rate
from windlass.cascade.compile import compile_rule
from windlass.cascade.model import OutputExtraction, Phase
from windlass.cascade.rules import SLIDING_SHARE, Rule
from windlass.engine._state import Generation, PhaseProgress, PhaseRun, Run, StateCopy
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing.choose import choose
from windlass.engine.choosing.search_context import SEARCH, search_session
from windlass.engine.events import LimitHit, PhaseEnded, Validated
from windlass.engine.injecting.artifacts import describe_callback, look_callback
from windlass.engine.injecting.begin import open_context, open_head, skill_callback
from windlass.engine.injecting.injected import PhaseInjected
from windlass.engine.injecting.session_tier import moments_of
from windlass.engine.phase._beginning import open_driver
from windlass.engine.phase._manifest import choose_tools
from windlass.engine.phase.callouts import call_out, refresh
from windlass.engine.phase.remembering import memory_callbacks
from windlass.engine.phase.sources import gather, last_said, output_only
from windlass.engine.turn.approving import needing_approval
from windlass.engine.turn.fitting import input_room
from windlass.engine.turn.in_words import call_wanted, schema_refused, tell_wanted, with_asks
from windlass.engine.turn.recall import recall_original
from windlass.engine.turn.turn import take_turn
from windlass.engine.turn.windows import lasting_edits
from windlass.errors import (
    AnswerNeeded,
    BadRequest,
    ContextError,
    OutputInvalid,
    PersonNeeded,
    PhaseFailed,
    RunLimitReached,
    StepDiffers,
    StoreError,
    Unsure,
    WindlassError,
)
from windlass.history.base import (
    COMPLETED,
    Ending,
    NodeType,
    Outcome,
    Reason,
    StateChange,
    ending_of,
)
from windlass.history.decisions import (
    Asks,
    Remark,
    ReplyUnfinished,
    RunLimit,
    SwitchedOff,
    SystemPrompt,
    TurnsUsedUp,
    Waits,
)
from windlass.history.details import OutcomeDetails
from windlass.history.row_details import Validation
from windlass.messages import Message, Part, ToolCall, user
from windlass.providers.base import ModelInfo
from windlass.safety.fairness import wait_for_turn
from windlass.safety.foreign import parse_json
from windlass.safety.pattern_search import search
from windlass.safety.schemas import validator_for
from windlass.text.prompts import UNFINISHED, repair_text, retry_text
from windlass.text.templates import holds, render
from windlass.tools.base import TIMEOUT_S, Tool, ToolContext
from windlass.tools.runner import run_tool
from windlass.window.assemble import Blocks, assemble
from windlass.window.conversation import Conversation
from windlass.window.cut_points import last_turns
from windlass.window.driver import Driver
from windlass.window.entries import Entry, Item, apply, show
from windlass.window.originals import RECALL
from windlass.window.replayed import held_by, without_repeats
from windlass.wire.base import Reply
from windlass.wire.calls import is_output

Children: TypeAlias = Callable[[], Awaitable[Ending]]
"""Runs what a phase declares to run before it, and says how that ended."""


async def run_phase(run: CascadeRun, phase: Phase, children: Children) -> Ending:
    """Run one phase to its end, after its `children`, and record its outcome.

    Returns `completed`, or `incomplete` where it ended by a limit or, with
    `on_exhausted: continue`, without an accepted output. Raises PhaseFailed, or
    what a call raised; the outcome is in the record then, too.
    """
    await wait_for_turn()

    async def trying() -> Tried:
        return await try_phase(run, phase, begin(run, phase))

    ending, _ = await settle(run, phase, after(children, trying))
    return ending


@dataclass(frozen=True, slots=True)
class Tried:
    """A phase that was carried out, and is in the record but for its outcome."""

    phase_run: PhaseRun
    ending: Ending
    output: Item | None
    changes: Sequence[StateChange] = ()


async def try_phase(run: CascadeRun, phase: Phase, beginning: Awaitable[PhaseRun]) -> Tried:
    """Attempts at a phase until one is accepted, and what is taken from its output."""
    phase_run = await beginning
    ending, output = await _attempts(run, phase, phase_run)
    return Tried(phase_run, ending, output, await extracted(run, phase, output))


async def after(children: Children, trying: Callable[[], Awaitable[Tried]]) -> Tried:
    """What a phase came to that is tried after its sub-cascades."""
    ended = await children()
    tried = await trying()
    return replace(tried, ending=ending_of([ended, tried.ending]))


async def carry_out(
    run: CascadeRun,
    phase: Phase,
    beginning: Awaitable[PhaseRun],
    details: Callable[[Item | None], OutcomeDetails] = lambda _: {},
) -> tuple[Ending, Item | None]:
    """The same for a phase that begins in another way; returns its output, too.

    `details` gives what its outcome says beside, from its output.
    """
    return await settle(run, phase, try_phase(run, phase, beginning), details)


async def settle(
    run: CascadeRun,
    phase: Phase,
    trying: Awaitable[Tried],
    details: Callable[[Item | None], OutcomeDetails] = lambda _: {},
) -> tuple[Ending, Item | None]:
    """Have a phase carried out, and record its outcome."""
    name = phase.name
    try:
        tried = await trying
    except (StoreError, StepDiffers):
        raise  # told where the session ends, once: the store may not take it
    except RunLimitReached as limit:
        reached = limit.reached_in is None  # else in a phase of a sub-cascade
        limit.reached_in = limit.reached_in or name
        ended = Outcome("incomplete", run.record.clock(), name, reason=limit.reason)
        run.record.append(outcomes=[ended])
        run.tell(name, str(limit), RunLimit(**limit.amounts))
        if reached:
            run.emit(LimitHit(name, limit.reason, limit.of, limit.budget, limit.spent))
        run.emit(PhaseEnded(name, "incomplete", "", limit.reason))
        raise  # no step can follow
    except PersonNeeded as needed:
        run.record.append(outcomes=[Outcome("waiting", run.record.clock(), name)])
        if isinstance(needed, Unsure):
            run.tell(name, str(needed), Waits(needed.place, needed.tools))
        elif isinstance(needed, AnswerNeeded):  # who watches was told of the question
            asked = needed.question, needed.tool, needed.call, needed.options, needed.why
            run.record.decide(name, str(needed), Asks(*asked))
        run.emit(PhaseEnded(name, "waiting", ""))
        raise
    except WindlassError as error:
        failed = Outcome("failed", run.record.clock(), name, error=str(error))
        run.record.append([run.record.failure(name, error)], outcomes=[failed])
        raise
    phase_run, ending, output = tried.phase_run, tried.ending, tried.output
    run.progress.state.update(phase_run.progress.state)
    run.progress.edits.update(lasting_edits(phase_run))
    run.progress.last = phase_run
    outcome = Outcome(
        ending.status,
        run.record.clock(),
        name,
        output_trace=run.record.traces[output.id] if output else None,
        hidden=phase_run.rule.output_only,
        details=details(output),
        reason=ending.reason,
    )
    run.record.append(
        outcomes=[outcome], state=[*phase_run.progress.state.changes(name), *tried.changes]
    )
    run.progress.state.update({change.key: change.value for change in tried.changes})
    text = output.message.text if output else ""
    run.emit(PhaseEnded(name, ending.status, text, ending.reason))
    return ending, output


async def begin(
    run: CascadeRun, phase: Phase, behind: Sequence[Part] = (), message: str | None = None
) -> PhaseRun:
    """Fix what the phase sees: its rule, its sources, its tools, its instructions.

    What stands `behind` the instructions is a sounding's own. `message` is what a person says in
    place of the instructions, as it is.
    """
    rule = compile_rule(run.cascade, phase, run.settings)
    of_run = run.behind if phase.name == run.cascade.phases[0].name else ()
    _, info = run.resolve(run.generation_of(phase).model)
    values = run.template_values()
    place = f"phases[{list(run.cascade.phases).index(phase)}]"
    where = run.cascade.where
    conditions = [
        source.condition is None
        or holds(source.condition, **values, where=f"{where(source.place)}, its condition")
        for source in rule.sources
    ]
    at = where(f"{place}.instructions")
    instructions = message or render(
        phase.instructions, **values, where=at, moments=_moments(run, phase)
    )
    if not instructions.strip():
        raise ContextError(f"{at}: the template renders to nothing, so nothing would be asked")
    at = where(f"{place}.system" if phase.system else "system")
    text, injection = open_head(run, phase, info, where=at, task=instructions)
    system: tuple[Entry, ...] = ()
    if text is not None:
        metadata = SystemPrompt(bool(phase.system)).as_json()
        item = run.record.add(NodeType.SYSTEM, text, phase=phase.name, turn=0, metadata=metadata)
        system = show([item], "the system prompt")
    snowball = _snowball(run) if rule.mode != "selective" else ()
    if rule.newest_turns is not None:
        snowball = last_turns(snowball, rule.newest_turns)
    # What stands first is shown; its repetition is told.
    first = rule.position == "start" or rule.mode == "auto"
    gathered = gather(
        run,
        rule,
        phase=phase.name,
        conditions=conditions,
        shown=() if first else snowball,
        system_anywhere=info.system_anywhere,
        parent=run.above,
    )
    if first and gathered.sources and rule.mode != "auto":
        snowball = without_repeats(snowball, *held_by(gathered.sources))
    blocks = Blocks(system, gathered.input, gathered.sources, snowball, rule.position)
    if rule.mode == "auto":
        blocks = Blocks(system)  # until it has chosen

    async def chooses(phase_run: PhaseRun) -> None:
        await choose(run, phase_run, instructions, gathered, snowball)
        refresh(run, phase_run)  # what was called out is kept where it is shown

    phase_run = await open_phase(
        run,
        phase,
        rule,
        blocks,
        with_asks(run, phase, user(instructions, *of_run, *behind)),
        injection=injection,
        injected=gathered.input + gathered.sources,
        before=chooses if rule.mode == "auto" else None,
        ends_run=message is None and _ends_run(run, phase) and not is_judged(run, phase),
    )
    if rule.mode == "snowball" and gathered.sources:
        phase_run.progress.position_cost = position_report(run, phase_run)
    return phase_run


def _moments(run: CascadeRun, phase: Phase) -> dict[str, object]:
    """What instructions see beside the input, the state and outputs."""
    index = run.record.sounding[1] if run.record.sounding else run.sounding or 0
    soundings = phase.soundings or run.cascade.soundings
    factor = soundings.factor if soundings else 1
    return {**moments_of(run), "sounding_index": index, "sounding_factor": factor}


def _ends_run(run: CascadeRun, phase: Phase) -> bool:
    """Whether nothing follows the phase; what runs a sub-cascade goes on after it.

    Of soundings each reads what the first wrote.
    """
    last = run.parent is None and phase is run.cascade.phases[-1]
    return last and phase.soundings is None


def is_judged(run: CascadeRun, phase: Phase) -> bool:
    """Whether an output may be refused, so that another call follows."""
    return run.generation_of(phase).output_schema is not None or phase.rules.loop_until is not None


async def open_phase(
    run: CascadeRun,
    phase: Phase,
    rule: Rule,
    blocks: Blocks,
    instructions: Message,
    *,
    injected: tuple[Entry, ...],
    injection: PhaseInjected | None,
    before: Callable[[PhaseRun], Awaitable[None]] | None = None,
    ends_run: bool = False,
) -> PhaseRun:
    """The phase in hand: what it sees is fixed, and its instructions are said.

    `injected` are the messages that its sources brought, `injection` is what it has of injectors
    (None: it has none). `before` is done once its tools are known, before its windows are decided.
    `ends_run`: the run is over with its last reply.
    """
    record, state, generation = run.record, StateCopy(run.progress.state), run.generation_of(phase)
    provider, info = run.resolve(generation.model)
    row = record.row(NodeType.USER, instructions, phase=phase.name, turn=0, attempt=1)
    own = record.append([row])
    context = ToolContext(
        session_id=record.session_id,
        phase=phase.name,
        root=run.settings.root.resolve(),
        state=state,
        readable=run.progress.readable,
        closed=run.closed,
        modules=run.registry.modules,
        recall=partial(recall_original, record),
        search_folder=run.settings.search_folder,
        search=run.search,
        http_allow=tuple(run.cascade.http_allow) or run.settings.http_allow,
        http_limit=run.settings.http_allow,
    )
    phase_run = PhaseRun(
        phase=phase,
        rule=rule,
        generation=generation,
        provider=provider,
        info=info,
        injected=tuple(entry.item for entry in injected if entry.item.phase == phase.name),
        trace_id=row.trace_id,
        progress=PhaseProgress(
            blocks=blocks,
            own=own,
            state=state,
            context=context,
            newest_within=_newest_within(rule, generation, info),
            driver=Driver(Conversation(), run.cache_of(info)),
        ),
        injection=injection,
        ends_run=ends_run,
    )
    if rule.carried is None:  # a task sees nothing that was said, so nothing that was called out
        refresh(run, phase_run)
    phase_run.progress.context = replace(
        context,
        callout=partial(call_out, run, phase_run),
        memory=memory_callbacks(run, phase),
        skill=skill_callback(run, injection),
        look=look_callback(run),
        describe=describe_callback(run, phase.name),
        search_session=partial(search_session, run, phase_run),
    )
    tell_wanted(run, phase_run)
    if rule.switched_off:
        _tell_switched_off(run, phase.name, rule.switched_off, "its windows are not shortened")
    if rule.not_choosing:
        what = "it does not choose its context"
        if rule.choosing is not None:
            what += " where all of it fits"
        _tell_switched_off(run, phase.name, rule.not_choosing, what)
    phase_run.progress.tools = await _tools(run, phase, phase_run, instructions.text)
    tools = phase_run.progress.tools.values()
    phase_run.progress.approve = needing_approval(run.registry, phase, tools)
    if before is not None:
        await before(phase_run)
    open_context(run, phase_run)
    phase_run.progress.driver = open_driver(run, phase_run)
    return phase_run


async def _attempts(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun
) -> tuple[Ending, Item | None]:
    """Attempts until one is accepted; returns how the phase ended, and its output."""
    rules, name, progress = phase.rules, phase.name, phase_run.progress
    while True:
        cut_short = await _turns(run, phase_run, rules.max_turns)
        output = last_said(progress.own)
        last = last_said([item for item in progress.own if item.attempt == progress.attempt])
        text = last.message.text if last else ""
        verdict = await judge(run, phase_run, text, rules.loop_until, cut_short, recorded=True)
        if verdict is None:
            return (Ending("incomplete", cut_short) if cut_short else COMPLETED), output
        repairs = verdict.by_schema and cut_short in (None, "length") and not progress.repaired
        _record_verdict(run, phase_run, text, verdict, repairs=repairs)
        if verdict.valid:
            return COMPLETED, output
        if repairs:
            progress.repaired = True
            _say(run, phase_run, repair_text(verdict.reason))
            continue
        if progress.attempt >= rules.max_attempts:
            if rules.on_exhausted == "continue":
                return Ending("incomplete", cut_short or "turns"), output
            kind = OutputInvalid if verdict.by_schema else PhaseFailed
            raise kind(
                f"phase {name!r} used up its {rules.max_attempts} attempts;"
                f" the last was refused: {verdict.reason or 'no reason given'}"
            )
        progress.attempt += 1
        # A failed attempt leaves no trace in the state.
        progress.state = StateCopy(run.progress.state)
        progress.context = replace(progress.context, state=progress.state)
        progress.forced_done = progress.repaired = False
        text = retry_text(verdict.reason, progress.attempt)
        if phase_run.generation.wanted:
            text += f"\n\n{call_wanted(phase_run.generation)}"
        _say(run, phase_run, text)


def _record_verdict(
    run: Run, phase_run: PhaseRun, text: str, verdict: Verdict, *, repairs: bool
) -> None:
    attempt, reason = phase_run.progress.attempt, verdict.reason
    told = Validation(attempt, text, reason, verdict.valid, repairs).as_json()
    run.record.append([run.record.row(NodeType.VALIDATION, metadata=told, **_place(phase_run))])
    run.emit(Validated(phase_run.phase.name, attempt, verdict.valid, reason))


def _say(run: Run, phase_run: PhaseRun, text: str) -> None:
    """Say something to the model, as the user."""
    phase_run.progress.own.append(run.record.add(NodeType.USER, user(text), **_place(phase_run)))


def _place(phase_run: PhaseRun) -> dict[str, Any]:
    return {
        "phase": phase_run.phase.name,
        "turn": phase_run.progress.turn,
        "attempt": phase_run.progress.attempt,
        "parent_id": phase_run.trace_id,
    }


async def _turns(run: Run, phase_run: PhaseRun, most: int) -> Reason | None:
    """Turns until a reply asks for no tool; why they ended before (None: they did not).

    To mend its output an attempt has one turn.
    """
    repairs = phase_run.progress.repaired
    for _ in range(1 if repairs else most):
        _say_message(run, phase_run)
        reply = await _take_turn(run, phase_run)
        if not reply.message.tool_calls:
            return _cut_short(run, phase_run, reply)
    if not repairs:
        text = f"phase {phase_run.phase.name!r} reached its max_turns of {most}"
        text += "; one more call answers what the tools gave, without tools"
        name = phase_run.phase.name
        run.tell(name, text, TurnsUsedUp(most))
        run.emit(LimitHit(name, "turns", f"phase {name!r}", most, most))
        phase_run.progress.closing = True
        reply = await _take_turn(run, phase_run)
        phase_run.progress.closing = False
        if not reply.message.tool_calls:
            return _cut_short(run, phase_run, reply) or "turns"
    return "turns"


async def _take_turn(run: Run, phase_run: PhaseRun) -> Reply:
    """A turn, and another one where the provider took no schema."""
    try:
        return await take_turn(run, phase_run)
    except BadRequest as refused:
        text = schema_refused(run, phase_run, refused)
        if text is None:
            raise
    _say(run, phase_run, text)
    return await take_turn(run, phase_run)


def _say_message(run: Run, phase_run: PhaseRun) -> None:
    """Say what a fork adds, before the first call that is not answered in its origin."""
    journal, progress = run.journal, phase_run.progress
    turn = run.record.turn(phase_run.phase.name, progress.attempt, progress.turn + 1)
    if journal.message and not journal.is_answered(turn):
        _say(run, phase_run, journal.message)
        journal.message = ""


def _cut_short(run: Run, phase_run: PhaseRun, reply: Reply) -> Reason | None:
    """Why a reply without calls does not end its phase in order (None: it does).

    A picture is an answer, also one that a tool made in the attempt.
    """
    reason: Reason | None = None
    if reply.finish in ("length", "refusal", "filter"):
        reason = reply.finish
    elif reply.finish == "window":
        reason = "length"
    elif not any(map(is_output, reply.message.parts)):
        attempt = phase_run.progress.attempt
        own = [item for item in phase_run.progress.own if item.attempt == attempt]
        made = any(item.message.pictures for item in own if item.message.role == "tool")
        reason = None if made else "empty"
    if reason is not None:
        name = phase_run.phase.name
        why = UNFINISHED["window" if reply.finish == "window" else reason]
        run.tell(name, f"phase {name!r}: {why}", ReplyUnfinished(reason))
    return reason


async def extracted(run: CascadeRun, phase: Phase, output: Item | None) -> list[StateChange]:
    """The state that `output_extraction` takes from an output. Raises PhaseFailed."""
    extraction = phase.output_extraction
    if extraction is None:
        return []
    text = output.message.text if output else ""
    try:
        value, why = await asyncio.to_thread(extract, extraction, text)
    except TimeoutError as error:
        raise PhaseFailed(f"phase {phase.name!r}: output_extraction: {error}") from error
    if why is None:
        return [StateChange(phase.name, extraction.store_as, value)]
    if extraction.required:
        raise PhaseFailed(f"phase {phase.name!r}: {why}")
    run.tell(phase.name, why, Remark("extraction"))
    return []


def _snowball(run: CascadeRun) -> tuple[Entry, ...]:
    """All that was said in earlier phases, less what their retention hides."""
    hidden = {o.phase for o in run.record.store.outcomes(run.record.session_id) if o.hidden}
    entries: list[Entry] = []
    by_phase: dict[str, list[Item]] = {}
    for stored in run.record.items():
        by_phase.setdefault(stored.phase or "", []).append(stored)
    for name, items in by_phase.items():
        reason = f"snowball: said in {name}"
        entries += output_only(items, reason) if name in hidden else show(items, reason)
    return apply(entries, run.progress.edits)


def _tell_switched_off(run: CascadeRun, phase: str, setting: str, what: str) -> None:
    origin = run.settings[setting].origin
    text = f"phase {phase!r}: {what}, because {origin} switches it off"
    run.tell(phase, text, SwitchedOff(setting, origin))


def _newest_within(rule: Rule, generation: Generation, info: ModelInfo) -> int:
    room = input_room(info, generation.max_output_tokens)
    return min(rule.newest_within or int(SLIDING_SHARE * info.window), room)


async def _tools(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun, instructions: str
) -> Mapping[str, Tool]:
    tackle = phase.tackle
    if tackle == "manifest":
        tackle = await choose_tools(run, phase, phase_run, instructions)
    policy = phase_run.rule.policy
    finds = SEARCH in tackle  # what it finds, recall brings
    shortens = policy is not None and policy.enabled
    if tackle and (shortens or finds) and RECALL.name not in tackle:
        tackle = (*tackle, RECALL.name)  # from the start: a list that changes breaks the cache
    timeout = run.settings.tool_timeout_s
    return {
        tool.spec.name: replace(tool, timeout_s=timeout) if tool.timeout_s == TIMEOUT_S else tool
        for tool in run.registry.of_tackle(tackle)
    }


_FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def extract(extraction: OutputExtraction, text: str) -> tuple[Any, str | None]:
    """The value found, and None; or None, and why there is none.

    `format: json` parses what the pattern's group holds, `code` takes away a fence. Raises
    TimeoutError with a sentence where the search was stopped.
    """
    pattern = extraction.pattern
    hit = search(pattern, text, re.DOTALL)
    if hit is None:
        return None, f"the output has no match for the pattern {pattern!r}"
    value = hit[1]
    if value is None:
        return (
            None,
            f"the group of the pattern {pattern!r} matches nothing in the output",
        )
    match extraction.format:
        case "text":
            return value.strip(), None
        case "code":
            fenced = _FENCE.match(value)
            return (fenced[1] if fenced else value.strip("\n")), None
        case "json":
            try:
                return parse_json(value), None
            except ValueError as error:
                return None, f"what {pattern!r} found is not JSON: {error}"


def position_report(run: CascadeRun, phase_run: PhaseRun) -> dict[str, Any]:
    """What it costs that injected sources stand where they stand, beside the other place.

    For each place: tokens that still stand as in the request before (a cache may hold
    them), and the input cost in US dollars if it does (None: the model has no price).
    """
    info = phase_run.info
    report: dict[str, Any] = {"chosen": phase_run.progress.blocks.position}
    for place in ("start", "end"):
        entries = assemble(
            replace(phase_run.progress.blocks, position=place), show(phase_run.progress.own, "")
        )
        messages = [entry.message for entry in entries]
        weighed = weigh(
            info.counter,
            messages,
            run.definitions(phase_run.allowed, messages),
            tools_first=info.tools_first,
        )
        total = sum(tokens for _, tokens in weighed)
        shared = shared_tokens(weighed, run.progress.previous)
        price = rate(info.name) if not info.free else None
        dollars = (
            None
            if price is None
            else (shared * price.cache_read + (total - shared) * price.cache_write) / 1e6
        )
        report[place] = {"tokens": total, "shared_tokens": shared, "dollars": dollars}
    return report


# ---- whether an attempt's output will do: `loop_until`, and the schema of the output ----------


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validator's answer; `reason` is what the model is told when it is not valid.

    `by_schema`: it was the output's schema that refused.
    """

    valid: bool
    reason: str = ""
    by_schema: bool = False


async def judge(
    run: Run,
    phase_run: PhaseRun,
    output: str,
    validator: str | None,
    cut_short: Reason | None = None,
    *,
    recorded: bool = False,
) -> Verdict | None:
    """The verdict on an attempt's output, or None where the phase asks for none.

    `validator` is what it says under `loop_until`, `cut_short` why the attempt did not end in
    order. What is empty, refused or held back is never accepted. `recorded`: a resumed run takes
    the verdict from its record.

    Raises PhaseFailed when the validator itself fails: trying again would spend
    money on a question that cannot be answered.
    """
    schema = phase_run.generation.output_schema
    judged = schema is not None or validator is not None
    if judged and cut_short in ("empty", "refusal", "filter"):
        return Verdict(valid=False, reason=UNFINISHED[cut_short])
    if schema is not None:
        try:
            verdict = await asyncio.to_thread(matches_schema, output, schema)
        except TimeoutError as error:
            raise PhaseFailed(f"phase {phase_run.phase.name!r}: output_schema: {error}") from error
        if not verdict.valid:
            return verdict
    if validator is None:
        return None if schema is None else Verdict(valid=True)
    if recorded:
        progress = phase_run.progress
        turn = run.record.turn(phase_run.phase.name, progress.attempt, progress.turn)
        known = run.journal.verdict(turn, output)
        if known is not None:
            return Verdict(known.valid, known.validation_reason)
    tool = run.registry.resolve(validator) if ":" in validator else run.registry.get(validator)
    given = {"output": output, "state": dict(phase_run.progress.state), "input": dict(run.input)}
    arguments = arguments_of(tool, given, phase_run.phase.name)
    call = ToolCall("validation", tool.spec.name, json.dumps(arguments, default=str))
    answer = await run_tool(tool, call, phase_run.progress.context)
    if answer.error:
        raise PhaseFailed(
            f"phase {phase_run.phase.name!r}: the validator {validator!r} failed: {answer.text}"
        )
    return read_verdict(answer.text, validator, phase_run.phase.name)


def arguments_of(
    tool: Tool, given: dict[str, Any], phase: str, judged: str = "output"
) -> dict[str, Any]:
    """What a validator is called with: what it names of output, state and input.

    A validator with one parameter of another name receives in it what is `judged`.
    """
    parameters = list(tool.spec.parameters.get("properties", {}))
    named = {name: given[name] for name in parameters if name in given}
    if judged in named or not parameters:
        return named
    required = tool.spec.parameters.get("required", parameters)
    others = [name for name in required if name not in given]
    if len(others) != 1:
        raise PhaseFailed(
            f"phase {phase!r}: the validator {tool.spec.name!r} must take what it judges in a"
            f" parameter {judged!r}; it takes {', '.join(parameters)}"
        )
    return {**named, others[0]: given[judged]}


def matches_schema(output: str, schema: Any) -> Verdict:
    """Whether the text is JSON that the schema accepts; the reason says where it is not.

    Raises TimeoutError with a sentence where a pattern of the schema takes too long.
    """
    try:
        value = parse_json(output)
        problems = sorted(validator_for(schema).iter_errors(value), key=lambda e: e.json_path)
    except ValueError as error:
        return _refused(f"The output must be JSON: {error}.")
    except RecursionError:  # a schema that names itself takes many frames for a level
        return _refused("The output must be JSON that is not nested so deeply.")
    if not problems:
        return Verdict(valid=True)
    listed = "; ".join(f"{problem.json_path}: {problem.message}" for problem in problems[:5])
    return _refused(f"The output does not match its schema: {listed}.")


def _refused(reason: str) -> Verdict:
    return Verdict(valid=False, reason=reason, by_schema=True)


def read_verdict(answer: str, validator: str, phase: str) -> Verdict:
    """A validator's answer, `{valid, reason}` or a bare true or false, as a verdict."""
    try:
        value = parse_json(answer)
    except ValueError:
        value = None
    match value:
        case bool():
            return Verdict(value, "" if value else f"{validator} did not accept the output.")
        case {"valid": bool(valid), **rest}:
            return Verdict(valid, str(rest.get("reason") or ""))
        case _:
            raise PhaseFailed(
                f"phase {phase!r}: the validator {validator!r} must answer"
                f" {{valid, reason}}, not {answer[:80]!r}"
            )
