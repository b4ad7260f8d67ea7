"""Old words of the assistant, cut at the end of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from windlass.messages import Message
from windlass.window.draft import Draft
from windlass.window.proposals import Proposal
from windlass.window.survive import aged, to_sentence_end, with_text

MARKER: Final = "[... truncated for context efficiency ...]"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Cuts what the assistant said in words, once `after` calls have seen it.

    Calls and signed thinking stay whole: a signature is for what was signed, and a message
    whose thinking must come back unchanged is left alone until a user has spoken again.

    Args:
        after: Calls that see the words whole.
        max_chars: Characters that stay.
    """

    after: int = 5
    max_chars: int = 2_000
    name: str = "reasoning"

    def propose(self, draft: Draft) -> Iterable[Proposal]:
        """The assistant messages that have reached their age at this call."""
        for at in aged(draft, self.name, self.after):
            entry = draft.entry(at)
            if entry is None or draft.item(at).message.role != "assistant":
                continue
            if len(entry.message.text) <= self.max_chars or entry.because is not None:
                continue
            if draft.fixed(at):
                draft.again(self.name, at, draft.turn + self.after)
                continue
            reason = f"words seen by {self.after} calls"
            yield Proposal((at,), "truncate", reason, self._writer(at))

    def _writer(self, at: int) -> _Cut:
        return _Cut(at, self.max_chars)


@dataclass(frozen=True, slots=True)
class _Cut:
    at: int
    chars: int

    def __call__(self, draft: Draft) -> Message | None:
        entry = draft.entry(self.at)
        if entry is None:
            return None
        text = entry.message.text
        kept = to_sentence_end(text, self.chars)
        left = f"[{len(text) - len(kept)} more characters; {draft.back(self.at)}]"
        return with_text(entry.message, lambda _: f"{kept}\n{MARKER}\n{left}")
