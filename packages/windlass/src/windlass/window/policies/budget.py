"""A token budget: what is left out when a window is too large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windlass.messages import Text
from windlass.text.prompts import summary_header
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import outcome, summarised
from windlass.window.digests import with_failure
from windlass.window.entries import Entry
from windlass.window.policies.shared import ERROR_CHARS
from windlass.wire.responses_calls import is_keys

OnExceed: TypeAlias = Literal["warn", "prune", "summarise", "fail"]


SUMMARY_TOKENS: Final = 500
"""Tokens of the summary of a budget, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Keeps a window within `limit` tokens, oldest first.

    Above the limit old results become a line each, then whole turns are left out, until the window
    takes at most `target` of the limit: a little more than necessary, so that this happens once in
    many calls and not at every one. System messages, the task (the first user message), the newest
    user message, pinned messages and the latest turn stay; if nothing more can go, the window stays
    as it is, and whoever sends it decides.

    `summarise` asks for a summary of the oldest turns and shows it if one is supplied before the
    call; without one, or if it is not acceptable, it prunes. `warn` and `fail` change nothing.

    Args:
        limit: The most tokens of a window, by the conversation's count.
        on_exceed: What to do above it.
        target: The share of the limit that pruning leaves.
        summary_tokens: Tokens that a summary may take.
        min_chars: Results of fewer characters do not become a line.
        error_chars: Characters of error lines that stand behind the line of a failed result.
    """

    limit: int
    on_exceed: OnExceed = "prune"
    target: float = 0.8
    summary_tokens: int = SUMMARY_TOKENS
    min_chars: int = 200
    error_chars: int = ERROR_CHARS
    name: str = "budget"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield what to leave out at this call, while the window is above the target."""
        if self.on_exceed not in ("prune", "summarise") or pending.tokens <= self.limit:
            return
        goal = int(self.target * self.limit)
        if self.on_exceed == "summarise":
            yield from self._summary(pending, goal)
        yield from self._lines(pending, goal)
        yield from self._turns(pending, goal)

    def _lines(self, pending: PendingEdits, goal: int) -> Iterator[Proposal]:
        # What a tool gives again goes before what nothing does.
        for at in sorted(range(pending.fresh.start), key=lambda at: not pending.gives_again(at)):
            if pending.tokens <= goal:
                return
            entry = pending.entry(at)
            if entry is None or entry.message.role != "tool" or pending.fixed(at):
                continue
            if entry.because != "prune" and len(entry.message.text) >= self.min_chars:
                reason = f"above {self.limit:,} tokens: an old result"
                message = pending.original(at)
                size = f"{len(message.text)} characters"
                ending = outcome(message)
                line = f"[{ending}; {size}; {pending.recall_hint(at)}]"
                line = with_failure(line, message, self.error_chars, ending)
                keys = [part for part in message.parts if is_keys(part)]
                short = message.with_parts(*keys, Text(line))
                yield Proposal((at,), "prune", reason, short, must=True)

    def _turns(self, pending: PendingEdits, goal: int) -> Iterator[Proposal]:
        for span in self._spans(pending):
            if pending.tokens <= goal:
                return
            reason = f"above {self.limit:,} tokens: an old turn"
            yield Proposal(span, "prune", reason, None, must=True)

    def _spans(self, pending: PendingEdits) -> Iterator[tuple[int, ...]]:
        """Yield what may go, oldest first: exchanges, replies, and what users said between them."""
        for at in range(pending.fresh.start):
            entry = pending.entry(at)
            if entry is None or entry.message.is_system or entry.message.role == "tool":
                continue
            if at in pending.transcript.asking:
                continue
            span = pending.exchange(at)
            first = min(each for each in span if pending.entry(each) is not None)
            is_old = span[-1] < pending.fresh.start
            if at == first and is_old and not any(map(pending.fixed, span)):
                yield span

    def _summary(self, pending: PendingEdits, goal: int) -> Iterator[Proposal]:
        """Yield one summary for the oldest turns: as many as must go, and room for it."""
        over = pending.tokens - goal + self.summary_tokens
        span: list[int] = []
        shown: list[Entry] = []
        for each in self._spans(pending):
            if pending.original(each[0]).role == "user":
                continue  # what users said stays beside the summary
            entries = [entry for entry in map(pending.entry, each) if entry is not None]
            span += each
            shown += entries
            over -= sum(pending.size(entry.message) for entry in entries)
            if over <= 0:
                break
        if not span:
            return
        first, last, births = span[0], span[-1], pending.transcript.births
        ends = f"{pending.original(first).content_hash}:{pending.original(last).content_hash}"
        yield from summarised(
            pending,
            span,
            shown,
            key=f"{self.name}:{ends}:{len(span)}",
            header=summary_header(max(1, births[first]), max(1, births[last])),
            tokens=self.summary_tokens,
            reason=f"above {self.limit:,} tokens: the oldest turns",
            must=True,
        )
