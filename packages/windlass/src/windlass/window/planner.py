"""The planner: which of the proposed edits are made now, at the model's cache prices.

An edit at position p makes the provider write everything behind p to its cache again. With
r and w the prices of a read and of a written token (fresh input is 1), S the tokens that
stay behind p, d those of the replacements, D those removed and N the calls still to come,
the present one counted, all proposals from p on together gain

    N * r * D - (w - r) * (S + d)

over leaving them: without the edits D, S and d are read N times at r; with them S and d are
written once at w and read N - 1 times. The second term is the *set-up*. N is
max(least_calls, share * calls made). One scan from the end finds the p with the largest gain
among those that are worth their risk, because the run may end before it pays:

    gain > margin * set-up    and    bill + set-up - sure * r * D <= (1 + over) * everything

with what the windows and what sending everything cost so far; `sure` calls it goes on. A
user's `guard` is met without such hope, and with the largest text that the edits hide fetched
again: bill + set-up + fetch <= guard * everything.

- Nothing is paid for what was never sent, nor where the prefix breaks anyway: behind an edit
  that settings force, in a cache that expired (cold), in a prefix too short to be kept.
- Under the shortest prefix that is cached a token costs a fresh one: short windows stay as
  they are (quiet), and none is made shorter than a little above it (floor).
- Where longer requests cost f times as much, and the edits bring one of T tokens from a tier
  with f to one with g, D is D + (f / g - 1) * T: what is left gets cheaper, too.
- Blocks that injectors put at the end of messages (`blocks.py`) are found in the cache like
the
  rest, and go for nothing with the first edit in front of them: behind p they are not in S. Nor
  are they in D: what is seen is not shortened the sooner for what injectors say beside it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from windlass.caching.bill import cached_tokens, fresh_price, input_units
from windlass.caching.prices import UNCACHED, Prices, fetch_cost
from windlass.messages import Message
from windlass.window._decision import Decision, Ledger, Offer, Verdict, Wait
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.blocks import NOTHING, BlockTokens
from windlass.window.entries import Entry


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides when edits pay.

    Args:
        prices: What the provider's cache charges.
        guard: How many times the bill of sending everything may be reached at any call
            (None: only what `over` says).
        least_calls: N is at least this.
        share: And at least this share of the calls made so far.
        margin: A set gains more than this share of its set-up, or waits.
        over: No set-up brings the bill above that of everything by more than this share.
        sure: Calls whose saving is set against that bound; 0: the run may end right here.
        quiet: Windows under this many times the shortest prefix that is cached stay alone.
        floor: No edit makes a window shorter than so many times that prefix.
        tells: Whether a decision lists what waits, and when it would pay: for a record.
    """

    prices: Prices
    guard: float | None = None
    least_calls: int = 10
    share: float = 0.5
    margin: float = 0.3
    over: float = 0.05
    sure: float = 0
    quiet: float = 1.1
    floor: float = 1.1
    tells: bool = False

    def plan(
        self,
        pending: PendingEdits,
        ledger: Ledger,
        last: LastRequest,
        whole: int,
        gap: float | None = None,
    ) -> Planning:
        """Return the planning of one call.

        `whole` are the tokens of all messages as they came; `gap` the seconds since the last call
        was begun (None: not known; infinite: what was cached is of no use any more).
        """
        return Planning(self, pending, ledger, last, whole, lapsed=self.is_cold(gap))

    def is_cold(self, gap: float | None) -> bool:
        """Say whether nothing is cached any more so many seconds after the last call was begun."""
        return gap == math.inf or self.prices.lapsed(gap)

    def without_cache(self) -> Planner:
        """Return the planner for a provider that caches nothing, at the same tiers."""
        return replace(self, prices=replace(UNCACHED, tiers=self.prices.tiers))

    def calls(self, turn: int) -> float:
        """N at the call with this number: it and those still to come."""
        return max(self.least_calls, self.share * (turn - 1))

    def stays_cached(self, tokens: int, removed: int) -> bool:
        """Whether a window of so many tokens stays long enough to be cached without `removed`."""
        minimum = self.prices.minimum
        return tokens >= max(self.quiet * minimum, self.floor * minimum + removed)

    def call_at(self, calls: float, turn: int) -> int:
        """Return the first call from `turn` on at which N is so large."""
        if calls <= self.calls(turn) or not self.share:
            return turn
        return math.ceil(calls / self.share) + 1


@dataclass(frozen=True, slots=True)
class LastRequest:
    """What the last call sent, as its provider's cache has it.

    `sizes` are the tokens of its entries by position, `block_tokens` the blocks of injectors in it,
    `written` is the position up to which it was written to the cache (None: all of it was).
    """

    sizes: Sequence[int]
    block_tokens: BlockTokens = NOTHING
    written: int | None = None


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What was decided for one call, before it is made.

    `step` is what it would see, to be read only; `ledger` the account as it is once the call was
    made. `decision` says what became of edits that are not free (None: there were none, or no
    planner). `found_blocks` are the tokens of blocks of the last request that the cache still has.
    """

    step: PendingEdits
    ledger: Ledger
    decision: Decision | None = None
    planner: Planner | None = None
    found_blocks: int = 0

    def without_thinking(self, found: Mapping[int, Message], reason: str) -> WindowPlan:
        """Return the plan with these replies shown without their thinking, by position."""
        step = self.step.without_thinking(found, reason)
        less = step.made.saved - self.step.made.saved
        ledger = replace(self.ledger, window=self.ledger.window - less)
        return replace(self, step=step, ledger=ledger)

    def unwritten_from(self, proposals: Iterable[tuple[Proposal, Message | None]]) -> int | None:
        """Return the position from which on this call had better not be written to the cache.

        The proposals, each with the message that it would write, are those of the next call for
        what this call is the first to see. Where they remove D tokens behind a position, and
        leave S + d there, leaving it unwritten costs a fresh token now and a write of S + d then,
        and else a write now and N - 1 reads of all of it. So it gains

            (w - 1 + (N - 1) * r) * D - (1 - r) * (S + d)

        and more, where the edits would be made in the cached prefix too. None: it never does.
        Without a planner each edit is made as soon as it is proposed, and the first is the place.
        """
        step, planner = self.step, self.planner
        if planner is None:
            return min((min(each.span) for each, message in proposals if message), default=None)
        made = (_offer(step, *each) for each in proposals)
        offers = {one.first: one for one in made if one}
        prices = planner.prices
        reads = prices.read * (planner.calls(step.turn) - 1)
        first, best, behind, removed = None, 0.0, 0, 0
        for at in range(len(step) - 1, step.fresh.start - 1, -1) if offers else ():
            entry = step.entry(at)
            behind += step.size(entry.message) if entry else 0
            if at not in offers:
                continue
            removed += offers[at].removed
            left = step.tokens + self.found_blocks
            if step.tokens - behind < prices.minimum or not planner.stays_cached(left, removed):
                break  # what is left would not be cached at all
            gain = (prices.write - 1 + reads) * removed - (1 - prices.read) * (behind - removed)
            if gain > best:
                first, best = at, gain
        return first


class _Set(NamedTuple):
    """All offers from a position on: S, d, D, set-up and gain in fresh tokens.

    `blocks`: tokens of injectors' that go with it; `most`: what one from before it can gain.
    """

    position: int
    stay: int
    put: int
    removed: int
    blocks: int
    setup: float
    gain: float
    most: float


class Planning:
    """The planning of one call: takes proposals, then decides. Changes nothing but the pending."""

    def __init__(
        self,
        planner: Planner,
        pending: PendingEdits,
        ledger: Ledger,
        last: LastRequest,
        whole: int,
        *,
        lapsed: bool,
    ) -> None:
        self._planner = planner
        self._pending = pending
        self._last = last
        self._whole = whole
        self._lapsed = lapsed
        """Whether nothing of the last request is cached any more."""
        self._before = self._as_sent(ledger)
        self._kept = self._written_until
        """Where the prefix ends that a provider finds whatever is decided here."""
        self._offers: dict[int, Offer] = {}
        self._written: dict[int, tuple[int, Message | None]] = {}
        """What the offers of this call write, and how many edits there were then."""
        self._free: Sequence[Offer] = ()
        """The offers that may be made, in order."""
        self._decision: Decision | None = None

    @property
    def _prices(self) -> Prices:
        return self._planner.prices

    @property
    def _sent(self) -> int:
        """Return the position behind what the last request sent."""
        return self._pending.fresh.start

    @property
    def _written_until(self) -> int:
        """Return the position behind what the last request wrote to the cache."""
        written = self._last.written
        return self._sent if written is None else min(written, self._sent)

    @property
    def _window(self) -> int:
        """Return tokens of the last request."""
        return self._before.window + self._last.block_tokens.total

    @property
    def _cold(self) -> bool:
        """Whether nothing of the last request is found: it lapsed, or was too short to be kept."""
        return self._lapsed or self._window < self._prices.minimum

    @property
    def _step(self) -> float:
        """Return what it costs at most that a cache is found in whole steps, in fresh tokens."""
        return (self._prices.write - self._prices.read) * (self._prices.step - 1)

    def take(self, proposal: Proposal) -> None:
        """Make what is free or must be; keep the rest for `decide`."""
        pending = self._pending
        held = not proposal.must and pending.holds(min(proposal.span))
        if proposal.must or not (self._prices.caches or held):
            if carry_out(pending, proposal):
                self._kept = min(self._kept, *proposal.span)
            return
        message = proposal.message(pending)
        offer = _offer(pending, proposal, message)
        if offer is None:
            return
        never_sent = not held and all(at in pending.fresh for at in proposal.span)
        if never_sent and self._pays_at_birth(offer.removed) and self._is_sure(offer.removed):
            carry_out(pending, proposal, message)
        else:
            self._offers[offer.first] = offer
            self._written[offer.first] = len(pending.made.decided), message

    def decide(self) -> WindowPlan:
        """Make the set of offers that pays, if one does; what that comes to."""
        pending, ledger = self._pending, self._before
        offers = {
            offer.first: offer
            for offer in ledger.waiting
            if offer.first >= pending.standing.settled
            and offer.seen == _seen(pending, offer.proposal)
        }
        offers |= {
            at: offer
            for at, offer in self._offers.items()
            if offer.seen == _seen(pending, offer.proposal)  # a compaction may have come after it
        }
        waiting = [offers[at] for at in sorted(offers)]
        # Thinking behind an edit that settings force goes, and holds nothing any more.
        end = self._kept if self._kept < self._written_until else None
        free = [offer for offer in waiting if not pending.holds(offer.first, end)]
        self._free = free
        chosen = self._chosen(free)
        if not free and waiting and self._decision is None:
            self._decision = self._said("held", waiting[0].first, len(waiting))
        for offer in chosen:
            edits, written = self._written.get(offer.first, (-1, None))
            # Where nothing changed since it was offered, it would be written just so again.
            same = edits == len(pending.made.decided)
            carry_out(pending, offer.proposal, written if same else None)
        made = {offer.first for offer in chosen}
        stands = min(self._kept, *made) if made else self._kept
        left = tuple(offer for offer in waiting if offer.first not in made)
        if self._decision is not None and left and self._planner.tells:
            held = [offer for offer in waiting if offer not in free]
            waits = [Wait(offer.first, offer.proposal.because, None, None) for offer in held]
            self._decision = replace(self._decision, waits=(*self._waits(free, left), *waits))
        gone = sum(offer.removed for offer in chosen if offer.first < self._kept)
        return WindowPlan(
            pending,
            self._account(left, gone, stands),
            self._decision,
            self._planner,
            self._standing(self._kept),
        )

    def _chosen(self, waiting: Sequence[Offer]) -> Sequence[Offer]:
        if not waiting:
            if self._kept < self._written_until and self._prices.caches:
                self._decision = self._said("forced", self._kept, 0)
            return ()
        first, number = waiting[0].first, len(waiting)
        if not self._stays_cached(0):
            self._decision = self._said("quiet", first, number)
            return ()
        if self._cold:
            self._decision = self._said("cold", first, number)
            return self._that_leave_enough(waiting)
        best: _Set | None = None
        pays: _Set | None = None
        for one in self._sets(waiting):
            if best is None or one.gain > best.gain:
                best = one
            if (pays is None or one.gain > pays.gain) and self._may_be_risked(one):
                pays = one
            if one.most <= min(best.gain, pays.gain if pays else 0.0):
                break
        if best is None:
            self._decision = self._said("defer", first, number)
        else:
            self._decision = self._weighed(pays or best, "commit" if pays else "defer", number)
        return [offer for offer in waiting if offer.first >= pays.position] if pays else ()

    def _that_leave_enough(self, waiting: Sequence[Offer]) -> Sequence[Offer]:
        """Return those, the newest first, after which the window can still be cached."""
        room = self._pending.tokens - self._planner.floor * self._prices.minimum
        chosen: list[Offer] = []
        for offer in reversed(waiting):
            if offer.removed <= room + self._standing(offer.first):
                room -= offer.removed
                chosen.append(offer)
        return chosen[::-1]

    def _said(self, verdict: Verdict, position: int, waiting: int) -> Decision:
        """Return a decision in which nothing was weighed."""
        read, write = self._prices.read, self._prices.write
        return Decision(verdict, position, 0, 0, 0, 0, read, write, 0.0, waiting)

    def _weighed(self, one: _Set, verdict: Verdict, waiting: int) -> Decision:
        """Return a decision about a set."""
        calls, prices = self._planner.calls(self._pending.turn), self._prices
        figures = one.position, one.stay, one.put, one.removed, calls, prices.read, prices.write
        return Decision(verdict, *figures, one.gain, waiting, blocks=one.blocks)

    def _sets(self, waiting: Sequence[Offer]) -> Iterator[_Set]:
        """For each position the set of all offers from it on, the last position first."""
        prices, standing = self._prices, self._standing(self._kept)
        total = self._pending.tokens + standing
        saves = self._planner.calls(self._pending.turn) * prices.read
        dearer = prices.write - prices.read
        inside = sorted({at for one in waiting for at in one.proposal.span if at != one.first})
        room = total - self._planner.floor * prices.minimum
        factor, gone = prices.factor(total), sum(offer.removed for offer in waiting)
        stay = removed = put = behind = 0
        end = len(self._pending)
        for offer in reversed(waiting):
            at = offer.first
            between = self._between(at + 1, min(end, self._sent), inside)
            behind += between
            if self._kept < self._sent:
                between = self._between(at + 1, min(end, self._kept), inside)
            stay += between
            end = at
            removed += offer.removed
            blocks = standing - self._standing(at) if standing else 0
            less = removed + blocks
            if less > room:
                return  # what is left would be too short to be cached
            again = stay
            if at < self._sent:
                behind += offer.removed + offer.put
            if at < self._kept:
                put += offer.put
                before = self._before.window - behind + self._last.block_tokens.before(at)
                if before < prices.minimum:
                    again += max(0, before)  # too short to be found: it is written again, too
            worth, most = removed, saves * gone - dearer * (stay + put)
            if factor != 1:
                worth += round((factor / prices.factor(total - less) - 1) * total)
                most = math.inf
            setup = dearer * (again + put)
            yield _Set(at, again, put, worth, blocks, setup, saves * worth - setup, most)

    def _as_sent(self, ledger: Ledger) -> Ledger:
        """The ledger with what was not known of the last request: its block, and what it wrote."""
        new, written, prices = self._last.block_tokens.new, self._last.written, self._prices
        window = ledger.window + self._last.block_tokens.total
        factor, fresh = prices.factor(window), fresh_price(prices, window)
        bill, everything = ledger.bill, ledger.everything
        if new:
            cost = factor * new * fresh
            bill, everything = bill + cost, everything + cost
        if written is not None:
            bill -= factor * (fresh - 1) * sum(self._last.sizes[written : self._sent])
        return replace(ledger, bill=bill, everything=everything, told=ledger.told + new)

    def _standing(self, at: int) -> int:
        """Give tokens of the blocks that are still found in the cache if position `at` changes."""
        return 0 if self._lapsed else self._last.block_tokens.before(min(at, self._kept))

    def _is_sure(self, removed: int) -> bool:
        """Whether, under a guard, it saves more than it may cost where steps of the cache end."""
        return self._planner.guard is None or removed * self._prices.write >= self._step

    def _between(self, start: int, end: int, but: Sequence[int]) -> int:
        """Get the tokens of what was sent from `start` on and before `end`, less those of `but`."""
        tokens = sum(self._last.sizes[start:end])
        for at in but[bisect_left(but, start) : bisect_left(but, end)] if but else ():
            tokens -= self._last.sizes[at]
        return tokens

    def _may_be_risked(self, one: _Set) -> bool:
        """Return whether a set gains enough, and costs little enough should the run end now."""
        planner, ledger = self._planner, self._before
        if one.setup <= 0:
            return one.gain > 0 and self._is_sure(one.removed)
        if one.gain <= planner.margin * one.setup:
            return False
        bill = ledger.bill + one.setup
        if planner.guard is not None:
            prices = self._prices
            again = fetch_cost(
                self._window, self._largest(one), read=prices.read, write=prices.write
            )
            if bill + self._step + again > planner.guard * ledger.everything:
                return False
        bill -= planner.sure * self._prices.read * one.removed
        return bill <= (1 + planner.over) * ledger.everything

    def _largest(self, one: _Set) -> int:
        """Return tokens of the largest text that a set hides: it may have to be fetched again."""
        hidden = [offer for offer in self._free if offer.first >= one.position]
        return max((offer.removed + offer.put for offer in hidden), default=0)

    def _waits(self, waiting: Sequence[Offer], left: Sequence[Offer]) -> tuple[Wait, ...]:
        """Return the offers that were left, each with the call at which a set with it would pay."""
        turn, least = self._pending.turn, math.inf
        listed: list[Wait] = []
        sets = {one.position: one for one in self._sets(waiting)}
        places = {offer.first for offer in left}
        for offer in waiting:  # a set from a lower position on holds it, too
            one = sets.get(offer.first)
            saves = self._prices.read * one.removed if one is not None else 0
            if one is not None and saves > 0:
                enough = (1 + self._planner.margin) * max(0.0, one.setup)
                least = min(least, math.floor(enough / saves) + 1)
            if offer.first in places:
                calls = None if least == math.inf else int(least)
                call = None if calls is None else self._planner.call_at(calls, turn)
                listed.append(Wait(offer.first, offer.proposal.because, calls, call))
        return tuple(listed)

    def _account(self, left: tuple[Offer, ...], gone: int, stands: int) -> Ledger:
        """Return the ledger once the call was made.

        `gone` are the tokens that it removed from what was sent, `stands` is where the prefix ends
        that the cache still finds.
        """
        prices, ledger, now = self._prices, self._before, self._pending.tokens
        standing, told = self._standing(stands), 0 if self._lapsed else ledger.told
        made = self._decision is not None and self._decision.verdict == "commit"
        setup = self._decision.setup if made and self._decision is not None else 0.0

        def cost(total: int, kept: int) -> float:
            cached = 0 if self._lapsed else cached_tokens(prices, min(kept, total))
            return input_units(prices, total, cached)

        kept = ledger.window
        if self._kept < self._sent and not prices.read == prices.write == 1:  # else all cost 1
            kept = min(kept, sum(self._last.sizes[: self._kept]))
        whole = self._whole + told
        return Ledger(
            waiting=left,
            bill=ledger.bill + cost(now + standing, kept - gone + standing) + setup,
            everything=ledger.everything + cost(whole, ledger.whole + told),
            window=now,
            whole=self._whole,
            told=told,
        )

    def _pays_at_birth(self, removed: int) -> bool:
        """Return whether what no call has seen is written shorter by so many tokens.

        Where the window stays long enough to be cached it saves at each call. Else the calls
        expected must cost less as fresh tokens than with all of it cached, though nothing more
        is said.
        """
        if self._stays_cached(removed):
            return True
        total, prices = self._tokens(), self._prices
        calls = self._planner.calls(self._pending.turn)
        cached = (prices.write + (calls - 1) * prices.read) * total
        return total >= prices.minimum and calls * (total - removed) < cached

    def _stays_cached(self, removed: int) -> bool:
        """Say whether the window stays long enough to be cached after `removed` tokens are gone."""
        return self._planner.stays_cached(self._tokens(), removed)

    def _tokens(self) -> int:
        """Return tokens of what is shown by now, with the blocks that the cache still has."""
        return self._pending.tokens + self._standing(self._kept)


def _offer(pending: PendingEdits, proposal: Proposal, made: Message | None) -> Offer | None:
    """Return the proposal, which writes `made`, with its numbers; None: nothing gets shorter."""
    seen = _seen(pending, proposal)
    before = sum(pending.size(entry.message) for entry in seen if entry is not None)
    if proposal.write is not None and made is None:
        return None
    put = pending.size(made) if made else 0
    if put >= before:
        return None
    return Offer(proposal, min(proposal.span), before - put, put, seen)


def _seen(pending: PendingEdits, proposal: Proposal) -> tuple[Entry | None, ...]:
    return tuple(pending.entry(at) for at in proposal.span)


def carry_out(pending: PendingEdits, proposal: Proposal, message: Message | None = None) -> bool:
    """Make a proposal's change (`message`: what it writes). False: it may not be, or is no gain."""
    if proposal.write is None:
        return pending.drop(proposal.span, proposal.because, proposal.reason)
    message = message or proposal.message(pending)
    if message is None:
        return False
    if proposal.folds:
        return pending.fold(
            proposal.span, message, proposal.because, proposal.reason, closes=proposal.closes
        )
    return pending.replace(proposal.span[0], message, proposal.because, proposal.reason)
