"""Observation masking: an old tool result becomes one line that says what it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.digests import error_lines
from windlass.window.failures import lines_of_failure
from windlass.window.kinds import look_of
from windlass.window.policies.shared import ERROR_CHARS

MASK: Final = "[Tool {sort}, {chars} chars, hash={hash}; {recall_hint}]"
"""The line that stands for a masked result: its sort and size, its hash, how to get it back."""
_HASH_CHARS: Final = 8
_FINAL: Final = frozenset({"digest", "mask", "fold", "summarise", "expire"})


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Masks each tool result that was seen often enough. Its call stays, so pairs stay whole.

    Args:
        mask_observations_after: Calls that see a result whole.
        min_masked_chars: Results of fewer characters stay.
        error_chars: Characters of error lines that a failed result keeps; 0: none.
    """

    mask_observations_after: int
    min_masked_chars: int = 200
    error_chars: int = ERROR_CHARS
    name: str = "masking"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the results that have reached their age at this call."""
        after = self.mask_observations_after
        for at in pending.born(after):
            entry = pending.entry(at)
            if entry is None or entry.because in _FINAL or entry.message.role != "tool":
                continue
            if len(entry.message.text) >= self.min_masked_chars:
                reason = f"tool result seen by {after} calls"
                yield Proposal((at,), "mask", reason, partial(self._mask, at=at))

    def _mask(self, pending: PendingEdits, at: int) -> Message:
        message = pending.original(at)
        line = MASK.format(
            sort=_sort_of(message),
            chars=len(message.text),
            hash=message.content_hash[:_HASH_CHARS],
            recall_hint=pending.recall_hint(at),
        )
        errors = ""
        if self.error_chars:
            errors = lines_of_failure(message, self.error_chars) or error_lines(
                message.text, self.error_chars
            )
        pictures = [part for part in message.parts if not isinstance(part, Text)]
        return message.with_parts(Text(f"{line}\n{errors}" if errors else line), *pictures)


def _sort_of(message: Message) -> str:
    """Return what the result was, in the words of the document."""
    if any(not isinstance(part, Text) for part in message.parts):
        return "result"
    return "structured result" if look_of(message.text) == "json" else "text result"
