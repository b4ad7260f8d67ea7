"""Injectors at each call: the DYNAMIC block, what stays of older ones, and what both cost.

The block is the last part of the last message, and stays there as history. Older blocks are
taken away only where that costs nothing: where nothing is cached, and behind the first place at
which the request differs anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass.caching.meter import Meter, weigh
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.artifacts import artifacts
from windlass.engine.injecting.injected import Injected, PhaseInjected, UserContext
from windlass.engine.injecting.session_tier import (
    ROLE,
    new_context,
    record_blocks,
    role_now,
    share_left,
    situation,
    tell_changes,
)
from windlass.history.base import NodeType
from windlass.history.details import BlockDetails, BlocksBill, InjectorDetails, OldBlocks
from windlass.injectors.base import LOOK, Tier
from windlass.injectors.orchestrate import render_blocks
from windlass.messages import Message, Text, ToolSpec
from windlass.window.blocks import with_blocks
from windlass.window.driver import NextRequest
from windlass.window.entries import INJECT, Entry

TOOLS: Final = "tools"


def prepare_blocks(
    run: CascadeRun, phase_run: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec]
) -> None:
    """Render the blocks of the next call and put them into the record, once a turn."""
    held = phase_run.injection
    if held is None or held.turn == phase_run.now.turn or not entries:
        return
    entries = with_current_values(run, phase_run, entries)
    _look_again(run, phase_run, held)
    _keep_news(run.injected, held, entries)
    gap = run.caches.of(phase_run.info).pauses.gap_at(run.record.clock())
    shown, start, _ = phase_run.window.driver.with_older_blocks(entries, tools, gap)
    if not shown.gone and _rewrite(run, phase_run, held, shown.entries, start):
        shown = with_blocks(_with_context(run.injected.context, entries), run.injected.attached)
    _render(run, phase_run, held, shown.entries)


def block_details(
    run: CascadeRun, phase_run: PhaseRun, call: NextRequest
) -> InjectorDetails | None:
    """Return the record of a call's blocks (None: there are none)."""
    held, blocks = phase_run.injection, call.with_blocks
    if held is None and not _has_blocks(run.injected):
        return None
    old = OldBlocks(len(blocks.older), blocks.gone, call.gone_because)
    return InjectorDetails(tuple(_details(run.injected.context, held, call.entries)), old)


def _has_blocks(injected: Injected) -> bool:
    """Return whether anything stands at the end of messages that injectors brought."""
    return any(one.block or one.lasting for one in injected.attached.values())


def _render(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, shown: Sequence[Entry]
) -> None:
    """Make the DYNAMIC blocks of this call, and put them into the record."""
    looks = LOOK in phase_run.tools.by_name
    known = artifacts(run.record.born, run.injected, shown) if looks else ()
    seen = replace(situation(run, phase_run, held), artifacts=known)
    left = share_left(run, phase_run, held, shown)
    blocks = render_blocks(held.placed, Tier.DYNAMIC, seen, phase_run.info.counter.text, left)
    place = replace(phase_run.row(NodeType.CONTEXT_INJECTION), parent_id=phase_run.trace_id)
    held.now = record_blocks(run.record, place, blocks)
    held.text = seen.style.separator.join(block.text for block in blocks if block.text)
    held.lasting, held.changes = held.changes, ""
    held.turn = phase_run.now.turn


def _look_again(run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected) -> None:
    """Have the call told what has changed of what the SESSION tier shows."""
    again = [one for one in held.placed if one.injector.refreshes and one.tier is Tier.SESSION]
    if again and run.injected.context is not None and phase_run.now.turn > 1:
        seen, left = situation(run, phase_run, held), share_left(run, phase_run, held)
        blocks = render_blocks(again, Tier.SESSION, seen, phase_run.info.counter.text, left)
        tell_changes(run, phase_run, held, blocks)


def _keep_news(injected: Injected, held: PhaseInjected, entries: Sequence[Entry]) -> None:
    """Let what was told of the user context stand, though its message is shown otherwise now.

    At the end of what is shown in its place, where all is written anew in any case; at the end
    of this call where nothing is.
    """
    context, attached = injected.context, injected.attached
    if context is None or not context.news:
        return
    places = {entry.item.id: entry.message for entry in entries}
    for ident in sorted(context.news):
        one, now = attached.get(ident), places.get(ident)
        if one is None or not one.lasting:
            context.news.discard(ident)
        elif now is None:
            held.changes = "\n".join(filter(None, (one.lasting, held.changes)))
            context.news.discard(ident)
            del attached[ident]
        elif not one.stands_on(now):
            attached[ident] = replace(one, bare=now, block="", tokens=0)


def with_current_values(
    run: CascadeRun, phase_run: PhaseRun, entries: Sequence[Entry]
) -> tuple[Entry, ...]:
    """Return the entries, with the user context and the system role as they are now."""
    held = phase_run.injection
    if held is None:
        return tuple(entries)
    shown = _with_context(run.injected.context, entries)
    if not held.in_place or not shown or not shown[0].message.is_system:
        return shown
    names = [one.block.injector for one in held.stable if one.block.text]
    parts = list(shown[0].message.parts)
    parts[names.index(ROLE) if ROLE in names else 0] = Text(role_now(run, phase_run, held))
    first = replace(shown[0], message=Message("system", tuple(parts)), because=INJECT)
    return (first, *shown[1:])


def _with_context(context: UserContext | None, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries with the user context as it stands now."""
    if context is None or context.item is None or context.message is None:
        return tuple(entries)
    return tuple(
        replace(entry, message=context.message, because=INJECT)
        if entry.item.id == context.item.id and entry.message.key != context.message.key
        else entry
        for entry in entries
    )


def _rewrite(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, shown: Sequence[Entry], start: int
) -> bool:
    """Write the user context anew in its place, where that is free, if something was told since."""
    context = run.injected.context
    lasting = [ident for ident, one in run.injected.attached.items() if one.lasting]
    if context is None or context.item is None or not (lasting or held.changes):
        return False
    at = next((at for at, one in enumerate(shown) if one.item.id == context.item.id), -1)
    if at < start:
        return False
    seen, left = situation(run, phase_run, held), share_left(run, phase_run, held)
    blocks = render_blocks(held.placed, Tier.SESSION, seen, phase_run.info.counter.text, left)
    anew = new_context(run.record, phase_run, blocks, context.head)
    if anew.message is None:
        return False
    context.message, context.told, context.known = anew.message, anew.told, anew.known
    held.changes = ""
    for ident in lasting:
        block = replace(run.injected.attached[ident], lasting="")
        if block.block or block.note:
            run.injected.attached[ident] = block
        else:
            del run.injected.attached[ident]
    return True


# ---- what is told -----------------------------------------------------------------------


def _details(
    context: UserContext | None, held: PhaseInjected | None, shown: Sequence[Entry]
) -> list[BlockDetails]:
    """Return the blocks of the call with their places: message and part, from 0."""
    if held is None:
        return []
    texts = [one for one in held.stable if one.block.text and one.block.injector != TOOLS]
    before = len(shown[0].message.parts) - len(texts)  # the role, where it is no block
    details = [one.details(0, before + at) for at, one in enumerate(texts)]
    details += [one.details() for one in held.stable if one not in texts]
    if context is not None:
        ids = [entry.item.id for entry in shown]
        at = ids.index(context.item.id) if context.item and context.item.id in ids else None
        parts = iter(range(len(context.told)))
        details += [
            one.details(at, next(parts)) if one.block.text and at is not None else one.details()
            for one in context.told
        ]
    end = len(shown) - 1, len(shown[-1].message.parts) - 1
    details += [one.details(*end) if one.block.text else one.details() for one in held.now]
    return details


def note_sent(
    run: CascadeRun,
    phase_run: PhaseRun,
    sent: NextRequest,
    *,
    bare: Sequence[Entry],
    tools: Sequence[ToolSpec],
    at: float,
) -> BlocksBill | None:
    """Take note of a request that was sent at `at` seconds; returns its bills for the record.

    None: there are no blocks. `bare` are its entries before blocks were added. Both ways are billed
    at the model's prices, in units of a fresh input token: as sent, and with each block gone at the
    next call.
    """
    state, info, entries = run.injected, phase_run.info, sent.entries
    last = entries[-1].item.id
    if (
        state.context is not None
        and phase_run.injection is not None
        and phase_run.injection.lasting
    ):
        state.context.news |= {last} & state.attached.keys()
    messages = [entry.message for entry in entries]
    if phase_run.injection is None and not _has_blocks(run.injected):
        return None
    prices = run.caches.of(info).prices
    notes = {ident: one.note_alone for ident, one in state.attached.items()}
    noted = with_blocks(bare, {ident: one for ident, one in notes.items() if one}).entries
    short = [one.message for one in (entries[0], *noted[1:-1], entries[-1])][-len(bare) :]

    def bill(meters: dict[str, Meter], request: Sequence[Message]) -> float:
        pieces = weigh(info.counter, request, tools, tools_first=info.tools_first)
        return round(meters.setdefault(info.name, Meter(prices)).bill(pieces, at).units, 1)

    return BlocksBill(bill(state.kept, messages), bill(state.dropped, short))
