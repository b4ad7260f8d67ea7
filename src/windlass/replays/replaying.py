"""A recording under policies: what each call would have been sent, and what it would have cost.

The windows are those of `Context`, message by message, as a loop would get them. Tokens are the
neutral count, scaled to what the provider counted of the recorded calls, or to the model's own
counter. What a transcript lacks (the tools, mostly the system prompt) was sent all the same: it
stands before the messages of each call as a number of tokens between two bounds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import quantiles
from typing import Final

from windlass.errors import SequenceError
from windlass.importing.recording import RecordedCall, Recording
from windlass.loop.context import Context
from windlass.loop.window import Chat, ChatWindow
from windlass.replays.bill import CallTokens, cached_tokens, cost, sent
from windlass.replays.measure import CallBill, Ruler
from windlass.replays.numbered import CHARACTERS_A_TOKEN, pieces, tokens
from windlass.replays.policies import ReplayPolicy
from windlass.replays.pricing import PricedVector
from windlass.replays.results import (
    HiddenMessage,
    Outlay,
    RecordingReplay,
    ReplayedCall,
    Span,
)
from windlass.titles import dated, first_words
from windlass.tokens import FamilyCounter
from windlass.window.options import Policy
from windlass.wire.openai import to_openai

UNSEEN_TOKENS: Final = 20_000
"""What system prompt and tools take at most where nothing is known of them.

Coding agents were seen to send 30 to 83 kB of them.
"""
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
        self._ruler = Ruler(self._chats)
        self._scale, self._unseen = self._calibrate()

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
            results=sum(message.role == "tool" for message in recording.messages),
            recorded=self._order.recorded,
            recorded_in=recording.usage.tokens_in,
            recorded_cached=recording.usage.tokens_cached,
            unseen=Span(*(tokens * self._scale for tokens in self._unseen)),
            outlays=tuple(outlays),
            skipped=dict(recording.skipped),
            title=_title_of(recording),
            times=tuple(call.time for call in recording.calls),
        )

    # ---- what the provider counted --------------------------------------------------------

    def _calibrate(self) -> tuple[float, Span]:
        """The model's tokens for a neutral one, and the neutral tokens before the messages."""
        recording, calls = self._recording, self._chats
        tools = sum(len(json.dumps(tool)) for tool in calls.tools) / CHARACTERS_A_TOKEN
        counted = [
            (call.usage.tokens_in, tools + whole.tokens)
            for call, whole in zip(recording.calls, self._ruler.whole, strict=True)
            if call.usage is not None and call.usage.tokens_in
        ]
        is_whole = recording.grade != "C" or recording.tools is not None
        if is_whole and counted:
            scale = sum(told for told, _ in counted) / max(1.0, sum(ours for _, ours in counted))
            return scale, Span(tools, tools)
        counter = FamilyCounter(recording.model)
        neutral = sum(self._ruler.shown.tokens[number] for number in self._ruler.originals)
        scale = sum(map(counter.message, recording.messages)) / neutral if neutral else 1.0
        if is_whole:
            return scale, Span(tools, tools)
        if not counted:
            return scale, Span(0.0, UNSEEN_TOKENS / scale)
        rest = sorted(max(0.0, told / scale - ours) for told, ours in counted)
        tenths = quantiles(rest, n=10) if len(rest) > 1 else rest * 2
        return scale, Span(tenths[0], tenths[-1])

    # ---- what a policy costs --------------------------------------------------------------

    def _outlay(self, policy: ReplayPolicy, prices: PricedVector) -> Outlay:
        ruler, vector = self._ruler, prices.vector
        windows, hidden = self._windows(policy, prices)
        times, ttl_s = self._chats.times, vector.ttl_s
        calls = sent(windows, ruler.shown, times, ttl_s)
        whole = sent(ruler.everything, ruler.shown, times, ttl_s) if ttl_s else ruler.whole
        missed = ruler.missed(windows, ruler.needs)
        bounds: list[list[CallBill]] = []
        everything: list[float] = []
        cached: list[float] = []
        for unseen in self._unseen:
            mine = self._behind(calls, unseen, ttl_s)
            bounds.append(ruler.bills(mine, missed, vector))
            cached.append(sum(cached_tokens(call, vector) for call in mine))
            behind = self._behind(whole, unseen, ttl_s)
            everything.append(sum(cost(call, vector) for call in behind))
        costs = [self._costs(bills, prices) for bills in bounds]
        first = bounds[0]
        singles = tuple(
            ReplayedCall(
                tokens=self._scale * (low.tokens + high.tokens) / 2,
                hidden=self._scale * (all_of_it.tokens - call.tokens),
                cost=(cost_low + cost_high) / 2,
            )
            for low, high, call, all_of_it, cost_low, cost_high in zip(
                *bounds, calls, whole, *costs, strict=True
            )
        )
        differing = (
            number
            for number, (mine, theirs) in enumerate(
                zip(windows, ruler.everything, strict=True), start=1
            )
            if mine != theirs
        )
        ratios = [
            sum(bill.bill + bill.again for bill in bills) / total if total else 1.0
            for bills, total in zip(bounds, everything, strict=True)
        ]
        return Outlay(
            policy=policy.name,
            prices=prices.name,
            recordings=1,
            call_count=len(windows),
            tokens=self._span([sum(bill.tokens for bill in bills) for bills in bounds]),
            bill=self._span([sum(bill.bill for bill in bills) for bills in bounds]),
            again=self._span([sum(bill.again for bill in bills) for bills in bounds]),
            cached=self._span(cached),
            everything=self._span(everything),
            dollars=None if prices.rate is None else Span(*map(sum, costs)),
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
            worst=max(ratios),
            worst_recording=self._recording.name,
        )

    def _span(self, neutral: Sequence[float]) -> Span:
        return Span(*(self._scale * one for one in neutral))

    def _costs(self, bills: Sequence[CallBill], prices: PricedVector) -> list[float]:
        """What each call costs in US dollars, its reply included; else in fresh input tokens."""
        costs: list[float] = []
        for bill, call in zip(bills, self._chats.answers, strict=True):
            units = self._scale * (bill.bill + bill.again)
            dollars = prices.dollars(units)
            if dollars is not None:
                reply = self._reply_tokens(call)
                dollars += prices.output_dollars(self._scale * bill.tokens, reply)
            costs.append(units if dollars is None else dollars)
        return costs

    def _reply_tokens(self, call: RecordedCall) -> float:
        if call.usage is not None:
            return call.usage.tokens_out
        if call.at >= len(self._chats.messages):
            return 0.0
        return self._scale * tokens(pieces(self._chats.messages[call.at]))

    def _windows(
        self, policy: ReplayPolicy, prices: PricedVector
    ) -> tuple[list[list[int]], tuple[HiddenMessage, ...]]:
        """What each call sees, and what the last one does not."""
        if policy.policy == _EVERYTHING:
            return self._ruler.everything, ()
        context = Context(
            self._recording.model if "/" in self._recording.model else None,
            policy.policy,
            prices=prices.vector.prices,
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
        self, calls: Sequence[CallTokens], unseen: float, ttl_s: float | None
    ) -> list[CallTokens]:
        """The calls behind so many tokens that are the same in all of them."""
        if not unseen:
            return list(calls)
        times = self._chats.times
        lapsed = [True] + [
            ttl_s is not None and then is not None and now is not None and now - then > ttl_s
            for then, now in pairwise(times)
        ]
        return [
            CallTokens(call.tokens + unseen, call.shared + (0.0 if forgotten else unseen))
            for call, forgotten in zip(calls, lapsed, strict=True)
        ]


def _title_of(recording: Recording) -> str:
    words = first_words(recording.messages) or recording.name
    began = next((call.time for call in recording.calls if call.time is not None), None)
    return words if began is None else dated(words, began)
