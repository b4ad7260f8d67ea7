"""The pieces that a phase that chooses its context sees in any case, and the outline of the rest.

Anchors (input, turns, outputs, callouts, errors) are gathered from what was said before, in session
order; where they take more than there is room for, they are shortened to digests in a settled
order.

The outline is one message of ours that lists what else was said in the session, and what a digest
leaves out: a reference, and the names in it (identifiers, paths, numbers) that nothing else in view
holds. A name that a phase will need is so in sight at a tenth of its message's tokens, and `recall`
brings the rest. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from windlass.cascade.compile import reach
from windlass.cascade.rules import Choosing
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.sources import Gathered, last_said
from windlass.history.base import Outcome, StoredRow
from windlass.history.row_details import ToolResult
from windlass.messages import Message, Role, Text, ToolCall
from windlass.selection.index import Index
from windlass.selection.making import searched_text
from windlass.text.prompts import cut_text, errors_text, outline_header, output_text
from windlass.window.blocks import says_nothing
from windlass.window.digests import chars_of, digest, error_lines, lines_of_failure
from windlass.window.entries import Because, Entry, Item, show
from windlass.window.names import looked_at, names_said
from windlass.window.originals import RECALL, reference
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


@dataclass(frozen=True, slots=True)
class Setting:
    """What a choice is made in: the run, the phase, its rule, and the index of the session.

    `phases` are those that ran before, in order, less those that are excluded; `outcomes` how
    they ended, `rows` those of the session. `gathered` is what the phase's sources brought, `held`
    are the ids that they hold already. `snowball` is all that was said before, `base` what the
    phase can go on from.
    """

    run: CascadeRun
    phase_run: PhaseRun
    rule: Choosing
    index: Index
    phases: Sequence[str]
    outcomes: Mapping[str, Outcome]
    rows: Sequence[StoredRow]
    gathered: Gathered
    held: Collection[str]
    snowball: tuple[Entry, ...]
    base: EarlierView

    def items(self, phase: str) -> list[Item]:
        """Return what was said in a phase."""
        return [item for item in self.index.items if item.phase == phase]

    def count(self, message: Message) -> int:
        """Return the tokens of a message, as the phase's model counts them."""
        return self.phase_run.info.counter.message(message)

    @property
    def role(self) -> Role:
        """The role of messages of ours that tell of the session."""
        return self.rule.anchors.as_role if self.phase_run.info.system_anywhere else "user"


def gather_anchors(setting: Setting) -> list[Piece]:
    """Return the anchors but the input, in session order, each message once."""
    anchors, role = setting.rule.anchors, setting.role
    told = {source.phase for source in setting.phase_run.rule.sources if "output" in source.include}
    by_place: dict[int, Piece] = {}
    own: list[Piece] = []
    places = setting.index.places
    names = [each for word in anchors.from_phases for each in reached(word, setting.phases)]
    for name in dict.fromkeys(names):
        outcome, items = setting.outcomes.get(name), setting.items(name)
        if anchors.window and not (outcome and outcome.hidden):
            spoken = [item for item in items if not says_nothing(item.message)]
            reason = f"anchor: one of the last {anchors.window} turns of {name}"
            for entry in last_turns(show(spoken, ""), anchors.window):
                item, place = entry.item, places[entry.item.id]
                if item.id not in setting.held:
                    by_place[place] = Piece(place, item.message, "window", reason, item)
        output = last_said(items) if "output" in anchors.include else None
        if output is None or name in told or output.id in setting.held:
            continue
        place, reason = places[output.id], f"anchor: the output of {name}"
        if place in by_place:
            by_place[place] = replace(by_place[place], kind="output", reason=reason)
            continue
        status = outcome.status if outcome else "completed"
        text = Text(output_text(name, output.message.text, status))
        own.append(
            Piece(
                setting.index.together(place)[-1],
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
        for piece in _callouts(setting):
            by_place.setdefault(piece.place, piece)
    if "errors" in anchors.include:
        shown = {piece.item.id for piece in by_place.values() if piece.item is not None}
        own += _errors(setting, shown)
    return sorted([*by_place.values(), *own], key=Piece.order)


def reached(word: str, phases: Sequence[str]) -> list[str]:
    """Return the phases among those that ran that a word of `from_phases` stands for."""
    names = reach(word, phases, frozenset())
    return [name for name in names if name in phases]


def _callouts(setting: Setting) -> Iterator[Piece]:
    """Yield messages that were called out, with the calls and results that belong to them."""
    items = setting.index.items
    for ident, name in setting.run.session.callouts.items():
        place = setting.index.places.get(ident)
        if place is None or items[place].phase not in setting.phases:
            continue
        outcome = setting.outcomes.get(items[place].phase or "")
        if outcome is not None and outcome.hidden and items[place].message.role == "tool":
            continue  # of that phase only its output may be seen
        for at in setting.index.together(place):
            item = items[at]
            if item.id not in setting.held and not says_nothing(item.message):
                reason = f"anchor: called out as {name!r}"
                yield Piece(at, item.message, "callout", reason, item)


def _errors(setting: Setting, shown: Collection[str]) -> list[Piece]:
    """Return the last failed calls that nothing else shows, in one message of ours."""
    failed = [
        stored
        for stored in setting.rows
        if (result := ToolResult.read(stored.row)) is not None
        and result.error
        and stored.row.phase in setting.phases
        and stored.id is not None
        and stored.id not in shown
        and stored.id not in setting.held
        and stored.id in setting.index.places
    ][-MOST_ERRORS:]
    if not failed:
        return []
    lines = {str(each.id): _error_line(setting, each, ERROR_TOKENS) for each in failed}
    place = setting.index.together(setting.index.places[str(failed[-1].id)])[-1]
    piece = Piece(place, Message(setting.role, ()), "error", "", what="errors", source="session")
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


def _error_line(setting: Setting, stored: StoredRow, most: int) -> str:
    """A failed call in at most so many tokens: what was called, what it said of the error."""
    message = stored.row.message
    assert message is not None
    place = setting.index.places[str(stored.id)]
    call = call_answered(setting.index, place)
    called = folded_pair(call, None).removesuffix(" -> no result]") + "]" if call else ""
    head = f"{reference(message)} {stored.row.phase} {called}"
    room = most * _CHARS_A_TOKEN
    while True:
        text = lines_of_failure(message, room) or message.text.strip()[:room]
        line = f"{head}\n{text}"
        if room <= _CHARS_A_TOKEN or setting.count(Message("user", (Text(line),))) <= most:
            return line
        room = room * 3 // 4


def call_answered(index: Index, place: int) -> ToolCall | None:
    """Return the call that a result answers; None: it is not there."""
    ident = index.items[place].message.tool_call_id
    caller = index.items[index.together(place)[0]].message
    return next((call for call in caller.tool_calls if call.id == ident), None)


def shortened(setting: Setting, pieces: Sequence[Piece], room: int) -> list[Piece]:
    """Return the anchors within `room` tokens, as far as digests bring them.

    Errors first, then callouts, the turns, and outputs; the oldest of each first.
    """
    shorter = list(pieces)
    total = sum(setting.count(piece.message) for piece in shorter)
    for kind in SHORTENED:
        for at, piece in enumerate(shorter):
            if total <= room:
                return shorter
            if piece.kind != kind:
                continue
            after = _short_errors(piece) if kind == "error" else short(piece)
            saved = setting.count(piece.message) - setting.count(after.message)
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


# ---- the outline -------------------------------------------------------------------------------

ALL_CHARS: Final = 20_000
"""Characters within which all names of one message are told: then what is not there, is nowhere."""
MOST_CHARS: Final = 9_500
"""Characters for a message with more names: telling some of a huge listing is a matter of luck,
and costs every later phase."""
_HEAD_CHARS: Final = 100
_NAME_CHARS_A_TOKEN: Final = 3
"""Names are short tokens: fewer characters each than prose has."""
_LEAST_ROOM: Final = 40


def outline_of(
    setting: Setting,
    places: Sequence[int],
    shown: Iterable[Message],
    room: int,
) -> Piece | None:
    """Return a message that tells of the messages at `places`, within `room` tokens; None: no room.

    `places` are in the order of importance: what comes first gets its names told first. `shown`
    is what the phase sees besides.
    """
    held: set[str] = set()
    for message in shown:
        held.update(names_said(searched_text(message)))
    head = outline_header(can_recall=RECALL.name in setting.phase_run.tools.by_name)
    left = room * _NAME_CHARS_A_TOKEN - len(head)
    lines: dict[int, str] = {}
    for place in places:
        if left < _LEAST_ROOM:
            break
        line, names = _line(setting, place, held, left)
        if line:
            lines[place] = line
            left -= len(line) + 1
            held.update(names)
    while lines:
        text = "\n".join([head, *(lines[at] for at in sorted(lines))])
        message = Message(setting.role, (Text(text),))
        if setting.count(message) <= room:
            ids = tuple(setting.index.items[at].id for at in lines)
            what = "message" if len(lines) == 1 else "messages"
            reason = f"outline: names in {len(lines)} {what} not shown whole"
            return Piece(-1, message, "outline", reason, what="outline", covers=ids)
        for at in list(lines)[-max(1, len(lines) // 8) :]:
            del lines[at]
    return None


def _line(setting: Setting, place: int, held: set[str], left: int) -> tuple[str, Iterable[str]]:
    """What is told of a message, and the names in it that were not in view; empty: nothing."""
    item = setting.index.items[place]
    message, text = item.message, searched_text(item.message)
    left_names = [name for name in names_said(text) if name not in held]
    most = ALL_CHARS if chars_of(left_names) <= ALL_CHARS else MOST_CHARS
    room = min(len(text), most, left - _LEAST_ROOM)
    if room <= 0:
        return "", ()
    lines = error_lines(looked_at(text), min(200, room // 2))
    kept = digest(left_names, room, lines=lines)
    if not kept:
        return "", ()
    who = _called(setting, place) if message.role == "tool" else message.role
    head = f"- {reference(message)} {item.phase} {who}: "
    return head + " ".join(kept.split("\n")), names_said(kept)


def _called(setting: Setting, place: int) -> str:
    """Return the call that a result answers, in short."""
    call = call_answered(setting.index, place)
    if call is None:
        return "tool"
    text = folded_pair(call, None).removeprefix("[Called ").removesuffix(" -> no result]")
    return text if len(text) <= _HEAD_CHARS else f"{text[: _HEAD_CHARS - 3]}..."
