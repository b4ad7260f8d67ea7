"""What the provider counted of recorded calls, as far as it tells what other windows had cost.

Of a call whose usage was recorded it is known how many tokens were sent, also where a transcript
lacks the tools and the system prompt, how many of them the cache held, and what they cost. Another
window of the same call is so many tokens smaller; the cache holds the same share of what it shares
with the calls before it, and what is not held costs what it cost then. So a change of nothing
changes nothing, and each figure of a replay is a difference from the recorded bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median, quantiles
from typing import Final

from windlass.caching.bill import input_units
from windlass.caching.rates import cost
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message, Opaque
from windlass.replays.call_bills import CallTokens, Vector
from windlass.replays.outcomes import Span
from windlass.replays.pricing import OWN, PricedVector
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Usage

UNSEEN_TOKENS: Final = 20_000
"""What system prompt and tools take at most where nothing is known of them.

Coding agents were seen to send 30 to 83 kB of them.
"""
_FEWEST: Final = 3
"""Calls of whose growth it is told how the provider counts."""
_FARTHEST: Final = 1.5
"""How far the provider's count of what grew may be from the model's counter: it also holds
reminders and thinking that the transcript lacks."""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """One estimate: the model's tokens for a neutral one, and what stands in front of each call.

    `unseen` are neutral tokens; below 0 where less was sent than the transcript holds.
    """

    scale: float
    unseen: tuple[float, ...]


def counts_of(
    recording: Recording, whole: Sequence[float], tools: Sequence[float], neutral: float
) -> tuple[CallCounts, CallCounts]:
    """Two estimates that bound the truth; the same twice where the requests are exact.

    Args:
        recording: It.
        whole: The neutral tokens of the messages before each call.
        tools: Those of the tools of each call.
        neutral: Those of all its messages.
    """
    told = [
        None if call.usage is None else call.usage.tokens_in or None for call in recording.calls
    ]
    listed = zip(told, whole, tools, strict=True)
    counted = [(of, ours + head) for of, ours, head in listed if of is not None]
    is_whole = recording.grade != "C" or recording.tools is not None
    if is_whole and counted:
        scale = sum(of for of, _ in counted) / max(1.0, sum(ours for _, ours in counted))
        exact = _counts(scale, told, whole, tools)
        return exact, exact
    counter = FamilyCounter(recording.model)
    # Neutral tokens count no thinking: where it is sent, it is part of what stands in front.
    ours = sum(counter.message(_without_thinking(each)) for each in recording.messages)
    scale = ours / neutral if neutral else 1.0
    if is_whole:
        return (_counts(scale, told, whole, tools),) * 2
    if not counted:
        none, most = ([of] * len(whole) for of in (0.0, UNSEEN_TOKENS / scale))
        return _counts(scale, told, whole, none), _counts(scale, told, whole, most)
    return _counts(scale, told, whole), _counts(_grown(counted, scale), told, whole)


def _without_thinking(message: Message) -> Message:
    return message.with_parts(*(part for part in message.parts if not isinstance(part, Opaque)))


def _counts(
    scale: float,
    told: Sequence[int | None],
    whole: Sequence[float],
    unknown: Sequence[float] | None = None,
) -> CallCounts:
    """`unknown` stands in front of calls that were not counted (None: what usually does)."""
    known = [
        None if of is None else of / scale - ours for of, ours in zip(told, whole, strict=True)
    ]
    if unknown is None:
        usual = median(max(0.0, one) for one in known if one is not None)
        unknown = [usual] * len(whole)
    pairs = zip(known, unknown, strict=True)
    return CallCounts(scale, tuple(other if one is None else one for one, other in pairs))


def _grown(counted: Sequence[tuple[int, float]], scale: float) -> float:
    """The model's tokens for a neutral one by what the calls grew, near `scale`."""
    (first, ours_first), (last, ours_last) = counted[0], counted[-1]
    if len(counted) < _FEWEST or ours_last <= ours_first or last <= first:
        return scale
    grown = (last - first) / (ours_last - ours_first)
    return min(max(grown, scale / _FARTHEST), scale * _FARTHEST)


def unseen_of(counts: Sequence[CallCounts]) -> Span:
    """The model's tokens in front of most calls: without the tenth with least, and with most."""
    figures: list[float] = []
    for each in counts:
        rest = sorted(max(0.0, one) * each.scale for one in each.unseen)
        figures += quantiles(rest, n=10)[::8] if len(rest) > 1 else rest * 2
    return Span.of(figures or [0.0])


@dataclass(frozen=True, slots=True)
class RecordedCache:
    """What a call's input cost as it was recorded, in fresh input tokens of the first tier.

    `factor` is how much more was paid than the usage costs at the listed price, `output` what the
    reply cost in US dollars.
    """

    usage: Usage
    units: float
    factor: float
    output: float

    def tokens_of(self, call: CallTokens, whole: CallTokens) -> float:
        """What the cache holds of another window of this call; `whole` is the recorded one."""
        cached = self.usage.tokens_cached
        if call == whole:
            return cached
        held = min(1.0, cached / whole.shared) if whole.shared else 0.0
        return held * call.shared

    def cost(self, call: CallTokens, whole: CallTokens, vector: Vector) -> float:
        """What another window of this call costs."""
        if call == whole:
            return self.units
        used, told = self.usage, self.usage.tokens_in
        fresh = told - used.tokens_cached
        paid = self.units / vector.factor(told) - used.tokens_cached * vector.read
        rest = paid / fresh if fresh > 0 else vector.write
        return input_units(vector, call.tokens, self.tokens_of(call, whole), fresh=rest)


def recorded_cache(recording: Recording, prices: PricedVector) -> tuple[RecordedCache | None, ...]:
    """Of each call what the cache held; None where it is not known, or prices are another's."""
    is_own = prices.rate is not None and prices.name in (OWN, recording.model)
    return tuple(_recorded(call, prices) if is_own else None for call in recording.calls)


def _recorded(call: RecordedCall, prices: PricedVector) -> RecordedCache | None:
    used, one = call.usage, prices.dollars(1.0)
    if used is None or not used.tokens_in or not one:
        return None
    dollars, whole = (
        cost(call.model, **asdict(replace(used, tokens_out=0))),
        cost(call.model, **asdict(used)),
    )
    if dollars is None or not whole:
        return None
    factor = (call.dollars or whole) / whole
    return RecordedCache(used, dollars / one, factor, (whole - dollars) * factor)
