"""A phase chooses what it sees of the phases before it: once, at its start, and on the record.

Anchors are in whatever they score; the strategy (`selection/scoring.py`) chooses from the rest of
the session; originals go into the phase's blocks in session order. Where going on from what a
cache holds is cheaper, and `commit` is priced, the phase sees what a snowball shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from windlass.cascade.rules import Choosing
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing._anchors import (
    ChoosingView,
    Piece,
    gather_anchors,
    shortened,
    without_errors,
)
from windlass.engine.choosing._choice_record import record_choice
from windlass.engine.choosing._outline import outline_of
from windlass.engine.choosing._picking import (
    AnchorSet,
    Choice,
    candidates_of,
    choice_of,
    shortened_places,
)
from windlass.engine.choosing._session_index import CachedEmbedder, embedder_for, index_in_thread
from windlass.engine.choosing._worth import LEAST_GAIN, Ways, Worth, asking_costs, worth_of
from windlass.engine.choosing.selector import Selector, SelectorReply, ask_selector, selector_of
from windlass.engine.phase.sources import Gathered, output_only
from windlass.errors import WindlassError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import FromSource, Remark
from windlass.messages import Message, Role, Text, user
from windlass.safety.fairness import run_in_thread
from windlass.selection.index import Index, Query
from windlass.selection.menu import menu_of
from windlass.selection.scoring import Scored, SelectionRequest, score
from windlass.text.prompts import CHOSEN_HEADER, input_text
from windlass.text.tokens import request_tokens
from windlass.tools.base import Spent
from windlass.window.blocks import Blocks, assemble
from windlass.window.entries import Entry, Item, apply, show
from windlass.window.originals import RECALL
from windlass.window.replayed import held_by, without_repeats
from windlass.wire.base import Usage

CHOSEN_SHARE: Final = 0.5
"""The share of a request that anchors and chosen messages may take: the phase needs room itself."""

LEAST_OUTLINE: Final = 1_000
"""Tokens that may tell of what is not chosen, however little that is."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a choice is made in: the run, the phase, what its sources brought.

    `snowball` is all that was said before, `base` what the phase can go on from.
    """

    run: CascadeRun
    phase_run: PhaseRun
    rule: Choosing
    view: ChoosingView
    gathered: Gathered
    snowball: tuple[Entry, ...]
    base: EarlierView


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
    rule = phase_run.rule.choosing
    assert rule is not None
    phase_run.choice.whole = snowball
    index = await index_in_thread(run, phase_run.info)
    view = _choosing_view(run, phase_run, index, gathered)
    setting = _Setting(
        run, phase_run, rule, view, gathered, snowball, earlier_view(run, phase_run, snowball)
    )
    longest = max((item.message.chars for item in run.record.born), default=0)
    anchors = await run_in_thread(longest, partial(_anchored, setting))
    task, embedder = Query.of(instructions), embedder_for(run)
    candidates = candidates_of(rule, view, anchors, task, embedder)
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
        choice = choice_of(anchors, view, found.pick())
    choice = await with_outline(replace(choice, note=choice.note or note))
    worth = _worth(setting, choice, selector, menu.question if menu else "")
    why_kept = _why_kept(setting, worth)

    reply: SelectorReply | None = None
    if selector is not None and menu is not None and not why_kept:
        reply = await ask_selector(run, phase_run.phase.name, selector, menu.question)
        if reply.failure:
            choice = replace(choice, note=f"{reply.failure}; chosen by score alone")
        else:
            choice = choice_of(anchors, view, menu.pick(reply.text))
            choice = await with_outline(replace(choice, note=choice.note or note))
    if why_kept:
        _go_on(setting, choice)
    else:
        _see_chosen(setting, choice)
    record_choice(run, phase_run, candidates, choice, worth, why_kept=why_kept, reply=reply)


async def _scored(setting: _Setting, request: SelectionRequest) -> Scored:
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
    if tokens := embedder.take_tokens():
        price = run.charge_tool(Spent(embedder.name, Usage(tokens, 0)))
        text = f"{tokens:,} tokens of vectors by {embedder.name}, to choose by"
        name = setting.phase_run.phase.name
        row = Row(NodeType.DECISION, phase=name, turn=0, text=text, details=Remark("vectors"))
        row = replace(row, model=embedder.name, tokens_in=tokens, cost=price)
        run.record.append([row])
    return found


def _choosing_view(
    run: CascadeRun, phase_run: PhaseRun, index: Index, gathered: Gathered
) -> ChoosingView:
    record, rule = run.record, phase_run.rule.choosing
    assert rule is not None
    ran = dict.fromkeys(item.phase or "" for item in index.items)
    outcomes = {each.phase: each for each in record.store.outcomes(record.session_id) if each.phase}
    before, name = {each.phase for each in run.session.ran}, phase_run.phase.name
    if name not in before:  # else its earlier visits may be chosen from
        ran.pop(name, None)
    said = {item.id for item in phase_run.messages.own}
    return ChoosingView(
        index=index,
        phases=[name for name in ran if name not in rule.exclude],
        outcomes=outcomes,
        rows=record.rows(),
        callouts=run.session.callouts,
        held=said | gathered.told | {entry.item.id for entry in gathered.sources},
        count=phase_run.info.counter.message,
    )


def _anchored(setting: _Setting) -> AnchorSet:
    """Return the anchors, within the cap as far as digests bring them."""
    run, phase_run, view = setting.run, setting.phase_run, setting.view
    anchors = setting.rule.anchors
    cap, given = _cap(phase_run, setting.rule), None
    if "input" in anchors.include and run.input:
        message = Message("user", (Text(input_text(run.input)),))
        given = Piece(-1, message, "input", "anchor: the cascade's input", what="input")
    fixed = sum(view.count(entry.message) for entry in setting.gathered.sources)
    fixed += view.count(given.message) if given else 0
    outputs = {source.phase for source in phase_run.rule.sources if "output" in source.include}
    whole = gather_anchors(view, anchors, _role(setting), outputs)
    before = fixed + sum(view.count(piece.message) for piece in whole)
    pieces = shortened(view, whole, cap - fixed)
    tokens = fixed + sum(view.count(piece.message) for piece in pieces)
    warning = ""
    if before > cap:
        warning = (
            f"its anchors take {before:,} tokens where it may have {cap:,};"
            f" shortened to digests they take {tokens:,}"
        )
    return AnchorSet(cap, given, pieces, tokens, warning)


def _outline(setting: _Setting, choice: Choice) -> Piece | None:
    """Return what tells of the messages that are not shown whole, within its share of the room."""
    view, phase_run, anchors = setting.view, setting.phase_run, choice.anchors
    chosen = sum(view.count(piece.message) for piece in choice.chosen)
    places = list(dict.fromkeys([*shortened_places(choice, view), *choice.order]))
    tokens = sum(view.index.tokens_at(place) for place in places)
    most = max(LEAST_OUTLINE, int(setting.rule.outline * tokens))
    room = min(most, anchors.cap - anchors.tokens - chosen)
    if not setting.rule.outline or not places:
        return None
    system = phase_run.messages.blocks.system
    shown = [entry.message for entry in (*system, *setting.gathered.sources)]
    shown += [item.message for item in phase_run.messages.own]
    shown += [piece.message for piece in (anchors.input, *choice.in_order()) if piece is not None]
    recall = RECALL.name in phase_run.tools.by_name
    return outline_of(view, places, shown, room, _role(setting), can_recall=recall)


def _role(setting: _Setting) -> Role:
    """Return the role of messages of ours."""
    return setting.rule.anchors.as_role if setting.phase_run.info.system_anywhere else "user"


def _cap(phase_run: PhaseRun, rule: Choosing) -> int:
    """Return the most tokens of anchors and chosen messages: the user's, or half of what fits."""
    room = phase_run.room
    policy, budget = phase_run.rule.policy, phase_run.rule.budget.limit
    limit = min(room, (policy and policy.max_input_tokens) or room, budget or room)
    return min(rule.selection.max_tokens, max(1, int(CHOSEN_SHARE * limit)))


# ---- who is asked, and what it is worth ----------------------------------------------------


def _worth(setting: _Setting, choice: Choice, selector: Selector | None, question: str) -> Worth:
    """Return what choosing costs beside going on; the question to a selector included."""
    phase_run, system = setting.phase_run, setting.phase_run.messages.blocks.system
    own = show(phase_run.messages.own, "")
    given = () if choice.anchors.input is None else (_trial(choice.anchors.input),)
    middle = tuple(_trial(piece) for piece in choice.in_order())
    select = assemble(Blocks(system, given, setting.gathered.sources, middle), own)
    whole = assemble(Blocks(system, (), setting.gathered.sources, setting.snowball, "end"), own)
    base = setting.base.entries
    more = tuple(_trial(piece) for piece in _missing(setting, choice))
    sources = (*without_repeats(setting.gathered.sources, *held_by(base)), *more)
    go_on = assemble(Blocks(system, (), sources, base, "end"), own)
    asking = 0.0
    if selector is not None and question:
        _, info = selector
        tokens = request_tokens(info.counter, [user(question)])
        asking = asking_costs(phase_run.info, info, tokens)
    ways = Ways(
        [entry.message for entry in go_on],
        [entry.message for entry in select],
        # As it is metered call by call: a snowball without windows.
        [entry.item.message for entry in whole],
    )
    return worth_of(setting.run, phase_run, ways, asking)


def _missing(setting: _Setting, choice: Choice) -> list[Piece]:
    """Return what the phase needs and what it would go on from does not show.

    Calls are missing with their results, or neither is.
    """
    base, given, index = setting.base, choice.anchors.input, setting.view.index
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


def _why_kept(setting: _Setting, worth: Worth) -> str:
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


def _go_on(setting: _Setting, choice: Choice) -> None:
    """What the phase before saw, with the sources behind it, and what is missing there."""
    phase_run, base = setting.phase_run, setting.base
    more = tuple(_entry(setting, piece) for piece in _missing(setting, choice))
    sources = (*without_repeats(setting.gathered.sources, *held_by(base.entries)), *more)
    phase_run.messages.blocks = Blocks(
        phase_run.messages.blocks.system, (), sources, base.entries, "end"
    )
    phase_run.choice.made = base.chosen


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


def _see_chosen(setting: _Setting, choice: Choice) -> None:
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
    count = phase_run.info.counter.message
    phase_run.choice.chosen = {e.item.id: count(e.message) for e in entries if e.item.id in picked}


def _entry(setting: _Setting, piece: Piece) -> Entry:
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


@dataclass(frozen=True, slots=True)
class EarlierView:
    """What the phase before saw and said, without its system prompt.

    `chosen`: it is no snowball, so that something may be missing.
    """

    entries: tuple[Entry, ...]
    chosen: bool = False

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the occurrences that it shows."""
        shown = {entry.item.id for entry in self.entries}
        return frozenset(shown.union(*({item.id for item in e.covers} for e in self.entries)))


def earlier_view(run: CascadeRun, phase_run: PhaseRun, snowball: tuple[Entry, ...]) -> EarlierView:
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
