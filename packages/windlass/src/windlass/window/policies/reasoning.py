"""Old words of the assistant, cut at the end of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import to_sentence_end, with_text

MARKER: Final = "[... truncated for context efficiency ...]"


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    """Cuts what the assistant said in words, once `window` calls have seen it.

    Calls and signed thinking stay whole: a signature is for what was signed, and a message
    whose thinking must come back unchanged is left alone until a user has spoken again.

    Args:
        window: Calls that see the words whole.
        reasoning_max_chars: Characters that they keep then.
    """

    window: int = 1
    reasoning_max_chars: int = 2_000
    name: str = "reasoning"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the assistant messages that have reached their age at this call."""
        most = self.reasoning_max_chars
        for at in pending.aged(self.name, self.window):
            message = pending.original(at)
            if message.role != "assistant" or len(message.text) <= most:
                continue
            if pending.untouched(at) and not pending.put_off(self.name, at, self.window):
                reason = f"words seen by {self.window} calls"
                yield Proposal((at,), "truncate", reason, partial(_cut, at=at, chars=most))


def _cut(pending: PendingEdits, at: int, chars: int) -> Message:
    message = pending.shown(at)
    kept = to_sentence_end(message.text, chars)
    rest = f"[{len(message.text) - len(kept)} more characters; {pending.recall_hint(at)}]"
    return with_text(message, f"{kept}\n{MARKER}\n{rest}")
