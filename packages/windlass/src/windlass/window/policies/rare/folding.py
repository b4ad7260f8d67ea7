"""Tool pair folding: an old call and its result become one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from windlass.messages import Message, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import cut_with_hint, exchange_lines, with_lost_names
from windlass.window.policies.shared import ERROR_CHARS


@dataclass(frozen=True, kw_only=True)
class Folding:
    """Folds an exchange, an assistant message and all results of its calls, into words.

    `[Turn 3] web_search("sorting") -> 8 results, most relevant: quicksort; ...; reference ...`,
    a line for each call, behind what the assistant said. Names that nothing else shown holds
    are listed behind the lines.

    Args:
        fold_after: Calls that see an exchange whole.
        names_chars: The most characters of such names for each call.
        error_chars: The most characters of error lines for each call that failed; 0: none.
        min_chars: Exchanges of fewer characters stay.
    """

    fold_after: int
    names_chars: int = 400
    error_chars: int = ERROR_CHARS
    min_chars: int = 200
    name: str = "folding"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the exchanges that have reached their age at this call."""
        after = self.fold_after
        if after is None:
            return
        for at in pending.aged(self.name, after):
            span = pending.exchange(at)
            if not pending.is_whole(at) or pending.put_off(self.name, at, after, span):
                continue
            shown = (entry for entry in map(pending.entry, span) if entry is not None)
            if sum(entry.message.chars for entry in shown) >= self.min_chars:
                reason = f"tool pair seen by {after} calls"
                write = partial(
                    folded, at=at, names_chars=self.names_chars, error_chars=self.error_chars
                )
                yield Proposal(span, "fold", reason, write, folds=True)


def folded(
    pending: PendingEdits,
    at: int,
    names_chars: int,
    error_chars: int,
    text_chars: int | None = None,
) -> Message | None:
    """Return the exchange at `at` as words; the assistant's own keep `text_chars` (None: all)."""
    entry = pending.entry(at)
    if entry is None or not entry.message.tool_calls:
        return None
    own = entry.message.text
    if text_chars is not None:
        own = cut_with_hint(pending, at, own, text_chars)
    lines = exchange_lines(pending, at, error_chars)
    text = "\n".join([*filter(None, [own]), *lines])
    text = with_lost_names(pending, pending.exchange(at), text, names_chars * len(lines))
    return Message("assistant", (Text(text),), name=entry.message.name)
