"""Injectors at each call: the DYNAMIC block, what stays of older ones, and what both cost.

The block is the last part of the last message, and stays there as history. Older blocks are
taken away only where that costs nothing: where nothing is cached, and behind the first place at
which the request differs anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.caching.meter import Meter, weigh
from windlass.engine.check import input_room
from windlass.engine.injecting.artifacts import artifacts
from windlass.engine.injecting.begin import (
    ROLE,
    new_context,
    record_blocks,
    role_now,
    share,
    situation,
    tell_changes,
)
from windlass.engine.injecting.injected import PhaseInjected
from windlass.engine.state import PhaseRun, Run
from windlass.injectors.base import Tier
from windlass.injectors.orchestrate import blocks_of
from windlass.messages import Message, Text, ToolSpec, canonical_json
from windlass.tokens import request_tokens
from windlass.window.block_tokens import NOTHING, BlockTokens
from windlass.window.blocks import (
    BECAUSE,
    Attached,
    added,
    let_go,
    same_until,
    with_blocks,
)
from windlass.window.entries import Entry

TOOLS: Final = "tools"
_UNTIL_THE_END: Final = 10**9


@dataclass(frozen=True, slots=True)
class WithBlocks:
    """The entries of a call with the blocks of injectors at the ends of messages.

    `attached` are these blocks by occurrence, to be kept once the call was sent; `details` what the
    record says of them (None: there are none).
    """

    entries: tuple[Entry, ...]
    attached: Mapping[str, Attached]
    details: Mapping[str, Any] | None = None


def prepare_blocks(
    run: Run, phase_run: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec]
) -> None:
    """Render the blocks of the next call and put them into the record, once a turn."""
    held = phase_run.injection
    if held is None or held.turn == phase_run.progress.turn or not entries:
        return
    entries = _as_it_stands(run, phase_run, held, entries)
    _look_again(run, phase_run, held)
    _keep_news(run, held, entries)
    attached, last, now = run.injected.attached, entries[-1].item.id, run.record.clock()
    shown, old = _shown(entries, attached, last)
    start, _ = _free_from(run, phase_run, shown, tools, now)
    left = let_go(attached, old, start)
    if _count_gone(attached, left, old):
        shown, _ = _shown(entries, left, last)
    elif _rewrite(run, phase_run, held, shown, start):
        shown, _ = _shown(_with_context(run, entries), run.injected.attached, last)
    _render(run, phase_run, held, shown)


def attach_blocks(
    run: Run, phase_run: PhaseRun, entries: Sequence[Entry], tools: Sequence[ToolSpec], now: float
) -> WithBlocks:
    """The entries of a call that is made at `now` seconds, with their blocks.

    Changes nothing: what it attaches counts from when the call was sent.
    """
    held, attached = phase_run.injection, run.injected.attached
    if (held is None and not attached) or not entries:
        return WithBlocks(tuple(entries), attached)
    if held is not None:
        entries = _as_it_stands(run, phase_run, held, entries)
    last = entries[-1].item.id
    shown, old = _shown(entries, attached, last)
    # What of earlier calls may go without a price.
    start, why = _free_from(run, phase_run, shown, tools, now)
    left = let_go(attached, old, start)
    gone = _count_gone(attached, left, old)
    if gone:
        shown, old = _shown(entries, left, last)
    shown, left = _attach(phase_run, shown, left)
    room = input_room(phase_run.info, phase_run.generation.max_output_tokens)
    messages = [entry.message for entry in shown]
    if old and request_tokens(phase_run.info.counter, messages, tools) > room:
        fewer = let_go(left, old, 0)
        gone, why = gone + _count_gone(left, fewer, old), "too long"
        shown, old = _shown(entries, fewer, last)
        shown, left = _attach(phase_run, shown, fewer)
    details = {
        "blocks": _told(run, held, shown),
        "old": {"blocks": len(old), "gone": gone, "because": why if gone else None},
    }
    return WithBlocks(shown, left, details)


def tell_attached(run: Run, phase_run: PhaseRun) -> None:
    """Tell the phase's conversation what the last request had at the end of its messages."""
    conversation, attached = phase_run.progress.conversation, run.injected.attached
    if conversation is None:
        return
    tokens: dict[int, int] = {}
    for at, entry in enumerate(conversation.entries[: conversation.sent] if attached else ()):
        if entry is not None:
            one = attached.get(phase_run.progress.brought.get(entry.item.id, entry.item).id)
            if one is not None and one.on == entry.message.key:
                tokens[at] = one.tokens + one.lasting_tokens
    conversation.block_tokens = BlockTokens.of(tokens, conversation.sent) if tokens else NOTHING


# ---- the current call -------------------------------------------------------------------


def _shown(
    entries: Sequence[Entry], attached: Mapping[str, Attached], last: str
) -> tuple[tuple[Entry, ...], dict[int, str]]:
    """The entries with the blocks of earlier calls: the last gets that of this call."""
    return with_blocks(entries, {ident: one for ident, one in attached.items() if ident != last})


def _attach(
    phase_run: PhaseRun, shown: tuple[Entry, ...], attached: dict[str, Attached]
) -> tuple[tuple[Entry, ...], dict[str, Attached]]:
    """The entries with the call's own block at the end of the last, if it may have one."""
    held, last, count = phase_run.injection, shown[-1], phase_run.info.counter.text
    if held is None or not (held.text or held.lasting) or last.message.role not in ("user", "tool"):
        return shown, attached
    sizes = count(held.text), count(held.lasting)
    block = Attached(last.message.key, held.text, held.lasting, *sizes)
    return (*shown[:-1], added(last, block)), {**attached, last.item.id: block}


def _render(run: Run, phase_run: PhaseRun, held: PhaseInjected, shown: Sequence[Entry]) -> None:
    """Make the DYNAMIC blocks of this call, and put them into the record."""
    seen = replace(situation(run, phase_run, held), artifacts=artifacts(run, phase_run, shown))
    left = share(run, phase_run, held, shown)
    blocks = blocks_of(held.placed, Tier.DYNAMIC, seen, phase_run.info.counter.text, left)
    held.now = record_blocks(
        run,
        phase_run.phase.name,
        phase_run.progress.turn,
        blocks,
        attempt=phase_run.progress.attempt,
        parent_id=phase_run.trace_id,
    )
    held.text = seen.style.separator.join(block.text for block in blocks if block.text)
    held.lasting, held.changes = held.changes, ""
    held.turn = phase_run.progress.turn


def _look_again(run: Run, phase_run: PhaseRun, held: PhaseInjected) -> None:
    """Have the call told what has changed of what the SESSION tier shows."""
    again = [one for one in held.placed if one.injector.refreshes and one.tier is Tier.SESSION]
    if again and run.injected.context is not None and phase_run.progress.turn > 1:
        seen, left = situation(run, phase_run, held), share(run, phase_run, held)
        blocks = blocks_of(again, Tier.SESSION, seen, phase_run.info.counter.text, left)
        tell_changes(run, phase_run, held, blocks)


def _keep_news(run: Run, held: PhaseInjected, entries: Sequence[Entry]) -> None:
    """Let what was told of the user context stand, though its message is shown otherwise now.

    At the end of what is shown in its place, where all is written anew in any case; at the end
    of this call where nothing is.
    """
    context, attached = run.injected.context, run.injected.attached
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
        elif now.key != one.on:
            attached[ident] = replace(one, on=now.key, block="", tokens=0)


def _as_it_stands(
    run: Run, phase_run: PhaseRun, held: PhaseInjected, entries: Sequence[Entry]
) -> tuple[Entry, ...]:
    """The entries with what is made anew at each call in its place."""
    shown = _with_context(run, entries)
    if not held.in_place or not shown or not shown[0].message.is_system:
        return shown
    names = [one.block.injector for one in held.stable if one.block.text]
    parts = list(shown[0].message.parts)
    parts[names.index(ROLE) if ROLE in names else 0] = Text(role_now(run, phase_run, held))
    first = replace(shown[0], message=Message("system", tuple(parts)), because=BECAUSE)
    return (first, *shown[1:])


def _with_context(run: Run, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries with the user context as it stands now."""
    context = run.injected.context
    if context is None or context.item is None or context.message is None:
        return tuple(entries)
    return tuple(
        replace(entry, message=context.message, because=BECAUSE)
        if entry.item.id == context.item.id and entry.message.key != context.message.key
        else entry
        for entry in entries
    )


# ---- older blocks -----------------------------------------------------------------------


def _free_from(
    run: Run, phase_run: PhaseRun, shown: Sequence[Entry], tools: Sequence[ToolSpec], now: float
) -> tuple[int, str]:
    """The position from which on everything is written anew in any case, and why."""
    cache = run.cache_of(phase_run.info)
    if not cache.prices.caches:
        return 0, "nothing is cached"
    if cache.trust.absent:
        return 0, "the provider's cache is not counted on"
    answered, ttl = cache.pauses.answered, cache.prices.ttl_s
    cold = answered is not None and ttl is not None and now - answered > ttl
    if cold or cache.trust.cold:
        return 0, "the cache is cold"
    if run.injected.sent_to != _address(phase_run, tools):
        return 0, "the head of the request is another one"
    same = same_until([entry.message for entry in shown], run.injected.sent)
    if same >= len(run.injected.sent):
        return _UNTIL_THE_END, ""
    return same, f"message {same} is another one"


def _count_gone(
    before: Mapping[str, Attached], left: Mapping[str, Attached], old: Mapping[int, str]
) -> int:
    """How many of the blocks of earlier calls were taken away."""
    return sum(left.get(ident) is not before[ident] for ident in old.values())


def _rewrite(
    run: Run, phase_run: PhaseRun, held: PhaseInjected, shown: Sequence[Entry], start: int
) -> bool:
    """Write the user context anew in its place, where that is free, if something was told since."""
    context = run.injected.context
    lasting = [ident for ident, one in run.injected.attached.items() if one.lasting]
    if context is None or context.item is None or not (lasting or held.changes):
        return False
    at = next((at for at, one in enumerate(shown) if one.item.id == context.item.id), -1)
    if at < start:
        return False
    seen, left = situation(run, phase_run, held), share(run, phase_run, held)
    blocks = blocks_of(held.placed, Tier.SESSION, seen, phase_run.info.counter.text, left)
    anew = new_context(run, phase_run, blocks, context.head)
    if anew.message is None:
        return False
    context.message, context.told, context.known = anew.message, anew.told, anew.known
    held.changes = ""
    for ident in lasting:
        block = replace(run.injected.attached[ident], lasting="")
        if block.block:
            run.injected.attached[ident] = block
        else:
            del run.injected.attached[ident]
    return True


# ---- what is told -----------------------------------------------------------------------


def _told(run: Run, held: PhaseInjected | None, shown: Sequence[Entry]) -> list[dict[str, Any]]:
    """The blocks of the call with their places: message and part, from 0."""
    if held is None:
        return []
    told = []
    texts = [one for one in held.stable if one.block.text and one.block.injector != TOOLS]
    before = len(shown[0].message.parts) - len(texts)  # the role, where it is no block
    told += [one.details(message=0, part=before + at) for at, one in enumerate(texts)]
    told += [one.details() for one in held.stable if one not in texts]
    context = run.injected.context
    if context is not None:
        ids = [entry.item.id for entry in shown]
        at = ids.index(context.item.id) if context.item and context.item.id in ids else None
        parts = iter(range(len(context.told)))
        for one in context.told:
            has = one.block.text and at is not None
            told.append(one.details(**({"message": at, "part": next(parts)} if has else {})))
    last = len(shown) - 1
    end = {"message": last, "part": len(shown[-1].message.parts) - 1}
    told += [one.details(**(end if one.block.text else {})) for one in held.now]
    return told


def note_sent(
    run: Run,
    phase_run: PhaseRun,
    sent: WithBlocks,
    *,
    bare: Sequence[Entry],
    tools: Sequence[ToolSpec],
    at: float,
) -> Mapping[str, Any]:
    """Take note of a request that was sent at `at` seconds; returns the bills for the record.

    `bare` are its entries before blocks were added. Both ways are billed at the model's prices, in
    units of a fresh input token: as sent, and with each block gone at the next call.
    """
    state, info, entries = run.injected, phase_run.info, sent.entries
    state.attached = dict(sent.attached)
    last = entries[-1].item.id
    if (
        state.context is not None
        and phase_run.injection is not None
        and phase_run.injection.lasting
    ):
        state.context.news |= {last} & state.attached.keys()
    messages = [entry.message for entry in entries]
    state.sent, state.sent_to = messages, _address(phase_run, tools)
    if phase_run.injection is None and not state.attached:
        return {}
    prices = run.cache_of(info).prices
    bills: dict[str, float] = {}
    short = [one.message for one in (entries[0], *bare[1:-1], entries[-1])][-len(bare) :]
    for name, meters, request in (
        ("kept", state.kept, messages),
        ("dropped", state.dropped, short),
    ):
        meter = meters.setdefault(info.name, Meter(prices))
        pieces = weigh(info.counter, request, tools, tools_first=info.tools_first)
        bills[name] = round(meter.bill(pieces, at).units, 1)
    return {"blocks_bill": bills}


def _address(phase_run: PhaseRun, tools: Sequence[ToolSpec]) -> str:
    return canonical_json([phase_run.info.name, [spec.to_openai() for spec in tools]])
