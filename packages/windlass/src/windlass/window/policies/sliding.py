"""A sliding window of turns: the newest stay, older ones are no longer shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.window._pending import PendingEdits, Proposal


@dataclass(frozen=True, kw_only=True)
class Sliding:
    """Shows the newest `keep_recent_turns` whole turns, the system messages and the task.

    A turn is an assistant message with all results of its calls, and what users said before it;
    where a later turn goes on with its calls, it stays as long as that. The
    task is the first user message; the latest request also stays, and so do the first messages of
    the current phase, if messages carry phases. One turn leaves at each call, so that a window
    never moves by more than it must.
    """

    keep_recent_turns: int
    name: str = "sliding"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the turn that falls out of the window at this call, and what had to wait before."""
        age = self.keep_recent_turns
        if not age:
            return
        reason = f"older than the newest {age} turns"
        leaving = [
            # What the leaving turn's users said came before its call, so a turn earlier.
            *(at for at in pending.born(age + 1) if pending.original(at).role == "user"),
            *(at for at in pending.born(age) if pending.original(at).role == "assistant"),
        ]
        for at in (*pending.due(self.name), *leaving):
            if pending.entry(at) is None or at == pending.transcript.first_user:
                continue
            span = pending.exchange(at)
            goes_on = min(map(pending.seen, span)) < min(age, pending.seen(at))
            if at == pending.transcript.last_user or _opens_phase(pending, at) or goes_on:
                pending.again(self.name, at, pending.turn + 1)
            elif not pending.put_off(self.name, at, 1, span):
                yield Proposal(span, "prune", reason, None, must=True)


def _opens_phase(pending: PendingEdits, at: int) -> bool:
    """Whether a user message is what the phase in hand began with, said before its first turn."""
    item = pending.item(at)
    if item.message.role != "user" or item.phase is None or item.turn != 0:
        return False
    return item.phase == pending.item(len(pending) - 1).phase
