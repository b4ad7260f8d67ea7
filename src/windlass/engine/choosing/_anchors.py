"""What a phase that chooses its context sees in any case: input, turns, outputs, callouts, errors.

Gathered from what was said before, in session order; where it takes more than there is room for,
it is shortened to digests in a settled order. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from windlass.cascade.compile import reach
from windlass.cascade.rules import Anchors
from windlass.engine.phase.sources import last_said
from windlass.history.base import Outcome, StoredRow
from windlass.history.row_details import ToolResult
from windlass.messages import Message, Role, Text, ToolCall
from windlass.selection.index import Index
from windlass.text.prompts import cut_text, errors_text, output_text
from windlass.window.blocks import says_nothing
from windlass.window.digests import digest, error_lines, lines_of_failure
from windlass.window.entries import Because, Item, show
from windlass.window.names import looked_at, names_said
from windlass.window.originals import reference
from windlass.window.policies.digest import rewritten_parts
from windlass.window.replayed import folded_pair, last_turns

Kind: TypeAlias = Literal["input", "error", "callout", "window", "output", "selected", "outline"]
"""What brought a message."""

SHORTENED: Final[Sequence[Kind]] = ("error", "callout", "window", "output")
"""The order in which anchors are shortened where they take too much; the input never is."""
MOST_ERRORS: Final = 5
ERROR_TOKENS: Final = 200
_ERROR_SHORT: Final = 50
_CHARS_A_TOKEN: Final = 4
_SHARE: Final = 0.3
"""The share of its characters that a digest may have."""
_ERROR_CHARS: Final = 400
"""Characters of error lines in a digest."""
_MOST_CHARS: Final = 2_000
_LEAST_CHARS: Final = 200
"""Texts of fewer characters stay."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A message that is to be shown: `place` in the session, `item` the occurrence it shows.

    What is told of a message stands behind its unit, so that no pair is torn.

    `item` None: it is a message of ours that tells of the session (`what`, of `source`).
    `because` names what shortened it; `original` is what `recall` gives back for it, `covers` are
    the ids of what it tells of, and `lines` what an error message tells of each of them.
    """

    place: int
    message: Message
    kind: Kind
    reason: str
    item: Item | None = None
    because: Because | None = None
    what: str = ""
    source: str = ""
    original: Message | None = None
    covers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def order(self) -> tuple[int, bool]:
        """Return what pieces are sorted by: their place, and what is told of it behind it."""
        return self.place, self.item is None and self.place >= 0


@dataclass(frozen=True, slots=True)
class ChoosingView:
    """What anchors are gathered from.

    `phases` are those that ran before, in order, less those that are excluded; `outcomes` how
    they ended. `rows` are those of the session, `callouts` the names of marked messages by id,
    `held` the ids that the phase's sources hold already.
    """

    index: Index
    phases: Sequence[str]
    outcomes: Mapping[str, Outcome]
    rows: Sequence[StoredRow]
    callouts: Mapping[str, str]
    held: Collection[str]
    count: Callable[[Message], int]

    def items(self, phase: str) -> list[Item]:
        """Return what was said in a phase."""
        return [item for item in self.index.items if item.phase == phase]


def gather_anchors(
    view: ChoosingView, anchors: Anchors, role: Role, shown_of: Collection[str]
) -> list[Piece]:
    """Return the anchors but the input, in session order, each message once.

    `role` is that of messages of ours; the outputs of phases in `shown_of` are told already.
    """
    by_place: dict[int, Piece] = {}
    own: list[Piece] = []
    places = view.index.places
    names = [each for word in anchors.from_phases for each in reached(word, view.phases)]
    for name in dict.fromkeys(names):
        outcome, items = view.outcomes.get(name), view.items(name)
        if anchors.window and not (outcome and outcome.hidden):
            spoken = [item for item in items if not says_nothing(item.message)]
            reason = f"anchor: one of the last {anchors.window} turns of {name}"
            for entry in last_turns(show(spoken, ""), anchors.window):
                item, place = entry.item, places[entry.item.id]
                if item.id not in view.held:
                    by_place[place] = Piece(place, item.message, "window", reason, item)
        output = last_said(items) if "output" in anchors.include else None
        if output is None or name in shown_of or output.id in view.held:
            continue
        place, reason = places[output.id], f"anchor: the output of {name}"
        if place in by_place:
            by_place[place] = replace(by_place[place], kind="output", reason=reason)
            continue
        status = outcome.status if outcome else "completed"
        text = Text(output_text(name, output.message.text, status))
        own.append(
            Piece(
                view.index.together(place)[-1],
                Message(role, (text,)),
                "output",
                reason,
                what="output",
                source=name,
                original=output.message,
                covers=(output.id,),
            )
        )
    if "callouts" in anchors.include:
        for piece in _callouts(view):
            by_place.setdefault(piece.place, piece)
    if "errors" in anchors.include:
        shown = {piece.item.id for piece in by_place.values() if piece.item is not None}
        own += _errors(view, role, shown)
    return sorted([*by_place.values(), *own], key=Piece.order)


def reached(word: str, phases: Sequence[str]) -> list[str]:
    """Return the phases among those that ran that a word of `from_phases` stands for."""
    names = reach(word, phases, frozenset())
    return [name for name in names if name in phases]


def _callouts(view: ChoosingView) -> Iterator[Piece]:
    """Yield messages that were called out, with the calls and results that belong to them."""
    items = view.index.items
    for ident, name in view.callouts.items():
        place = view.index.places.get(ident)
        if place is None or items[place].phase not in view.phases:
            continue
        outcome = view.outcomes.get(items[place].phase or "")
        if outcome is not None and outcome.hidden and items[place].message.role == "tool":
            continue  # of that phase only its output may be seen
        for at in view.index.together(place):
            item = items[at]
            if item.id not in view.held and not says_nothing(item.message):
                reason = f"anchor: called out as {name!r}"
                yield Piece(at, item.message, "callout", reason, item)


def _errors(view: ChoosingView, role: Role, shown: Collection[str]) -> list[Piece]:
    """Return the last failed calls that nothing else shows, in one message of ours."""
    failed = [
        stored
        for stored in view.rows
        if (result := ToolResult.read(stored.row)) is not None
        and result.error
        and stored.row.phase in view.phases
        and stored.id is not None
        and stored.id not in shown
        and stored.id not in view.held
        and stored.id in view.index.places
    ][-MOST_ERRORS:]
    if not failed:
        return []
    lines = {str(each.id): _error_line(view, each, ERROR_TOKENS) for each in failed}
    place = view.index.together(view.index.places[str(failed[-1].id)])[-1]
    piece = Piece(place, Message(role, ()), "error", "", what="errors", source="session")
    return [_telling(piece, lines)]


def _telling(piece: Piece, lines: Mapping[str, str]) -> Piece:
    """Return the message of errors with these lines, by the ids of the failed calls."""
    message = piece.message.with_parts(Text(errors_text([*lines.values()])))
    last = f"the last {len(lines)} errors" if len(lines) > 1 else "the last error"
    covers, told = tuple(lines), tuple(lines.values())
    return replace(piece, message=message, reason=f"anchor: {last}", covers=covers, lines=told)


def without_errors(pieces: Iterable[Piece], shown: Collection[str]) -> list[Piece]:
    """Return the pieces without the errors of results that are shown besides, by their ids."""
    left: list[Piece] = []
    for piece in pieces:
        told = dict(zip(piece.covers, piece.lines, strict=False))
        lines = {ident: line for ident, line in told.items() if ident not in shown}
        if len(lines) == len(told):
            left.append(piece)
        elif lines:
            left.append(_telling(piece, lines))
    return left


def _error_line(view: ChoosingView, stored: StoredRow, most: int) -> str:
    """A failed call in at most so many tokens: what was called, what it said of the error."""
    message = stored.row.message
    assert message is not None
    place = view.index.places[str(stored.id)]
    call = call_answered(view.index, place)
    called = folded_pair(call, None).removesuffix(" -> no result]") + "]" if call else ""
    head = f"{reference(message)} {stored.row.phase} {called}"
    room = most * _CHARS_A_TOKEN
    while True:
        text = lines_of_failure(message, room) or message.text.strip()[:room]
        line = f"{head}\n{text}"
        if room <= _CHARS_A_TOKEN or view.count(Message("user", (Text(line),))) <= most:
            return line
        room = room * 3 // 4


def call_answered(index: Index, place: int) -> ToolCall | None:
    """Return the call that a result answers; None: it is not there."""
    ident = index.items[place].message.tool_call_id
    caller = index.items[index.together(place)[0]].message
    return next((call for call in caller.tool_calls if call.id == ident), None)


def shortened(view: ChoosingView, pieces: Sequence[Piece], room: int) -> list[Piece]:
    """Return the anchors within `room` tokens, as far as digests bring them.

    Errors first, then callouts, the turns, and outputs; the oldest of each first.
    """
    shorter = list(pieces)
    total = sum(view.count(piece.message) for piece in shorter)
    for kind in SHORTENED:
        for at, piece in enumerate(shorter):
            if total <= room:
                return shorter
            if piece.kind != kind:
                continue
            after = _short_errors(piece) if kind == "error" else short(piece)
            saved = view.count(piece.message) - view.count(after.message)
            if saved > 0:
                shorter[at], total = after, total - saved
    return shorter


def _short_errors(piece: Piece) -> Piece:
    """Return the same errors in a line each."""
    room = _ERROR_SHORT * _CHARS_A_TOKEN
    lines = [cut_text(" ".join(line.split()), room) for line in piece.lines]
    return _telling(piece, dict(zip(piece.covers, lines, strict=True)))


def short(piece: Piece) -> Piece:
    """Return a message as its digest; what a user said, and what is short, stays as it is."""
    message, text = piece.message, piece.message.text
    if len(text) < _LEAST_CHARS or (message.role == "user" and piece.item is not None):
        return piece
    room = min(int(len(text) * _SHARE), _MOST_CHARS)
    original = piece.original or (piece.item.message if piece.item else message)
    back = reference(original)
    if message.role == "tool":
        lines = lines_of_failure(original, _ERROR_CHARS) or error_lines(
            looked_at(text), min(_ERROR_CHARS, room)
        )
        kept = digest(list(names_said(text)), room, lines=lines)
        head = f"[{message.name or 'tool'}, {len(text)} chars: {back}]"
    else:
        kept = cut_text(text, room)
        head = f"[{len(text)} chars, cut; {back}]"
    after = message.with_parts(*rewritten_parts(message, f"{head}\n{kept}" if kept else head))
    return replace(piece, message=after, because="digest", reason=f"{piece.reason}; shortened")
