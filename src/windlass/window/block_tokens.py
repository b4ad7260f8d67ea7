"""What injectors' blocks are to the planner: tokens at the end of messages that it did not plan.

A block goes for nothing with the first thing that changes in front of it, or on its message: all
behind is written anew anyway, and the block is left out there. Until then it is read like
everything else that stands there. The block that the planned call will get is not known yet, and
counts for nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class BlockTokens:
    """The blocks in the last request: positions of their messages, ascending, and their tokens.

    `sums` are those of the blocks in front of each place, and of all; `new` are those that the
    request itself brought, at its end.
    """

    places: tuple[int, ...] = ()
    sums: tuple[int, ...] = (0,)
    new: int = 0

    @classmethod
    def of(cls, tokens: Mapping[int, int], sent: int) -> BlockTokens:
        """Tokens by position, of a request that ended before position `sent`."""
        places = sorted(at for at in tokens if at < sent)
        sums = accumulate((tokens[at] for at in places), initial=0)
        return cls(tuple(places), tuple(sums), tokens.get(sent - 1, 0))

    @property
    def total(self) -> int:
        """Tokens of all blocks."""
        return self.sums[-1]

    def before(self, at: int) -> int:
        """Tokens of the blocks in front of a position: those that stand if it changes."""
        return self.sums[bisect_left(self.places, at)]


NOTHING = BlockTokens()
