"""The same in fewer characters, before a result is sent for the first time.

Data comes as JSON without quotes and with tables, output of programs as a terminal would
leave it. Files and diffs stay letter for letter: what will be patched must be quoted exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Part, Text, ToolCall
from windlass.window.course import Facts, Proposal
from windlass.window.draft import Draft
from windlass.window.encode import clean, encode, encode_rows
from windlass.window.kinds import DATA, Kind, kind_of

_OUTPUT: Final[frozenset[Kind]] = frozenset({"command", "log", "listing"})


@dataclass(frozen=True, slots=True)
class Lossless:
    """Re-encodes results that no call has seen.

    Args:
        min_chars: JSON of fewer characters stays as it is.
        max_chars: Text of more characters stays as it is; shortening it is another's affair.
        min_saving: The share of the characters that re-encoding JSON must save.
        clean_output: Whether output of programs is freed of what only a terminal understands.
    """

    min_chars: int = 400
    max_chars: int = 1_000_000
    min_saving: float = 0.1
    clean_output: bool = True
    name: str = "lossless"

    def propose(self, draft: Draft) -> Iterable[Proposal]:
        """The new results that can be said in fewer characters."""
        for at in draft.fresh:
            message = draft.item(at).message
            if message.role != "tool" or not draft.untouched(at):
                continue
            call = draft.call(at)
            facts = draft.facts(call.name) if call else None
            parts = tuple(self._part(part, call, facts) for part in message.parts)
            if any(one is not other for one, other in zip(parts, message.parts, strict=True)):
                shorter = message.with_parts(*parts)
                yield Proposal(
                    (at,), "encode", "the same in fewer characters", partial(_ready, shorter)
                )

    def _part(self, part: Part, call: ToolCall | None, facts: Facts | None) -> Part:
        if not isinstance(part, Text) or len(part.text) > self.max_chars:
            return part
        kind = kind_of(call, part.text, facts)
        text: str | None = None
        if kind in DATA and len(part.text) >= self.min_chars:
            text = encode(part.text) or encode_rows(part.text)
            if text is not None and len(text) > (1 - self.min_saving) * len(part.text):
                text = None
        elif kind in _OUTPUT and self.clean_output:
            text = clean(part.text)
        return part if text is None or text == part.text or not text else Text(text)


def _ready(message: Message, _draft: Draft) -> Message:
    return message
