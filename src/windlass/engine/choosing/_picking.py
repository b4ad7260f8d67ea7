"""What a phase could be shown of a session, and what its strategy picks from that.

Asks nobody, records nothing: who is asked, what it is worth and what is shown is `choose.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from windlass.cascade.rules import Choosing
from windlass.engine.choosing._anchors import Ground, Piece, short, without_errors
from windlass.history.details import NotChosen
from windlass.selection.index import Query
from windlass.selection.making import searched_text
from windlass.selection.rank import ChosenUnits
from windlass.selection.reasons import reasons
from windlass.selection.scoring import Picked, Selecting, SelectionRequest
from windlass.selection.strategies import selecting
from windlass.selection.vectors import Embedder
from windlass.selection.wordllama import MISSING
from windlass.window.entries import Item
from windlass.window.names import names_said

MOST_NAMED: Final = 3
"""A name that more calls or messages hold says little of where its value stands."""
_WORD: Final = re.compile(r"\w{4,}")
LEAST_CHOSEN: Final = 2_000
"""Tokens that may be chosen however little there is to choose from."""


@dataclass(slots=True)
class Choice:
    """One choice in the making.

    `cap` are the most tokens of anchors and chosen messages together; `input` is the cascade's
    input (None: it is no anchor); `anchors` and `chosen` stand between it and the instructions.
    `told` says of each chosen message, and `left_out` of the best that did not fit, its score
    and its ranks. `strategy` is what chose, `note` why that is not what was asked for;
    `reasoning` is what a model said of its choice, `refused` what it named beside the menu;
    `warning` says that anchors took too much. `outline` tells of what is not shown,
    which `order` lists, the best first; `not_chosen` says why each is not.
    """

    cap: int
    input: Piece | None = None
    anchors: list[Piece] = field(default_factory=list[Piece])
    anchor_tokens: int = 0
    chosen: list[Piece] = field(default_factory=list[Piece])
    told: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    left_out: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    strategy: str = "anchors"
    note: str = ""
    reasoning: str = ""
    refused: tuple[str, ...] = ()
    warning: str = ""
    outline: Piece | None = None
    order: list[int] = field(default_factory=list[int])
    not_chosen: list[NotChosen] = field(default_factory=list[NotChosen])
    candidates: int = 0
    candidate_tokens: int = 0

    def in_order(self) -> list[Piece]:
        """Anchors and chosen messages in session order, each once."""
        seen: set[str] = set()
        pieces: list[Piece] = []
        outline = [] if self.outline is None else [self.outline]
        all_of_them = [*outline, *self.anchors, *self.chosen]
        for piece in sorted(all_of_them, key=Piece.order):
            ident = piece.item.id if piece.item is not None else ""
            if ident and ident in seen:
                continue
            seen.add(ident)
            pieces.append(piece)
        return pieces


def request_of(
    rule: Choosing, ground: Ground, choice: Choice, task: Query, embedder: Embedder | None
) -> SelectionRequest | None:
    """What the strategy is asked; None: nothing is left to choose from, or no room.

    Counts the candidates into `choice`, and notes there where the strategy cannot be had.
    `llm` is asked as `hybrid` until somebody is there to ask.
    """
    session, index = ground.session, ground.session.index
    among = _among(ground, choice)
    choice.candidates = sum(among)
    choice.candidate_tokens = sum(index.tokens_at(place) for place, may in enumerate(among) if may)
    left = choice.cap - choice.anchor_tokens
    # Where the cap holds less than both shares, chosen messages and names have it in proportion.
    room = int(left * rule.share / (rule.share + rule.outline))
    room = min(left, max(LEAST_CHOSEN, min(room, int(rule.share * choice.candidate_tokens))))
    if not choice.candidates or room <= 0:
        return None
    options = replace(rule.selection, max_tokens=room)
    if options.strategy == "llm":
        options = replace(options, strategy="hybrid")
    embedder = embedder if options.strategy != "heuristic" else None
    if options.strategy == "semantic" and embedder is None:
        options = replace(options, strategy="heuristic")
        choice.note = f"by keywords alone: {MISSING}"
    marked = [session.places[ident] for ident in ground.callouts if ident in session.places]
    return SelectionRequest(index, task, options, embedder, among=among, callouts=marked)


def _among(ground: Ground, choice: Choice) -> list[bool]:
    """Of each message of the session, whether it may be chosen: what is no anchor already."""
    session = ground.session
    taken = {piece.item.id for piece in choice.anchors if piece.item is not None}
    outputs = {piece.source for piece in choice.anchors if piece.what == "output"}
    items = session.index.items
    alone = {name: output_alone(items, name) for name in ground.phases}
    taken |= {item.id for name in outputs for item in alone.get(name, ())}
    hidden = {name for name, outcome in ground.outcomes.items() if outcome.hidden}
    return [
        item.phase in ground.phases
        and item.id not in taken
        and item.id not in ground.held
        and not session.repeats(place)
        and (item.phase not in hidden or item in alone[item.phase])
        for place, item in enumerate(session.index.items)
    ]


def output_alone(items: Sequence[Item], phase: str) -> list[Item]:
    """A phase's output where it can be shown alone: a message without calls."""
    replies = [item for item in items if item.phase == phase and item.message.role == "assistant"]
    spoken = [item for item in replies if item.message.text.strip()]
    return [item for item in spoken[-1:] if not item.message.tool_calls]


def by_score(request: SelectionRequest) -> Picked:
    """What the strategy picks without asking anybody."""
    return answered(selecting(replace(request, helper=False)), None)


def answered(asks: Selecting, answer: str | None) -> Picked:
    """What a strategy makes of the answer to its question (None: it was not begun)."""
    try:
        asks.send(answer)
    except StopIteration as end:
        picked: Picked = end.value
        return picked
    raise AssertionError("a strategy asks at most once")


def with_picked(base: Choice, ground: Ground, request: SelectionRequest, picked: Picked) -> Choice:
    """The choice with what was picked; what is too long for the rest of the room, as a digest.

    What the task asks for by name is in it whole, where the cap holds it.
    """
    picked, named = _with_named(picked, base.cap - base.anchor_tokens)
    choice = _with_pieces(base, ground, request, picked, named)
    choice.order = _places_left(choice, request, picked)
    choice.not_chosen = _not_chosen(choice, request, picked)
    return choice


def _not_chosen(choice: Choice, request: SelectionRequest, picked: Picked) -> list[NotChosen]:
    """Score and rank of what could be chosen and was not, and why it was not."""
    units, said, options = request.index.units, request.index.said, request.options
    ranks = {at: rank for rank, at in enumerate(picked.scored.order(), start=1)}
    chosen = {said[at] for at in picked.choice.chosen if said[at]}
    count = sum(units[at].last - units[at].first + 1 for at in picked.choice.chosen)
    unit_of = {
        place: at
        for at in range(len(units))
        for place in range(units[at].first, units[at].last + 1)
    }

    def because(at: int) -> Literal["budget", "limit", "threshold", "repeat", "model"]:
        if at not in ranks:
            return "threshold"
        if said[at] in chosen:
            return "repeat"
        if picked.asked and at not in picked.asked:
            return "model"
        size = units[at].last - units[at].first + 1
        full = options.max_messages is not None and count + size > options.max_messages
        return "limit" if full else "budget"

    return [
        {
            "id": request.index.items[place].id,
            "score": round(float(picked.scored.total[place]), 4),
            "rank": ranks.get(unit_of[place]),
            "because": because(unit_of[place]),
        }
        for place in choice.order
    ]


def shortened_places(choice: Choice, ground: Ground) -> list[int]:
    """The messages that are shown as digests, which leave names out: the chosen ones first."""
    places = ground.session.places
    short_ones = [piece for piece in (*choice.chosen, *choice.anchors) if piece.because == "digest"]
    idents = (piece.covers if piece.item is None else (piece.item.id,) for piece in short_ones)
    return list(dict.fromkeys(places[ident] for group in idents for ident in group))


def _places_left(choice: Choice, request: SelectionRequest, picked: Picked) -> list[int]:
    """The messages that could be chosen and were not, the best first."""
    taken = {piece.place for piece in choice.chosen}
    units, among = request.index.units, request.among
    left = [
        place
        for at in picked.scored.order()
        for place in range(units[at].first, units[at].last + 1)
        if place not in taken
    ]
    met = set(left)
    rest = [p for p in range(len(request.index)) if among is None or among[p]]
    return left + [p for p in reversed(rest) if p not in taken and p not in met]


def _with_named(picked: Picked, budget: int) -> tuple[Picked, Mapping[int, str]]:
    """What was picked, with the units that the task asks for by name; and these, with the name.

    They are taken where `budget` holds them, the best first, and what scores least makes room for
    them: a value that is asked for stands in one message whole, not in the digests of several.
    """
    request, choice = picked.scored.request, picked.choice
    units, scores = request.index.units, picked.scored.by_unit
    named = _names_asked(picked)
    chosen, tokens, count = dict.fromkeys(choice.chosen), choice.tokens, 0
    for at in chosen:
        count += units[at].last - units[at].first + 1
    taken: dict[int, str] = {}
    for at, name in named.items():
        if at in chosen:
            taken[at] = name
            continue
        size = units[at].last - units[at].first + 1
        others = sorted((each for each in chosen if each not in taken), key=lambda u: scores[u])
        gone: list[int] = []
        left, places = budget - tokens, (request.options.max_messages or count + size) - count
        for other in others:
            if units[at].tokens <= left and size <= places:
                break
            gone.append(other)
            left += units[other].tokens
            places += units[other].last - units[other].first + 1
        if units[at].tokens > left or size > places:
            continue
        for other in gone:
            del chosen[other]
        chosen[at], taken[at] = None, name
        tokens = budget - left + units[at].tokens
        count += size - sum(units[each].last - units[each].first + 1 for each in gone)
    if not taken.keys() - set(choice.chosen):
        return picked, taken
    gone_now = [at for at in choice.chosen if at not in chosen]
    left_out = (*(at for at in choice.left_out if at not in chosen), *gone_now)
    return replace(picked, choice=ChosenUnits(tuple(sorted(chosen)), left_out, tokens)), taken


def _names_asked(picked: Picked) -> Mapping[int, str]:
    """The units that hold a name of the task, best first, each with the name.

    Of a name that more than `MOST_NAMED` hold only the best is asked for. A task that names
    nothing else asks for its best match where that alone has one of its words.
    """
    request, order = picked.scored.request, [*picked.scored.order()]
    texts = {at: _text_of(request, at) for at in order}
    held: dict[int, str] = {}
    for name in names_said(request.task.text):
        whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        holders = [at for at in order if name in texts[at] and whole.search(texts[at])]
        for at in holders if len(holders) <= MOST_NAMED else holders[:1]:
            held.setdefault(at, name)
    if not held and order:
        folded = [texts[at].casefold() for at in order]
        for word in dict.fromkeys(_WORD.findall(request.task.text.casefold())):
            if word in folded[0] and not any(word in text for text in folded[1:]):
                return {order[0]: word}
    return {at: held[at] for at in order if at in held}


def _text_of(request: SelectionRequest, at: int) -> str:
    unit, items = request.index.units[at], request.index.items
    return "\n".join(
        searched_text(items[place].message) for place in range(unit.first, unit.last + 1)
    )


def _with_pieces(
    base: Choice,
    ground: Ground,
    request: SelectionRequest,
    picked: Picked,
    named: Mapping[int, str],
) -> Choice:
    index, items = ground.session.index, ground.session.index.items
    choice = replace(base, chosen=[], told=[], left_out=[], strategy=picked.strategy)
    choice.note = picked.note or base.note
    choice.reasoning, choice.refused = picked.reasoning, picked.refused
    units = index.units
    places = [
        (place, at)
        for at in picked.choice.chosen
        for place in range(units[at].first, units[at].last + 1)
    ]
    for (place, at), said in zip(places, reasons(picked), strict=True):
        why = said
        if at in named and place == units[at].last:
            why = f"the task asks for {named[at]}; {why}"
        piece = Piece(place, items[place].message, "selected", f"chosen: {why}", items[place])
        choice.chosen.append(piece)
        choice.told.append(_told(picked, ground, place, why))
    left = request.options.max_tokens - picked.choice.tokens
    most = (request.options.max_messages or len(items)) - len(choice.chosen)
    why = "too long for what was left of the budget: its digest"
    for at in picked.choice.left_out:
        unit = range(units[at].first, units[at].last + 1)
        whole = [
            Piece(place, items[place].message, "selected", f"chosen: {why}", items[place])
            for place in unit
        ]
        pieces = [short(piece) for piece in whole]
        tokens = sum(ground.count(piece.message) for piece in pieces)
        if tokens <= left and len(pieces) <= most:
            left, most = left - tokens, most - len(pieces)
            choice.chosen += pieces
            choice.told += [_told(picked, ground, place, why) for place in unit]
        else:
            choice.left_out += [_told(picked, ground, place) for place in unit]
    choice.chosen.sort(key=lambda piece: piece.place)
    seen = {items[piece.place].id for piece in choice.chosen if piece.because is None}
    choice.anchors = without_errors(base.anchors, seen)
    choice.anchor_tokens -= sum(ground.count(piece.message) for piece in base.anchors)
    choice.anchor_tokens += sum(ground.count(piece.message) for piece in choice.anchors)
    choice.told.sort(key=lambda row: ground.session.places[row["id"]])
    return choice


def _told(picked: Picked, ground: Ground, place: int, why: str = "") -> Mapping[str, Any]:
    """A message of a choice for the record: which, its score, its rank by each signal."""
    item = ground.session.index.items[place]
    row: dict[str, Any] = {
        "id": item.id,
        "hash": item.message.content_hash,
        "phase": item.phase,
        "tokens": ground.session.index.tokens_at(place),
        "score": round(float(picked.scored.total[place]), 4),
        "ranks": picked.scored.ranks(place),
    }
    return {**row, "reason": why} if why else row
