"""A recording under policies: what each call would have been sent, and what it would have cost.

The windows are those of `Context`, message by message, as a loop would get them. Tokens, what
stands in front of the messages of a transcript and what the cache held are as the provider counted
them, where it did (`counted.py`): so the bill of sending everything is the one that was paid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from windlass.caching.bill import cached_tokens
from windlass.context.context import Context
from windlass.context.window import Chat, ChatWindow
from windlass.errors import SequenceError
from windlass.importing.recording import RecordedCall, Recording
from windlass.replays.call_bills import CallTokens, cost, sent
from windlass.replays.counted import (
    CallCounts,
    RecordedCache,
    counts_of,
    recorded_cache,
    unseen_of,
)
from windlass.replays.measure import CallBill, Ruler
from windlass.replays.named_policies import ReplayPolicy
from windlass.replays.needed import NeededText
from windlass.replays.numbered import CHARACTERS_A_TOKEN, pieces, tokens
from windlass.replays.outcomes import (
    HiddenMessage,
    Outlay,
    RecordingReplay,
    ReplayedCall,
    Span,
)
from windlass.replays.pricing import PricedVector
from windlass.window.options import Policy
from windlass.wire.openai import to_openai

_EVERYTHING: Final = Policy(enabled=False)
"""The policy whose windows are the recorded ones."""
_EDITED: Final = frozenset({"replaced", "folded", "dropped"})
SHOWN: Final = 8
"""Shortened messages that a replay lists."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """A recording to replay, under which policies and at which prices.

    `recorded` is what it cost in US dollars, as it was recorded (None: unknown).
    """

    recording: Recording
    policies: tuple[ReplayPolicy, ...]
    prices: tuple[PricedVector, ...]
    recorded: float | None


class _Chats:
    """The messages of a recording in chat form, and its calls."""

    used = None

    def __init__(self, recording: Recording) -> None:
        self.messages: list[Chat] = [to_openai(message) for message in recording.messages]
        self.answers: tuple[RecordedCall, ...] = recording.calls
        self.calls = [answer.at for answer in recording.calls]
        self.times = [answer.time for answer in recording.calls]
        self.tools = [spec.to_openai() for spec in recording.tools or ()]
        told = [
            recording.tools or () if answer.tools is None else answer.tools
            for answer in recording.calls
        ]
        texts = {id(tools): json.dumps([spec.to_openai() for spec in tools]) for tools in told}
        kinds = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
        self.heads = [kinds[texts[id(tools)]] for tools in told]
        """Which calls were sent the same tools."""
        self.head_tokens = [
            len(texts[id(tools)]) / CHARACTERS_A_TOKEN if tools else 0.0 for tools in told
        ]

    def dated(self) -> list[Chat]:
        """The messages, with the time at those that were answers of calls."""
        dated = list(self.messages)
        for answer in self.answers:
            if answer.time is not None and answer.at < len(dated):
                dated[answer.at] = {**dated[answer.at], "at": answer.time}
        return dated


def replay_recording(order: ReplayOrder) -> RecordingReplay | str:
    """The recording under each policy; a sentence where it cannot be replayed."""
    recording = order.recording
    try:
        return _Replaying(order).replay()
    except SequenceError as error:
        return f"{recording.name!r} in {recording.source!r}: no provider takes its list: {error}"


class _Replaying:
    def __init__(self, order: ReplayOrder) -> None:
        self._order = order
        self._recording = order.recording
        self._chats = _Chats(order.recording)
        self._dated = self._chats.dated()
        told = order.recording.results if order.recording.results_as_words else ()
        self._ruler = Ruler(self._chats, told)
        neutral = sum(self._ruler.shown.tokens[number] for number in self._ruler.originals)
        whole = [call.tokens for call in self._ruler.whole]
        self._counts = counts_of(order.recording, whole, self._chats.head_tokens, neutral)

    def replay(self) -> RecordingReplay:
        recording = self._recording
        outlays = [
            self._outlay(policy, prices)
            for prices in self._order.prices
            for policy in self._order.policies
        ]
        return RecordingReplay(
            name=recording.name,
            source=recording.source,
            format=recording.format,
            grade=recording.grade,
            kind=recording.kind,
            model=recording.model,
            call_count=len(recording.calls),
            results=len(recording.results),
            results_as_words=recording.results_as_words,
            recorded=self._order.recorded,
            recorded_in=recording.usage.tokens_in,
            recorded_cached=recording.usage.tokens_cached,
            unseen=unseen_of(self._counts),
            estimated=recording.estimated,
            title=recording.titled,
            outlays=tuple(outlays),
            skipped=dict(recording.skipped),
            times=tuple(call.time for call in recording.calls),
        )

    # ---- what a policy costs --------------------------------------------------------------

    def _outlay(self, policy: ReplayPolicy, prices: PricedVector) -> Outlay:
        ruler, vector = self._ruler, prices.vector
        windows, hidden = self._windows(policy, prices)
        # What a provider's cache held is known where it told so: no time is waited for.
        cache = recorded_cache(self._recording, prices)
        times, ttl_s = self._chats.times, None if any(cache) else vector.ttl_s
        heads = self._chats.heads
        calls = sent(windows, ruler.shown, times, ttl_s, heads)
        whole = sent(ruler.everything, ruler.shown, times, ttl_s, heads)
        missed = ruler.missed(windows, ruler.needs)
        requests = _Requests(calls, whole, missed, cache, ttl_s)
        figures = [self._figures(counts, requests, prices) for counts in self._counts]
        first = figures[0].bills
        singles = tuple(
            ReplayedCall(
                tokens=(low.tokens + high.tokens) / 2,
                hidden=self._counts[0].scale * (all_of_it.tokens - call.tokens),
                cost=(cost_low + cost_high) / 2,
            )
            for low, high, call, all_of_it, cost_low, cost_high in zip(
                *(each.bills for each in figures),
                calls,
                whole,
                *(each.costs for each in figures),
                strict=True,
            )
        )
        differing = (
            number
            for number, (mine, theirs) in enumerate(
                zip(windows, ruler.everything, strict=True), start=1
            )
            if mine != theirs
        )
        outlay = Outlay(
            policy=policy.name,
            prices=prices.name,
            recordings=1,
            call_count=len(windows),
            tokens=Span.of(sum(bill.tokens for bill in each.bills) for each in figures),
            bill=Span.of(sum(bill.bill for bill in each.bills) for each in figures),
            again=Span.of(sum(bill.again for bill in each.bills) for each in figures),
            cached=Span.of(each.cached for each in figures),
            everything=Span.of(each.everything for each in figures),
            dollars=None if prices.rate is None else Span.of(sum(each.costs) for each in figures),
            everything_dollars=None
            if prices.rate is None
            else Span.of(each.everything_costs for each in figures),
            values=sum(bill.values for bill in first),
            values_seen=sum(bill.values_seen for bill in first),
            lines=sum(bill.lines for bill in first),
            lines_seen=sum(bill.lines_seen for bill in first),
            misses=sum(bill.misses for bill in first),
            first_difference=next(differing, None),
            dearest=max(range(len(singles)), key=lambda at: singles[at].cost) + 1
            if singles
            else None,
            calls=singles,
            hidden=hidden,
            worst_recording=self._recording.name,
        )
        return replace(outlay, worst=outlay.ratio.high)

    def _figures(self, counts: CallCounts, requests: _Requests, prices: PricedVector) -> _Figures:
        """What the calls come to by one of the counts, in tokens of the model."""
        vector, scale, cache = prices.vector, counts.scale, requests.cache
        mine, everything = (
            self._behind(listed, counts.unseen, requests.ttl_s)
            for listed in (requests.calls, requests.whole)
        )
        # Both sides are summed alike, so that equal bills have equal totals to the last digit.
        bills: list[CallBill] = []
        costs: list[float] = []
        totals: list[float] = []
        whole_costs: list[float] = []
        cached = 0.0
        raw = self._ruler.bills(mine, requests.missed, vector)
        for at, (bill, call, all_of_it) in enumerate(zip(raw, mine, everything, strict=True)):
            call, all_of_it = call.scaled(scale), all_of_it.scaled(scale)  # noqa: PLW2901
            held, factor = cache[at], 1.0
            if held is None:
                units, whole_units = cost(call, vector), cost(all_of_it, vector)
                cached += cached_tokens(vector, call.shared)
            else:
                units, whole_units = held.cost(call, all_of_it, vector), held.units
                cached += held.tokens_of(call, all_of_it)
                factor = held.factor
            bill = replace(  # noqa: PLW2901
                bill,
                tokens=call.tokens,
                bill=units * factor,
                again=bill.again * scale * factor,
            )
            bills.append(bill)
            totals.append(whole_units * factor)
            dollars = prices.dollars(bill.bill + bill.again)
            whole_dollars = prices.dollars(whole_units * factor)
            if dollars is not None and whole_dollars is not None:
                reply = self._reply_tokens(self._chats.answers[at], scale)
                out, whole_out = (
                    prices.output_dollars(one.tokens, reply) if held is None else held.output
                    for one in (call, all_of_it)
                )
                dollars += out
                whole_costs.append(whole_dollars + whole_out)
            costs.append(bill.bill + bill.again if dollars is None else dollars)
        return _Figures(bills, costs, cached, sum(totals), sum(whole_costs))

    def _reply_tokens(self, call: RecordedCall, scale: float) -> float:
        if call.usage is not None:
            return call.usage.tokens_out
        if call.at >= len(self._chats.messages):
            return 0.0
        return scale * tokens(pieces(self._chats.messages[call.at]))

    def _windows(
        self, policy: ReplayPolicy, prices: PricedVector
    ) -> tuple[list[list[int]], tuple[HiddenMessage, ...]]:
        """What each call sees, and what the last one does not."""
        if policy.policy == _EVERYTHING:
            return self._ruler.everything, ()
        context = Context(
            self._recording.model if "/" in self._recording.model else None,
            policy.policy,
            prices=prices.vector.for_windows,
            tools=self._chats.tools,
        )
        windows: list[list[int]] = []
        window: ChatWindow | None = None
        done = 0
        for at in self._chats.calls:
            for chat in self._dated[done:at]:
                context.append(chat)
            done = max(done, at)
            if not at:  # what it was sent is not recorded
                windows.append([])
                continue
            window = context.window()
            windows.append(self._ruler.shown.numbers(window.messages))
        return windows, self._hidden(window) if window is not None else ()

    def _hidden(self, window: ChatWindow) -> tuple[HiddenMessage, ...]:
        """The messages that a window shortens the most."""
        messages = self._recording.messages
        tools = {call.id: call.name for message in messages for call in message.tool_calls}
        listed: list[HiddenMessage] = []
        for entry in window.entries:
            if entry.action in _EDITED and entry.position is not None:
                message = messages[entry.position]
                listed.append(
                    HiddenMessage(
                        entry.position,
                        message.role,
                        tools.get(message.tool_call_id or "", ""),
                        entry.action,
                        entry.reason,
                        entry.tokens_before,
                        entry.tokens_after,
                    )
                )
        listed.sort(key=lambda one: one.tokens_after - one.tokens_before)
        return tuple(listed[:SHOWN])

    def _behind(
        self, calls: Sequence[CallTokens], unseen: Sequence[float], ttl_s: float | None
    ) -> list[CallTokens]:
        """The calls behind tokens that stand in front of each: what of them two have is shared."""
        chats = self._chats
        lapsed = [True] + [
            head != other
            or (ttl_s is not None and then is not None and now is not None and now - then > ttl_s)
            for (then, head), (now, other) in pairwise(zip(chats.times, chats.heads, strict=True))
        ]
        behind: list[CallTokens] = []
        for at, call in enumerate(calls):
            whole = max(0.0, call.tokens + unseen[at])
            front = 0.0 if lapsed[at] else max(0.0, min(unseen[at], unseen[at - 1]))
            behind.append(CallTokens(whole, min(whole, call.shared + front)))
        return behind


@dataclass(frozen=True, slots=True)
class _Requests:
    """The calls under a policy and those of sending everything; what the first lack, and caches."""

    calls: Sequence[CallTokens]
    whole: Sequence[CallTokens]
    missed: Sequence[Sequence[NeededText]]
    cache: Sequence[RecordedCache | None]
    ttl_s: float | None


@dataclass(frozen=True, slots=True)
class _Figures:
    """The calls' bills in fresh input tokens and their costs; what is cached, and everything's."""

    bills: list[CallBill]
    costs: list[float]
    cached: float
    everything: float
    everything_costs: float
