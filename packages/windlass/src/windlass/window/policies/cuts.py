"""Long results are cut before they are sent for the first time: what is alike is counted.

Each kind of result has a size above which it is cut and a size that it keeps. It keeps what is
surprising in it, what reports a failure, what is near the words of the call and of the task, and
every identifier that nothing else in view holds. Of a command that ran before it keeps what is new.
Files that were read stay whole, because edits quote them. Results of `recall` are not cut again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from windlass.messages import Part, Text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._references import without_marks
from windlass.window._shown_lines import starts_of
from windlass.window.digests import ORDER, PATHS_FIRST, digest
from windlass.window.encode import is_encoded
from windlass.window.encode.command_output import clean
from windlass.window.entries import Entry
from windlass.window.kinds import DATA, Kind, plain_name
from windlass.window.names import names_said
from windlass.window.originals import RECALL
from windlass.window.reruns import lines_left_out
from windlass.window.shorten import CUT, RequestTexts, shorten

Cut: TypeAlias = Literal["mild", "firm"]

REASON: Final = "a long result, cut to what was asked for"
_Kind: TypeAlias = Kind | Literal["edit"]
"""An edit is what a tool shows of a file that it changed."""
SIZES: Final[Mapping[Cut, Mapping[_Kind, tuple[int, int]]]] = {
    "mild": {
        **dict.fromkeys(("json", "api"), (1_000, 1_000)),
        **dict.fromkeys(("command", "log", "table", "page"), (1_000, 700)),
        **dict.fromkeys(("text", "diff"), (1_500, 1_200)),
        **dict.fromkeys(("build", "search"), (800, 600)),
        "test": (1_000, 800),
        "listing": (500, 350),
        "edit": (400, 300),
    },
    "firm": {
        **dict.fromkeys(("json", "api"), (500, 500)),
        **dict.fromkeys(("table", "text", "page", "search", "listing", "test"), (400, 300)),
        **dict.fromkeys(("command", "log"), (600, 450)),
        "diff": (1_000, 700),
        "build": (500, 350),
        "edit": (250, 150),
    },
}
"""For each kind, the tokens above which a result is cut and the tokens that it keeps; no files."""
_WORTH: Final = 0.8
"""A cut leaves at most this share of a text; otherwise the text stays."""
_RECORDS: Final[frozenset[Kind]] = DATA - {"search"} | {"listing"}
"""Kinds of which every name is one; of the output of programs numbers and dates are none."""
_NEWS: Final[frozenset[_Kind]] = frozenset({"test", "diff", "table"})
"""Kinds of which names are told only from lines that are not like others."""
_MOST_LOST: Final = 5_000
"""The number of first names of a text that are examined: more than a digest can hold."""
_FIRST_CELL: Final = re.compile(r"^[|\s]*([^,|\t\n]{1,200})", re.MULTILINE)
_UNUSED: Final = re.compile(
    r"\W*\d{4}-\d\d-\d\d[T_ ]?\d\d:?\d\d.*|\W*\d\d?:\d\d(?::\d\d.*)?[ap]?m?"  # moments
    r"|u[0-9a-f]{4}"  # escapes
    r"|v?\d+(?:\.\d+)+(?:[-+~.]\w[\w.+~-]*)?|[A-Za-z][\w-]*[-@]v?\d+\.\d+\.[\w.+~-]*"  # versions
    r"|(?=\S*[a-z])(?=\S*[A-Z])(?=\S*\d)[\w+/-]{24,}={0,2}"  # pieces of data, told by `_is_data`
)
"""Names that no later call of an agent uses."""
_SWITCH: Final = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])")
_LONG: Final = 24
_DATA_SHARE: Final = 0.2
"""Changes between letters, capitals and digits, a character, from which on a name is data."""
_NAMES: Final[Mapping[_Kind, int]] = {
    **dict.fromkeys(_RECORDS - {"table"}, 4),
    "listing": 8,
}
"""How many times the room of a cut the names may take that it leaves out (others: once)."""


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Cuts results that no call has seen."""

    cuts: Cut = "mild"
    name: str = "cuts"

    @property
    def _least(self) -> int:
        return CHARS_A_TOKEN * min(above for above, _ in SIZES[self.cuts].values())

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the new results that are longer than their kind may be, each in its cut form."""
        for at, entry in new_results(pending):
            if entry.message.chars <= self._least:
                continue
            parts = [self._part(pending, at, entry, part) for part in entry.message.parts]
            if any(new is not old for new, old in zip(parts, entry.message.parts, strict=True)):
                yield Proposal((at,), "compress", REASON, entry.message.with_parts(*parts))

    def _part(self, pending: PendingEdits, at: int, entry: Entry, part: Part) -> Part:
        if not isinstance(part, Text):
            return part
        text = part.text
        kind = self._kind(pending, at, text)
        above, keep = SIZES[self.cuts].get(kind, (0, 0))
        if not above or len(text) <= above * CHARS_A_TOKEN:
            return part
        room = keep * CHARS_A_TOKEN
        starts = None if is_encoded(text) else starts_of(entry, text)
        made = shorten(
            text,
            room,
            asked_for(pending, at),
            kind="text" if kind == "edit" else kind,
            starts=starts,
            before=_before(pending, at),
        )
        order = PATHS_FIRST if kind == "listing" else ORDER
        whole = kind not in _NEWS and made.told == CUT
        names = _names(pending, at, kind, text if whole else made.left, made.text)
        also = f" Also in it: {digest(names, _NAMES.get(kind, 1) * room, order=order)}"
        chars = pending.original(at).chars
        left_out = partial(lines_left_out, text, made.text, starts)
        hint = pending.recall_hint(at, part=True, lines=left_out)
        end = f"[{made.told} from {chars:,} characters: {hint}]"
        said = f"{made.text.rstrip()}\n{end}{also * bool(names)}"
        return Text(said) if len(said) <= _WORTH * len(text) else part

    def _kind(self, pending: PendingEdits, at: int, text: str) -> _Kind:
        access = pending.file_access(at)
        if access.writes and not access.reads:
            return "edit"
        original = pending.original(at).text
        return pending.kind(at, original if is_encoded(text) else text)


def _names(pending: PendingEdits, at: int, kind: _Kind, text: str, shown: str) -> Sequence[str]:
    """Return the names that a cut leaves out, and that nothing else in view holds."""
    there = names_said(shown)
    # Of a table the first cells of its rows: a cell tells nothing without its row.
    read = "\n".join(_FIRST_CELL.findall(without_marks(text))) if kind == "table" else text
    names = [name for name in names_said(read) if name not in there]
    if kind not in _RECORDS:  # of what programs write no numbers and dates
        names = [name for name in names if name.lower() != name.upper() and _is_used(name)]
    lost = pending.names_held_only((at,), names[:_MOST_LOST])
    return [name for name in lost if name not in shown]


def _is_used(name: str) -> bool:
    """Return whether a later call may name it: no moment, no version, no piece of data, no dots."""
    letters = sum(map(str.isalnum, name))
    if 2 * letters < len(name):
        return False
    if not _UNUSED.fullmatch(name):
        return True
    is_long = len(name) >= _LONG and not name[0].isdigit() and "." not in name
    return is_long and len(_SWITCH.findall(name)) < _DATA_SHARE * len(name)


def new_results(pending: PendingEdits) -> Iterable[tuple[int, Entry]]:
    """Yield the results that may be cut, by position.

    No call has seen them, and nobody wants them whole.

    Those that `recall` brought back stay, and those of calls that are repeated for what was cut.
    """
    for at in pending.fresh:
        entry, call = pending.entry(at), pending.call(at)
        if entry is None or entry.item.message.role != "tool" or pending.pinned(at):
            continue
        recalled = call is not None and plain_name(call.name) == RECALL.name
        if not recalled and not pending.asked_again(at):
            yield at, entry


def asked_for(pending: PendingEdits, at: int) -> RequestTexts:
    """Return what the result was asked for with: the call, the words before it, the task."""
    call, caller = pending.call(at), pending.caller(at)
    return RequestTexts(
        call.arguments if call else "",
        pending.original(caller).text if caller is not None else "",
        "\n".join([pending.original(place).text for place in pending.transcript.asking]),
    )


def _before(pending: PendingEdits, at: int) -> Sequence[str]:
    """Return the lines that the same call printed the last time."""
    last = pending.same_call_before(at)
    return () if last is None else clean(pending.original(last).text).split("\n")
