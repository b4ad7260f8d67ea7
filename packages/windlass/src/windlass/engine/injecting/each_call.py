"""Injectors at any call of a phase: what they look at, the SESSION message, the DYNAMIC block.

Every block becomes a row of the record, so that what a call saw can be made again. The DYNAMIC
block is the last part of the last message, and stays there as history. Older blocks are taken away
only where that costs nothing: where nothing is cached, and behind the first place at which the
request differs anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from windlass.caching.meter import Meter, weigh
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import SessionTotals
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.artifacts import artifacts
from windlass.engine.injecting.injected import Injected, PhaseInjected, UserContext
from windlass.engine.turn.record import Recorder
from windlass.history.base import NodeType, Row
from windlass.history.decisions import InjectedBlock, UserContextChanged, UserContextMade
from windlass.history.details import BlockDetails, BlocksBill, InjectorDetails, OldBlocks
from windlass.injectors.base import LOOK, PLAIN, PromptParts, Situation, Tier, style_of
from windlass.injectors.orchestrate import Block, render_blocks, share_of_caps
from windlass.messages import Message, Text, ToolSpec, system, user
from windlass.text.templates import render
from windlass.text.tokens import request_tokens
from windlass.window.blocks import with_blocks
from windlass.window.driver import NextRequest
from windlass.window.entries import INJECT, Entry

USER_CONTEXT: Final = "user context"
"""Why the message of the SESSION tier is there."""
ROLE: Final = "system_role"
TOOLS: Final = "tools"


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
        prompt=PromptParts(
            definitions=specs,
            values=dict(zip(held.moved, values, strict=True)),
            style=style_of(run.record.seed, phase_run.phase.name, turn) if held.vary else PLAIN,
        ),
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


def record_blocks(record: Recorder, place: Row, blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks as rows like that of `place`; one of which nothing fitted is a decision."""
    return tuple(_record_block(record, place, block) for block in blocks)


def _record_block(record: Recorder, place: Row, block: Block) -> Block:
    details = block.details
    if not block.text:
        left = ", ".join(details.cut)
        text = f"injector {details.injector}: nothing fits its cap of {details.cap:,}: {left}"
        record.decide(place.phase, text, InjectedBlock(details, place.turn))
        return block
    # What stands at the head of every request is no message of anybody's.
    message = system(block.text) if details.tier == Tier.STABLE else user(block.text)
    item = record.add(replace(place, message=message, details=InjectedBlock(details)))
    return replace(block, details=replace(details, id=item.id))


def new_context(
    record: Recorder, phase_run: PhaseRun, blocks: Sequence[Block], head: str
) -> UserContext:
    """Return the SESSION message out of its blocks, in the record."""
    place = Row(NodeType.CONTEXT_INJECTION, phase=phase_run.phase.name, turn=phase_run.now.turn)
    recorded = record_blocks(record, place, blocks)
    shown = {block.details.injector: block.items for block in blocks}
    parts = tuple(Text(block.text) for block in blocks if block.text)
    if not parts:
        return UserContext(head, None, recorded, shown)
    message = Message("user", parts)
    details = UserContextMade([block.details.id for block in recorded if block.details.id])
    item = record.add(replace(place, message=message, details=details))
    return UserContext(head, Entry(item, message, USER_CONTEXT), recorded, shown)


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
        name = block.details.injector
        before = context.known.get(name, ())
        if new := [item.text for item in block.items if item not in before]:
            texts.append("\n".join([f"[New in {name}]", *new]))
        if gone := [item.name for item in before if item not in block.items]:
            texts.append(f"[No longer in {name}] {', '.join(gone)}")
        context.known[name] = block.items
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


# ---- the DYNAMIC block -----------------------------------------------------------------


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
    held.text = seen.prompt.style.separator.join(block.text for block in blocks if block.text)
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
    names = [one.details.injector for one in held.stable if one.text]
    parts = list(shown[0].message.parts)
    parts[names.index(ROLE) if ROLE in names else 0] = Text(role_now(run, phase_run, held))
    first = replace(shown[0], message=Message("system", tuple(parts)), because=INJECT)
    return (first, *shown[1:])


def _with_context(context: UserContext | None, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries with the user context as it stands now."""
    if context is None or context.entry is None:
        return tuple(entries)
    message, ident = context.entry.message, context.entry.item.id
    return tuple(
        replace(entry, message=message, because=INJECT)
        if entry.item.id == ident and entry.message.key != message.key
        else entry
        for entry in entries
    )


def _rewrite(
    run: CascadeRun, phase_run: PhaseRun, held: PhaseInjected, shown: Sequence[Entry], start: int
) -> bool:
    """Write the user context anew in its place, where that is free, if something was told since."""
    context = run.injected.context
    lasting = [ident for ident, one in run.injected.attached.items() if one.lasting]
    if context is None or context.entry is None or not (lasting or held.changes):
        return False
    at = next((at for at, one in enumerate(shown) if one.item.id == context.entry.item.id), -1)
    if at < start:
        return False
    seen, left = situation(run, phase_run, held), share_left(run, phase_run, held)
    blocks = render_blocks(held.placed, Tier.SESSION, seen, phase_run.info.counter.text, left)
    anew = new_context(run.record, phase_run, blocks, context.head)
    if anew.entry is None:
        return False
    context.entry = replace(context.entry, message=anew.entry.message)
    context.told, context.known = anew.told, anew.known
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
    texts = [one for one in held.stable if one.text and one.details.injector != TOOLS]
    before = len(shown[0].message.parts) - len(texts)  # the role, where it is no block
    details = [replace(one.details, message=0, part=before + at) for at, one in enumerate(texts)]
    details += [one.details for one in held.stable if one not in texts]
    if context is not None:
        ids = [entry.item.id for entry in shown]
        shown_as = context.entry and context.entry.item.id
        at = ids.index(shown_as) if shown_as in ids else None
        parts = iter(range(len(context.told)))
        details += [
            replace(one.details, message=at, part=next(parts))
            if one.text and at is not None
            else one.details
            for one in context.told
        ]
    message, part = len(shown) - 1, len(shown[-1].message.parts) - 1
    details += [
        replace(one.details, message=message, part=part) if one.text else one.details
        for one in held.now
    ]
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
