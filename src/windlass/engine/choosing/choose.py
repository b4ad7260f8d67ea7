"""A phase chooses what it sees of the phases before it: once, at its start, and on the record.

Anchors are in whatever they score; the strategy (`selection/strategies.py`) chooses from the rest
of the session; originals go into the phase's blocks in session order. Where going on from what a
cache holds is cheaper, and `commit` is priced, the phase sees what a snowball shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from windlass.cascade.rules import Choosing
from windlass.engine._state import PhaseRun, Run
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing._anchors import (
    Ground,
    Piece,
    gather_anchors,
    outline_of,
    shortened,
    without_errors,
)
from windlass.engine.choosing._picking import (
    Choice,
    answered,
    by_score,
    request_of,
    shortened_places,
    with_picked,
)
from windlass.engine.choosing._session_index import (
    Remembering,
    embedder_for,
    session_beside,
    session_of,
)
from windlass.engine.choosing._worth import LEAST_GAIN, Ways, Worth, asking_costs, worth_of
from windlass.engine.events import Noted
from windlass.engine.phase.sources import Gathered, output_only
from windlass.engine.turn.fitting import input_room
from windlass.engine.turn.record import usage_columns
from windlass.engine.turn.send import take_step
from windlass.errors import WindlassError
from windlass.history.base import NodeType
from windlass.history.decisions import FromSource, Remark
from windlass.history.details import AnchorDetails, PhaseChoice
from windlass.history.step import Step
from windlass.messages import Message, Role, Text, user
from windlass.providers.base import ModelInfo, Provider
from windlass.safety.fairness import beside
from windlass.selection.index import Query
from windlass.selection.scoring import Picked, Selecting, SelectionRequest
from windlass.selection.strategies import selecting
from windlass.text.prompts import CHOSEN_HEADER, input_text
from windlass.text.tokens import request_tokens
from windlass.tools.base import Spent
from windlass.window.assemble import Blocks, assemble
from windlass.window.entries import Entry, Item, apply, show
from windlass.window.originals import RECALL, reference
from windlass.window.replayed import held_by, without_repeats
from windlass.wire.base import Request, Usage

CHOSEN_SHARE: Final = 0.5
"""The share of a request that anchors and chosen messages may take: the phase needs room itself."""

LEAST_OUTLINE: Final = 1_000
"""Tokens that may tell of what is not chosen, however little that is."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What a choice is made in: the run, the phase, what its sources brought.

    `snowball` is all that was said before, `base` what the phase can go on from.
    """

    run: CascadeRun
    phase_run: PhaseRun
    rule: Choosing
    ground: Ground
    gathered: Gathered
    snowball: tuple[Entry, ...]
    base: Base


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
    phase_run.progress.whole = snowball
    await session_beside(run, phase_run.info)
    ground, onward = _ground(run, phase_run, rule, gathered), base_of(run, phase_run, snowball)
    scene = _Scene(run, phase_run, rule, ground, gathered, snowball, onward)
    longest = max((item.message.chars for item in run.record.born), default=0)
    base = await beside(longest, partial(_anchored, scene))
    request = request_of(rule, ground, base, Query.of(instructions), embedder_for(run))
    selector, why_not = selector_of(run, phase_run, rule)
    base.note = "; ".join(note for note in (base.note, why_not) if note)

    # What it would come to without asking anybody, and what that is worth.
    choice = base
    if request is not None:
        request, picked = await _by_score(scene, base, request)
        choice = with_picked(base, ground, request, picked)
    choice.outline = await beside(longest, partial(_outline, scene, choice))
    asks, question = _question(rule, request) if selector and request else (None, "")
    worth = _worth(scene, choice, selector, question)
    why_kept = _why_kept(scene, worth)

    reply: SelectorReply | None = None
    if selector is not None and asks is not None and request is not None and not why_kept:
        reply = await ask_selector(run, phase_run.phase.name, selector, question)
        if reply.failure:
            choice.note = f"{reply.failure}; chosen by score alone"
        else:
            choice = with_picked(base, ground, request, answered(asks, reply.text))
            choice.outline = await beside(longest, partial(_outline, scene, choice))
    if why_kept:
        _go_on(scene, choice)
    else:
        _see_chosen(scene, choice)
    record_choice(run, phase_run, choice, worth, why_kept=why_kept, reply=reply)


async def _by_score(
    scene: _Scene, base: Choice, request: SelectionRequest
) -> tuple[SelectionRequest, Picked]:
    """What score alone picks, and by what; a server that makes the vectors may fail."""
    embedder, run = request.embedder, scene.run
    if not isinstance(embedder, Remembering):
        return request, by_score(request)
    try:
        picked = await asyncio.to_thread(by_score, request)
    except WindlassError as error:
        base.note = f"by keywords alone: {embedder.name} gave no vectors: {error}"
        options = replace(request.options, strategy="heuristic")
        request = replace(request, embedder=None, options=options)
        picked = by_score(request)
    if tokens := embedder.take_tokens():
        price = run.charge_tool(Spent(embedder.name, Usage(tokens, 0)))
        text = f"{tokens:,} tokens of vectors by {embedder.name}, to choose by"
        columns: dict[str, Any] = {"model": embedder.name, "tokens_in": tokens, "cost": price}
        run.record.decide(scene.phase_run.phase.name, text, Remark("vectors"), turn=0, **columns)
    return request, picked


def _ground(run: CascadeRun, phase_run: PhaseRun, rule: Choosing, gathered: Gathered) -> Ground:
    record, session = run.record, session_of(run, phase_run.info)
    ran = dict.fromkeys(item.phase or "" for item in session.index.items)
    outcomes = {each.phase: each for each in record.store.outcomes(record.session_id) if each.phase}
    return Ground(
        session=session,
        phases=[name for name in ran if name != phase_run.phase.name and name not in rule.exclude],
        outcomes=outcomes,
        rows=record.rows(),
        callouts=run.progress.callouts,
        held={entry.item.id for entry in gathered.sources},
        count=phase_run.info.counter.message,
    )


def _anchored(scene: _Scene) -> Choice:
    """The anchors, within the cap as far as digests bring them."""
    run, phase_run, ground, anchors = scene.run, scene.phase_run, scene.ground, scene.rule.anchors
    choice = Choice(_cap(phase_run, scene.rule))
    if "input" in anchors.include and run.input:
        message = Message("user", (Text(input_text(run.input)),))
        choice.input = Piece(-1, message, "input", "anchor: the cascade's input", what="input")
    fixed = sum(ground.count(entry.message) for entry in scene.gathered.sources)
    fixed += ground.count(choice.input.message) if choice.input else 0
    outputs = {source.phase for source in phase_run.rule.sources if "output" in source.include}
    pieces = gather_anchors(ground, anchors, _role(scene), outputs)
    before = fixed + sum(ground.count(piece.message) for piece in pieces)
    room = choice.cap - fixed
    choice.anchors = shortened(ground, pieces, room)
    choice.anchor_tokens = fixed + sum(ground.count(piece.message) for piece in choice.anchors)
    if before > choice.cap:
        choice.warning = (
            f"its anchors take {before:,} tokens where it may have {choice.cap:,};"
            f" shortened to digests they take {choice.anchor_tokens:,}"
        )
    return choice


def _outline(scene: _Scene, choice: Choice) -> Piece | None:
    """What tells of the messages that are not shown whole, within its share of the room."""
    ground, progress = scene.ground, scene.phase_run.progress
    chosen = sum(ground.count(piece.message) for piece in choice.chosen)
    places = list(dict.fromkeys([*shortened_places(choice, ground), *choice.order]))
    tokens = sum(ground.session.index.tokens_at(place) for place in places)
    most = max(LEAST_OUTLINE, int(scene.rule.outline * tokens))
    room = min(most, choice.cap - choice.anchor_tokens - chosen)
    if not scene.rule.outline or not places:
        return None
    shown = [entry.message for entry in (*progress.blocks.system, *scene.gathered.sources)]
    shown += [item.message for item in progress.own]
    shown += [piece.message for piece in (choice.input, *choice.in_order()) if piece is not None]
    recall = RECALL.name in progress.tools
    return outline_of(ground, places, shown, room, _role(scene), can_recall=recall)


def _role(scene: _Scene) -> Role:
    """The role of messages of ours."""
    return scene.rule.anchors.as_role if scene.phase_run.info.system_anywhere else "user"


def _cap(phase_run: PhaseRun, rule: Choosing) -> int:
    """The most tokens of anchors and chosen messages: the user's, or half of what fits."""
    room = input_room(phase_run.info, phase_run.generation.max_output_tokens)
    policy, budget = phase_run.rule.policy, phase_run.rule.budget.limit
    limit = min(room, (policy and policy.max_input_tokens) or room, budget or room)
    return min(rule.selection.max_tokens, max(1, int(CHOSEN_SHARE * limit)))


# ---- who is asked, and what it is worth ----------------------------------------------------


def _question(rule: Choosing, request: SelectionRequest) -> tuple[Selecting | None, str]:
    """The strategy that waits for an answer, and its question (None: it has nothing to ask)."""
    options = replace(request.options, strategy=rule.selection.strategy)
    asks = selecting(replace(request, helper=True, options=options))
    try:
        return asks, next(asks)
    except StopIteration:
        return None, ""


def _worth(scene: _Scene, choice: Choice, selector: Selector | None, question: str) -> Worth:
    """What choosing costs beside going on; the question to a selector included."""
    phase_run, system = scene.phase_run, scene.phase_run.progress.blocks.system
    own = show(phase_run.progress.own, "")
    given = () if choice.input is None else (_trial(choice.input),)
    middle = tuple(_trial(piece) for piece in choice.in_order())
    select = assemble(Blocks(system, given, scene.gathered.sources, middle), own)
    whole = assemble(Blocks(system, (), scene.gathered.sources, scene.snowball, "end"), own)
    base = scene.base.entries
    more = tuple(_trial(piece) for piece in _missing(scene, choice))
    sources = (*without_repeats(scene.gathered.sources, *held_by(base)), *more)
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
    return worth_of(scene.run, phase_run, ways, asking)


def _missing(scene: _Scene, choice: Choice) -> list[Piece]:
    """What the phase needs and what it would go on from does not show.

    Calls are missing with their results, or neither is.
    """
    base, given, session = scene.base, choice.input, scene.ground.session
    ids, texts = base.ids, {entry.message.text for entry in base.entries}

    def is_held(piece: Piece) -> bool:
        if piece.item is None:
            covered = bool(piece.covers) and all(ident in ids for ident in piece.covers)
            return covered or piece.message.text in texts
        return any(session.index.items[at].id in ids for at in session.unit(piece.place))

    listed = without_errors(choice.in_order(), ids) if base.chosen else []
    pieces = [piece for piece in listed if piece.kind != "outline" and not is_held(piece)]
    if pieces and pieces[0].message.role != "user":
        pieces.insert(0, _header())
    if given is not None and not _is_said(scene.run.input, base.entries, scene.phase_run):
        pieces.append(given)
    return pieces


def _header() -> Piece:
    message = Message("user", (Text(CHOSEN_HEADER),))
    return Piece(-1, message, "selected", "before what was chosen", what="header")


def _trial(piece: Piece) -> Entry:
    """A piece as an entry, for counting: nothing of it is in the record yet."""
    item = piece.item or Item("", piece.message, NodeType.CONTEXT_INJECTION)
    return Entry(item, piece.message, piece.reason, piece.because)


def _why_kept(scene: _Scene, worth: Worth) -> str:
    """Why the phase sees all that was said before instead of choosing; empty: it chooses."""
    rule, phase_run, base = scene.rule, scene.phase_run, scene.base
    excluded = any(entry.item.phase in rule.exclude for entry in base.entries)
    if (rule.at_once and not rule.only_to_fit) or excluded or not base.entries:
        return ""
    room = input_room(phase_run.info, phase_run.generation.max_output_tokens)
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


def _go_on(scene: _Scene, choice: Choice) -> None:
    """What the phase before saw, with the sources behind it, and what is missing there."""
    progress, base = scene.phase_run.progress, scene.base
    more = tuple(_entry(scene, piece) for piece in _missing(scene, choice))
    sources = (*without_repeats(scene.gathered.sources, *held_by(base.entries)), *more)
    progress.blocks = Blocks(progress.blocks.system, (), sources, base.entries, "end")
    progress.chose = base.chosen


def _is_said(values: Any, entries: Sequence[Entry], phase_run: PhaseRun) -> bool:
    """Whether each value of the input stands in what the phase sees anyway."""
    messages = [entry.message for entry in entries] + [
        item.message for item in phase_run.progress.own
    ]
    text = "\n".join(message.text for message in messages)
    return all(leaf in text for leaf in _leaves(values))


def _leaves(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [] if value is None else [str(value)]


def _see_chosen(scene: _Scene, choice: Choice) -> None:
    """The input, the sources, then anchors and chosen messages in session order."""
    progress, sources = scene.phase_run.progress, scene.gathered.sources
    given = () if choice.input is None else (_entry(scene, choice.input),)
    entries = tuple(_entry(scene, piece) for piece in choice.in_order())
    entries = without_repeats(entries, *held_by(sources))
    first = next(iter((*given, *sources, *entries)), None)
    if first is not None and first.message.role != "user":
        # Some providers refuse a conversation that begins with the assistant.
        entries = (_entry(scene, _header()), *entries)
    progress.blocks = Blocks(progress.blocks.system, given, sources, entries)
    progress.chose = True
    # What was asked for stands for the phase; anchors age as they would have in a snowball.
    picked = {piece.item.id for piece in choice.chosen if piece.item is not None}
    count = scene.phase_run.info.counter.message
    progress.chosen = {e.item.id: count(e.message) for e in entries if e.item.id in picked}


def _entry(scene: _Scene, piece: Piece) -> Entry:
    """A piece as an entry; a message of ours goes into the record first."""
    item = piece.item or scene.run.record.add(
        NodeType.CONTEXT_INJECTION,
        piece.message,
        phase=scene.phase_run.phase.name,
        turn=0,
        parent_id=scene.phase_run.trace_id,
        metadata=FromSource(piece.source or piece.what, piece.what).as_json(),
    )
    return Entry(item, piece.message, piece.reason, piece.because)


@dataclass(frozen=True, slots=True)
class Base:
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


def base_of(run: CascadeRun, phase_run: PhaseRun, snowball: tuple[Entry, ...]) -> Base:
    """What a phase can go on from."""
    last = run.progress.last
    if last is None or not last.progress.chose or last.info.name != phase_run.info.name:
        return Base(snowball)
    reason = f"goes on from what {last.phase.name} saw"
    own = show(last.progress.own, reason)
    if last.rule.output_only:
        own = output_only(last.progress.own, reason)
    before = assemble(replace(last.progress.blocks, system=()), own)
    return Base(apply(before, last.progress.edits), chosen=True)


# ---- asking a helper model -------------------------------------------------------------------
#
# Nothing of a session goes to a model that nobody named: the selector is the one that the cascade
# names, and for strategy `llm` without one the phase's own model, which sees the content anyway.

MENU_TOKENS: Final = 10_000
"""Tokens that no question passes: a hundred lines of a few hundred characters, and the task."""
MOST_ANSWERED: Final = 1_024
"""Tokens of an answer: a hundred names and a sentence."""


Selector: TypeAlias = tuple[Provider, ModelInfo]
"""The model that is asked, and who has it."""


@dataclass(frozen=True, slots=True)
class SelectorReply:
    """What was asked and answered. `failure` says why there is no answer (empty: there is one).

    `columns` are those of the record: the model, its tokens, and US dollars.
    """

    question: str
    text: str = ""
    failure: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any])


def selector_of(
    run: CascadeRun, phase_run: PhaseRun, rule: Choosing
) -> tuple[Selector | None, str]:
    """The model that the phase's strategy asks (None: nobody), and why not where it would."""
    strategy = rule.selection.strategy
    if strategy not in ("llm", "hybrid") or (strategy == "hybrid" and rule.selector is None):
        return None, ""
    if rule.no_model:
        origin = run.settings["auto_context_llm_selection_enabled"].origin
        return None, f"no model is asked: {origin} switches it off"
    if rule.selector is None:
        return (phase_run.provider, phase_run.info), ""
    return run.resolve(rule.selector), ""


async def ask_selector(
    run: CascadeRun, phase: str, selector: Selector, question: str
) -> SelectorReply:
    """The selector's answer; its tokens are charged to the run. A failure is told, not raised."""
    provider, info = selector
    request = Request(
        model=info.name.partition("/")[2],
        messages=(user(question),),
        tool_choice="none",
        max_output_tokens=MOST_ANSWERED,
        temperature=0.0,
    )
    try:
        taken = await take_step(run, Step(phase, asks="selector"), provider, info.name, request)
    except WindlassError as error:
        failed = f"the selector {info.name} gave no answer: {error}"
        return SelectorReply(question, failure=failed, columns={"model": info.name})
    reply = taken.reply
    price = run.charge(info, reply.usage, saved=0)
    run.net.spent += price or 0.0
    columns = usage_columns(info.name, reply.usage, price)
    return SelectorReply(question, reply.message.text, columns=columns)


# ---- the record, and the line people read ----------------------------------------------------


def record_choice(
    run: Run,
    phase_run: PhaseRun,
    choice: Choice,
    worth: Worth,
    *,
    why_kept: str,
    reply: SelectorReply | None,
) -> None:
    """Record what the phase sees and why, with the tokens and money of the choosing.

    `why_kept` says why it sees all that was said before (empty: it sees its choice).
    """
    rule, progress = phase_run.rule.choosing, phase_run.progress
    assert rule is not None
    anchors = [piece for piece in (choice.input, *choice.anchors) if piece is not None]
    shown = assemble(progress.blocks, show(progress.own, ""))
    count = phase_run.info.counter.message
    full = len(progress.whole or ()) + len(progress.blocks.system) + len(progress.own)
    chosen_tokens = sum(count(piece.message) for piece in choice.chosen)
    way = worth.go_on if why_kept else worth.select
    saved = worth.whole.tokens - way.tokens
    text = _sentence(phase_run, choice, why_kept)
    strategy = choice.strategy
    if why_kept:
        strategy = "go_on" if progress.chose else "snowball"
    metadata: PhaseChoice = {
        "semantic_actor": "auto_context",
        "selection_type": "inter_phase",
        "text": text,
        "strategy": strategy,
        "strategy_asked": rule.selection.strategy,
        "note": choice.note,
        "kept": why_kept,
        "warning": choice.warning,
        "full_history_size": full,
        "context_size": len(shown),
        "masked_count": sum(piece.because is not None for piece in choice.in_order()),
        "tokens_saved": saved,
        "candidates": choice.candidates,
        "candidate_tokens": choice.candidate_tokens,
        "budget": {
            "max_tokens": rule.selection.max_tokens,
            "cap": choice.cap,
            "anchors": choice.anchor_tokens,
            "selected": chosen_tokens,
        },
        "anchor_hashes": [piece.message.content_hash for piece in anchors],
        "anchors": [_anchor_told(piece, count(piece.message)) for piece in anchors],
        "selected_hashes": [row["hash"] for row in choice.told],
        "selected": choice.told,
        "left_out": choice.left_out,
        "not_chosen": [] if why_kept else choice.not_chosen,
        "reasoning": choice.reasoning,
        "refused": list(choice.refused),
        "worth": {**asdict(worth), "commit": "at_once" if rule.at_once else "priced"},
        "outline": None
        if choice.outline is None
        else _anchor_told(choice.outline, count(choice.outline.message)),
        "config": {
            **asdict(rule.selection),
            "share": rule.share,
            "outline": rule.outline,
            "selector_model": rule.selector,
            "anchors": rule.anchors.model_dump(),
        },
    }
    columns: dict[str, Any] = {"full_history_size": full, "context_size": len(shown)}
    if phase_run.rule.policy is None:
        columns["tokens_saved"] = saved  # else each call tells what it saved
    if reply is not None:
        columns |= reply.columns
        metadata["asked"], metadata["answer"] = reply.question, reply.text
    row = run.record.row(
        NodeType.CONTEXT_SELECTION,
        phase=phase_run.phase.name,
        turn=0,
        attempt=1,
        parent_id=phase_run.trace_id,
        metadata=metadata,
        **columns,
    )
    run.record.append([row])
    progress.choice_text = text
    if choice.warning:
        run.emit(Noted(phase_run.phase.name, f"phase {phase_run.phase.name!r}: {choice.warning}"))


def _anchor_told(piece: Piece, tokens: int) -> AnchorDetails:
    return {
        "kind": piece.kind,
        "id": piece.item.id if piece.item is not None else None,
        "reference": reference(piece.original or (piece.item or piece).message),
        "tokens": tokens,
        "shortened": piece.because is not None,
    }


def _sentence(phase_run: PhaseRun, choice: Choice, why_kept: str) -> str:
    name = phase_run.phase.name
    if why_kept:
        goes_on = "goes on from what the phase before saw"
        seen = goes_on if phase_run.progress.chose else "sees all that was said"
        return f"phase {name!r} {seen}: {why_kept}"
    anchors = len(choice.anchors) + (choice.input is not None)
    text = (
        f"phase {name!r} sees {anchors} anchors and {len(choice.chosen)} of"
        f" {choice.candidates:,} messages, chosen by {choice.strategy}"
    )
    return f"{text} ({choice.note})" if choice.note else text
