"""Tool pair folding: an old call and its result become one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from windlass.messages import Message, Text
from windlass.window.pending import PendingEdits, Proposal
from windlass.window.policies.shared import Count
from windlass.window.survive import (
    ALSO,
    aged,
    exchange,
    exchange_lines,
    head_tail,
    is_whole,
    lost_names,
    put_off,
)


@dataclass(frozen=True, kw_only=True)
class FoldingOptions:
    """When exchanges are folded."""

    fold_after: Count | None = None
    """Turns after which a tool call and its result become one line."""


@dataclass(frozen=True, kw_only=True)
class Folding(FoldingOptions):
    """Folds an exchange, an assistant message and all results of its calls, into words.

    `[Turn 3] web_search("sorting") -> 8 results, most relevant: quicksort; ...; reference ...`,
    a line for each call, behind what the assistant said. Names that nothing else shown holds
    are listed behind the lines.

    Args:
        names_chars: The most characters of such names for each call.
        min_chars: Exchanges of fewer characters stay.
    """

    names_chars: int = 400
    min_chars: int = 200
    name: str = "folding"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The exchanges that have reached their age at this call."""
        after = self.fold_after
        if after is None:
            return
        for at in aged(pending, self.name, after):
            if not is_whole(pending, at) or put_off(pending, self.name, at, after):
                continue
            span = exchange(pending, at)
            shown = (entry for entry in map(pending.entry, span) if entry is not None)
            if sum(entry.message.chars for entry in shown) >= self.min_chars:
                reason = f"tool pair seen by {after} calls"
                write = folded(at, self.names_chars)
                yield Proposal(span, "fold", reason, write, folds=True)


def folded(
    at: int, names_chars: int, text_chars: int | None = None
) -> Callable[[PendingEdits], Message | None]:
    """Writes the exchange at `at` as words; the assistant's own keep `text_chars` (None: all)."""

    def write(pending: PendingEdits) -> Message | None:
        entry = pending.entry(at)
        if entry is None or not entry.message.tool_calls:
            return None
        own = entry.message.text
        if text_chars is not None:
            own = head_tail(
                own, text_chars, f"[... {{}} characters; {pending.recall_hint(at)} ...]"
            )
        lines = exchange_lines(pending, at)
        text = "\n".join([*([own] if own else []), *lines])
        lost = lost_names(pending, exchange(pending, at), text, names_chars * len(lines))
        if lost:
            text += f"\n{ALSO}{' '.join(lost.split())}"
        return Message("assistant", (Text(text),), name=entry.message.name)

    return write
