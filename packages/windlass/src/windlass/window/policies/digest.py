"""Digests: a tool result that the model has seen becomes a line and what may be needed of it.

The cheapest moment is the first call after the model has seen a result: almost nothing comes after
it yet. The digest (`window.digests`) keeps names; it cannot keep whole lines, so texts that are
read to be quoted stay in sight for some more calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Part, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.digests import (
    ORDER,
    PATHS_FIRST,
    chars_of,
    digest,
    error_lines,
    lines_of_failure,
    words_of,
)
from windlass.window.encode.command_output import clean
from windlass.window.kinds import Kind
from windlass.window.names import looked_at, names_said
from windlass.window.policies.shared import ERROR_CHARS
from windlass.window.shorten import PROGRAMS, telling_lines

HEAD: Final = "[{chars} chars: {recall_hint}]"
"""The line before a digest: the size of the result, and how to get it back.

Which tool it was the call says, which is in view wherever its result is. To say it again costs
half a point of the bills of recorded runs, where a digest has some 30 tokens.
"""
_RECORDS: Final[frozenset[Kind]] = frozenset({"json", "api", "table", "listing", "text"})
"""Kinds of which most is names. Output of commands, files and searches are text around names."""
_FINAL: Final = frozenset({"digest", "mask", "supersede", "fold", "summarise", "expire"})
"""Edits after which there is nothing left to shorten, or nothing may be shortened again."""
_LINE_CHARS: Final = 120
"""Characters of the line before a digest, with some margin."""
_MOST_RECORDS: Final = 4_000
"""The most characters of a digest of records."""
_CHARS_FOR_ONE: Final = 50
"""A digest of text grows by one character per this many: a larger file holds more names."""
_SEE_CROWDED: Final = 4
_MOST_CROWDED: Final = 8_000
"""Turns that see a result whose digest has no room for all its identifiers, and its most
characters."""
_PINNED_TURNS: Final = 1
"""Pinned results are looked at again this many calls later."""


@dataclass(frozen=True, kw_only=True)
class Digest:
    """Replaces each tool result that enough calls have seen by a line and a digest.

    Args:
        see_results: Calls that see a result whole.
        see_reads: The same for files that were read, and for diffs.
        most_text: The most characters of a digest of text, plus one for every fifty of the text.
        error_chars: Characters of error lines that the digest of a failed result keeps; 0: none.
        share_records: The share of records (JSON, lists) that a digest keeps at the most.
        share_text: The share of text and output that it keeps at the most.
        least: A digest may have so many characters whatever the share says.
        min_chars: Results of fewer characters stay.
    """

    see_results: int = 1
    see_reads: int = 20
    most_text: int = 1_200
    error_chars: int = ERROR_CHARS
    share_records: float = 0.5
    share_text: float = 0.3
    least: int = 400
    min_chars: int = 200
    name: str = "digest"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The results that have been seen, but for those that wait; these are looked at again."""
        for at in (*pending.born(self.see_results), *pending.due(self.name)):
            if pending.original(at).role != "tool":
                continue
            entry = pending.entry(at)
            if entry is None or entry.because in _FINAL:
                continue
            text = entry.message.text
            if len(text) < self.min_chars:
                continue
            turns = _PINNED_TURNS if pending.pinned(at) else self._waits(pending, at, text)
            if turns:
                pending.again(self.name, at, pending.turn + turns)
            else:
                reason = f"tool result seen by {pending.seen(at)} calls"
                yield Proposal((at,), "digest", reason, partial(self._write, at=at))

    def _waits(self, pending: PendingEdits, at: int, text: str) -> int:
        """In how many calls to look at it again; 0: shorten it now."""
        after, seen = self.see_reads, pending.seen(at)
        if after > seen and _is_read(pending, at, text):
            return after - seen
        if seen < _SEE_CROWDED and len(text) <= _MOST_CROWDED:
            room = self._room(pending.kind(at, text), len(text))
            if chars_of(pending.names_held_only((at,), names_said(text))) > room:
                return _SEE_CROWDED - seen
        return 0

    def _room(self, kind: Kind, chars: int) -> int:
        """Return the most characters of a digest."""
        if kind in _RECORDS:
            room = min(int(chars * self.share_records), _MOST_RECORDS)
        else:
            room = min(int(chars * self.share_text), self.most_text + chars // _CHARS_FOR_ONE)
        return max(room, min(self.least, chars - _LINE_CHARS))

    def _write(self, pending: PendingEdits, at: int) -> Message:
        message = pending.shown(at)
        text, kind = message.text, pending.kind(at, message.text)
        names = pending.names_held_only((at,), names_said(text))
        kept = digest_of(pending, at, names, self._room(kind, len(text)), self.error_chars)
        chars = len(pending.original(at).text)
        head = HEAD.format(chars=chars, recall_hint=pending.recall_hint(at))
        return message.with_parts(*rewritten_parts(message, f"{head}\n{kept}" if kept else head))


def digest_of(pending: PendingEdits, at: int, names: Sequence[str], room: int, errors: int) -> str:
    """Return what a later call may need of a result: its error lines, then names.

    Args:
        pending: What the next call would see.
        at: The position of the result.
        names: The names in it that nothing else in view holds, in its order.
        room: The most characters.
        errors: The most characters of error lines (0: none are kept); those of a failed result
            are kept whatever the room.
    """
    text = pending.shown(at).text
    lines = ""
    if errors:
        lines = lines_of_failure(pending.original(at), errors)
        if not lines and pending.kind(at, text) in PROGRAMS:
            lines = telling_lines(clean(pending.original(at).text), min(errors, room))
        lines = lines or error_lines(looked_at(text), min(errors, room))
    return digest(
        names,
        room,
        lines=lines,
        order=PATHS_FIRST if pending.kind(at, text) == "listing" else ORDER,
        task=_task(pending),
    )


def rewritten_parts(message: Message, text: str) -> Iterable[Part]:
    """Yield the parts of a message with `text` in place of all its text; other parts stay."""
    written = False
    for part in message.parts:
        if not isinstance(part, Text):
            yield part
        elif not written:
            written = True
            yield Text(text)


def _is_read(pending: PendingEdits, at: int, text: str) -> bool:
    """Return whether a result is a file, a part of one or a diff, that may be quoted.

    The output of an edit does not count: the call itself says what the change was, and stays in
    view.
    """
    access = pending.file_access(at)
    is_read = access.reads is not None or access.writes is None
    return is_read and pending.kind(at, text) in ("file", "diff")


def _task(pending: PendingEdits) -> frozenset[str]:
    """Return the words of the task: of the first user message and of the newest."""
    return words_of(*[pending.original(at).text for at in pending.transcript.asking])
