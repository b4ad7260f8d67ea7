"""Long results are cut to what was asked for, before they are sent for the first time.

Each kind of result has a size above which it is cut and a size that it keeps. It keeps its first
and last lines, its errors, the lines near the words of the call and of the task, and every
identifier that nothing else in view holds. Files that were read stay whole, because edits quote
them. Results of `recall` are not cut again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from windlass.messages import Part, Text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._cutting import cut, query_of
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._references import without_marks
from windlass.window._shown_lines import starts_of
from windlass.window.digests import ORDER, PATHS_FIRST, digest
from windlass.window.encode import is_encoded
from windlass.window.entries import Entry
from windlass.window.kinds import DATA, Kind, plain_name
from windlass.window.names import names_said
from windlass.window.originals import RECALL
from windlass.window.reruns import lines_left_out

Cut: TypeAlias = Literal["mild", "firm"]

REASON: Final = "a long result, cut to what was asked for"
_Kind: TypeAlias = Kind | Literal["edit"]
"""An edit is what a tool shows of a file that it changed."""
_SIZES: Final[Mapping[Cut, Mapping[_Kind, tuple[int, int]]]] = {
    "mild": {
        **dict.fromkeys(("json", "api"), (1_500, 1_500)),
        **dict.fromkeys(("table", "text", "page", "command", "log", "diff"), (1_500, 1_200)),
        **dict.fromkeys(("test", "build", "listing", "search"), (800, 600)),
        "edit": (400, 300),
    },
    "firm": {
        **dict.fromkeys(("json", "api"), (700, 700)),
        **dict.fromkeys(("table", "text", "page", "search", "listing", "test"), (400, 300)),
        **dict.fromkeys(("command", "log", "diff"), (1_000, 700)),
        "build": (500, 350),
        "edit": (250, 150),
    },
}
"""For each kind, the tokens above which a result is cut and the tokens that it keeps; no files."""
_WORTH: Final = 0.8
"""A cut leaves at most this share of a text; otherwise the text stays."""
_PROGRAMS: Final[frozenset[Kind]] = frozenset({"command", "test", "build", "log"})
"""Kinds that programs write."""
_RECORDS: Final[frozenset[Kind]] = DATA - {"search"} | {"listing"}
"""Kinds of which every name is one; of the output of programs numbers and dates are none."""
_MOST_LOST: Final = 5_000
"""The number of first names of a text that are examined: more than a digest can hold."""
_FIRST_CELL: Final = re.compile(r"^[|\s]*([^,|\t\n]{1,200})", re.MULTILINE)
_NAMES: Final[Mapping[_Kind, int]] = {
    **dict.fromkeys(_RECORDS - {"table"}, 4),
    "listing": 6,
}
"""How many times the room of a cut the names may take that it leaves out (others: once)."""


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Cuts results that no call has seen."""

    cuts: Cut = "mild"
    name: str = "cuts"

    @property
    def _least(self) -> int:
        return CHARS_A_TOKEN * min(above for above, _ in _SIZES[self.cuts].values())

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The new results that are longer than their kind may be, each in its cut form."""
        for at in pending.fresh:
            entry = pending.entry(at)
            if entry is None or entry.item.message.role != "tool" or pending.pinned(at):
                continue
            call = pending.call(at)
            recalled = call is not None and plain_name(call.name) == RECALL.name
            if recalled or pending.asked_again(at) or entry.message.chars <= self._least:
                continue
            parts = [self._part(pending, at, entry, part) for part in entry.message.parts]
            if any(new is not old for new, old in zip(parts, entry.message.parts, strict=True)):
                yield Proposal((at,), "compress", REASON, entry.message.with_parts(*parts))

    def _part(self, pending: PendingEdits, at: int, entry: Entry, part: Part) -> Part:
        if not isinstance(part, Text):
            return part
        text = part.text
        kind = self._kind(pending, at, text)
        above, keep = _SIZES[self.cuts].get(kind, (0, 0))
        if not above or len(text) <= above * CHARS_A_TOKEN:
            return part
        room = keep * CHARS_A_TOKEN
        starts = None if is_encoded(text) else starts_of(entry, text)
        shown = cut(text, room, _query(pending, at), output=kind in _PROGRAMS, starts=starts)
        order = PATHS_FIRST if kind == "listing" else ORDER
        names = _names(pending, at, kind, text, shown)
        also = f" Also in it: {digest(names, _NAMES.get(kind, 1) * room, order=order)}"
        chars = pending.original(at).chars
        left_out = partial(lines_left_out, text, shown, starts)
        hint = pending.recall_hint(at, part=True, lines=left_out)
        end = f"[Cut from {chars:,} characters: {hint}]"
        made = f"{shown.rstrip()}\n{end}{also * bool(names)}"
        return Text(made) if len(made) <= _WORTH * len(text) else part

    def _kind(self, pending: PendingEdits, at: int, text: str) -> _Kind:
        touched = pending.touched(at)
        if touched.writes and not touched.reads:
            return "edit"
        original = pending.original(at).text
        return pending.kind(at, original if is_encoded(text) else text)


def _names(pending: PendingEdits, at: int, kind: _Kind, text: str, shown: str) -> Sequence[str]:
    """The names that a cut leaves out, and that nothing else in view holds."""
    there = names_said(shown)
    # Of a table the first cells of its rows: a cell tells nothing without its row.
    read = "\n".join(_FIRST_CELL.findall(without_marks(text))) if kind == "table" else text
    names = [name for name in names_said(read) if name not in there]
    if kind not in _RECORDS:  # of what programs write no numbers and dates
        names = [name for name in names if name.lower() != name.upper()]
    lost = pending.names_held_only((at,), names[:_MOST_LOST])
    return [name for name in lost if name not in shown]


def _query(pending: PendingEdits, at: int) -> Mapping[str, float]:
    """What the result was asked for with: the call, the words before it, the task."""
    texts: list[tuple[str, float]] = []
    call, caller = pending.call(at), pending.caller(at)
    if call is not None:
        texts.append((call.arguments, 3.0))
    if caller is not None:
        texts.append((pending.original(caller).text, 2.0))
    users = {pending.last_user, pending.first_user} - {-1}
    texts += [(pending.original(place).text, 1.0) for place in sorted(users)]
    return query_of(texts)
