"""What is not shown whole, told name by name.

One message of ours lists what else was said in the session, and what a digest leaves out: a
reference, and the names in it (identifiers, paths, numbers) that nothing else in view holds. A
name that a phase will need is so in sight at a tenth of its message's tokens, and `recall` brings
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from windlass.engine.choosing._anchors import ChoosingView, Piece, call_answered
from windlass.messages import Message, Role, Text
from windlass.selection.making import searched_text
from windlass.text.prompts import outline_header
from windlass.window.digests import chars_of, digest, error_lines
from windlass.window.names import looked_at, names_said
from windlass.window.originals import reference
from windlass.window.replayed import folded_pair

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
    view: ChoosingView,
    places: Sequence[int],
    shown: Iterable[Message],
    room: int,
    role: Role,
    *,
    can_recall: bool,
) -> Piece | None:
    """Return a message that tells of the messages at `places`, within `room` tokens; None: no room.

    `places` are in the order of importance: what comes first gets its names told first. `shown`
    is what the phase sees besides.
    """
    held: set[str] = set()
    for message in shown:
        held.update(names_said(searched_text(message)))
    head = outline_header(can_recall=can_recall)
    left = room * _NAME_CHARS_A_TOKEN - len(head)
    lines: dict[int, str] = {}
    for place in places:
        if left < _LEAST_ROOM:
            break
        line, names = _line(view, place, held, left)
        if line:
            lines[place] = line
            left -= len(line) + 1
            held.update(names)
    while lines:
        message = Message(role, (Text("\n".join([head, *(lines[at] for at in sorted(lines))])),))
        if view.count(message) <= room:
            ids = tuple(view.index.items[at].id for at in lines)
            what = "message" if len(lines) == 1 else "messages"
            reason = f"outline: names in {len(lines)} {what} not shown whole"
            return Piece(-1, message, "outline", reason, what="outline", covers=ids)
        for at in list(lines)[-max(1, len(lines) // 8) :]:
            del lines[at]
    return None


def _line(view: ChoosingView, place: int, held: set[str], left: int) -> tuple[str, Iterable[str]]:
    """What is told of a message, and the names in it that were not in view; empty: nothing."""
    item = view.index.items[place]
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
    who = _called(view, place) if message.role == "tool" else message.role
    head = f"- {reference(message)} {item.phase} {who}: "
    return head + " ".join(kept.split("\n")), names_said(kept)


def _called(view: ChoosingView, place: int) -> str:
    """Return the call that a result answers, in short."""
    call = call_answered(view.index, place)
    if call is None:
        return "tool"
    text = folded_pair(call, None).removeprefix("[Called ").removesuffix(" -> no result]")
    return text if len(text) <= _HEAD_CHARS else f"{text[: _HEAD_CHARS - 3]}..."
