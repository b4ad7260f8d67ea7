"""What a phase could be shown of a session, and what its strategy picks from that.

Asks nobody, records nothing: who is asked, what it is worth and what is shown is `choose.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from windlass.engine.choosing._pieces import Piece, Setting, short, without_errors
from windlass.engine.choosing.session_index import only_repeats, output_alone
from windlass.history.details import NotChosen
from windlass.selection.index import Query
from windlass.selection.making import searched_text
from windlass.selection.rank import ChosenUnits
from windlass.selection.scoring import Picked, SelectionRequest, reasons
from windlass.selection.vectors import MISSING, Embedder
from windlass.window.names import names_said

MOST_NAMED: Final = 3
"""A name that more calls or messages hold says little of where its value stands."""
_WORD: Final = re.compile(r"\w{4,}")
LEAST_CHOSEN: Final = 2_000
"""Tokens that may be chosen however little there is to choose from."""


@dataclass(frozen=True, slots=True)
class AnchorSet:
    """What a phase sees in any case.

    `cap` are the most tokens of anchors and chosen messages together; `input` is the cascade's
    input (None: it is no anchor), `pieces` are the other anchors, `tokens` those of all, of the
    phase's sources too. `warning` says that they took too much (empty: they did not).
    """

    cap: int
    input: Piece | None
    pieces: Sequence[Piece]
    tokens: int
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be chosen: how many messages and tokens, and the request to the strategy.

    `request` None: nothing is left to choose from, or no room. `note` says why the strategy that
    was asked for cannot be had (empty: it can).
    """

    count: int
    tokens: int
    request: SelectionRequest | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a phase is to see, and why.

    `told` says of each chosen message, and `left_out` of the best that did not fit, its score
    and its ranks. `strategy` is what chose, `note` why that is not what was asked for;
    `reasoning` is what a model said of its choice, `refused` what it named beside the menu.
    `order` lists what could be chosen and is not shown, the best first, `not_chosen` why each is
    not; `outline` tells of it name by name.
    """

    anchors: AnchorSet
    strategy: str = "anchors"
    note: str = ""
    chosen: Sequence[Piece] = ()
    told: Sequence[Mapping[str, Any]] = ()
    left_out: Sequence[Mapping[str, Any]] = ()
    reasoning: str = ""
    refused: tuple[str, ...] = ()
    order: Sequence[int] = ()
    not_chosen: Sequence[NotChosen] = ()
    outline: Piece | None = None

    def in_order(self) -> list[Piece]:
        """Anchors and chosen messages in session order, each once."""
        seen: set[str] = set()
        pieces: list[Piece] = []
        outline = [] if self.outline is None else [self.outline]
        all_of_them = [*outline, *self.anchors.pieces, *self.chosen]
        for piece in sorted(all_of_them, key=Piece.order):
            ident = piece.item.id if piece.item is not None else ""
            if ident and ident in seen:
                continue
            seen.add(ident)
            pieces.append(piece)
        return pieces


def candidates_of(
    setting: Setting, anchors: AnchorSet, task: Query, embedder: Embedder | None
) -> Candidates:
    """Return what may be chosen for a task, and in how much room."""
    rule, index = setting.rule, setting.index
    among = _among(setting, anchors.pieces)
    count = sum(among)
    tokens = sum(index.tokens_at(place) for place, may in enumerate(among) if may)
    left = anchors.cap - anchors.tokens
    # Where the cap holds less than both shares, chosen messages and names have it in proportion.
    room = int(left * rule.share / (rule.share + rule.outline))
    room = min(left, max(LEAST_CHOSEN, min(room, int(rule.share * tokens))))
    if not count or room <= 0:
        return Candidates(count, tokens)
    options, note = replace(rule.selection, max_tokens=room), ""
    if options.strategy == "semantic" and embedder is None:
        options = replace(options, strategy="heuristic")
        note = f"by keywords alone: {MISSING}"
    callouts = setting.run.session.callouts
    marked = [index.places[ident] for ident in callouts if ident in index.places]
    request = SelectionRequest(index, task, options, embedder, among=among, callouts=marked)
    return Candidates(count, tokens, request, note)


def _among(setting: Setting, anchors: Sequence[Piece]) -> list[bool]:
    """Of each message of the session, whether it may be chosen: what is no anchor already."""
    items = setting.index.items
    taken = {piece.item.id for piece in anchors if piece.item is not None}
    outputs = {piece.source for piece in anchors if piece.what == "output"}
    alone = {name: output_alone(items, name) for name in setting.phases}
    taken |= {item.id for name in outputs for item in alone.get(name, ())}
    hidden = {name for name, outcome in setting.outcomes.items() if outcome.hidden}
    return [
        item.phase in setting.phases
        and item.id not in taken
        and item.id not in setting.held
        and not only_repeats(setting.index, place)
        and (item.phase not in hidden or item in alone[item.phase])
        for place, item in enumerate(items)
    ]


def choice_of(anchors: AnchorSet, setting: Setting, picked: Picked) -> Choice:
    """The choice with what was picked; what is too long for the rest of the room, as a digest.

    What the task asks for by name is in it whole, where the cap holds it.
    """
    picked, named = _with_named(picked, anchors.cap - anchors.tokens)
    request, index = picked.scored.request, setting.index
    units, chosen, told = index.units, list[Piece](), list[Mapping[str, Any]]()
    places = [(place, at) for at in picked.choice.chosen for place in units[at].places]
    for (place, at), why in zip(places, reasons(picked), strict=True):
        asked = at in named and place == units[at].last
        because = f"the task asks for {named[at]}; {why}" if asked else why
        chosen.append(_piece(setting, place, because))
        told.append(_told(picked, place, because))
    left = request.options.max_tokens - picked.choice.tokens
    most = (request.options.max_messages or len(index)) - len(chosen)
    because = "too long for what was left of the budget: its digest"
    left_out: list[Mapping[str, Any]] = []
    for at in picked.choice.left_out:
        digests = [short(_piece(setting, place, because)) for place in units[at].places]
        tokens = sum(setting.count(piece.message) for piece in digests)
        if tokens <= left and len(digests) <= most:
            left, most = left - tokens, most - len(digests)
            chosen += digests
            told += [_told(picked, place, because) for place in units[at].places]
        else:
            left_out += [_told(picked, place) for place in units[at].places]
    chosen.sort(key=lambda piece: piece.place)
    order = _places_left(chosen, picked)
    return Choice(
        _without_told(anchors, setting, chosen),
        strategy=picked.strategy,
        note=picked.note,
        chosen=chosen,
        told=sorted(told, key=lambda row: index.places[row["id"]]),
        left_out=left_out,
        reasoning=picked.reasoning,
        refused=picked.refused,
        order=order,
        not_chosen=_not_chosen(order, picked),
    )


def _piece(setting: Setting, place: int, why: str) -> Piece:
    item = setting.index.items[place]
    return Piece(place, item.message, "selected", f"chosen: {why}", item)


def _without_told(anchors: AnchorSet, setting: Setting, chosen: Sequence[Piece]) -> AnchorSet:
    """Return the anchors without the errors of results that are chosen whole."""
    seen = {piece.item.id for piece in chosen if piece.item is not None and piece.because is None}
    pieces = without_errors(anchors.pieces, seen)
    less = sum(setting.count(piece.message) for piece in anchors.pieces)
    less -= sum(setting.count(piece.message) for piece in pieces)
    return replace(anchors, pieces=pieces, tokens=anchors.tokens - less)


def _told(picked: Picked, place: int, why: str = "") -> Mapping[str, Any]:
    """Return a message of a choice for the record: which, its score, its rank by each signal."""
    index = picked.scored.request.index
    item = index.items[place]
    row: dict[str, Any] = {
        "id": item.id,
        "hash": item.message.content_hash,
        "phase": item.phase,
        "tokens": index.tokens_at(place),
        "score": round(float(picked.scored.total[place]), 4),
        "ranks": picked.scored.ranks(place),
    }
    return {**row, "reason": why} if why else row


# ---- what is not chosen ------------------------------------------------------------------


def shortened_places(choice: Choice, setting: Setting) -> list[int]:
    """The messages that are shown as digests, which leave names out: the chosen ones first."""
    pieces = [*choice.chosen, *choice.anchors.pieces]
    short_ones = [piece for piece in pieces if piece.because == "digest"]
    idents = (piece.covers if piece.item is None else (piece.item.id,) for piece in short_ones)
    return list(dict.fromkeys(setting.index.places[ident] for group in idents for ident in group))


def _places_left(chosen: Sequence[Piece], picked: Picked) -> list[int]:
    """Return the messages that could be chosen and were not, the best first."""
    taken = {piece.place for piece in chosen}
    units, among = picked.scored.request.index.units, picked.scored.request.among
    scored = [place for at in picked.scored.order() for place in units[at].places]
    rest = [place for place in range(units.messages) if among is None or among[place]]
    return [place for place in dict.fromkeys([*scored, *rest[::-1]]) if place not in taken]


def _not_chosen(order: Sequence[int], picked: Picked) -> list[NotChosen]:
    """Score and rank of what could be chosen and was not, and why it was not."""
    request = picked.scored.request
    units, most = request.index.units, request.options.max_messages
    ranks = {at: rank for rank, at in enumerate(picked.scored.order(), start=1)}
    chosen = {units.said[at] for at in picked.choice.chosen if units.said[at]}
    count = sum(units[at].size for at in picked.choice.chosen)

    def because(at: int) -> Literal["budget", "limit", "threshold", "repeat", "model"]:
        if at not in ranks:
            return "threshold"
        if units.said[at] in chosen:
            return "repeat"
        if picked.asked and at not in picked.asked:
            return "model"
        return "limit" if most is not None and count + units[at].size > most else "budget"

    return [
        NotChosen(
            request.index.items[place].id,
            round(float(picked.scored.total[place]), 4),
            ranks.get(at),
            because(at),
        )
        for place in order
        for at in [units.holding(place)]
    ]


# ---- what the task asks for by name ------------------------------------------------------


def _with_named(picked: Picked, budget: int) -> tuple[Picked, Mapping[int, str]]:
    """What was picked, with the units that the task asks for by name; and these, with the name.

    They are taken where `budget` holds them, the best first, and what scores least makes room for
    them: a value that is asked for stands in one message whole, not in the digests of several.
    """
    request, choice = picked.scored.request, picked.choice
    units, scores = request.index.units, picked.scored.by_unit
    chosen, tokens = dict.fromkeys(choice.chosen), choice.tokens
    count = sum(units[at].size for at in chosen)
    taken: dict[int, str] = {}
    for at, name in _names_asked(picked).items():
        if at in chosen:
            taken[at] = name
            continue
        unit, gone = units[at], list[int]()
        left, places = budget - tokens, (request.options.max_messages or count + unit.size) - count
        others = [each for each in chosen if each not in taken]
        for other in sorted(others, key=lambda each: scores[each]):
            if unit.tokens <= left and unit.size <= places:
                break
            gone.append(other)
            left += units[other].tokens
            places += units[other].size
        if unit.tokens > left or unit.size > places:
            continue
        for other in gone:
            del chosen[other]
        chosen[at], taken[at] = None, name
        tokens = budget - left + unit.tokens
        count += unit.size - sum(units[each].size for each in gone)
    if not taken.keys() - set(choice.chosen):
        return picked, taken
    left_out = [at for at in (*choice.left_out, *choice.chosen) if at not in chosen]
    with_named = ChosenUnits(tuple(sorted(chosen)), tuple(left_out), tokens)
    return replace(picked, choice=with_named), taken


def _names_asked(picked: Picked) -> Mapping[int, str]:
    """Return the units that hold a name of the task, best first, each with the name.

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
    index = request.index
    return "\n".join(searched_text(index.items[place].message) for place in index.units[at].places)
