"""A phase chooses what it sees of the phases before it: once, at its start, and on the record.

Anchors are in whatever they score; the strategy (`selection/scoring.py`) chooses from the rest of
the session; originals go into the phase's blocks in session order. Where going on from what a
cache holds is cheaper, and `commit` is priced, the phase sees what a snowball shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from windlass.cascade.rules import Choosing
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing._picking import (
    AnchorSet,
    Candidates,
    Choice,
    candidates_of,
    choice_of,
    shortened_places,
)
from windlass.engine.choosing._pieces import (
    EarlierView,
    Piece,
    Setting,
    gather_anchors,
    outline_of,
    shortened,
    without_errors,
)
from windlass.engine.choosing._worth import LEAST_GAIN, Worth, asking_costs, worth_of
from windlass.engine.choosing.selector import Selector, SelectorReply, ask_selector, selector_of
from windlass.engine.choosing.session_index import CachedEmbedder, embedder_for, index_in_thread
from windlass.engine.events import Noted
from windlass.engine.phase.sources import Gathered, output_only
from windlass.errors import WindlassError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import (
    ChoiceSizes,
    ChoiceWay,
    ChosenMessages,
    FromSource,
    PhaseChoice,
    Remark,
)
from windlass.history.details import AnchorDetails, ChoiceBudget
from windlass.messages import Message, Text, user
from windlass.safety.fairness import run_in_thread
from windlass.selection.index import Index, Query
from windlass.selection.menu import menu_of
from windlass.selection.scoring import Scored, SelectionRequest, score
from windlass.selection.vectors import tokens_taken
from windlass.text.prompts import CHOSEN_HEADER, input_text
from windlass.text.tokens import request_tokens
from windlass.tools.base import Spent
from windlass.window.blocks import Blocks, assemble
from windlass.window.entries import Entry, Item, apply, show
from windlass.window.originals import reference
from windlass.window.replayed import held_by, without_repeats
from windlass.wire.base import Usage

CHOSEN_SHARE: Final = 0.5
"""The share of a request that anchors and chosen messages may take: the phase needs room itself."""

LEAST_OUTLINE: Final = 1_000
"""Tokens that may tell of what is not chosen, however little that is."""


async def choose(
    run: CascadeRun,
    phase_run: PhaseRun,
    instructions: str,
    gathered: Gathered,
    snowball: tuple[Entry, ...],
) -> None:
    """Fix what the phase sees of what was said before, and record why.

    `gathered` are its sources, which are in besides; `snowball` is all that was said before.
    """
    phase_run.choice.whole = snowball
    index = await index_in_thread(run, phase_run.info)
    setting = _setting_of(run, phase_run, index, gathered, snowball)
    rule = setting.rule
    longest = max((item.message.chars for item in run.record.born), default=0)
    anchors = await run_in_thread(longest, partial(_anchored, setting))
    task, embedder = Query.of(instructions), embedder_for(run)
    candidates = candidates_of(setting, anchors, task, embedder)
    selector, why_not = selector_of(run, phase_run, rule)
    note = "; ".join(filter(None, (candidates.note, why_not)))

    async def with_outline(choice: Choice) -> Choice:
        return replace(
            choice, outline=await run_in_thread(longest, partial(_outline, setting, choice))
        )

    # What it would come to without asking anybody, and what that is worth.
    choice, menu = Choice(anchors, note=note), None
    if candidates.request is not None:
        found = await _scored(setting, candidates.request)
        menu = menu_of(found, alone=rule.selection.strategy == "llm") if selector else None
        choice = choice_of(anchors, setting, found.pick())
    choice = await with_outline(replace(choice, note=choice.note or note))
    worth = _worth(setting, choice, selector, menu.question if menu else "")
    why_kept = _why_kept(setting, worth)

    reply: SelectorReply | None = None
    if selector is not None and menu is not None and not why_kept:
        reply = await ask_selector(run, phase_run.phase.name, selector, menu.question)
        if reply.failure:
            choice = replace(choice, note=f"{reply.failure}; chosen by score alone")
        else:
            choice = choice_of(anchors, setting, menu.pick(reply.text))
            choice = await with_outline(replace(choice, note=choice.note or note))
    if why_kept:
        missing = [_entry(setting, piece) for piece in _missing(setting, choice)]
        phase_run.messages.blocks = _going_on(setting, missing)
        phase_run.choice.made = setting.base.chosen
    else:
        _see_chosen(setting, choice)
    _record(setting, candidates, choice, worth, why_kept=why_kept, reply=reply)


async def _scored(setting: Setting, request: SelectionRequest) -> Scored:
    """Return what may be chosen, by score; by words alone where the server of vectors fails."""
    embedder, run = request.embedder, setting.run
    if not isinstance(embedder, CachedEmbedder) or request.options.strategy == "heuristic":
        return score(request)
    try:
        found = await asyncio.to_thread(score, request)
    except WindlassError as error:
        options = replace(request.options, strategy="heuristic")
        note = f"by keywords alone: {embedder.name} gave no vectors: {error}"
        found = replace(score(replace(request, options=options)), note=note)
    if tokens := tokens_taken(embedder.asked):
        price = run.charge_tool(Spent(embedder.name, Usage(tokens, 0)))
        text = f"{tokens:,} tokens of vectors by {embedder.name}, to choose by"
        name = setting.phase_run.phase.name
        row = Row(NodeType.DECISION, phase=name, turn=0, text=text, details=Remark("vectors"))
        row = replace(row, model=embedder.name, tokens_in=tokens, cost=price)
        run.record.append([row])
    return found


def _setting_of(
    run: CascadeRun,
    phase_run: PhaseRun,
    index: Index,
    gathered: Gathered,
    snowball: tuple[Entry, ...],
) -> Setting:
    record, rule = run.record, phase_run.rule.choosing
    assert rule is not None
    ran = dict.fromkeys(item.phase or "" for item in index.items)
    outcomes = {each.phase: each for each in record.store.outcomes(record.session_id) if each.phase}
    before, name = {each.phase for each in run.session.ran}, phase_run.phase.name
    if name not in before:  # else its earlier visits may be chosen from
        ran.pop(name, None)
    said = {item.id for item in phase_run.messages.own}
    return Setting(
        run,
        phase_run,
        rule,
        index,
        phases=[name for name in ran if name not in rule.exclude],
        outcomes=outcomes,
        rows=record.rows(),
        gathered=gathered,
        held=said | gathered.told | {entry.item.id for entry in gathered.sources},
        snowball=snowball,
        base=_earlier_view(run, phase_run, snowball),
    )


def _anchored(setting: Setting) -> AnchorSet:
    """Return the anchors, within the cap as far as digests bring them."""
    cap, given, values = _cap(setting.phase_run, setting.rule), None, setting.run.input
    if "input" in setting.rule.anchors.include and values:
        message = Message("user", (Text(input_text(values)),))
        given = Piece(-1, message, "input", "anchor: the cascade's input", what="input")
    fixed = sum(setting.count(entry.message) for entry in setting.gathered.sources)
    fixed += setting.count(given.message) if given else 0
    whole = gather_anchors(setting)
    before = fixed + sum(setting.count(piece.message) for piece in whole)
    pieces = shortened(setting, whole, cap - fixed)
    tokens = fixed + sum(setting.count(piece.message) for piece in pieces)
    warning = ""
    if before > cap:
        warning = (
            f"its anchors take {before:,} tokens where it may have {cap:,};"
            f" shortened to digests they take {tokens:,}"
        )
    return AnchorSet(cap, given, pieces, tokens, warning)


def _outline(setting: Setting, choice: Choice) -> Piece | None:
    """Return what tells of the messages that are not shown whole, within its share of the room."""
    phase_run, anchors = setting.phase_run, choice.anchors
    chosen = sum(setting.count(piece.message) for piece in choice.chosen)
    places = list(dict.fromkeys([*shortened_places(choice, setting), *choice.order]))
    tokens = sum(setting.index.tokens_at(place) for place in places)
    most = max(LEAST_OUTLINE, int(setting.rule.outline * tokens))
    room = min(most, anchors.cap - anchors.tokens - chosen)
    if not setting.rule.outline or not places:
        return None
    system = phase_run.messages.blocks.system
    shown = [entry.message for entry in (*system, *setting.gathered.sources)]
    shown += [item.message for item in phase_run.messages.own]
    shown += [piece.message for piece in (anchors.input, *choice.in_order()) if piece is not None]
    return outline_of(setting, places, shown, room)


def _cap(phase_run: PhaseRun, rule: Choosing) -> int:
    """Return the most tokens of anchors and chosen messages: the user's, or half of what fits."""
    room = phase_run.room
    policy, budget = phase_run.rule.policy, phase_run.rule.budget.limit
    limit = min(room, (policy and policy.max_input_tokens) or room, budget or room)
    return min(rule.selection.max_tokens, max(1, int(CHOSEN_SHARE * limit)))


# ---- who is asked, and what it is worth ----------------------------------------------------


def _worth(setting: Setting, choice: Choice, selector: Selector | None, question: str) -> Worth:
    """Return what choosing costs beside going on; the question to a selector included."""
    phase_run, system = setting.phase_run, setting.phase_run.messages.blocks.system
    own = show(phase_run.messages.own, "")
    given = () if choice.anchors.input is None else (_trial(choice.anchors.input),)
    middle = tuple(_trial(piece) for piece in choice.in_order())
    select = assemble(Blocks(system, given, setting.gathered.sources, middle), own)
    whole = assemble(Blocks(system, (), setting.gathered.sources, setting.snowball, "end"), own)
    go_on = assemble(
        _going_on(setting, [_trial(piece) for piece in _missing(setting, choice)]), own
    )
    asking = 0.0
    if selector is not None and question:
        _, info = selector
        tokens = request_tokens(info.counter, [user(question)])
        asking = asking_costs(phase_run.info, info, tokens)
    return worth_of(
        setting.run,
        phase_run,
        go_on=[entry.message for entry in go_on],
        select=[entry.message for entry in select],
        # As it is metered call by call: a snowball without windows.
        whole=[entry.item.message for entry in whole],
        asking=asking,
    )


def _missing(setting: Setting, choice: Choice) -> list[Piece]:
    """Return what the phase needs and what it would go on from does not show.

    Calls are missing with their results, or neither is.
    """
    base, given, index = setting.base, choice.anchors.input, setting.index
    ids, texts = base.ids, {entry.message.text for entry in base.entries}

    def is_held(piece: Piece) -> bool:
        if piece.item is None:
            covered = bool(piece.covers) and all(ident in ids for ident in piece.covers)
            return covered or piece.message.text in texts
        return any(index.items[at].id in ids for at in index.together(piece.place))

    listed = without_errors(choice.in_order(), ids) if base.chosen else []
    pieces = [piece for piece in listed if piece.kind != "outline" and not is_held(piece)]
    if pieces and pieces[0].message.role != "user":
        pieces.insert(0, _header())
    if given is not None and not _is_said(setting.run.input, base.entries, setting.phase_run):
        pieces.append(given)
    return pieces


def _header() -> Piece:
    message = Message("user", (Text(CHOSEN_HEADER),))
    return Piece(-1, message, "selected", "before what was chosen", what="header")


def _trial(piece: Piece) -> Entry:
    """Return a piece as an entry, for counting: nothing of it is in the record yet."""
    item = piece.item or Item("", piece.message, NodeType.CONTEXT_INJECTION)
    return Entry(item, piece.message, piece.reason, piece.because)


def _why_kept(setting: Setting, worth: Worth) -> str:
    """Return why the phase sees all that was said before instead of choosing; empty: it chooses."""
    rule, phase_run, base = setting.rule, setting.phase_run, setting.base
    excluded = any(entry.item.phase in rule.exclude for entry in base.entries)
    if (rule.at_once and not rule.only_to_fit) or excluded or not base.entries:
        return ""
    room = phase_run.room
    if worth.go_on.tokens > min(room, phase_run.rule.budget.limit or room):
        return ""
    if rule.only_to_fit:
        return (
            "the breaker (breaker_sessions) lets a phase choose only where all of it does not fit"
        )
    if worth.pays:
        return ""
    if worth.select.tokens >= worth.go_on.tokens:
        return "it takes no more tokens than what would be chosen"
    if worth.select.units <= worth.go_on.units:
        return f"choosing anew would save less than {LEAST_GAIN:.0%} of what going on costs"
    calls = f"{worth.calls} expected {'call' if worth.calls == 1 else 'calls'}"
    return (
        "choosing anew would cost more than going on from what is cached:"
        f" {worth.select.units:,.0f} fresh tokens' worth against {worth.go_on.units:,.0f},"
        f" over {calls}"
    )


# ---- what the phase sees -------------------------------------------------------------------


def _going_on(setting: Setting, missing: Sequence[Entry]) -> Blocks:
    """Return what the phase before saw, with the sources behind it, and what is missing there."""
    base = setting.base.entries
    sources = (*without_repeats(setting.gathered.sources, *held_by(base)), *missing)
    return Blocks(setting.phase_run.messages.blocks.system, (), sources, base, "end")


def _is_said(values: Any, entries: Sequence[Entry], phase_run: PhaseRun) -> bool:
    """Return whether each value of the input stands in what the phase sees anyway."""
    messages = [entry.message for entry in entries] + [
        item.message for item in phase_run.messages.own
    ]
    text = "\n".join(message.text for message in messages)
    return all(leaf in text for leaf in _leaves(values))


def _leaves(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [] if value is None else [str(value)]


def _see_chosen(setting: Setting, choice: Choice) -> None:
    """The input, the sources, then anchors and chosen messages in session order."""
    phase_run, sources = setting.phase_run, setting.gathered.sources
    task = choice.anchors.input
    given = () if task is None else (_entry(setting, task),)
    entries = tuple(_entry(setting, piece) for piece in choice.in_order())
    entries = without_repeats(entries, *held_by(sources))
    first = next(iter((*given, *sources, *entries)), None)
    if first is not None and first.message.role != "user":
        # Some providers refuse a conversation that begins with the assistant.
        entries = (_entry(setting, _header()), *entries)
    phase_run.messages.blocks = Blocks(phase_run.messages.blocks.system, given, sources, entries)
    phase_run.choice.made = True
    # What was asked for stands for the phase; anchors age as they would have in a snowball.
    picked = {piece.item.id for piece in choice.chosen if piece.item is not None}
    count = setting.count
    phase_run.choice.chosen = {e.item.id: count(e.message) for e in entries if e.item.id in picked}


def _entry(setting: Setting, piece: Piece) -> Entry:
    """Return a piece as an entry; a message of ours goes into the record first."""
    item = piece.item or setting.run.record.add(
        Row(
            NodeType.CONTEXT_INJECTION,
            message=piece.message,
            phase=setting.phase_run.phase.name,
            turn=0,
            parent_id=setting.phase_run.trace_id,
            details=FromSource(piece.source or piece.what, piece.what),
        )
    )
    return Entry(item, piece.message, piece.reason, piece.because)


def _earlier_view(run: CascadeRun, phase_run: PhaseRun, snowball: tuple[Entry, ...]) -> EarlierView:
    """Return what a phase can go on from."""
    last = run.session.last_phase
    if last is None or not last.choice.made or last.info.name != phase_run.info.name:
        return EarlierView(snowball)
    reason = f"goes on from what {last.phase.name} saw"
    own = show(last.messages.own, reason)
    if last.rule.output_only:
        own = output_only(last.messages.own, reason)
    before = assemble(replace(last.messages.blocks, system=()), own)
    return EarlierView(apply(before, last.window.edits), chosen=True)


# ---- the record --------------------------------------------------------------------------------


def _record(
    setting: Setting,
    candidates: Candidates,
    choice: Choice,
    worth: Worth,
    *,
    why_kept: str,
    reply: SelectorReply | None,
) -> None:
    """Record what the phase sees and why, with the tokens and money of the choosing.

    `why_kept` says why it sees all that was said before (empty: it sees its choice).
    """
    run, phase_run, rule, count = setting.run, setting.phase_run, setting.rule, setting.count
    messages = phase_run.messages
    given = choice.anchors.input
    anchors = [*([] if given is None else [given]), *choice.anchors.pieces]
    shown = messages.entries
    full = len(setting.snowball) + len(messages.blocks.system) + len(messages.own)
    chosen_tokens = sum(count(piece.message) for piece in choice.chosen)
    way = worth.go_on if why_kept else worth.select
    saved = worth.whole.tokens - way.tokens
    text = _sentence(phase_run, candidates, choice, why_kept)
    strategy = choice.strategy
    if why_kept:
        strategy = "go_on" if phase_run.choice.made else "snowball"
    budget = ChoiceBudget(
        rule.selection.max_tokens, choice.anchors.cap, choice.anchors.tokens, chosen_tokens
    )
    outline = choice.outline
    details = PhaseChoice(
        ChoiceWay(strategy, rule.selection.strategy, choice.note, why_kept, choice.anchors.warning),
        ChoiceSizes(
            full_history_size=full,
            context_size=len(shown),
            masked_count=sum(piece.because is not None for piece in choice.in_order()),
            tokens_saved=saved,
            candidates=candidates.count,
            candidate_tokens=candidates.tokens,
            budget=budget,
        ),
        ChosenMessages(
            anchor_hashes=[piece.message.content_hash for piece in anchors],
            anchors=[_anchor_told(piece, count(piece.message)) for piece in anchors],
            selected_hashes=[row["hash"] for row in choice.told],
            selected=list(choice.told),
            left_out=list(choice.left_out),
            not_chosen=[] if why_kept else list(choice.not_chosen),
        ),
        reasoning=choice.reasoning,
        refused=list(choice.refused),
        worth={**asdict(worth), "commit": "at_once" if rule.at_once else "priced"},
        outline=None if outline is None else _anchor_told(outline, count(outline.message)),
        config={
            **asdict(rule.selection),
            "share": rule.share,
            "outline": rule.outline,
            "selector_model": rule.selector,
            "anchors": rule.anchors.model_dump(),
        },
        asked=None if reply is None else reply.question,
        answer=None if reply is None else reply.text,
    )
    row = replace(
        Row(NodeType.CONTEXT_SELECTION) if reply is None else reply.row,
        phase=phase_run.phase.name,
        turn=0,
        attempt=1,
        parent_id=phase_run.trace_id,
        full_history_size=full,
        context_size=len(shown),
        # With a policy each call tells what it saved.
        tokens_saved=saved if phase_run.rule.policy is None else None,
        text=text,
        details=details,
    )
    run.record.append([row])
    phase_run.choice.text = text
    if warning := choice.anchors.warning:
        name = phase_run.phase.name
        run.emit(Noted(name, f"phase {name!r}: {warning}"))


def _anchor_told(piece: Piece, tokens: int) -> AnchorDetails:
    return AnchorDetails(
        piece.kind,
        piece.item.id if piece.item is not None else None,
        reference(piece.original or (piece.item or piece).message),
        tokens,
        piece.because is not None,
    )


def _sentence(phase_run: PhaseRun, candidates: Candidates, choice: Choice, why_kept: str) -> str:
    name = phase_run.phase.name
    if why_kept:
        goes_on = "goes on from what the phase before saw"
        seen = goes_on if phase_run.choice.made else "sees all that was said"
        return f"phase {name!r} {seen}: {why_kept}"
    anchors = len(choice.anchors.pieces) + (choice.anchors.input is not None)
    text = (
        f"phase {name!r} sees {anchors} anchors and {len(choice.chosen)} of"
        f" {candidates.count:,} messages, chosen by {choice.strategy}"
    )
    return f"{text} ({choice.note})" if choice.note else text
