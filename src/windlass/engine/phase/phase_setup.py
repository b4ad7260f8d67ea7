"""A phase is opened: its rule, its sources, its tools and its instructions are fixed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from windlass.caching.meter import shared_tokens, weigh
from windlass.caching.rates import rate
from windlass.cascade.compile import compile_rule
from windlass.cascade.flow import ends
from windlass.cascade.handoffs import ROUTE_TO
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.rules import SLIDING_SHARE, Rule
from windlass.cascade.tools_named import wards_of
from windlass.engine._cascades_called import cascade_caller
from windlass.engine._phase_run import (
    PhaseMessages,
    PhaseRun,
    PhaseTools,
    PhaseWindow,
    StateCopy,
    TurnState,
)
from windlass.engine.cascade_run import AS_WRITTEN, CascadeRun, Wording
from windlass.engine.choosing.choose import choose
from windlass.engine.choosing.session_search import search_session
from windlass.engine.injecting.artifacts import describe_callback, look_callback
from windlass.engine.injecting.begin import open_context, open_head, skill_callback
from windlass.engine.injecting.injected import PhaseInjected
from windlass.engine.phase._beginning import open_driver, server_clear_of
from windlass.engine.phase._manifest import tools_of
from windlass.engine.phase.callouts import call_out, refresh_callouts
from windlass.engine.phase.remembering import memory_callbacks
from windlass.engine.phase.rewriting import rewrite
from windlass.engine.phase.routing import menu_of, route_tool, routes
from windlass.engine.phase.rule_texts import goal_of, moments_in, recorded_in
from windlass.engine.phase.sources import gather, snowball_of
from windlass.engine.turn.approving import tools_to_approve
from windlass.engine.turn.in_words import tell_unforced_call, with_asks_in_words
from windlass.engine.turn.recall import recall_original
from windlass.errors import (
    ContextError,
)
from windlass.history.base import (
    NodeType,
    Row,
)
from windlass.history.decisions import SwitchedOff, SystemPrompt
from windlass.history.details import PlaceCost, PositionDetails
from windlass.messages import Message, Text, user
from windlass.providers.base import ModelInfo
from windlass.text.templates import holds, render
from windlass.tools.base import ToolContext
from windlass.window.blocks import Blocks, assemble
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import Entry, show
from windlass.window.replayed import held_by, last_turns, without_repeats


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts that a phase is opened with."""

    rule: Rule
    """The compiled rule of what it may see."""
    blocks: Blocks
    """Its view of what was said before, in blocks."""
    instructions: Message
    """The first message said in it."""
    task: str = ""
    """Its instructions as its cascade words them."""
    injected: tuple[Entry, ...] = ()
    """The messages that its sources brought."""
    injection: PhaseInjected | None = None
    """Its injectors and their state (None: it has none)."""
    choose: Callable[[PhaseRun], Awaitable[None]] | None = None
    """Has it choose its context, once its tools are known and before its windows are decided."""
    ends_run: bool = False
    """Whether the run is over with its last reply."""


async def begin_phase(
    run: CascadeRun, phase: Phase, wording: Wording = AS_WRITTEN, message: str | None = None
) -> PhaseRun:
    """Fix what the phase sees: its rule, its sources, its tools, its instructions.

    `wording` is a sounding's own. `message` is what a person says in place of the instructions,
    as it is.
    """
    exclude = phase.context.exclude if phase.context is not None else ()
    ran = run.session.names_that_ran(exclude)
    rule = compile_rule(run.cascade, phase, run.settings, ran)
    info = run.resolve(run.generation_of(phase).model)[1]
    values, where = run.template_values(), run.cascade.where
    conditions = [
        source.condition is None
        or holds(source.condition, **values, where=f"{where(source.place)}, its condition")
        for source in rule.sources
    ]
    task = message or _instructions(run, phase, values)
    if phase.name == run.cascade.phases[0].name:
        wording = run.wording.joined(wording)
    instructions = task
    for order in wording.orders:
        instructions = await rewrite(run, phase, instructions, order)
    system, injection = _system_prompt(run, phase, info, instructions)
    snowball: tuple[Entry, ...] = ()
    if rule.mode != "selective":
        snowball = snowball_of(run.record, run.session.edits)
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

    async def choose_context(phase_run: PhaseRun) -> None:
        await choose(run, phase_run, instructions, gathered, snowball)
        refresh_callouts(run, phase_run)  # what was called out is kept where it is shown

    menu = menu_of(phase) if message is None else ()
    asked = user(*wording.before, instructions, *menu, *wording.after)
    said = with_asks_in_words(run, phase, asked)
    goal = goal_of(run, phase) if message is None else None
    opening = Opening(
        rule,
        Blocks(system) if rule.mode == "auto" else blocks,  # until it has chosen
        said if goal is None else said.with_parts(*said.parts, Text(goal)),
        task,
        injected=gathered.input + gathered.sources,
        injection=injection,
        choose=choose_context if rule.mode == "auto" else None,
        ends_run=message is None and _ends_run(run, phase) and not _is_judged(run, phase),
    )
    phase_run = await open_phase(run, phase, opening)
    if rule.mode == "snowball" and gathered.sources:
        phase_run.messages.position_cost = position_report(run, phase_run)
    return phase_run


def _instructions(run: CascadeRun, phase: Phase, values: Mapping[str, Any]) -> str:
    """Return the instructions as rendered. Raises ContextError where they say nothing."""
    where = _where(run.cascade, phase, "instructions")
    template = phase.instructions or ""
    moments = {**moments_in(run, phase), **recorded_in(run, template)}
    text = render(template, **values, where=where, moments=moments)
    if not text.strip():
        raise ContextError(f"{where}: the template renders to nothing, so nothing would be asked")
    return text


def _system_prompt(
    run: CascadeRun, phase: Phase, info: ModelInfo, task: str
) -> tuple[tuple[Entry, ...], PhaseInjected | None]:
    """Return the system prompt with its STABLE blocks, and what the phase has of injectors."""
    where = _where(run.cascade, phase, "system") if phase.system else run.cascade.where("system")
    text, injection = open_head(run, phase, info, where=where, task=task)
    if text is None:
        return (), injection
    row = Row(NodeType.SYSTEM, message=text, phase=phase.name, turn=0)
    item = run.record.add(replace(row, details=SystemPrompt(bool(phase.system))))
    return show([item], "the system prompt"), injection


def _where(cascade: Cascade, phase: Phase, key: str) -> str:
    """Where a key of the phase stands in the cascade's file."""
    return cascade.where(f"phases[{list(cascade.phases).index(phase)}].{key}")


def _ends_run(run: CascadeRun, phase: Phase) -> bool:
    """Return whether nothing follows the phase; after a sub-cascade the run above it goes on.

    Of soundings each reads what the first wrote.
    """
    last = run.parent is None and ends(phase, run.cascade.phases)
    return last and not (phase.soundings and phase.soundings.are_several)


def _is_judged(run: CascadeRun, phase: Phase) -> bool:
    """Return whether an output may be refused, so that another call follows."""
    tries_again = any(ward.mode == "retry" for _, _, ward in wards_of(phase))
    judged = phase.rules.loop_until is not None or tries_again
    return judged or run.generation_of(phase).output_schema is not None


async def open_phase(run: CascadeRun, phase: Phase, opening: Opening) -> PhaseRun:
    """Return the phase in hand: what it sees is fixed, and its instructions are said."""
    rule, injected = opening.rule, opening.injected
    generation = run.generation_of(phase)
    provider, info = run.resolve(generation.model)
    row = Row(NodeType.USER, message=opening.instructions, phase=phase.name, turn=0, attempt=1)
    row = run.record.stamp(row)
    own = run.record.append([row])
    state = StateCopy(run.session.state)
    context = tool_context(run, phase, state)
    room = info.input_room(generation.max_output_tokens)
    newest_within = min(rule.newest_within or int(SLIDING_SHARE * info.window), room)
    phase_run = PhaseRun(
        phase=phase,
        rule=rule,
        generation=generation,
        provider=provider,
        info=info,
        injected=tuple(entry.item for entry in injected if entry.item.phase == phase.name),
        trace_id=row.trace_id,
        messages=PhaseMessages(opening.blocks, own, opening.task),
        now=TurnState(state, run.session.visit.after_turn),
        tools=PhaseTools(context),
        window=PhaseWindow(Driver(Conversation(), run.caches.of(info)), newest_within),
        injection=opening.injection,
        server_clear=server_clear_of(rule.policy, info.name),
        ends_run=opening.ends_run,
    )
    if rule.carried is None:  # a task sees nothing that was said, so nothing that was called out
        refresh_callouts(run, phase_run)
    phase_run.tools.context = replace(
        context,
        callout=partial(call_out, run, phase_run),
        memory=memory_callbacks(run, phase),
        skill=skill_callback(run.injected, run.settings.root, opening.injection),
        look=look_callback(run.record, run.injected, run.settings.root),
        describe=describe_callback(run.record, run.injected, phase.name),
        search_session=partial(search_session, run, phase_run),
        run_cascade=cascade_caller(run, phase_run.phase.name, phase_run.now),
    )
    tell_unforced_call(run, phase_run)
    _tell_switched_off(run, phase_run)
    tools = await tools_of(run, phase, phase_run, opening.instructions.text)
    if routes(phase):
        tools = {**tools, ROUTE_TO: route_tool(phase, phase_run)}
    phase_run.tools.by_name = tools
    phase_run.tools.approve = tools_to_approve(run.registry, phase, tools.values())
    if opening.choose is not None:
        await opening.choose(phase_run)
    open_context(run, phase_run)
    phase_run.window.driver = open_driver(run, phase_run)
    return phase_run


def tool_context(run: CascadeRun, phase: Phase, state: StateCopy) -> ToolContext:
    """Return the context of a phase's tools, without the callbacks that need the phase itself."""
    record, settings = run.record, run.settings
    return ToolContext(
        session_id=record.session_id,
        phase=phase.name,
        root=settings.root.resolve(),
        state=state,
        readable=run.session.readable,
        closed=record.store.folder,
        modules=run.registry.modules,
        recall=partial(recall_original, record),
        search_folder=settings.search_folder,
        search=run.search,
        http_allow=tuple(run.cascade.http_allow) or settings.http_allow,
        http_limit=settings.http_allow,
    )


def _tell_switched_off(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Tell which settings keep the phase from shortening or choosing what it sees."""
    rule, name = phase_run.rule, phase_run.phase.name
    fits = " where all of it fits" if rule.choosing is not None else ""
    for setting, what in (
        (rule.switched_off, "its windows are not shortened"),
        (rule.not_choosing, f"it does not choose its context{fits}"),
    ):
        if setting:
            origin = run.settings[setting].origin
            text = f"phase {name!r}: {what}, because {origin} switches it off"
            run.tell(name, text, SwitchedOff(setting, origin))


def position_report(run: CascadeRun, phase_run: PhaseRun) -> PositionDetails:
    """Return the cost of the place where injected sources stand, and of the other place.

    For each place: tokens that still stand as in the request before (a cache may hold
    them), and the input cost in US dollars if it does (None: the model has no price).
    """
    info = phase_run.info

    def cost(place: Literal["start", "end"]) -> PlaceCost:
        entries = assemble(
            replace(phase_run.messages.blocks, position=place), show(phase_run.messages.own, "")
        )
        messages = [entry.message for entry in entries]
        weighed = weigh(
            info.counter,
            messages,
            run.definitions(phase_run.allowed, messages),
            tools_first=info.tools_first,
        )
        total = sum(tokens for _, tokens in weighed)
        shared = shared_tokens(weighed, run.caches.previous)
        price = rate(info.name) if not info.free else None
        dollars = (
            None
            if price is None
            else (shared * price.cache_read + (total - shared) * price.cache_write) / 1e6
        )
        return PlaceCost(total, shared, dollars)

    return PositionDetails(phase_run.messages.blocks.position, cost("start"), cost("end"))
