"""A recording under policies: what each call would have been sent, and what it would have cost.

The windows are those of `Context`, message by message, as an agent loop would get them. Where the
provider counted tokens, they are taken from it (`counted.py`): also those of what a transcript
lacks, and of what the cache held. So the bill of sending everything is the one that was paid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from types import MappingProxyType
from typing import Final

from windlass.caching.meter import SharedPrefix, lives
from windlass.caching.prices import OUTPUT_PRICE, Prices
from windlass.caching.rates import prices_of
from windlass.context.context import Context
from windlass.context.lists import Chat
from windlass.context.window import ChatWindow
from windlass.errors import SequenceError
from windlass.importing.recording import RecordedCall, Recording
from windlass.replays.counted import (
    CountEstimate,
    RecordedCache,
    estimate_counts,
    read_caches,
    unseen_tokens,
)
from windlass.replays.measure import MeasuredRecording, NeededText
from windlass.replays.named_policies import Head, ReplayPolicy
from windlass.replays.numbered import CHARACTERS_A_TOKEN, count_tokens
from windlass.replays.outcomes import (
    HiddenMessage,
    PolicyCost,
    RecordingReplay,
    ReplayedWindow,
    Span,
)
from windlass.replays.pricing import (
    LONG_TTL_S,
    PricedVector,
    RequestHead,
    measure_calls,
)
from windlass.text.tokens import neutral_scale
from windlass.window.options import Policy
from windlass.wire.openai import to_openai

_EVERYTHING: Final = Policy(enabled=False)
"""The policy whose windows are the recorded ones."""
_GONE: Final = frozenset({"folded", "dropped"})
_EDITED: Final = frozenset({"replaced", "folded", "dropped"})
SHOWN: Final = 10
"""Shortened messages that a replay lists."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """A recording to replay, under which policies and at which prices."""

    recording: Recording
    policies: tuple[ReplayPolicy, ...]
    prices: tuple[PricedVector, ...]
    recorded: float | None
    """What it cost as recorded, in US dollars (None: unknown)."""


class _ChatForm:
    """The messages of a recording in chat form, and its calls."""

    used = None

    def __init__(self, recording: Recording) -> None:
        self.messages: list[Chat] = [to_openai(message) for message in recording.messages]
        self.answers: tuple[RecordedCall, ...] = recording.calls
        self.calls = [answer.at for answer in recording.calls]
        self.tools = [spec.to_openai() for spec in recording.tools or ()]
        tools_of_calls = [
            recording.tools or () if answer.tools is None else answer.tools
            for answer in recording.calls
        ]
        texts = {
            id(tools): json.dumps([spec.to_openai() for spec in tools]) for tools in tools_of_calls
        }
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
        self.heads = [
            RequestHead(answer.time, numbers[texts[id(tools)]])
            for answer, tools in zip(recording.calls, tools_of_calls, strict=True)
        ]
        self.tool_tokens = [
            len(texts[id(tools)]) / CHARACTERS_A_TOKEN if tools else 0.0 for tools in tools_of_calls
        ]

    def with_times(self) -> list[Chat]:
        """The messages; each answer of a call, and what it answers, has the time of the call."""
        chats = list(self.messages)
        for answer in self.answers:
            for at in (answer.at - 1, answer.at):
                if answer.time is not None and 0 <= at < len(chats):
                    chats[at] = {"at": answer.time, **chats[at]}
        return chats


def replay_recording(order: ReplayOrder) -> RecordingReplay | str:
    """Return the recording under each policy; a sentence where it cannot be replayed."""
    recording = order.recording
    try:
        return _Replaying(order).replay()
    except SequenceError as error:
        return f"{recording.name!r} in {recording.source!r}: no provider takes its list: {error}"


class _Replaying:
    def __init__(self, order: ReplayOrder) -> None:
        self._order = order
        self._recording = order.recording
        self._chats = _ChatForm(order.recording)
        as_words = order.recording.results if order.recording.results_as_words else ()
        self._measured = MeasuredRecording(self._chats, as_words)
        total = sum(self._measured.shown.tokens[number] for number in self._measured.originals)
        neutral = [call.tokens for call in self._measured.whole]
        self._counts = estimate_counts(order.recording, neutral, self._chats.tool_tokens, total)

    def replay(self) -> RecordingReplay:
        recording = self._recording
        outlays = [
            self._cost_of(policy, prices)
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
            beside=self._order.recording.beside,
            recorded_in=recording.usage.tokens_in,
            recorded_cached=recording.usage.tokens_cached,
            unseen=unseen_tokens(self._counts),
            estimated=recording.estimated,
            title=recording.titled,
            outlays=tuple(outlays),
            skipped=dict(recording.skipped),
            times=tuple(call.time for call in recording.calls),
        )

    # ---- what a policy costs --------------------------------------------------------------

    def _cost_of(self, policy: ReplayPolicy, prices: PricedVector) -> PolicyCost:
        measured, vector = self._measured, prices.vector
        found = self._windows(policy, prices)
        windows = found.shown
        cache = read_caches(self._recording, prices)
        # What the provider says its cache held already takes into account what it forgot.
        ttl_s = None if any(cache) else vector.for_windows.ttl_s
        calls = measure_calls(windows, measured.shown, self._chats.heads, ttl_s)
        whole = measure_calls(measured.everything, measured.shown, self._chats.heads, ttl_s)
        missed = measured.missed(windows, measured.needs)
        requests = _Requests(calls, whole, missed, cache, found.gone, found.compacted, ttl_s)
        heads = [Head()] if policy.heads is None else policy.heads(self._recording)
        figures = [
            self._figures(counts, self._in_front(head), requests, prices)
            for counts in self._counts
            for head in heads
        ]
        scale = self._counts[0].scale
        singles = tuple(
            ReplayedWindow(
                fmean(each.tokens[at] for each in figures),
                scale * (whole[at].tokens - calls[at].tokens),
                fmean(each.costs[at] for each in figures),
            )
            for at in range(len(calls))
        )
        differing = (
            number
            for number, (mine, theirs) in enumerate(
                zip(windows, measured.everything, strict=True), start=1
            )
            if mine != theirs
        )
        cost = PolicyCost(
            policy=policy.name,
            prices=prices.name,
            recordings=1,
            call_count=len(windows),
            tokens=Span.of(sum(each.tokens) for each in figures),
            bill=Span.of(sum(each.bills) for each in figures),
            again=Span.of(sum(each.again) for each in figures),
            cached=Span.of(sum(each.cached) for each in figures),
            everything=Span.of(sum(each.everything) for each in figures),
            dollars=None if prices.rate is None else Span.of(sum(each.costs) for each in figures),
            everything_dollars=None
            if prices.rate is None
            else Span.of(sum(each.everything_costs) for each in figures),
            **asdict(measured.sight(missed)),
            first_difference=next(differing, None),
            dearest=max(range(len(singles)), key=lambda at: singles[at].cost) + 1
            if singles
            else None,
            calls=singles,
            hidden=found.hidden,
            compactions=len(found.compacted),
            shortened=found.shortened,
            worst_recording=self._recording.name,
        )
        return replace(cost, worst=cost.ratio.high)

    def _in_front(self, head: Head) -> _InFront:
        """Return what a head is at each call, by the tools that the answers before it used."""
        waiting, needed = dict(head.waiting), list[int]()
        less = list[float]()
        for answer in self._recording.calls:
            less.append(sum(waiting.values()) - head.search * sum(needed) - head.more)
            used = (
                self._recording.messages[answer.at].tool_calls
                if answer.at < len(self._recording.messages)
                else ()
            )
            names = {call.name for call in used}
            found = [together for together in waiting if not names.isdisjoint(together)]
            needed.append(len(found))
            for together in found:
                del waiting[together]
        return _InFront(head, tuple(less), tuple(needed))

    def _figures(
        self, counts: CountEstimate, front: _InFront, requests: _Requests, prices: PricedVector
    ) -> _Figures:
        """Return what the calls cost by one of the estimates, in tokens of the model."""
        vector, scale, cache = prices.vector, counts.scale, requests.cache
        left = self._left_unseen(counts.unseen, requests.gone)
        fewer = [tokens - less / scale for tokens, less in zip(left, front.less, strict=True)]
        again = dict.fromkeys(requests.compacted, front.head.repeated / scale)
        mine = self._with_unseen(requests.calls, fewer, requests.ttl_s, again)
        everything = self._with_unseen(requests.whole, counts.unseen, requests.ttl_s)
        begin = scale * max(0.0, next(iter(counts.unseen), 0.0)), sum(front.head.waiting.values())
        # Both sides are summed alike, so that equal bills have equal totals to the last digit.
        figures = _Figures()
        agains = self._measured.again(mine, requests.missed, vector)
        for at, (call, whole) in enumerate(zip(mine, everything, strict=True)):
            one, all_, recorded = call.scaled(scale), whole.scaled(scale), cache[at]
            if recorded is None:
                units, whole_units, factor = one.units(vector), all_.units(vector), 1.0
                figures.cached.append(one.cached(vector))
                reply = self._reply_tokens(self._chats.answers[at], scale)
                out, whole_out = (prices.output_dollars(each.tokens, reply) for each in (one, all_))
            else:
                units, whole_units = recorded.price(one, all_, vector, *begin), recorded.units
                figures.cached.append(recorded.cached_tokens(one, all_, *begin))
                out = whole_out = recorded.output
                factor = recorded.factor
            output = OUTPUT_PRICE * front.head.search
            searches = front.needed[at] * (one.tokens * vector.read + output)
            bill = (units + searches + (0.0 if at else front.head.once)) * factor
            fetched = agains[at] * scale * factor
            figures.tokens.append(one.tokens)
            figures.bills.append(bill)
            figures.again.append(fetched)
            figures.everything.append(whole_units * factor)
            dollars = prices.dollars(bill + fetched)
            figures.costs.append(bill + fetched if dollars is None else dollars + out)
            figures.everything_costs.append(
                (prices.dollars(whole_units * factor) or 0.0) + whole_out
            )
        return figures

    def _reply_tokens(self, call: RecordedCall, scale: float) -> float:
        if call.usage is not None:
            return call.usage.tokens_out
        if call.at >= len(self._chats.messages):
            return 0.0
        return scale * count_tokens(self._chats.messages[call.at])

    def _left_unseen(
        self, unseen: Sequence[float], gone: Sequence[frozenset[int]]
    ) -> Sequence[float]:
        """Say what calls send besides messages, without what came with replies that are not sent.

        What is unseen grows with each reply: by its thinking, and by what the client adds.
        """
        grown = {
            answer.at: after - before
            for answer, before, after in zip(
                self._recording.calls, unseen, unseen[1:], strict=False
            )
        }
        return [
            # Negative where our count of the messages is above the provider's: that stays.
            min(tokens, max(0.0, tokens - max(0.0, sum(grown.get(at, 0.0) for at in replies))))
            for tokens, replies in zip(unseen, gone, strict=True)
        ]

    def _windows(self, policy: ReplayPolicy, prices: PricedVector) -> _Windows:
        """What each call sees, and what went before it."""
        if policy.policy == _EVERYTHING:
            whole = self._measured.everything
            return _Windows(whole, [frozenset()] * len(whole))
        context = Context(
            self._recording.model if "/" in self._recording.model else None,
            policy.policy,
            prices=_as_written(self._recording, prices),
            tools=self._chats.tools,
            pins=() if policy.kept is None else policy.kept(self._recording),
            way_back=policy.way_back,
            calibration=self._calibration(),
        )
        found = _Windows()
        window: ChatWindow | None = None
        shortened, compacted = set[int | None](), 0
        chats = self._chats.with_times()
        done = 0
        for at in self._chats.calls:
            for chat in chats[done:at]:
                context.append(chat)
            done = max(done, at)
            if not at:  # its messages were not recorded
                found.shown.append([])
                found.gone.append(frozenset())
                continue
            window = context.window()
            found.shown.append(self._measured.shown.numbers(window.messages))
            shown = {one.position for one in window.entries if one.action not in _GONE}
            found.gone.append(frozenset(each for each in self._chats.calls if each < at) - shown)
            shortened |= {one.position for one in window.entries if one.action == "replaced"}
            before, compacted = compacted, sum(one.because == "compact" for one in window.entries)
            found.compacted += [len(found.shown) - 1] if compacted > before else []
        found.hidden = () if window is None else self._hidden(window, prices)
        found.shortened = len(shortened)
        return found

    def _calibration(self) -> float:
        """What the provider counted of the messages, divided by what the model's counter does."""
        scales = [counts.scale for counts in self._counts]
        return scales[-1] / neutral_scale(self._recording.model)

    def _hidden(self, window: ChatWindow, prices: PricedVector) -> tuple[HiddenMessage, ...]:
        """Return the messages on whose shortening a window saves most."""
        messages = self._recording.messages
        tools = {call.id: call.name for message in messages for call in message.tool_calls}
        hidden: list[HiddenMessage] = []
        for entry in window.entries:
            if entry.action in _EDITED and entry.position is not None:
                message = messages[entry.position]
                hidden.append(
                    HiddenMessage(
                        entry.position,
                        message.role,
                        tools.get(message.tool_call_id or "", ""),
                        entry.action,
                        entry.reason,
                        entry.tokens_before,
                        entry.tokens_after,
                        sum(at > entry.position for at in self._chats.calls),
                    )
                )
        hidden.sort(
            key=lambda one: prices.carried_units(one.tokens_after - one.tokens_before, one.calls)
        )
        return tuple(hidden[:SHOWN])

    def _with_unseen(
        self,
        calls: Sequence[SharedPrefix],
        unseen: Sequence[float],
        ttl_s: float | None,
        again: Mapping[int, float] = MappingProxyType({}),
    ) -> list[SharedPrefix]:
        """Return the calls with the tokens that are sent in front of their messages.

        A call shares them with the call before it as far as both have them, but for those that are
        written `again`.
        """
        heads = self._chats.heads
        totals: list[SharedPrefix] = []
        for at, call in enumerate(calls):
            tokens, front = max(0.0, call.tokens + unseen[at]), 0.0
            if at and _goes_on(heads[at], heads[at - 1], ttl_s):
                front = max(0.0, min(unseen[at], unseen[at - 1]) - again.get(at, 0.0))
            totals.append(SharedPrefix(tokens, min(tokens, call.shared + front)))
        return totals


def _goes_on(head: RequestHead, before: RequestHead, ttl_s: float | None) -> bool:
    """Return whether a cache may still hold what the call before had in front of its messages."""
    return head.tools == before.tools and lives(ttl_s, before.time, head.time)


def _as_written(recording: Recording, prices: PricedVector) -> Prices:
    """The prices that windows are planned at: of the longer time, where most was written for it."""
    planned = prices.vector.for_windows
    long = None if prices.rate is None else prices_of(recording.model, warn=lambda _: None)
    if long is None or long.write_long is None or not any(read_caches(recording, prices)):
        return planned
    written = [call.usage for call in recording.calls if call.usage is not None]
    total = sum(usage.tokens_written for usage in written)
    if 2 * sum(usage.tokens_written_long for usage in written) <= total:
        return planned
    return replace(planned, write=long.write_long, ttl_s=LONG_TTL_S)


@dataclass(frozen=True, slots=True)
class _Requests:
    """The calls of a recording under a policy."""

    calls: Sequence[SharedPrefix]
    whole: Sequence[SharedPrefix]
    """The same calls where they are sent everything."""
    missed: Sequence[Sequence[NeededText]]
    cache: Sequence[RecordedCache | None]
    gone: Sequence[frozenset[int]]
    """The positions of the replies before each call that it is not sent."""
    compacted: Sequence[int]
    ttl_s: float | None


@dataclass(slots=True)
class _Windows:
    """What the calls of a recording see under a policy, and what went before each."""

    shown: list[list[int]] = field(default_factory=list[list[int]])
    gone: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    """The positions of the replies before each call that it is not sent."""
    compacted: list[int] = field(default_factory=list[int])
    """The calls before which the conversation was compacted."""
    hidden: tuple[HiddenMessage, ...] = ()
    """What the last call sees least."""
    shortened: int = 0
    """Messages that a call saw shortened."""


@dataclass(frozen=True, slots=True)
class _InFront:
    """What a policy sends in front of the messages of each call, beside what was recorded."""

    head: Head
    less: tuple[float, ...]
    """Tokens that are not sent."""
    needed: tuple[int, ...]
    """How often the answer of each call asked for definitions that waited."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """What each call of a recording costs, in fresh input tokens."""

    tokens: list[float] = field(default_factory=list[float])
    bills: list[float] = field(default_factory=list[float])
    again: list[float] = field(default_factory=list[float])
    cached: list[float] = field(default_factory=list[float])
    everything: list[float] = field(default_factory=list[float])
    """The bill of sending everything."""
    costs: list[float] = field(default_factory=list[float])
    """With the output, in US dollars where the prices are a model's."""
    everything_costs: list[float] = field(default_factory=list[float])
