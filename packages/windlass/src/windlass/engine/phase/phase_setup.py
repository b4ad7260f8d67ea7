"""A phase is opened: its rule, its sources, its tools and its instructions are fixed.

The conversation that it begins with has the policies and the planner that edit it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from windlass.caching.meter import Clearing, pieces, shared_tokens, weigh
from windlass.caching.model_cache import SHARE
from windlass.caching.prices import Prices
from windlass.caching.rates import rate
from windlass.cascade.compile import compile_rule
from windlass.cascade.flow import ends, sure_after
from windlass.cascade.handoffs import ROUTE_TO
from windlass.cascade.model import Phase
from windlass.cascade.rules import SLIDING_SHARE, Rule
from windlass.cascade.tools_named import wards_of
from windlass.engine._phase_run import (
    BarePhase,
    PhaseMessages,
    PhaseRun,
    PhaseTools,
    PhaseWindow,
    StateCopy,
    TurnState,
)
from windlass.engine._subcascades import cascade_caller
from windlass.engine.cascade_run import AS_WRITTEN, CascadeRun, Wording
from windlass.engine.choosing.choose import choose
from windlass.engine.choosing.session_index import search_session
from windlass.engine.events import Noted
from windlass.engine.injecting.artifacts import describe_callback, look_callback
from windlass.engine.injecting.begin import open_context, open_head, skill_callback
from windlass.engine.injecting.injected import PhaseInjected
from windlass.engine.phase.callouts import call_out, refresh_callouts
from windlass.engine.phase.remembering import memory_callbacks
from windlass.engine.phase.rule_texts import (
    goal_of,
    moments_in,
    recorded_in,
    rewrite,
    tell_unforced_call,
    with_asks_in_words,
)
from windlass.engine.phase.sources import gather, snowball_of
from windlass.engine.phase.tools import (
    menu_of,
    recall_original,
    route_tool,
    routes,
    tools_of,
    tools_to_approve,
)
from windlass.engine.turn.windows import room_for_messages
from windlass.errors import ContextError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import SwitchedOff, SystemPrompt
from windlass.history.details import PlaceCost, PositionDetails
from windlass.messages import Message, Text, user
from windlass.providers.base import ModelInfo
from windlass.text.templates import holds, render
from windlass.tools.base import ToolContext
from windlass.window.blocks import Blocks, assemble
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import Entry, Item, show
from windlass.window.kinds import Facts
from windlass.window.options import Policy, plain
from windlass.window.originals import file_name, reference
from windlass.window.replayed import held_by, last_turns, without_repeats
from windlass.window.steps import holds_thinking, planner_of, steps
from windlass.window.thoughts import Thinking
from windlass.window.window_rules import WindowRules
from windlass.wire.editing import ServerClear, clears_tool_uses
from windlass.wire.thinking import drops_thinking


async def begin_phase(
    run: CascadeRun, phase: Phase, wording: Wording = AS_WRITTEN, message: str | None = None
) -> PhaseRun:
    """Fix what the phase sees: its rule, its sources, its tools, its instructions.

    `wording` is a sounding's own. `message` is what a person says in place of the instructions,
    as it is.
    """
    rule = rule_of(run, phase)
    info = run.resolve(run.generation_of(phase).model)[1]
    values, where = run.template_values(), run.cascade.where
    conditions = [
        source.condition is None
        or holds(source.condition, **values, where=f"{where(source.place)}, its condition")
        for source in rule.sources
    ]
    task = message or _instructions(run, phase, values)
    if phase.name == run.cascade.phases[0].name:
        wording = run.nesting.wording.joined(wording)
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
    )
    if first and gathered.sources and rule.mode != "auto":
        snowball = without_repeats(snowball, *held_by(gathered.sources))
    blocks = Blocks(system, gathered.input, gathered.sources, snowball, rule.position)

    menu = menu_of(phase) if message is None else ()
    asked = user(*wording.before, instructions, *menu, *wording.after)
    said = with_asks_in_words(run, phase, asked)
    goal = goal_of(run, phase) if message is None else None
    phase_run = await open_phase(
        run,
        phase,
        rule,
        said if goal is None else said.with_parts(*said.parts, Text(goal)),
        PhaseMessages(
            Blocks(system) if rule.mode == "auto" else blocks,  # until it has chosen
            injected=_expiring(phase, gathered.input + gathered.sources),
            task=task,
        ),
        injection=injection,
        ends_run=message is None and _ends_run(run, phase) and not _is_judged(run, phase),
    )
    if rule.mode == "auto":
        await choose(run, phase_run, instructions, gathered, snowball)
        refresh_callouts(run, phase_run)  # what was called out is kept where it is shown
    open_windows(run, phase_run)
    if rule.mode == "snowball" and gathered.sources:
        phase_run.messages.position_cost = position_report(run, phase_run)
    return phase_run


def rule_of(run: CascadeRun, phase: Phase) -> Rule:
    """Return the rule of what a phase may see of those that ran."""
    exclude = phase.context.exclude if phase.context is not None else ()
    ran = run.session.names_that_ran(exclude)
    return compile_rule(run.cascade, phase, run.settings, ran)


def _expiring(phase: Phase, entries: Sequence[Entry]) -> tuple[Item, ...]:
    """Return what a phase may let expire of what its sources brought: what was said for it."""
    return tuple(entry.item for entry in entries if entry.item.phase == phase.name)


def _instructions(run: CascadeRun, phase: Phase, values: Mapping[str, Any]) -> str:
    """Return the instructions as rendered. Raises ContextError where they say nothing."""
    where = run.where(phase, "instructions")
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
    where = run.where(phase, "system") if phase.system else run.cascade.where("system")
    text, injection = open_head(run, phase, info, where=where, task=task)
    if text is None:
        return (), injection
    row = Row(NodeType.SYSTEM, message=text, phase=phase.name, turn=0)
    item = run.record.add(replace(row, details=SystemPrompt(bool(phase.system))))
    return show([item], "the system prompt"), injection


def _ends_run(run: CascadeRun, phase: Phase) -> bool:
    """Return whether nothing follows the phase; after a sub-cascade the run above it goes on.

    Of soundings each reads what the first wrote.
    """
    last = run.nesting.parent is None and ends(phase, run.cascade.phases)
    return last and not (phase.soundings and phase.soundings.are_several)


def _is_judged(run: CascadeRun, phase: Phase) -> bool:
    """Return whether an output may be refused, so that another call follows."""
    tries_again = any(ward.mode == "retry" for _, _, ward in wards_of(phase))
    judged = phase.rules.loop_until is not None or tries_again
    return judged or run.generation_of(phase).output_schema is not None


async def open_phase(
    run: CascadeRun,
    phase: Phase,
    rule: Rule,
    instructions: Message,
    messages: PhaseMessages,
    *,
    injection: PhaseInjected | None,
    ends_run: bool = False,
) -> PhaseRun:
    """Return the phase in hand: its instructions are said, and its tools are known.

    `messages` are those that it sees before. Nothing decides on its windows yet.
    """
    bare, generation = bare_phase(run, phase), run.generation_of(phase)
    provider, info = run.resolve(generation.model)
    row = Row(NodeType.USER, message=instructions, phase=phase.name, turn=0, attempt=1)
    row = run.record.stamp(row)
    messages.own = run.record.append([row])
    room = info.input_room(generation.max_output_tokens)
    newest_within = min(rule.newest_within or int(SLIDING_SHARE * info.window), room)
    phase_run = PhaseRun(
        phase=phase,
        now=bare.now,
        tools=bare.tools,
        rule=rule,
        generation=generation,
        provider=provider,
        info=info,
        trace_id=row.trace_id,
        messages=messages,
        window=PhaseWindow(Driver(Conversation(), run.caches.of(info)), newest_within),
        injection=injection,
        server_clear=server_clear_of(rule.policy, info.name),
        ends_run=ends_run,
    )
    if rule.carried is None:  # a task sees nothing that was said, so nothing that was called out
        refresh_callouts(run, phase_run)
    phase_run.tools.context = replace(
        phase_run.tools.context,
        callout=partial(call_out, run, phase_run),
        memory=memory_callbacks(run, phase),
        skill=skill_callback(run.injected, run.settings.root, injection),
        look=look_callback(run.record, run.injected, run.settings.root),
        describe=describe_callback(run.record, run.injected, phase.name),
        search_session=partial(search_session, run, phase_run),
        run_cascade=cascade_caller(run, phase.name, phase_run.now),
    )
    tell_unforced_call(run, phase_run)
    _tell_switched_off(run, phase_run)
    tools = await tools_of(run, phase_run, instructions.text)
    if routes(phase):
        tools = {**tools, ROUTE_TO: route_tool(phase_run)}
    phase_run.tools.by_name = tools
    phase_run.tools.approve = tools_to_approve(run.registry, phase, tools.values())
    return phase_run


def open_windows(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Have the windows of a phase decided from now on: what it sees at its start is fixed."""
    open_context(run, phase_run)
    phase_run.window.driver = open_driver(run, phase_run)


def bare_phase(run: CascadeRun, phase: Phase) -> BarePhase:
    """Return a phase in which nothing was asked yet, with a copy of the state."""
    state = StateCopy(run.session.state)
    tools = PhaseTools(_tool_context(run, phase, state))
    return BarePhase(phase=phase, now=TurnState(state, run.session.visit.after_turn), tools=tools)


def _tool_context(run: CascadeRun, phase: Phase, state: StateCopy) -> ToolContext:
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
        search=run.access.search,
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


READ: Final = "read_file"
"""The tool that opens the files of shortened results."""


def open_driver(run: CascadeRun, phase_run: PhaseRun) -> Driver:
    """The driver of a phase's conversation, which holds all that the phase sees at its start."""
    cache, policy = run.caches.of(phase_run.info), phase_run.rule.policy
    counter = phase_run.info.counter
    if policy is None:
        conversation = Conversation(rules=WindowRules(count=counter.message, uses_names=False))
    else:
        conversation = _shortened(run, phase_run, policy)
    for entry in assemble(phase_run.messages.blocks, ()):
        conversation.append_entry(entry, at=run.record.times.get(entry.item.id))
    if policy is not None and not _goes_on(run, phase_run, conversation):
        conversation.cool()
    driver = Driver(
        conversation,
        cache,
        run.injected.attached,
        run.thoughts,
        _thinking(phase_run, policy),
        notes=phase_run.server_clear is not None,
    )
    messages = [entry.message for entry in conversation.entries if entry is not None]
    driver.strip_stale(run.definitions(phase_run.allowed, messages))
    return driver


def server_clear_of(policy: Policy | None, model: str) -> ServerClear | None:
    """Return the tool uses that a model's provider is asked to clear from calls (None: none)."""
    if policy is None or not policy.enabled or not clears_tool_uses(model):
        return None
    wanted = policy.server_clear
    return None if wanted is None else ServerClear(**plain(wanted))


def _shortened(run: CascadeRun, phase_run: PhaseRun, policy: Policy) -> Conversation:
    """Return an empty conversation that the policy decides on."""
    room = phase_run.room
    limit = min(room, policy.max_input_tokens or room)
    can_read = READ in phase_run.tools.by_name
    prices = _prices(run, phase_run)
    results = run.record.store.folder / "storage" / "tool_results"
    results = _as_tools_name_it(results, run.settings.root)

    def recall_hint(message: Message) -> str:
        if message.role == "tool" and can_read:
            return str(results / f"{file_name(message)}.json")
        return reference(message)

    policies = steps(
        policy,
        prices=prices,
        window_tokens=phase_run.info.window,
        limit=room_for_messages(run, phase_run, limit),
        on_exceed="summarise" if phase_run.rule.budget.on_exceed == "summarise" else "prune",
        summary_tokens=phase_run.rule.budget.summary_tokens,
        where=lambda item, number: _picture_file(run, item, number),
    )
    planner = planner_of(policy, prices, sure=_calls_to_come(run, phase_run), tells=True)
    rules = WindowRules(
        count=phase_run.info.counter.message,
        kept=ChainMap(
            phase_run.window.kept, phase_run.choice.chosen
        ),  # what was chosen stands for the phase
        facts={
            name: Facts(None, *(next(iter(names), None) for names in (tool.reads, tool.writes)))
            for name, tool in phase_run.tools.by_name.items()
        },
        recall_hint=recall_hint,
        holds=holds_thinking(policy, phase_run.info.name),
    )
    return Conversation(policies, planner, rules)


def _thinking(phase_run: PhaseRun, policy: Policy | None) -> Thinking:
    """How to treat thinking that an edit makes invalid: left out where it cannot be dropped."""
    wanted: Thinking = "keep" if policy is None else policy.thinking
    provider, _, model = phase_run.info.name.partition("/")
    asked = phase_run.generation
    if wanted != "drop_block" or (
        provider == "anthropic" and drops_thinking(model, asked.reasoning_effort, asked.tool_choice)
    ):
        return wanted
    return "keep"


def _calls_to_come(run: CascadeRun, phase_run: PhaseRun) -> int:
    """The least calls that later phases make of the same model with all that this one says."""
    name, phases = phase_run.phase.name, run.cascade.phases
    if phase_run.rule.output_only:
        return 0
    calls, model = 0, phase_run.generation.model
    for phase in sure_after(phases, name):
        if phase.tool is not None:  # it sees nothing, and calls nobody
            continue
        rule = compile_rule(run.cascade, phase, run.settings)
        whole = rule.mode != "selective" and rule.newest_turns is None and not rule.sliding
        soundings = phase.soundings
        others = soundings is not None and soundings.models
        if whole and not others and run.generation_of(phase).model == model:
            calls += soundings.factor if soundings else 1
    return calls


def _prices(run: CascadeRun, phase_run: PhaseRun) -> Prices:
    """Return the prices of the cache of the phase's model; assumptions are told once a run."""
    name, cache = phase_run.info.name, run.caches.of(phase_run.info)
    if cache.assumed and name not in run.notices.assumed_caches:
        run.notices.assumed_caches.add(name)
        run.emit(Noted(phase_run.phase.name, cache.assumed, detail=True))
    return cache.prices


def _goes_on(run: CascadeRun, phase_run: PhaseRun, conversation: Conversation) -> bool:
    """Return whether the model was sent most of what counts as sent, so that it is cached.

    It was not where the phase begins with other tools, another system prompt or another
    model, or with a context that is no continuation of what was sent before.
    """
    messages = [entry.message for entry in phase_run.messages.entries]
    tools = run.definitions(phase_run.allowed, messages)
    counter, first = phase_run.info.counter, phase_run.info.tools_first
    request = weigh(counter, messages, tools, tools_first=first)
    request = pieces(counter, messages, tools, request)
    cache = run.caches.of(phase_run.info)
    cleared = cache.cleared if phase_run.server_clear else Clearing()
    left = cleared.left(request, messages)
    expected = cache.meter.expect(left, run.record.clock())
    entries = conversation.entries[: conversation.sent]
    sent = [entry.message for entry in entries if entry is not None]
    gone = sum(tokens for _, tokens in request) - sum(tokens for _, tokens in left)
    return expected.cached >= SHARE * (sum(map(counter.message, sent)) - gone)


def _picture_file(run: CascadeRun, item: Item, number: int) -> str | None:
    """Return the visible file of a message's picture, as tools name it; None: there is none."""
    digest = item.message.pictures[number].sha256
    store, root = run.record.store, run.settings.root
    # An injected picture lies with the phase that made it.
    for phase in dict.fromkeys([item.phase or "", *(each.name for each in run.cascade.phases)]):
        for sha, file in store.picture_names(run.record.session_id, phase):
            if sha == digest:
                return _as_tools_name_it(file, root).as_posix()
    return None


def _as_tools_name_it(path: Path, root: Path) -> Path:
    """A path from the folder of the tools, `root`, where it lies inside, else from the top."""
    path, root = path.resolve(), root.resolve()
    return path.relative_to(root) if path.is_relative_to(root) else path
