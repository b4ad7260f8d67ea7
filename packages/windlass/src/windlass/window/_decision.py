"""What a planner decided, what it postponed, and the figures behind it: data without rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from windlass.window._pending import Proposal
from windlass.window.entries import Entry

Verdict: TypeAlias = Literal["commit", "defer", "cold", "quiet", "forced", "held"]
"""What became of what is not free: made because it pays, left because it does not yet, made
because nothing is cached, left because the window is too short for its cache to lose by it;
nothing waited, but settings forced an edit of what was sent; left because thinking behind it is
bound to it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A proposal that has a cost: the tokens it would remove and insert.

    `first` is its lowest position, `seen` the entries that it is based on.
    """

    proposal: Proposal
    first: int
    removed: int
    put: int
    seen: tuple[Entry | None, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A postponed offer, and when it would pay if nothing were said in between.

    `calls` is the least N at which a set with it gains enough, `call` the number of the first call
    that expects so many. None: never, because too little would be left to be cached, or because
    thinking is bound to it.
    """

    position: int
    because: str
    calls: int | None
    call: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided at a call about edits that are not free, with its numbers.

    For the best set, from `position` on: `stay` is S, `put` d, `removed` D (tokens),
    `calls` N, `read` r, `write` w, and `gain` in fresh tokens. `waiting` offers there were;
    `waits` are those that were left. `blocks` are tokens of injectors' that go with the set.
    """

    verdict: Verdict
    position: int
    stay: int
    put: int
    removed: int
    calls: float
    read: float
    write: float
    gain: float
    waiting: int
    waits: tuple[Wait, ...] = ()
    blocks: int = 0

    @property
    def setup(self) -> float:
        """Return the cost of making the set at this call, in fresh tokens."""
        return (self.write - self.read) * (self.stay + self.put)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The decisions of a conversation so far, and their cost, in fresh tokens.

    `waiting` are offers not made. `bill` is what the windows cost, `everything` what sending
    all would have; `window` and `whole` are the tokens of the last call of each, but for the
    blocks of injectors: `told` are those that sending all would hold, of the calls before it.
    """

    waiting: tuple[Offer, ...] = ()
    bill: float = 0.0
    everything: float = 0.0
    window: int = 0
    whole: int = 0
    told: int = 0
