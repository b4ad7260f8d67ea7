"""Injectors when a phase begins: its system prompt with STABLE blocks, its user context.

Every block becomes a row of the record, so that what a call saw can be made again. What each
call adds is `blocks.py`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from windlass.cascade.layers import PhaseInjectors, injectors_of
from windlass.cascade.model import Phase, memory_of
from windlass.engine.check import input_room
from windlass.engine.events import Noted
from windlass.engine.injecting.injected import PhaseInjected, RecordedBlock, UserContext
from windlass.engine.state import PhaseRun, Run
from windlass.errors import ToolError
from windlass.history.base import NodeType
from windlass.injectors.base import Situation, Tier
from windlass.injectors.catalog import place
from windlass.injectors.moving import Moved, move
from windlass.injectors.orchestrate import Block, Placed, blocks_of, in_order, shrunk
from windlass.injectors.roles import ToolDefinitions, too_long_role, too_long_tools
from windlass.injectors.skills import Skills, ask_for_skill
from windlass.injectors.values import looks_volatile
from windlass.injectors.variation import PLAIN, style_of
from windlass.memory.banks import Banks, Memory
from windlass.messages import Message, Text, canonical_json, system, user
from windlass.providers.base import ModelInfo
from windlass.templates import render
from windlass.tokens import request_tokens
from windlass.window.assemble import assemble
from windlass.window.entries import Entry, show

USER_CONTEXT = "user context"
"""Why the message of the SESSION tier is there."""

ROLE = "system_role"
VALUES = "values"


def open_head(
    run: Run,
    phase: Phase,
    info: ModelInfo,
    values: Mapping[str, Any],
    *,
    where: str,
    task: str,
) -> tuple[Message | None, PhaseInjected | None]:
    """The system prompt of a phase with its STABLE blocks, and what it has of injectors.

    `where` is the prompt's place in the cascade, `task` are the rendered instructions. None:
    there is nothing to say first; the phase has no injectors.
    """
    prompt = phase.system or run.cascade.system or ""
    found, moments = injectors_of(run.cascade, phase), moments_of(run)
    if found is None:
        if left := move(prompt, state=False).values:
            _warn(run, phase.name, _breaks(left, where))
        said = render(prompt, **values, where=where, moments=moments)
        return (Message("system", (Text(said),)) if said.strip() else None), None

    # Values that change by themselves leave the stable part.
    moved = move(prompt, state=not phase.system)
    phase_run = PhaseInjected(_placed(run, found), task, prompt, where, vary=found.vary)
    if found.volatile == "in_place":
        phase_run.in_place, moved = bool(moved.values), Moved(prompt, {})
    elif VALUES not in found.specs:
        moved = Moved(prompt, {})  # nobody would tell them: they stay as they are when it begins
    phase_run.moved = moved.values
    said = render(moved.template, **values, where=where, moments=moments)
    _tell_volatile(run, phase.name, moved, where)
    _tell_written(run, phase.name, info, said, where)

    others = [one for one in phase_run.placed if not isinstance(one.injector, ToolDefinitions)]
    seen = replace(_situation(run, phase, phase_run), system=said)
    blocks = blocks_of(others, Tier.STABLE, seen, info.counter.text)
    phase_run.stable = record_blocks(run, phase.name, 0, blocks)
    for block in blocks:
        if block.over:
            _warn(run, phase.name, _too_long(block))
    parts = tuple(Text(block.text) for block in blocks if block.text)
    if ROLE not in found.specs and said.strip():
        parts = (Text(said), *parts)  # without a cap and a record of its own, but never without it
    return (Message("system", parts) if parts else None), phase_run


def open_context(run: Run, phase_run: PhaseRun) -> None:
    """Give a phase its SESSION message, and take the sizes of its tools.

    A message that stands in a request that goes on stays as it is: what is different for this
    phase is told behind all that is cached. Else it is made anew.
    """
    held = phase_run.injection
    if held is None:
        return
    count, name = phase_run.info.counter.text, phase_run.phase.name
    seen = situation(run, phase_run, held)
    tools = [one for one in held.placed if isinstance(one.injector, ToolDefinitions)]
    held.stable += record_blocks(run, name, 0, blocks_of(tools, Tier.STABLE, seen, count))
    for one in tools:
        if told := too_long_tools(phase_run.allowed, count, one.cap):
            _warn(run, name, told)
    blocks = blocks_of(held.placed, Tier.SESSION, seen, count, share(run, phase_run, held))
    first = (
        phase_run.progress.blocks.system[0].message.key if phase_run.progress.blocks.system else ""
    )
    specs = [spec.to_openai() for spec in phase_run.allowed]
    head, last = canonical_json([phase_run.info.name, first, specs]), run.injected.context
    goes_on = last is not None and last.head == head and phase_run.rule.mode == "snowball"
    if last is None or not goes_on or not run.cache_of(phase_run.info).prices.caches:
        run.injected.context = last = new_context(run, phase_run, blocks, head)
    else:
        tell_changes(run, phase_run, held, blocks)
    if last.item is not None and last.message is not None:
        entry = Entry(last.item, last.message, USER_CONTEXT)
        phase_run.progress.blocks = replace(phase_run.progress.blocks, context=(entry,))


def new_context(run: Run, phase_run: PhaseRun, blocks: Sequence[Block], head: str) -> UserContext:
    """The SESSION message out of its blocks, in the record."""
    told = record_blocks(run, phase_run.phase.name, phase_run.progress.turn, blocks)
    known = {block.injector: block.items for block in blocks}
    parts = tuple(Text(block.text) for block in blocks if block.text)
    if not parts:
        return UserContext(head, None, None, told, known)
    message = Message("user", parts)
    metadata = {"kind": "user_context", "blocks": [one.id for one in told if one.id]}
    row = run.record.row(
        NodeType.CONTEXT_INJECTION,
        message,
        phase=phase_run.phase.name,
        turn=phase_run.progress.turn,
        metadata=metadata,
    )
    (item,) = run.record.append([row])
    return UserContext(head, item, message, told, known)


def tell_changes(
    run: Run, phase_run: PhaseRun, held: PhaseInjected, blocks: Sequence[Block]
) -> None:
    """Have the next call told what is different in `blocks` from what the model knows.

    The record says what it costs, and what writing the message anew would.
    """
    context = run.injected.context
    assert context is not None
    texts: list[str] = []
    for block in blocks:
        known = context.known.get(block.injector, ())
        if new := [item.text for item in block.items if item not in known]:
            texts.append("\n".join([f"[New in {block.injector}]", *new]))
        if gone := [item.name for item in known if item not in block.items]:
            texts.append(f"[No longer in {block.injector}] {', '.join(gone)}")
        context.known[block.injector] = block.items
    if not texts:
        return
    changes = "\n".join(texts)
    held.changes = "\n".join(filter(None, (held.changes, changes)))
    told = phase_run.info.counter.text(changes)
    prices, behind = (
        run.cache_of(phase_run.info).prices,
        sum(tokens for _, tokens in run.progress.previous),
    )
    rewrite = round((prices.write - prices.read) * behind)
    text = (
        f"the user context has changed: told in {told:,} tokens at the end of the next call;"
        f" written anew in its place it would cost the worth of up to {rewrite:,}"
    )
    more = {"tokens": told, "rewrite": rewrite, "changes": changes}
    run.record.decide(
        phase_run.phase.name, text, kind="user_context", turn=phase_run.progress.turn, **more
    )


# ---- what injectors look at -------------------------------------------------------------


def situation(run: Run, phase_run: PhaseRun, held: PhaseInjected) -> Situation:
    """What the injectors of a phase may look at, now."""
    seen = _situation(run, phase_run.phase, held)
    specs = phase_run.allowed
    return replace(
        seen,
        turn=max(1, phase_run.progress.turn),
        state=phase_run.progress.state,
        tools=tuple(spec.name for spec in specs),
        definitions=specs,
        style=style_of(run.record.session_id, phase_run.phase.name, phase_run.progress.turn)
        if held.vary
        else PLAIN,
        values=_values(run, phase_run, held),
    )


def _situation(run: Run, phase: Phase, held: PhaseInjected) -> Situation:
    banks = memory_of(run.cascade, phase)
    return Situation(
        session_id=run.record.session_id,
        phase=phase.name,
        task=held.task,
        call=run.progress.calls + 1,
        input=run.input,
        state=run.progress.state,
        root=run.settings.root.resolve(),
        closed=run.closed,
        banks=tuple(banks.read) if banks else (),
        memories=_memories(run),
        failures=run.injected.failures,
        skills=run.injected.skills if phase.context is not None else (),
        tools=tuple(phase.tackle) if phase.tackle != "manifest" else (),
    )


def _memories(run: Run) -> Callable[[Sequence[str]], Sequence[Memory]]:
    banks = Banks(run.record.store, run.record.clock, run.record.new_id)
    return lambda names: [one for name in names for one in banks.memories(name)]


def moments_of(run: Run) -> dict[str, str]:
    """What `now`, `call` and `session_id` are in templates: the time in UTC to the second."""
    now = datetime.fromtimestamp(run.record.clock(), UTC)
    return {
        "now": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "call": str(run.progress.calls + 1),
        "session_id": run.record.session_id,
    }


def _values(run: Run, phase_run: PhaseRun, held: PhaseInjected) -> Mapping[str, str]:
    """The values that were moved, as they are now."""
    given: dict[str, Any] = {
        "input": run.input,
        "state": phase_run.progress.state,
        "outputs": run.progress.outputs,
    }
    moments = moments_of(run) if held.moved else {}
    return {
        name: render(f"{{{{ {said} }}}}", **given, where=held.where, moments=moments)
        for name, said in held.moved.items()
    }


def role_now(run: Run, phase_run: PhaseRun, held: PhaseInjected) -> str:
    """The system role with its values as they are now."""
    given: dict[str, Any] = {
        "input": run.input,
        "state": phase_run.progress.state,
        "outputs": run.progress.outputs,
    }
    return render(held.role, **given, where=held.where, moments=moments_of(run))


def share(
    run: Run, phase_run: PhaseRun, held: PhaseInjected, entries: Sequence[Entry] = ()
) -> float:
    """The share of their caps that blocks have: less where little room is left."""
    counter = phase_run.info.counter
    shown = entries or assemble(phase_run.progress.blocks, show(phase_run.progress.own, ""))
    messages = [entry.message for entry in shown]
    sent = request_tokens(counter, messages, run.definitions(phase_run.allowed, messages))
    room = input_room(phase_run.info, phase_run.generation.max_output_tokens)
    limit = phase_run.rule.budget.limit
    room = min(room, limit) if limit is not None else room
    return shrunk(held.placed, room - sent)


def skill_callback(run: Run, held: PhaseInjected | None) -> Callable[[str], str] | None:
    """What `use_skill` asks; None: the phase has no skills."""
    found = [one.injector for one in held.placed] if held else []
    skills = next((one for one in found if isinstance(one, Skills)), None)
    if skills is None:
        return None

    def ask(name: str) -> str:
        known = skills.skills(run.settings.root.resolve())
        if not known:
            raise ToolError(f"there are no skills in the folder {skills.folder!r}")
        text = ask_for_skill(known, name)
        run.injected.skills = tuple(dict.fromkeys([*run.injected.skills, name.strip()]))
        return text

    return ask


# ---- the record, and what is told -------------------------------------------------------


def record_blocks(
    run: Run, phase: str, turn: int, blocks: Iterable[Block], **columns: Any
) -> tuple[RecordedBlock, ...]:
    """The blocks as rows of the record; one of which nothing fitted is a decision."""
    told: list[RecordedBlock] = []
    for block in blocks:
        one = RecordedBlock(block)
        if not block.text:
            left = ", ".join(block.cut)
            text = f"injector {block.injector}: nothing fits its cap of {block.cap:,}: {left}"
            run.record.decide(phase, text, kind="injector", turn=turn, **one.details())
            told.append(one)
            continue
        metadata = {"kind": "injector", **one.details()}
        del metadata["id"]  # it is that of the row
        row = run.record.row(
            NodeType.CONTEXT_INJECTION,
            # What stands at the head of every request is no message of anybody's.
            system(block.text) if block.tier is Tier.STABLE else user(block.text),
            phase=phase,
            turn=turn,
            metadata=metadata,
            **columns,
        )
        (item,) = run.record.append([row])
        told.append(replace(one, id=item.id))
    return tuple(told)


def _placed(run: Run, found: PhaseInjectors) -> tuple[Placed, ...]:
    """The phase's injectors in order; the same declaration is made once a run."""
    placed: list[Placed] = []
    for one in found.specs.values():
        key = json.dumps([one.use, one.cap, one.priority, one.options], default=str)
        if key not in run.injected.placed:
            run.injected.placed[key] = place(one, run.registry.modules)
        placed.append(run.injected.placed[key])
    return tuple(in_order(placed))


def _too_long(block: Block) -> str:
    if block.injector == ROLE:
        return too_long_role(block.tokens, block.cap)
    return (
        f"the {block.injector} of the system prompt have {block.tokens:,} tokens, more than their"
        f" cap of {block.cap:,}; what is STABLE is sent whole"
    )


def _breaks(names: Iterable[str], where: str) -> str:
    listed = ", ".join(names)
    return (
        f"{where}: {listed} change by themselves, and all that is cached behind them is lost;"
        " with 'injectors' they are moved to the end of each call"
    )


def _tell_volatile(run: Run, phase: str, moved: Moved, where: str) -> None:
    if moved.values:
        named = ", ".join(moved.values)
        text = f"{where}: {named} moved behind the stable part, to the end of each call"
        _warn(run, phase, text, names=list(moved.values))
    if moved.stay:
        text = f"{where}: {', '.join(moved.stay)} stand in a block of the template and stay there"
        _warn(run, phase, text, names=list(moved.stay))


def _tell_written(run: Run, phase: str, info: ModelInfo, said: str, where: str) -> None:
    """Report what the user wrote and looks volatile, with its place and the price of a change."""
    for found in looks_volatile(said):
        price = price_of_change(run, info, said, found.at)
        _warn(
            run,
            phase,
            f"{where}, character {found.at:,}: {found.text!r} looks as if it changed from run to"
            f" run; it stays as written, and each change costs {price} and what stands behind it",
            at=found.at,
            found=found.text,
        )


def price_of_change(run: Run, info: ModelInfo, text: str, at: int) -> str:
    """What it costs that a text is new from a character on: tokens, and dollars where known."""
    cache = run.cache_of(info)
    tokens = info.counter.text(text[at:])
    told = f"{tokens:,} tokens written anew"
    if cache.paid is None:
        return told
    return f"{told} (${tokens * (cache.paid.cache_write - cache.paid.cache_read) / 1e6:.6f})"


def _warn(run: Run, phase: str, text: str, **more: Any) -> None:
    """Tell and record something once a session."""
    if text in run.injected.warned:
        return
    run.injected.warned.add(text)
    run.record.decide(phase, text, kind="injector", **more)
    run.emit(Noted(phase, text))
