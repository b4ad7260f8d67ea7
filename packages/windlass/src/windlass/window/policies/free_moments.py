"""Free moments: one compaction in the place of many later edits.

Where the cache is cold all of a request is written again anyway. Where it is warm, reading what
would be dropped is paid for at every call: with r and w the prices of a read and of a written
token, C the tokens of the conversation without its head, F those that a compaction leaves, the sum

    S = sum over the calls since the last compaction of r * max(0, C - F)

is what was paid for it so far, and what a compaction costs is

    (w - r) * F + M,    M = 6 * (0.7 * W * r + 300 + 1500 * (w + 3 r))

with W the tokens of the call: what is left is written, and six results are fetched again. A warm
conversation is compacted once S exceeds `priced` times that. So no call to come is guessed: a run
that ends right after it has lost at most 1/priced of what it paid anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from windlass.caching.prices import Prices
from windlass.messages import Opaque
from windlass.window._pending import PendingEdits, Proposal, WindowPolicy
from windlass.window.policies.shared import Count, CountOrZero, Factor, Share

LEAST: Final = 35_000
"""Tokens of a conversation below which there is nothing to compact, and later edits pay."""
_MOST_KEPT: Final = 0.8
"""Share of the conversation that may be kept by plan, and then in fact."""
_MOST_BUILT: Final = 0.85
_CALLS_APART: Final = 5
_FIRST_CALLS: Final = 4
_TAIL: Final = 12_000
_TAIL_CALLS: Final = 60
_LAST_CALL: Final = 24_000
"""Tokens and calls that stay as they are at the end; the last call alone may have more."""
_REFETCHES: Final = 6
_REFETCH_SHARE: Final = 0.7
_REFETCH_OUTPUT: Final = 300
_REFETCH_TOKENS: Final = 1_500
_REFETCH_READS: Final = 3
_NEAR_LIMIT: Final = 0.95
_NEAR_WINDOW: Final = 0.8
"""Shares of a limit, and of the model's window, which also holds tools and the answer."""


@dataclass(frozen=True, kw_only=True)
class KeepOptions:
    """How much of a conversation a compaction keeps, in tokens of the model."""

    share: Share = 0.35
    """The share of the conversation that stays, without its system prompt."""
    least: Count = 30_000
    """The fewest tokens that stay."""
    most: Count = 80_000
    """The most tokens that stay."""


@dataclass(frozen=True, kw_only=True)
class FreeMomentsOptions:
    """When one message takes the place of the earlier conversation, and how much it keeps."""

    cold: bool = True
    """Whether that happens where nothing is cached any more, after a long pause for example."""
    priced: Factor | None = 2.0
    """And where reading what it drops has cost so many times what it costs itself; null: never."""
    threshold: Count | None = None
    """And at calls of more tokens than this; `max_input_tokens` and dearer tiers count as well."""
    within_turns: CountOrZero | None = 0
    """Calls of more tokens than this are compacted within a turn of the user, too; null: none is.

    A turn ends with an answer that calls no tool.
    """
    keep: KeepOptions | None = KeepOptions()
    """How much it keeps; null: the defaults."""


class _Sizes(NamedTuple):
    """The tokens of a call, of its conversation, and of what a compaction leaves of that."""

    call: float
    conversation: float
    left: float


@dataclass(frozen=True)
class FreeMoments:
    """Puts one message in the place of all that was said before, at moments when that is free.

    Args:
        options: When, and how much is kept.
        prices: What the model's cache charges.
        limit: Tokens that the messages of a call may have, by the conversation's count (None: no
            limit is known).
        window: Tokens of the model's window (0: not known).
        guard: How many times the bill of sending everything may be reached (None: no bound).
    """

    options: FreeMomentsOptions
    prices: Prices
    limit: int | None = None
    window: int = 0
    guard: float | None = None
    name: str = "free_moments"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the compaction, where this call is a moment for it."""
        sizes, since = self._sizes(pending), len(pending.moment.windows)
        if self.frees_little(sizes.conversation):
            return
        if since < _CALLS_APART or pending.turn <= _FIRST_CALLS:
            return
        most = math.inf if self.options.within_turns is None else self.options.within_turns
        if sizes.call <= most and not _is_between_turns(pending):
            return
        why = self._why(pending, sizes)
        if why:
            yield from self._compaction(pending, sizes, why)

    # ---- when ------------------------------------------------------------------------------

    def _sizes(self, pending: PendingEdits) -> _Sizes:
        call, conversation = pending.tokens, pending.conversation_tokens
        return _Sizes(
            pending.scale * call,
            pending.scale * conversation,
            self.left(pending.scale * conversation),
        )

    def frees_little(self, conversation: float) -> bool:
        """Return whether there is nothing to compact in a conversation of so many tokens."""
        return conversation < LEAST or self.left(conversation) > _MOST_KEPT * conversation

    def left(self, conversation: float) -> float:
        """Return F: the tokens that a compaction leaves of a conversation of so many."""
        keep = self.options.keep or KeepOptions()
        return min(max(keep.share * conversation, keep.least), keep.most)

    def _why(self, pending: PendingEdits, sizes: _Sizes) -> str:
        """Return why this call is a moment; empty: it is none."""
        moment, options = pending.moment, self.options
        if options.cold and moment.cold:
            return "nothing is cached"
        if self._is_near_limit(pending, sizes):
            return "the window is nearly full"
        if options.priced is None or moment.compacted_at > pending.transcript.last_user >= 0:
            return ""
        if len(moment.windows) % _CALLS_APART and options.within_turns is not None:
            return ""  # so that what could not be made is not tried at every call
        cost = self.cost(sizes.call, sizes.left)
        if self.guard is not None and moment.bill + cost > self.guard * moment.everything:
            return ""
        return self.why_priced([each * pending.scale for each in moment.windows], cost)

    def why_priced(self, windows: Iterable[float], cost: float) -> str:
        """Return why a compaction pays where all is cached; empty: it does not, or not yet.

        `windows` are the tokens of the conversation at each call since the last one.
        """
        spent = self.prices.read * sum(max(0.0, each - self.left(each)) for each in windows)
        if self.options.priced is None or spent <= self.options.priced * cost:
            return ""
        return f"reading what goes has cost {spent / cost:.1f} times what this costs"

    def cost(self, call: float, left: float) -> float:
        """Return what a compaction costs where all is cached, in fresh tokens.

        `call` are the tokens of the call before which it is made.
        """
        read, write = self.prices.read, self.prices.write
        fetched = _REFETCH_TOKENS * (write + _REFETCH_READS * read)
        again = _REFETCH_SHARE * call * read + _REFETCH_OUTPUT + fetched
        return (write - read) * left + _REFETCHES * again

    def _is_near_limit(self, pending: PendingEdits, sizes: _Sizes) -> bool:
        limits = [] if self.options.threshold is None else [float(self.options.threshold)]
        limits += [] if self.limit is None else [_NEAR_LIMIT * self.limit * pending.scale]
        limits += [_NEAR_WINDOW * self.window] if self.window else []
        limits += [tokens for tokens, factor in self.prices.tiers if factor > 1]
        return any(sizes.call > limit >= sizes.left for limit in limits)

    # ---- what ------------------------------------------------------------------------------

    def _compaction(self, pending: PendingEdits, sizes: _Sizes, why: str) -> Iterable[Proposal]:
        from windlass.window.compaction.block import write_compaction  # few calls need it

        begin, end = self._begin(pending), self._tail(pending)
        places = [at for at in range(begin, end) if self._may_go(pending, at, begin, end)]
        shown = [at for at in places if pending.entry(at) is not None]
        if not shown:
            return
        tokens = sum(pending.size(pending.shown(at)) for at in shown)
        stay = sizes.conversation / pending.scale - tokens
        room = sizes.left / pending.scale - stay
        chars = sum(len(pending.shown(at).text) for at in shown)
        chars += sum(len(call.arguments) for at in shown for call in pending.shown(at).tool_calls)
        density = min(max(chars / max(tokens, 1), 1.0), 4.0)
        block = write_compaction(pending, places, len(pending), int(max(room, 0) * density))
        left = stay + pending.size(block.message)
        if left > _MOST_BUILT * sizes.conversation / pending.scale:
            return
        reason = (
            f"{why}; {tokens:,} tokens become {pending.size(block.message):,}:"
            f" {block.pieces:,} pieces, {block.names:,} names"
        )
        yield Proposal(
            tuple(places), "compact", reason, block.message, folds=True, must=True, closes=True
        )

    def _begin(self, pending: PendingEdits) -> int:
        """Return the first position that may go: what stands before the first reply stays."""
        first = next(
            (at for at in range(len(pending)) if pending.original(at).role == "assistant"),
            len(pending),
        )
        return max(first, pending.standing.settled)

    def _tail(self, pending: PendingEdits) -> int:
        """Return the position from which on everything stays as it is."""
        start, tokens, calls = len(pending), 0.0, 0
        room = _TAIL
        for at in range(len(pending) - 1, -1, -1):
            message = pending.original(at)
            if message.role == "user" or message.is_system:
                continue
            entry = pending.entry(at)
            tokens += pending.scale * pending.size(entry.message) if entry else 0
            if message.role != "assistant":
                continue
            is_open = any(one in pending.fresh for one in pending.exchange(at))
            most = _LAST_CALL if calls == 0 else room
            if not is_open and (tokens > most or calls >= _TAIL_CALLS):
                break
            start, calls = at, calls + 1
        return start

    def _may_go(self, pending: PendingEdits, at: int, begin: int, end: int) -> bool:
        """Return whether a message may be told in the block: with it goes all of its exchange."""
        message = pending.original(at)
        if message.is_system:
            return False
        if message.role == "user" and any(isinstance(part, Opaque) for part in message.parts):
            return False  # a document is not told in words
        caller = pending.caller(at)
        exchange = pending.exchange(at if caller is None else caller)
        return all(
            begin <= one < end and pending.pinned_until(one) < math.inf and pending.can_go(one)
            for one in exchange
        )


def _is_between_turns(pending: PendingEdits) -> bool:
    """Return whether the model's last answer asked for nothing, so that its user spoke since."""
    for at in range(len(pending) - 1, -1, -1):
        if pending.original(at).role == "assistant":
            return not pending.original(at).tool_calls
    return False


@dataclass(frozen=True, slots=True)
class WhileSmall:
    """Lets a policy edit what was sent only while there is nothing to compact.

    In a larger conversation each edit costs a new write of what stands behind it; a compaction
    takes the place of all of them.
    """

    policy: WindowPolicy

    @property
    def name(self) -> str:
        """Return the name of the policy."""
        return self.policy.name

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield what the policy proposes, in a small conversation."""
        if pending.scale * pending.conversation_tokens < LEAST:
            yield from self.policy.propose(pending)
