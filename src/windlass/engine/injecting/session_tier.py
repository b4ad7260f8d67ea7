"""Injectors at any call of a phase: their situation, and the message of the SESSION tier.

Every block becomes a row of the record, so that what a call saw can be made again. Where blocks
stand in a request is decided in `dynamic_block.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import SessionTotals
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.injected import PhaseInjected, RecordedBlock, UserContext
from windlass.engine.turn.record import Recorder
from windlass.history.base import NodeType, Row
from windlass.history.decisions import InjectedBlock, UserContextChanged, UserContextMade
from windlass.injectors.base import Situation, Tier
from windlass.injectors.orchestrate import Block, share_of_caps
from windlass.injectors.variation import PLAIN, style_of
from windlass.messages import Message, Text, system, user
from windlass.text.templates import render
from windlass.text.tokens import request_tokens
from windlass.window.entries import Entry

ROLE = "system_role"


# ---- what injectors look at -------------------------------------------------------------


def situation(run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected) -> Situation:
    """Return the situation that the injectors of a phase look at now."""
    specs, turn = phase_run.allowed, phase_run.now.turn
    templates = [f"{{{{ {expression} }}}}" for expression in held.moved.values()]
    values = _render_now(run, phase_run, held, templates) if templates else []
    return replace(
        held.look(),
        turn=max(1, turn),
        state=phase_run.now.state,
        tools=tuple(spec.name for spec in specs),
        definitions=specs,
        style=style_of(run.record.seed, phase_run.phase.name, turn) if held.vary else PLAIN,
        values=dict(zip(held.moved, values, strict=True)),
    )


def role_now(run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected) -> str:
    """Return the system role with its values as they are now."""
    return _render_now(run, phase_run, held, [held.role])[0]


def _render_now(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, templates: Iterable[str]
) -> list[str]:
    values = {**run.template_values(), "state": phase_run.now.state}
    moments = moments_of(run.record, run.totals)
    return [render(each, **values, where=held.where, moments=moments) for each in templates]


def moments_of(record: Recorder, totals: SessionTotals) -> dict[str, str]:
    """Return the values of `now` (UTC, to the second), `call` and `session_id` in templates."""
    now = datetime.fromtimestamp(record.clock(), UTC)
    return {
        "now": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "call": str(totals.call_number + 1),
        "session_id": record.session_id,
    }


def share_left(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, entries: Sequence[Entry] = ()
) -> float:
    """Return the share of their caps that blocks have: less where little room is left."""
    counter = phase_run.info.counter
    shown = entries or phase_run.messages.entries
    messages = [entry.message for entry in shown]
    sent = request_tokens(counter, messages, run.definitions(phase_run.allowed, messages))
    room = phase_run.room
    limit = phase_run.rule.budget.limit
    room = min(room, limit) if limit is not None else room
    return share_of_caps(held.placed, room - sent)


# ---- the record -------------------------------------------------------------------------


def record_blocks(
    record: Recorder, place: Row, blocks: Iterable[Block]
) -> tuple[RecordedBlock, ...]:
    """Return the blocks as rows like that of `place`; one of which nothing fitted is a decision."""
    return tuple(_record_block(record, place, block) for block in blocks)


def _record_block(record: Recorder, place: Row, block: Block) -> RecordedBlock:
    details = InjectedBlock(
        block.injector,
        block.version,
        str(block.tier),
        block.priority,
        block.cap,
        block.full_cap,
        block.tokens,
        list(block.cut),
    )
    if not block.text:
        left = ", ".join(block.cut)
        text = f"injector {block.injector}: nothing fits its cap of {block.cap:,}: {left}"
        record.decide(place.phase, text, replace(details, turn=place.turn))
        return RecordedBlock(block)
    # What stands at the head of every request is no message of anybody's.
    message = system(block.text) if block.tier is Tier.STABLE else user(block.text)
    return RecordedBlock(block, record.add(replace(place, message=message, details=details)).id)


def new_context(
    record: Recorder, phase_run: PhaseRun, blocks: Sequence[Block], head: str
) -> UserContext:
    """Return the SESSION message out of its blocks, in the record."""
    place = Row(NodeType.CONTEXT_INJECTION, phase=phase_run.phase.name, turn=phase_run.now.turn)
    recorded = record_blocks(record, place, blocks)
    shown = {block.injector: block.items for block in blocks}
    parts = tuple(Text(block.text) for block in blocks if block.text)
    if not parts:
        return UserContext(head, None, None, recorded, shown)
    message = Message("user", parts)
    details = UserContextMade([block.id for block in recorded if block.id])
    item = record.add(replace(place, message=message, details=details))
    return UserContext(head, item, message, recorded, shown)


def tell_changes(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, blocks: Sequence[Block]
) -> None:
    """Have the next call told what is different in `blocks` from what the model knows.

    The record says what it costs, and what writing the message anew would.
    """
    context = run.injected.context
    assert context is not None
    texts: list[str] = []
    for block in blocks:
        before = context.known.get(block.injector, ())
        if new := [item.text for item in block.items if item not in before]:
            texts.append("\n".join([f"[New in {block.injector}]", *new]))
        if gone := [item.name for item in before if item not in block.items]:
            texts.append(f"[No longer in {block.injector}] {', '.join(gone)}")
        context.known[block.injector] = block.items
    if not texts:
        return
    changes = "\n".join(texts)
    held.changes = "\n".join(filter(None, (held.changes, changes)))
    tokens = phase_run.info.counter.text(changes)
    prices = run.caches.of(phase_run.info).prices
    behind = sum(size for _, size in run.caches.previous)
    rewrite = round((prices.write - prices.read) * behind)
    run.record.decide(
        phase_run.phase.name,
        f"the user context has changed: told in {tokens:,} tokens at the end of the next call;"
        f" written anew in its place it would cost the worth of up to {rewrite:,}",
        UserContextChanged(phase_run.now.turn, tokens, rewrite, changes),
    )
