"""The same in fewer characters, before a result is sent for the first time.

Data comes as JSON without quotes and with tables, output of programs as a terminal would
leave it, numbers before lines without padding. The lines of files and diffs stay letter for
letter: what will be patched must be quoted exactly.
How the JSON is to be read is told once: a result near one that still tells it in view says it
briefly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_not
from typing import Final

from windlass.messages import Message, Part, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.encode import encode, encode_rows, is_encoded
from windlass.window.encode.command_output import clean
from windlass.window.encode.gutters import narrowed, widened
from windlass.window.encode.legend import briefly, explains, legend_of
from windlass.window.kinds import DATA, Kind

_OUTPUT: Final[frozenset[Kind]] = frozenset({"command", "test", "build", "log", "listing"})
_ALIGNED: Final[frozenset[Kind]] = _OUTPUT | {"diff", "table"}
"""Kinds whose numbers stand in columns and before no lines."""
_NEAR_TURNS: Final = 12
"""How far above a result the one may stand that tells how to read it."""


@dataclass(frozen=True, kw_only=True)
class Lossless:
    """Re-encodes results that no call has seen.

    Args:
        lossless: Characters from which on a result is written shorter.
        max_chars: Text of more characters stays as it is; shortening it is another's affair.
        min_saving: The share of the characters that re-encoding JSON must save.
        clean_output: Whether output of programs is freed of what only a terminal understands.
    """

    lossless: int = 400
    max_chars: int = 1_000_000
    min_saving: float = 0.1
    clean_output: bool = True
    name: str = "lossless"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the new results that can be said in fewer characters."""
        for at in pending.fresh:
            message = pending.original(at)
            if message.role != "tool" or not pending.untouched(at) or pending.pinned(at):
                continue
            parts = [self._part(pending, at, part, self.lossless) for part in message.parts]
            if any(map(is_not, parts, message.parts)):
                write = partial(self._write, at=at, parts=parts)
                yield Proposal((at,), "encode", "the same in fewer characters", write)

    def _part(self, pending: PendingEdits, at: int, part: Part, least: int) -> Part:
        """Return the part as it is said shorter; the same one where there is no shorter way."""
        if not isinstance(part, Text) or len(part.text) > self.max_chars:
            return part
        kind = pending.kind(at, part.text)
        if kind in DATA and len(part.text) >= least:
            text = encode(part.text) or encode_rows(part.text)
            if text is not None:
                return Text(text)
        text = clean(part.text) if kind in _OUTPUT and self.clean_output else part.text
        short = narrowed(text) if kind not in _ALIGNED and len(text) >= least else text
        if not short or short == part.text or widened(short) != text:
            return part
        return Text(short)

    def _write(self, pending: PendingEdits, at: int, parts: Sequence[Part]) -> Message | None:
        """Get the message with what saves enough, its legends read against what is shown by now."""
        message = pending.original(at)
        kept = [
            self._worth(_without_legend(new, pending, at), old)
            for new, old in zip(parts, message.parts, strict=True)
        ]
        return message.with_parts(*kept) if any(map(is_not, kept, message.parts)) else None

    def _worth(self, new: Part, old: Part) -> Part:
        """Return the new part, if it saves enough; output that was only cleaned always does."""
        if not isinstance(new, Text) or not isinstance(old, Text) or not is_encoded(new.text):
            return new
        return new if len(new.text) <= (1 - self.min_saving) * len(old.text) else old


def _without_legend(part: Part, pending: PendingEdits, at: int) -> Part:
    """Return the part, without how to read it where one that is shown above tells it."""
    legend = legend_of(part.text) if isinstance(part, Text) else None
    if legend is None or not isinstance(part, Text):
        return part
    for turns in range(_NEAR_TURNS + 1):
        for near in pending.born(turns):
            entry = pending.entry(near) if near < at else None
            for other in entry.message.parts if entry else ():
                above = legend_of(other.text) if isinstance(other, Text) else None
                if above is not None and explains(above, legend):
                    return Text(briefly(part.text))
    return part
