"""The conversation of a phase at its start, and the policies and the planner that edit it."""

from __future__ import annotations

from collections import ChainMap
from pathlib import Path
from typing import Final

from windlass.caching.meter import Clearing, pieces, weigh
from windlass.caching.model_cache import SHARE
from windlass.caching.prices import Prices
from windlass.cascade.compile import compile_rule
from windlass.cascade.flow import sure_after
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.engine.turn.windows import room_for_messages
from windlass.messages import Message
from windlass.window.blocks import assemble
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import Item
from windlass.window.kinds import Facts
from windlass.window.options import Policy, plain
from windlass.window.originals import file_name, reference
from windlass.window.steps import holds_thinking, planner_of, steps
from windlass.window.thoughts import Thinking
from windlass.window.window_rules import WindowRules
from windlass.wire.editing import ServerClear, clears_tool_uses
from windlass.wire.thinking import drops_thinking

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
