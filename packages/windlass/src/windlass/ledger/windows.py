"""What a session's calls cost with the windows that they had, or with any others.

The requests of a model are billed one behind the other, with its prompt cache. Sending everything,
the windows of a policy, and what was really sent are billed alike, so that any two differ by what
their windows differ in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from windlass.caching.meter import Segments, Share, SharedStream
from windlass.caching.prices import Prices
from windlass.caching.rates import Rate, input_dollars, output_dollars


class NewSegments(NamedTuple):
    """What a request says that the one before did not: it goes on from its first `kept` segments.

    `names` are the ids of the messages that the segments stand for.
    """

    kept: int
    segments: Segments
    names: Sequence[str]


class WindowRequest(NamedTuple):
    """The request of a call, when it was sent (None: nothing expires), and the reply's tokens."""

    number: int
    new: NewSegments
    at: float | None
    tokens_out: int


class WindowBill(NamedTuple):
    """What a call costs, in US dollars with its reply; `cached` of its tokens are read."""

    tokens: int
    cached: int
    dollars: float


@dataclass(frozen=True)
class WindowBills:
    """What calls cost with some windows, and what of it was paid for each message."""

    calls: Mapping[int, WindowBill] = field(default_factory=dict[int, WindowBill])
    """By the number of the call; those of models without a price are missing."""
    messages: Mapping[str, Share] = field(default_factory=dict[str, Share])
    """By the id of the message, in US dollars."""

    def dollars(self, number: int) -> float | None:
        """Return what a call costs."""
        bill = self.calls.get(number)
        return None if bill is None else bill.dollars

    def paid(self, message_id: str) -> Share:
        """Return what was paid for a message."""
        return self.messages.get(message_id, Share())

    @cached_property
    def total(self) -> float:
        """Return what all of it costs in US dollars."""
        return sum(bill.dollars for bill in self.calls.values())


def bill_requests(requests: Iterable[WindowRequest], prices: Prices, price: Rate) -> WindowBills:
    """Bill the requests to one model, in their order, at what it charges."""
    stream, calls = SharedStream(prices), dict[int, WindowBill]()
    for each in requests:
        bill = stream.bill(*each.new, at=each.at)
        dollars = input_dollars(price, bill.units)
        dollars += output_dollars(price, bill.tokens, each.tokens_out)
        calls[each.number] = WindowBill(bill.tokens, bill.cached, dollars)
    a_unit = input_dollars(price, 1.0)
    return WindowBills(
        calls, {name: share.times(a_unit) for name, share in stream.shares().items()}
    )


def join_bills(bills: Iterable[tuple[WindowBills, float]]) -> WindowBills:
    """Return the bills of several models as one, each so many times."""
    calls: dict[int, WindowBill] = {}
    messages: dict[str, Share] = {}
    for each, factor in bills:
        for number, bill in each.calls.items():
            calls[number] = bill._replace(dollars=bill.dollars * factor)
        for name, share in each.messages.items():
            messages[name] = messages.get(name, Share()) + share.times(factor)
    return WindowBills(calls, messages)
