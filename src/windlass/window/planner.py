"""The planner: which of the proposed edits are made now, at the model's cache prices.

An edit at position p makes the provider write everything behind p to its cache again. With
r and w the prices of a read and of a written token (fresh input is 1), S the tokens that
stay behind p, d those of the replacements, D those removed and N the calls still to come,
the present one counted, all proposals from p on together gain

    N * r * D - (w - r) * (S + d)

over leaving them: without the edits D, S and d are read N times at r; with them S and d are
written once at w and read N - 1 times. One scan from the end finds the p with the largest
gain. What was never sent is free to change, and so is everything where nothing is cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from windlass.prices import Prices
from windlass.window.draft import Draft
from windlass.window.entries import Entry

if TYPE_CHECKING:
    from windlass.window.course import Proposal

Verdict: TypeAlias = Literal["commit", "defer", "cold", "quiet"]
"""What became of what waits: made because it pays, left because it does not yet, made because
nothing is cached, left because the window is too short for its cache to lose by it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A proposal that costs something: what it would remove and put, in tokens.

    `first` is its lowest position, `seen` the entries that it is based on.
    """

    proposal: Proposal
    first: int
    removed: int
    put: int
    seen: tuple[Entry | None, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided at a call about edits that are not free, with its numbers.

    For the best set, from `position` on: `stay` is S, `put` d, `removed` D (tokens),
    `calls` N, `read` r, `write` w, and `gain` in fresh tokens. `waiting` are the offers left.
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

    @property
    def setup(self) -> float:
        """What making the set costs at this call, in fresh tokens."""
        return (self.write - self.read) * (self.stay + self.put)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a course decided so far, and what it cost, in fresh tokens.

    `waiting` are offers not made; `rent` is what reading them has cost since the last set
    was made. `bill` is what the windows cost, `everything` what sending all would have;
    `window` and `whole` are the tokens of the last call of each.
    """

    waiting: tuple[Offer, ...] = ()
    rent: float = 0.0
    bill: float = 0.0
    everything: float = 0.0
    window: int = 0
    whole: int = 0


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides when edits pay.

    Args:
        prices: What the provider's cache charges.
        guard: How many times the bill of sending everything may be reached at any call
            (None: no such bound).
        least_calls: N is at least this; else half of the calls made so far.
        sure_calls: What pays within so many calls is made at once.
        rent: What does not, only when reading what waits has cost this share of the set-up.
        bank: And only while the bill stays under that of everything by this share above it.
        quiet: Windows under this many times the shortest prefix that is cached stay alone.
        floor: No edit makes a window shorter than so many times that prefix.
    """

    prices: Prices
    guard: float | None = None
    least_calls: int = 10
    sure_calls: float = 7
    rent: float = 0.25
    bank: float = 0.02
    quiet: float = 1.5
    floor: float = 1.1

    def plan(
        self,
        draft: Draft,
        ledger: Ledger,
        sizes: Sequence[int],
        whole: int,
        gap: float | None = None,
    ) -> Plan:
        """The planning of one call.

        `sizes` are the tokens of what was sent, by position; `whole` those of all messages as
        they came; `gap` the seconds since the last call was answered (None: not known;
        infinite: what was cached is of no use any more).
        """
        ttl = self.prices.ttl_s
        cold = gap is not None and (gap == math.inf or (ttl is not None and gap > ttl))
        return Plan(self, draft, ledger, sizes, whole, cold=cold)


class Plan:
    """The planning of one call: takes proposals, then decides. Changes nothing but the draft."""

    def __init__(
        self,
        planner: Planner,
        draft: Draft,
        ledger: Ledger,
        sizes: Sequence[int],
        whole: int,
        *,
        cold: bool,
    ) -> None:
        self._planner = planner
        self._prices = planner.prices
        self._draft = draft
        self._before = ledger
        self._sizes = sizes
        self._whole = whole
        self._lapsed = cold
        self._cold = cold or ledger.window < planner.prices.minimum
        self._offers: dict[int, Offer] = {}
        self.decision: Decision | None = None
        self.ledger = ledger

    def take(self, proposal: Proposal) -> None:
        """Make what is free or must be; keep the rest for `decide`."""
        draft = self._draft
        if proposal.must or not self._prices.caches:
            carry_out(draft, proposal)
            return
        offer = self._offer(proposal)
        if offer is None:
            return
        never_sent = all(at in draft.fresh for at in proposal.span)
        if never_sent and self._stays_cached(offer.removed):
            carry_out(draft, proposal)
        else:
            self._offers[offer.first] = offer

    def decide(self) -> None:
        """Make the set of offers that pays, if one does, and write the ledger of the call."""
        draft, ledger = self._draft, self._before
        offers = {o.first: o for o in ledger.waiting if o.seen == _seen(draft, o.proposal)}
        offers |= self._offers
        waiting = [offers[at] for at in sorted(offers)]
        chosen: list[Offer] = []
        if waiting:
            chosen = self._chosen(waiting)
        made: set[int] = set()
        for offer in chosen:
            carry_out(draft, offer.proposal)
            made.add(offer.first)
        left = tuple(offer for offer in waiting if offer.first not in made)
        self._close(left, bool(made))

    def _chosen(self, waiting: Sequence[Offer]) -> list[Offer]:
        if not self._stays_cached(0):
            self._say("quiet", waiting[0].first, waiting)
            return []
        if self._cold:
            self._say("cold", waiting[0].first, waiting)
            return self._that_leave_enough(waiting)
        best = self._best(waiting, max(self._planner.least_calls, (self._draft.turn - 1) / 2))
        self.decision = best
        if best.verdict != "commit":
            return []
        return [offer for offer in waiting if offer.first >= best.position]

    def _that_leave_enough(self, waiting: Sequence[Offer]) -> list[Offer]:
        """Those, the newest first, after which the window can still be cached."""
        room = self._draft.tokens - self._planner.floor * self._prices.minimum
        chosen: list[Offer] = []
        for offer in reversed(waiting):
            if offer.removed <= room:
                room -= offer.removed
                chosen.append(offer)
        return chosen[::-1]

    def _say(self, verdict: Verdict, position: int, waiting: Sequence[Offer]) -> None:
        read, write = self._prices.read, self._prices.write
        self.decision = Decision(verdict, position, 0, 0, 0, 0, read, write, 0.0, len(waiting))

    def _best(self, waiting: Sequence[Offer], calls: float) -> Decision:
        """The set of offers with the largest gain: all from one position on."""
        read, write = self._prices.read, self._prices.write
        by_place = {offer.first: offer for offer in waiting}
        inside = {at for offer in waiting for at in offer.proposal.span}
        minimum, total = self._prices.minimum, self._draft.tokens
        room = total - self._planner.floor * minimum
        stay = removed = put = 0
        found: tuple[float, int, int, int, int] | None = None
        for at in range(self._draft.fresh.start - 1, waiting[0].first - 1, -1):
            offer = by_place.get(at)
            if offer is None:
                if at not in inside:
                    stay += self._sizes[at]
                continue
            removed += offer.removed
            put += offer.put
            if removed > room:
                break  # what is left would be too short to be cached
            # A prefix that is too short to be found is written again as well.
            before = self._before.window - stay - put - removed
            again = stay + before if before < minimum else stay
            gain = calls * read * removed - (write - read) * (again + put)
            if found is None or gain > found[0]:
                found = (gain, at, again, put, removed)
        if found is None:  # all that waits lies in what was not sent: it waits for its cache
            return Decision(
                "defer", waiting[0].first, 0, 0, 0, calls, read, write, 0.0, len(waiting)
            )
        gain, at, stay, put, removed = found
        best = Decision("defer", at, stay, put, removed, calls, read, write, gain, len(waiting))
        if gain > 0 and self._may_pay(best):
            return Decision(
                "commit", at, stay, put, removed, calls, read, write, gain, len(waiting)
            )
        return best

    def _may_pay(self, best: Decision) -> bool:
        """Whether a set that gains over N calls is worth its risk: the run may end before."""
        planner, ledger = self._planner, self._before
        guard = planner.guard
        if guard is not None and ledger.bill + best.setup > guard * ledger.everything:
            return False
        if planner.sure_calls * best.read * best.removed > best.setup:
            return True
        if ledger.rent < planner.rent * best.setup:
            return False
        return ledger.bill + best.setup <= (1 + planner.bank) * ledger.everything

    def _close(self, left: tuple[Offer, ...], made: bool) -> None:
        prices, ledger, now = self._prices, self._before, self._draft.tokens
        rent = 0.0 if made else ledger.rent
        rent += prices.read * sum(offer.removed for offer in left)
        setup = self.decision.setup if made and self.decision is not None else 0.0

        def cost(total: int, before: int) -> float:
            if total < prices.minimum:
                return float(total)
            kept = min(before, total) if before >= prices.minimum and not self._lapsed else 0
            return prices.read * kept + prices.write * (total - kept)

        self.ledger = Ledger(
            waiting=left,
            rent=rent,
            bill=ledger.bill + cost(now, ledger.window) + setup,
            everything=ledger.everything + cost(self._whole, ledger.whole),
            window=now,
            whole=self._whole,
        )

    def _offer(self, proposal: Proposal) -> Offer | None:
        """The proposal with its numbers; None: it would not make the window shorter."""
        draft = self._draft
        seen = _seen(draft, proposal)
        before = sum(draft.size(entry.message) for entry in seen if entry is not None)
        put = 0
        if proposal.write is not None:
            message = proposal.write(draft)
            if message is None:
                return None
            put = draft.size(message)
        if put >= before:
            return None
        return Offer(proposal, min(proposal.span), before - put, put, seen)

    def _stays_cached(self, removed: int) -> bool:
        """Whether the window stays long enough to be cached after `removed` tokens are gone."""
        minimum, total = self._prices.minimum, self._draft.tokens
        if total < self._planner.quiet * minimum:
            return False
        return total - removed >= self._planner.floor * minimum


def _seen(draft: Draft, proposal: Proposal) -> tuple[Entry | None, ...]:
    return tuple(draft.entry(at) for at in proposal.span)


def carry_out(draft: Draft, proposal: Proposal) -> bool:
    """Make a proposal's change. False: it must not be, or there is nothing to gain."""
    if proposal.write is None:
        return draft.drop(proposal.span, proposal.because, proposal.reason)
    message = proposal.write(draft)
    if message is None:
        return False
    if proposal.folds:
        return draft.fold(proposal.span, message, proposal.because, proposal.reason)
    return draft.replace(proposal.span[0], message, proposal.because, proposal.reason)
