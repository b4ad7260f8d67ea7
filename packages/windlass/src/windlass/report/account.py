"""A session's calls, each with its charge, and what each message paid of them.

The requests of a session, each told as what is new in it against the one before.

They are as they were sent, and as a plain snowball would have sent them; `_findings.py` has them
under a policy. So bills of a long session take as long as its messages, and not as the sum of its
requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

from windlass.caching.meter import Segments
from windlass.caching.prices import Prices
from windlass.caching.rates import priced_as, prices_of, rate
from windlass.history.base import ShownMessage, Store, StoredRow
from windlass.history.lanes import History
from windlass.history.nesting import sessions_below
from windlass.ledger.charges import Charge, FreeCalls, charge_of, usage_of
from windlass.ledger.windows import (
    NewSegments,
    WindowBills,
    WindowRequest,
    bill_requests,
    join_bills,
)
from windlass.messages import Message, canonical_json
from windlass.report.calls import Call, SessionRecord, tokens_of_tools
from windlass.text.tokens import FamilyCounter
from windlass.window.entries import INJECT

TOOLS: Final = "tools"
"""What the definitions of the tools are called among the pieces of a request."""


class Requests(ABC):
    """The requests of a model."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        self.record = record
        self.counter = counter
        self._tools: Sequence[Mapping[str, Any]] | None = None
        self._head = ("", 0)

    def weighed(self, key: str, message: Message) -> tuple[str, int]:
        """Return a message as a piece."""
        return key, self.record.tokens(self.counter, message)

    def is_same_head(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the tools, which stand first, are those of the request before."""
        if self._tools is not None and (tools is self._tools or tools == self._tools):
            return True
        tokens = tokens_of_tools(self.counter, tools) + self.record.missing(self.counter)
        self._tools, self._head = tools, (f"tools:{canonical_json(list(tools))}", tokens)
        return False

    def with_head(
        self, kept: int, pieces: Segments, names: list[str], *, same: bool
    ) -> NewSegments:
        """Return the pieces behind the tools, or with them where they are new."""
        if same:
            return NewSegments(1 + kept, pieces, names)
        return NewSegments(0, [self._head, *pieces], [TOOLS, *names])

    @abstractmethod
    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""


class SentRequests(Requests):
    """What was sent; `because` names what edited each message that was not sent as it was said."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        super().__init__(record, counter)
        self._shown: Sequence[ShownMessage] = ()
        self.because: dict[str, str] = {}

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        same = 0
        if has_same_head := self.is_same_head(call.tools):
            pairs = zip(call.shown, self._shown, strict=False)
            differing = (at for at, (now, was) in enumerate(pairs) if now is not was and now != was)
            same = next(differing, min(len(call.shown), len(self._shown)))
        self._shown = call.shown
        more = call.shown[same:]
        for shown in more:
            if shown.because is not None:
                edits = [name for name in shown.because.split(", ") if name != INJECT]
                self.because.update((shown.message_id, name) for name in edits)
        pieces = [self.weighed(*self.record.sent(shown)) for shown in more]
        return self.with_head(
            same, pieces, [shown.message_id for shown in more], same=has_same_head
        )


class SnowballRequests(Requests):
    """What a snowball would have sent."""

    _stood: Sequence[StoredRow] = ()
    _history = History((), 0, (), 0)

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        before, now = self._history, call.history
        goes_on = self.is_same_head(call.tools) and now.said is before.said
        goes_on = goes_on and [each.key for each in call.head] == [each.key for each in self._stood]
        begin = before.born if goes_on else 0
        more = [*(() if goes_on else call.head), *now.said[begin : now.born]]
        pieces = [self.weighed(str(each.key), _message(each)) for each in more]
        self._stood, self._history = call.head, now
        return self.with_head(
            len(call.head) + begin, pieces, [str(each.id) for each in more], same=goes_on
        )


def _message(stored: StoredRow) -> Message:
    return stored.row.message or Message("user")


@dataclass(slots=True, kw_only=True)
class ComparedCharge(Charge):
    """A charge beside those of other windows. Money is in US dollars, with the output."""

    snowball: int = 0
    """The input tokens that sending everything would have sent, by the provider's count."""
    simulated_dollars: float | None = 0.0
    """The bill of what was sent, by our count and the rules of the model's cache alone."""
    snowball_dollars: float | None = 0.0
    """What sending everything would have cost."""

    counts: ClassVar[tuple[str, ...]] = (*Charge.counts, "snowball")
    money: ClassVar[tuple[str, ...]] = (*Charge.money, "simulated_dollars", "snowball_dollars")


@dataclass(slots=True, kw_only=True)
class CallCharge(ComparedCharge):
    """The charge of one call of a session."""

    session_id: str
    number: int
    """Its number in its session, from 1."""
    phase: str
    """The line that it counts in."""
    node_type: str
    turn: int | None
    model: str
    sent_tokens: int
    """What was sent, by the engine's count."""
    expected: int
    """The tokens that the cache should have given."""
    tier: str
    """The words of what is not billed at list prices, as in `Usage`."""
    priced_as: str
    """The model whose price it is: its own, or another's where that is free."""


MakeRequests: TypeAlias = Callable[[SessionRecord, FamilyCounter, Prices], Requests]


class Account:
    """A session by itself: its calls and their bills.

    `counted` is the bill of what was sent by our count, and `sent` the same so that it comes to
    what was billed: so each other bill, made alike, is a difference from that. `edited` names what
    edited each message that was not sent as it was said.

    Args:
        store: Where it is.
        session_id: Its id. Raises UsageError for an unknown one.
        price_as: The model at whose prices those are told that cost nothing.
        record: The session, where it was read before.
    """

    def __init__(
        self, store: Store, session_id: str, price_as: str, record: SessionRecord | None = None
    ) -> None:
        self.record = record or SessionRecord(store, session_id)
        self.calls = self.record.calls
        self._streams: dict[str, list[Call]] = defaultdict(list)  # a cache for each model
        for call in self.calls:
            self._streams[call.model].append(call)
        self.free = {
            model: all(call.free for call in stream) for model, stream in self._streams.items()
        }
        self.price_as = price_as
        self.names = {
            model: priced_as(model, price_as, free=self.free[model]) for model in self._streams
        }
        self._counters: dict[str, FamilyCounter] = {}
        sent: list[SentRequests] = []

        def as_sent(record: SessionRecord, counter: FamilyCounter, _: Prices) -> Requests:
            sent.append(SentRequests(record, counter))
            return sent[-1]

        counted = self._counted(as_sent)
        self.counted = _together(counted, {})
        self._factors = {model: self._factor(model) for model in self._streams}
        self.sent = _together(counted, self._factors)
        self.edited = {name: why for made in sent for name, why in made.because.items()}

    @cached_property
    def snowball(self) -> WindowBills:
        """Return the bill of sending everything."""
        return self.simulated(lambda record, counter, _: SnowballRequests(record, counter))

    @property
    def missing(self) -> int:
        """Return tokens in front of each request that were not recorded."""
        return max((self.record.missing(self.counter(name)) for name in self._streams), default=0)

    @property
    def billed(self) -> float:
        """Return what was to pay in US dollars; calls without a price are not in it."""
        return sum(call.dollars or 0.0 for call in self.costs)

    def counter(self, model: str) -> FamilyCounter:
        """Return who counts for a model of the session."""
        name = self.names[model]
        if name not in self._counters:
            self._counters[name] = FamilyCounter(name)
        return self._counters[name]

    def simulated(self, make: MakeRequests) -> WindowBills:
        """Give the bill of the session's calls with other requests, at the prices of each model."""
        return _together(self._counted(make), self._factors)

    def _simulated(self, call: Call) -> float | None:
        """Return what a call costs by our count."""
        return 0.0 if call.inherited else self.counted.dollars(call.number)

    @property
    def free_calls(self) -> Mapping[str, float | None]:
        """Return what calls would have cost that cost nothing, by their traces, in US dollars."""
        return {call.row.trace_id: self._simulated(call) for call in self.calls if call.free}

    def _factor(self, model: str) -> float:
        """Return how many times the bill by our count was billed for a model's calls.

        Where windows shortened calls, the run itself told what they saved, by our count: 1. So it
        is where a hook did: what it saved was new in each call, whatever the cache held in front.
        """
        if self.free[model] or self.record.has_windows or self.record.has_short_forms:
            return 1.0
        counted = [
            (call.row.cost, ours)
            for call in self._streams[model]
            if call.row.cost and (ours := self.counted.dollars(call.number))
        ]
        ours = sum(dollars for _, dollars in counted)
        return sum(paid for paid, _ in counted) / ours if ours else 1.0

    def _counted(self, make: MakeRequests) -> dict[str, WindowBills]:
        """By our count, for each model."""
        counted: dict[str, WindowBills] = {}
        for model, name in self.names.items():
            price = rate(name)
            if price is not None:
                # What is assumed of a model is told where the model is asked for.
                prices = prices_of(name, warn=lambda _: None)
                requests = make(self.record, self.counter(model), prices)
                counted[model] = bill_requests(self._requests(model, requests), prices, price)
        return counted

    def _requests(self, model: str, requests: Requests) -> Iterator[WindowRequest]:
        for call in self._streams[model]:
            if call.inherited:
                continue
            # A cache of a model that did not run was not waited for: nothing expires in it.
            at = None if self.free[model] else call.row.timestamp
            out = 0
            if call.row.message is not None:
                out = self.record.tokens(requests.counter, call.row.message)
            if call.reply_details.continues:  # it has the text of two replies
                out = min(out, call.row.tokens_out or out)
            yield WindowRequest(call.number, requests.new(call), at, out)

    def _snowball_tokens(self, call: Call) -> int:
        """Return what sending everything would have sent at a call, as the provider counts."""
        told, ours = call.row.tokens_in, call.sent_tokens
        if call.inherited:
            return 0
        if call.plain is not None:
            return call.plain.tokens_in
        if not told or not ours:
            return call.snowball_tokens
        # What of a transcript was not recorded stands in front of either.
        factor = 1.0 if self.record.missing(self.counter(call.model)) else told / ours
        return told + round((call.snowball_tokens - ours) * factor)

    @cached_property
    def costs(self) -> Sequence[CallCharge]:
        """Return what each call cost, in order."""
        return list(self._costs())

    def _costs(self) -> Iterator[CallCharge]:
        other: set[str] = set()  # models of which a call was sent something else
        for call in self.calls:
            row, usage = call.row, usage_of(call.row)
            simulated, billed = self._simulated(call), self.sent.calls.get(call.number)
            estimated = call.reply_details.tokens_out_estimated
            charge = charge_of(
                call.model, row.cost, usage, self.price_as, simulated, estimated=estimated
            )
            if call.sent_tokens != call.snowball_tokens:
                other.add(call.model)
            # Up to there sending everything is what was done: it cost what was paid.
            snowball = charge.dollars
            if call.model in other and not call.inherited:
                snowball = self.snowball.dollars(call.number)
                sent = self.sent.dollars(call.number)
                if self.record.has_short_forms and None not in (snowball, sent, charge.dollars):
                    snowball = (charge.dollars or 0.0) + (snowball or 0.0) - (sent or 0.0)
            if call.plain is not None:
                snowball = call.plain.dollars
            yield CallCharge(
                **asdict(charge),
                session_id=self.record.session_id,
                number=call.number,
                phase=self.record.line(row),
                node_type=row.node_type,
                turn=row.turn,
                model=call.model,
                sent_tokens=call.sent_tokens,
                expected=0 if billed is None else billed.cached,
                tier=usage.tier,
                priced_as=self.names[call.model],
                snowball=self._snowball_tokens(call),
                simulated_dollars=simulated,
                snowball_dollars=snowball,
            )


def free_calls(store: Store, price_as: str) -> FreeCalls:
    """Return what calls of a store's sessions would have cost that cost nothing."""
    return lambda name: Account(store, name, price_as).free_calls


def _together(counted: Mapping[str, WindowBills], factors: Mapping[str, float]) -> WindowBills:
    """Return the bills of several models as one, each so many times (1, where it is not said)."""
    return join_bills((bills, factors.get(model, 1.0)) for model, bills in counted.items())


@dataclass(frozen=True)
class AccountTree:
    """A session's account, and those of the sessions under it, newest last.

    `prefix` stands before the names of its phases: `PHASE > CASCADE > `, or `sounding 0 > `.
    """

    account: Account
    prefix: str = ""
    under: tuple[AccountTree, ...] = ()

    @classmethod
    def read(
        cls, store: Store, session_id: str, price_as: str, own: Account | None = None
    ) -> AccountTree:
        """Return the accounts of a session, whose `own` may be there already.

        Raises UsageError for an unknown one.
        """
        account = own or Account(store, session_id, price_as)
        under: dict[str, tuple[AccountTree, ...]] = {}
        for info in reversed(sessions_below(store, [session_id])):  # what is below comes first
            above = f"{info.parent_phase} > {info.cascade_id}"
            if info.sounding_index is not None:
                above = f"sounding {info.sounding_index}"
            below, parent = Account(store, info.session_id, price_as), info.parent_id or ""
            tree = cls(below, f"{above} > ", under.pop(info.session_id, ()))
            under[parent] = (tree, *under.get(parent, ()))
        return cls(account, "", under.get(session_id, ()))

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Account]]:
        """Yield each account with the whole prefix of its phases."""
        prefix += self.prefix
        yield prefix, self.account
        for tree in self.under:
            yield from tree.walk(prefix)

    def calls(self) -> Iterator[CallCharge]:
        """Yield what each call cost."""
        for prefix, account in self.walk():
            for cost in account.costs:
                yield replace(cost, phase=prefix + cost.phase) if prefix else cost
