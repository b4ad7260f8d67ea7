"""Injectors when a phase begins: its system prompt with STABLE blocks, its user context.

Every block becomes a row of the record, so that what a call saw can be made again. What each
call adds is in `each_call.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from windlass.caching.rates import money
from windlass.cascade.layers import PhaseInjectors, injectors_of
from windlass.cascade.model import Phase
from windlass.cascade.tools_named import memory_of
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.each_call import (
    ROLE,
    moments_of,
    new_context,
    record_blocks,
    share_left,
    situation,
    tell_changes,
)
from windlass.engine.injecting.injected import Injected, PhaseInjected
from windlass.engine.turn.record import Recorder
from windlass.errors import ToolError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import InjectorWarning
from windlass.injectors.base import PromptParts, ReadableBanks, Situation, Tier
from windlass.injectors.head import (
    Moved,
    ToolDefinitions,
    long_role_text,
    long_tools_text,
    looks_volatile,
    move_volatile,
)
from windlass.injectors.orchestrate import (
    Block,
    Placed,
    make_injector,
    render_blocks,
    sort_injectors,
)
from windlass.injectors.skills import Skills, ask_for_skill
from windlass.memory.banks import Banks, Memory
from windlass.messages import Message, Text, canonical_json
from windlass.providers.base import ModelInfo
from windlass.settings.modules import Modules
from windlass.text.templates import render

VALUES = "values"


def open_head(
    run: CascadeRun, phase: Phase, info: ModelInfo, *, where: str, task: str
) -> tuple[Message | None, PhaseInjected | None]:
    """Return the system prompt of a phase with its STABLE blocks, and what it has of injectors.

    `where` is the prompt's place in the cascade, `task` are the rendered instructions. None:
    there is nothing to say first; the phase has no injectors.
    """
    prompt = phase.system or run.cascade.system or ""
    injectors = injectors_of(run.cascade, phase)
    values = {
        **run.template_values(),
        "moments": moments_of(run.record, run.totals),
        "where": where,
    }
    if injectors is None:
        if volatile := move_volatile(prompt, state=False).values:
            text = (
                f"{where}: {', '.join(volatile)} change by themselves, and all that is cached"
                " behind them is lost; with 'injectors' they are moved to the end of each call"
            )
            _warn(run, phase.name, text)
        system = render(prompt, **values)
        return (Message("system", (Text(system),)) if system.strip() else None), None

    # Values that change by themselves leave the stable part.
    moved = move_volatile(prompt, state=not phase.system)
    look = partial(_situation, run, phase, task)
    held = PhaseInjected(
        _placed(run.injected, run.registry.modules, injectors),
        look,
        prompt,
        where,
        vary=injectors.vary,
    )
    if injectors.volatile == "in_place":
        held.in_place, moved = bool(moved.values), Moved(prompt, {})
    elif VALUES not in injectors.specs:
        moved = Moved(prompt, {})  # nobody would tell them: they stay as they are when it begins
    held.moved = moved.values
    system = render(moved.template, **values)
    _tell_volatile(run, phase.name, moved, where)
    _tell_written(run, phase.name, info, system, where)

    others = [each for each in held.placed if not isinstance(each.injector, ToolDefinitions)]
    blocks = render_blocks(
        others, Tier.STABLE, replace(look(), prompt=PromptParts(system=system)), info.counter.text
    )
    held.stable = record_blocks(run.record, _place(phase.name), blocks)
    for block in blocks:
        if block.over:
            _warn(run, phase.name, _too_long(block))
    parts = tuple(Text(block.text) for block in blocks if block.text)
    if ROLE not in injectors.specs and system.strip():
        parts = (Text(system), *parts)  # without a cap and a record, but never without it
    return (Message("system", parts) if parts else None), held


def _place(phase: str) -> Row:
    return Row(NodeType.CONTEXT_INJECTION, phase=phase, turn=0)


def open_context(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Give a phase its SESSION message, and take the sizes of its tools.

    A message that stands in a request that goes on stays as it is: what is different for this
    phase is told behind all that is cached. Else it is made anew.
    """
    held, messages = phase_run.injection, phase_run.messages
    if held is None:
        return
    count, name = phase_run.info.counter.text, phase_run.phase.name
    now = situation(run, phase_run, held)
    tools = [each for each in held.placed if isinstance(each.injector, ToolDefinitions)]
    blocks = render_blocks(tools, Tier.STABLE, now, count)
    held.stable += record_blocks(run.record, _place(name), blocks)
    for placed in tools:
        if text := long_tools_text(phase_run.allowed, count, placed.cap):
            _warn(run, name, text)
    blocks = render_blocks(held.placed, Tier.SESSION, now, count, share_left(run, phase_run, held))
    first = messages.blocks.system[0].message.key if messages.blocks.system else ""
    specs = [spec.to_openai() for spec in phase_run.allowed]
    head, last = canonical_json([phase_run.info.name, first, specs]), run.injected.context
    goes_on = last is not None and last.head == head and phase_run.rule.mode == "snowball"
    if last is None or not goes_on or not run.caches.of(phase_run.info).prices.caches:
        run.injected.context = last = new_context(run.record, phase_run, blocks, head)
    else:
        tell_changes(run, phase_run, held, blocks)
    if last.entry is not None:
        messages.blocks = replace(messages.blocks, context=(last.entry,))


def _situation(run: CascadeRun, phase: Phase, task: str) -> Situation:
    banks = memory_of(run.cascade, phase)
    return Situation(
        session_id=run.record.session_id,
        phase=phase.name,
        task=task,
        call=run.totals.call_number + 1,
        input=run.input,
        state=run.session.state,
        root=run.settings.root.resolve(),
        closed=run.record.store.folder,
        banks=ReadableBanks(tuple(banks.read) if banks else (), _memories(run.record)),
        failures=run.injected.failures,
        skills=run.injected.skills if phase.context is not None else (),
        tools=tuple(phase.tackle) if phase.tackle != "manifest" else (),
    )


def _memories(record: Recorder) -> Callable[[Sequence[str]], Sequence[Memory]]:
    banks = Banks(record.store, record.clock, record.new_id)
    return lambda names: [memory for name in names for memory in banks.memories(name)]


def skill_callback(
    injected: Injected, root: Path, held: PhaseInjected | None
) -> Callable[[str], str] | None:
    """Answers the tool `use_skill` (None: the phase has no skills)."""
    injectors = [each.injector for each in held.placed] if held else []
    skills = next((each for each in injectors if isinstance(each, Skills)), None)
    if skills is None:
        return None

    def ask(name: str) -> str:
        listed = skills.skills(root.resolve())
        if not listed:
            raise ToolError(f"there are no skills in the folder {skills.folder!r}")
        text = ask_for_skill(listed, name)
        injected.skills = tuple(dict.fromkeys([*injected.skills, name.strip()]))
        return text

    return ask


def _placed(injected: Injected, modules: Modules, injectors: PhaseInjectors) -> tuple[Placed, ...]:
    """Return the phase's injectors in order; the same declaration is made once a run."""
    placed: list[Placed] = []
    for spec in injectors.specs.values():
        key = json.dumps([spec.use, spec.cap, spec.priority, spec.options], default=str)
        if key not in injected.placed:
            injected.placed[key] = make_injector(spec, modules)
        placed.append(injected.placed[key])
    return tuple(sort_injectors(placed))


# ---- what is told -----------------------------------------------------------------------


def _too_long(block: Block) -> str:
    name, tokens, cap = block.details.injector, block.details.tokens, block.details.cap
    if name == ROLE:
        return long_role_text(tokens, cap)
    return (
        f"the {name} of the system prompt have {tokens:,} tokens, more than their"
        f" cap of {cap:,}; what is STABLE is sent whole"
    )


def _tell_volatile(run: CascadeRun, phase: str, moved: Moved, where: str) -> None:
    if moved.values:
        named = ", ".join(moved.values)
        text = f"{where}: {named} moved behind the stable part, to the end of each call"
        _warn(run, phase, text, InjectorWarning(list(moved.values)))
    if moved.stay:
        text = f"{where}: {', '.join(moved.stay)} stand in a block of the template and stay there"
        _warn(run, phase, text, InjectorWarning(list(moved.stay)))


def _tell_written(run: CascadeRun, phase: str, info: ModelInfo, system: str, where: str) -> None:
    """Report what the user wrote and looks volatile, with its place and the price of a change."""
    paid = run.caches.of(info).paid
    for volatile in looks_volatile(system):
        tokens = info.counter.text(system[volatile.at :])
        price = f"{tokens:,} tokens written anew"
        if paid is not None:
            dollars = tokens * (paid.cache_write - paid.cache_read) / 1e6
            price += f" ({money(dollars, digits=6)})"
        _warn(
            run,
            phase,
            f"{where}, character {volatile.at:,}: {volatile.text!r} looks as if it changed from"
            f" run to run; it stays as written, and each change costs {price} and what stands"
            " behind it",
            InjectorWarning(at=volatile.at, found=volatile.text),
        )


_IN_WORDS: Final = InjectorWarning()


def _warn(run: CascadeRun, phase: str, text: str, details: InjectorWarning = _IN_WORDS) -> None:
    """Tell and record something once a session."""
    if text in run.injected.warned:
        return
    run.injected.warned.add(text)
    run.tell(phase, text, details)
