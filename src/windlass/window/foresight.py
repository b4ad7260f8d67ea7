"""The step after the one in hand, as far as it is known: what will be shortened then.

What is said until then is not known. Policies that go by age do not need it, and those that look
at what is new have nothing to look at.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.window.pending import PendingEdits


class NextStep(PendingEdits):
    """What the call after the next would see if nothing were said in between. To be read only."""

    def __init__(self, pending: PendingEdits) -> None:
        vars(self).update(vars(pending))  # what is shown by then is what is shown by now
        self.turn += 1
        # What policies derive of messages that calls have seen ends where it does at this call.
        self.fresh = self.fresh[:0]
        self._looks = pending.looks
        self.looks, self.wants, self.pins = [], [], dict(pending.pins)

    def seen(self, at: int) -> int:
        """How many calls will have seen it."""
        return super().seen(at) + 1

    def born(self, seen: int) -> range:
        """The positions of what exactly `seen` calls will have seen."""
        return super().born(seen - 1)

    def due(self, policy: str) -> Sequence[int]:
        """The positions that `policy` wanted to look at again at that call."""
        now = [at for name, at, turn in self._looks if (name, turn) == (policy, self.turn)]
        return (*super().due(policy), *now)
