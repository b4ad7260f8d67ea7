"""The plan of one call: the context under its edits, the tools, their tokens, and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from windlass.caching.breakpoints import cache_key
from windlass.caching.meter import prefix_report, weigh
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.engine.injecting.each_call import block_details, with_current_values
from windlass.engine.turn.record import Recorder
from windlass.errors import BudgetExceeded, ContextTooLong
from windlass.history.base import CallRecord, ShownMessage, request_hash
from windlass.history.details import (
    BudgetDetails,
    CallDetails,
    ClearedNote,
    PlannerDetails,
    PostponedEdit,
)
from windlass.messages import Message, Opaque, Text, ToolSpec
from windlass.text.tokens import request_tokens
from windlass.window.driver import NextRequest, RequestNeeds
from windlass.window.entries import Entry, Item
from windlass.window.replayed import from_user, newest_within
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence
from windlass.wire.thinking import is_thinking


@dataclass(frozen=True, slots=True)
class Plan:
    """A call that can be sent."""

    call: NextRequest
    """The messages and the marks of the request."""
    bare: tuple[Entry, ...]
    """Its entries without blocks."""
    tools: tuple[ToolSpec, ...]
    """The tools that it defines."""
    choice: str
    """Which of them the model may or must call."""
    weighed: list[tuple[str, int]]
    """The tokens of each piece, by our count."""
    sent: int
    """The sum of them."""
    saved: int
    """Tokens that a snowball would have sent in addition."""
    snowball: int
    """Messages that a snowball would have sent."""
    details: CallDetails
    """What the record keeps of the decisions behind it."""
    rest_of: Item | None = None
    """The reply that was cut, where the call asks for its rest."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The messages as they are sent, each with what it stands for and why it is there."""
        return self.call.entries

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as they are sent."""
        return tuple(entry.message for entry in self.entries)


def plan_call(run: CascadeRun, phase_run: PhaseRun, now: float) -> Plan:
    """The phase's next call, made at `now` seconds: from what was said and the edits in force.

    Appends no row, emits nothing, changes nothing. Raises SequenceError, ContextTooLong or
    BudgetExceeded: nothing is sent that cannot be accepted.
    """
    counter = phase_run.info.counter
    bare, tools, choice = entries_of(run, phase_run)
    call = next_call(run, phase_run, bare, tools, now)
    messages = tuple(entry.message for entry in call.entries)
    check_sequence(messages, {spec.name for spec in tools})
    weighed = weigh(counter, messages, tools, tools_first=phase_run.info.tools_first)
    sent = sum(tokens for _, tokens in weighed)
    # What a snowball would have sent here: all that was said, unedited, and its tools.
    snowball = [entry.message for entry in phase_run.messages.blocks.system]
    snowball += [item.message for item in run.record.born]
    whole = request_tokens(counter, snowball, run.definitions(phase_run.allowed, snowball))
    check_fits(phase_run, call.entries, sent)
    note = tuple(item.id for item in call.cleared)
    details = CallDetails(
        tool_choice=choice,
        prefix=prefix_report(run.caches.previous, weighed),
        position=phase_run.messages.position_cost,
        budget=check_budget(phase_run, sent),
        planner=_planner_decision(phase_run),
        cleared_note=ClearedNote(note, counter.text(call.note)) if note else None,
        injectors=block_details(run, phase_run, call),
    )
    return Plan(call, bare, tools, choice, weighed, sent, whole - sent, len(snowball), details)


def plan_rest(
    previous: Sequence[tuple[str, int]], phase_run: PhaseRun, plan: Plan, cut: Item, ask: Entry
) -> Plan:
    """The call once more, with its reply that was `cut` and what asks for the rest behind it.

    `previous` is the request of that call, piece by piece; nothing in it changes, so a cache gives
    all of it.
    """
    counter, blocks = phase_run.info.counter, plan.call.with_blocks
    tail = (Entry(cut, cut.message, "the reply so far, cut at its output limit"), ask)
    entries = (*blocks.entries, *tail)
    messages = tuple(entry.message for entry in entries)
    check_sequence(messages, {spec.name for spec in plan.tools})
    weighed = [*plan.weighed, *((e.message.key, counter.message(e.message)) for e in tail)]
    details = CallDetails(
        tool_choice=plan.choice,
        prefix=prefix_report(previous, weighed),
        cleared_note=plan.details.cleared_note,
        injectors=plan.details.injectors,
    )
    return replace(
        plan,
        call=replace(
            plan.call,
            with_blocks=replace(blocks, entries=entries),
            sent=replace(plan.call.sent, messages=messages),
        ),
        bare=(*plan.bare, *tail),
        weighed=weighed,
        sent=sum(tokens for _, tokens in weighed),
        snowball=plan.snowball + len(tail),
        details=details,
        rest_of=cut,
    )


def join_reply(cut: Message, rest: Message) -> Message:
    """The reply `rest` with the text and pictures of the one that it goes on with before its own.

    What a provider signed stays that of the rest, at its place; but signed thinking, which may be
    bound to what stood before it, is that of the part that was cut.
    """
    thinking = tuple(filter(is_thinking, cut.parts))
    parts = [part for part in rest.parts if not is_thinking(part)]
    at = next((at for at, part in enumerate(parts) if isinstance(part, Text)), None)
    if at is None:
        at = next((at for at, part in enumerate(parts) if not isinstance(part, Opaque)), len(parts))
        parts.insert(at, Text(""))
    first = parts[at]
    parts[at] = Text(cut.text + (first.text if isinstance(first, Text) else ""))
    return rest.with_parts(*thinking, *parts[:at], *cut.pictures, *parts[at:])


def entries_of(
    run: CascadeRun, phase_run: PhaseRun
) -> tuple[tuple[Entry, ...], tuple[ToolSpec, ...], str]:
    """The entries of the next call before blocks are added, its tools, and its tool choice."""
    entries = phase_run.conversation.window().entries
    tools, choice = _tools_and_choice(run, phase_run, entries)
    if phase_run.rule.sliding or phase_run.window.replanned:
        entries = _newest_turns(phase_run, entries, tools)
    return entries, tools, choice


def next_call(
    run: CascadeRun,
    phase_run: PhaseRun,
    entries: Sequence[Entry],
    tools: Sequence[ToolSpec],
    now: float,
) -> NextRequest:
    """Return the phase's next call: `entries` with their blocks, and the marks of its cache."""
    counter, held, blocks = phase_run.info.counter, phase_run.injection, phase_run.messages.blocks
    room = phase_run.room
    asked = RequestNeeds(
        with_current_values(run, phase_run, entries),
        tools,
        gap=run.caches.of(phase_run.info).pauses.gap_at(now),
        block=held.text if held else "",
        lasting=held.lasting if held else "",
        cut_point=len(blocks.system) + len(blocks.context) if blocks.context else 0,
        last=phase_run.ends_run and (phase_run.now.closing or not tools),
    )
    return phase_run.window.driver.next_call(
        asked,
        size=counter.text,
        fits=lambda messages: request_tokens(counter, messages, tools) <= room,
    )


def request_of(record: Recorder, phase_run: PhaseRun, plan: Plan) -> Request:
    """Return the plan as a request to the phase's model, with marks where its cache wants them."""
    name = phase_run.info.name
    return Request(
        model=phase_run.info.name.partition("/")[2],
        messages=plan.messages,
        tools=plan.tools,
        tool_choice=plan.choice,
        max_output_tokens=phase_run.generation.max_output_tokens,
        temperature=phase_run.generation.temperature,
        reasoning_effort=phase_run.generation.reasoning_effort,
        # The rest of a JSON text is no JSON by itself.
        output_schema=None if plan.rest_of else phase_run.generation.output_schema,
        load=record.store.picture,
        breakpoints=plan.call.sent.places,
        long_breakpoints=plan.call.sent.marks.long,
        cache_key=cache_key(plan.messages, plan.tools) if name.startswith("openai/") else None,
        drops_thinking=phase_run.window.driver.drops_thinking,
        server_clear=phase_run.server_clear,
    )


def _planner_decision(phase_run: PhaseRun) -> PlannerDetails | None:
    """The planner's decision for the record, with the id of the message that it begins at."""
    conversation = phase_run.conversation
    decision = conversation.window().decision
    if decision is None:
        return None
    figures = {each.name: getattr(decision, each.name) for each in fields(decision)}
    figures["waits"] = tuple(PostponedEdit(**asdict(wait)) for wait in decision.waits)
    return PlannerDetails(**figures, message_id=conversation.items[decision.position].id)


def _tools_and_choice(
    run: CascadeRun, phase_run: PhaseRun, entries: Sequence[Entry]
) -> tuple[tuple[ToolSpec, ...], str]:
    """Return the definitions to send, and the choice the model has."""
    shown = [entry.message for entry in entries]
    if phase_run.rule.policy is not None:
        # A call that is folded keeps its definition: a list that changes breaks the cache.
        shown = [item.message for item in phase_run.conversation.items]
    tools = run.definitions(phase_run.allowed, shown)
    if not phase_run.tools.by_name or phase_run.now.closing:
        return tools, "none"
    # A forced tool is forced until it was called; else the phase could not end.
    return tools, "auto" if phase_run.now.forced_done else phase_run.generation.tool_choice


def _newest_turns(
    phase_run: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec]
) -> tuple[Entry, ...]:
    """The newest whole turns that fit `newest_within`, with system prompt and instructions."""
    counter = phase_run.info.counter
    head = (*phase_run.messages.blocks.system, *phase_run.messages.blocks.context)
    pinned = {phase_run.instructions.id, *(entry.item.id for entry in head)}
    fixed = [entry.message for entry in entries if entry.item.id in pinned]
    room = phase_run.window.newest_within - request_tokens(counter, fixed, tools)
    rest = [entry for entry in entries if entry.item.id not in pinned]
    shown = pinned | {entry.item.id for entry in newest_within(rest, room, counter.message)}
    return from_user([entry for entry in entries if entry.item.id in shown])


_LARGEST = 5


def has_room(phase_run: PhaseRun, tokens: int) -> bool:
    """Whether a request of so many tokens keeps to the model's window and the user's limit."""
    budget = phase_run.rule.budget
    limit = budget.limit if budget.limit and budget.on_exceed != "warn" else tokens
    return tokens <= min(limit, phase_run.room)


def check_fits(phase_run: PhaseRun, entries: Sequence[Entry], tokens: int) -> None:
    """Raise ContextTooLong, naming the five largest messages and the settings that help."""
    room = phase_run.room
    if tokens <= room:
        return
    count = phase_run.info.counter.message
    largest = sorted(entries, key=lambda entry: -count(entry.message))[:_LARGEST]
    listed = "\n".join(
        f"  {count(entry.message):>8,} tokens  {entry.message.role:<9}"
        f" {entry.item.phase or '-'}  {entry.item.id}  ({entry.reason})"
        for entry in largest
    )
    info, kept = phase_run.info, phase_run.generation.max_output_tokens
    margin = "" if info.counter.exact else ", 10 % margin"
    raise ContextTooLong(
        f"phase {phase_run.phase.name!r} would send {tokens:,} tokens, but {info.name} takes"
        f" {room:,} (window {info.window:,}, {kept:,} kept for the reply{margin})."
        f" The largest messages:\n{listed}\n"
        "Give the phase a `context` with only the sources it needs, or `context_strategy:"
        ' "sliding"`, or set `context_retention: "output_only"` on the phase they come from.'
    )


def check_budget(phase_run: PhaseRun, tokens: int) -> BudgetDetails | None:
    """Hold the request against `max_input_tokens`; returns what the record says of it.

    None: there is no limit, or it is far. Raises BudgetExceeded where the phase says
    `on_exceed: fail`.
    """
    budget = phase_run.rule.budget
    if budget.limit is None or tokens < budget.limit * budget.warn:
        return None
    if tokens > budget.limit and budget.on_exceed == "fail":
        near = _near(phase_run, tokens)
        raise BudgetExceeded(
            f"{near} with on_exceed 'fail'; raise the limit or give the phase less context"
        )
    return BudgetDetails(budget.limit, tokens, exceeded=tokens > budget.limit)


def tell_budget(run: CascadeRun, phase_run: PhaseRun, tokens: int) -> None:
    """Tell the user that a request comes near `max_input_tokens`, or is beyond it."""
    run.emit(Noted(phase_run.phase.name, _near(phase_run, tokens)))


def _near(phase_run: PhaseRun, tokens: int) -> str:
    return (
        f"phase {phase_run.phase.name!r} sends {tokens:,} input tokens; its max_input_tokens is"
        f" {phase_run.rule.budget.limit:,}"
    )


def tell_choice(run: CascadeRun, phase_run: PhaseRun, sent: int, snowball: int) -> None:
    """Say once what the phase chose, with the tokens of its first call, which windows shorten."""
    text, phase_run.choice.text = phase_run.choice.text, ""
    if text:
        text += f"; its first call sends {sent:,} tokens, sending everything {snowball:,}"
        run.emit(Noted(phase_run.phase.name, text, detail=True))


def call_record(phase_run: PhaseRun, plan: Plan, trace_id: str, details: CallDetails) -> CallRecord:
    """Return what a call saw, as it is recorded with its reply."""
    count, specs = phase_run.info.counter.message, [spec.to_openai() for spec in plan.tools]
    return CallRecord(
        trace_id=trace_id,
        model=phase_run.info.name,
        shown=tuple(_shown(entry, count(entry.message)) for entry in plan.entries),
        request_hash=request_hash([message.key for message in plan.messages], specs),
        tools=tuple(specs),
        sent_tokens=plan.sent,
        full_tokens=plan.sent + plan.saved,
        bodies=tuple(entry.message for entry in plan.entries if entry.edited),
        details=details,
    )


def _shown(entry: Entry, tokens: int) -> ShownMessage:
    body = entry.message.key if entry.edited else None
    return ShownMessage(
        entry.item.id, entry.reason, tokens, shown_as=body, because=", ".join(entry.causes) or None
    )
