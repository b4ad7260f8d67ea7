"""What other windows would have cost, estimated from what the provider counted.

The recorded usage of a call says how many tokens were sent (even where a transcript lacks the tools
and the system prompt), how many of them the cache held, and what they cost. Another window of the
same call has fewer tokens. The cache is taken to hold the same share of the prefix that it has in
common with earlier calls, and the rest to cost what it cost then. So a window that changes nothing
costs what was paid, and each figure of a replay is a difference from the recorded bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median, quantiles
from typing import Final

from windlass.caching.bill import input_units
from windlass.caching.meter import SharedPrefix
from windlass.caching.rates import cost, search_fee
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message, Opaque
from windlass.replays.outcomes import Span
from windlass.replays.pricing import OWN, PricedVector, Vector
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Usage

UNSEEN_TOKENS: Final = 20_000
"""The most tokens that system prompt and tools are taken to have where neither was recorded.

Coding agents were seen to send 30 to 83 kB of them.
"""
_FEWEST: Final = 3
"""The fewest calls from whose growth the provider's way of counting is estimated."""
_FARTHEST: Final = 1.5
"""How many times the estimate from growth may be above or below that of the model's counter: the
provider also counts reminders and thinking that the transcript lacks."""


@dataclass(frozen=True, slots=True)
class CountEstimate:
    """An estimate of what the provider counted."""

    scale: float
    """The model's tokens for a neutral one."""
    unseen: tuple[float, ...]
    """Neutral tokens that each call sent besides the recorded messages; below 0 where less was sent
    than the transcript holds."""


def estimate_counts(
    recording: Recording, neutral: Sequence[float], tools: Sequence[float], total: float
) -> tuple[CountEstimate, CountEstimate]:
    """Return two estimates that bound the truth; the same twice where the requests are exact.

    Args:
        recording: The recording.
        neutral: The neutral tokens of the messages before each call.
        tools: The neutral tokens of the tools of each call.
        total: The neutral tokens of all messages.
    """
    reported = [
        None if call.usage is None else call.usage.tokens_in or None for call in recording.calls
    ]
    triples = zip(reported, neutral, tools, strict=True)
    pairs = [(count, ours + head) for count, ours, head in triples if count is not None]
    is_whole = recording.grade != "C" or recording.tools is not None
    if is_whole and pairs:
        scale = sum(count for count, _ in pairs) / max(1.0, sum(ours for _, ours in pairs))
        # Prompts and definitions are other texts than results: these are what grows.
        scale = _scale_by_growth(pairs, scale)
        return (_complete(scale, reported, neutral, tools),) * 2
    counter = FamilyCounter(recording.model)
    # Neutral tokens leave out thinking: where it is sent, it counts as unseen.
    ours = sum(counter.message(_without_thinking(each)) for each in recording.messages)
    scale = ours / total if total else 1.0
    if is_whole:
        return (_complete(scale, reported, neutral, tools),) * 2
    if not pairs:
        none, most = ([unseen] * len(neutral) for unseen in (0.0, UNSEEN_TOKENS / scale))
        return _complete(scale, reported, neutral, none), _complete(scale, reported, neutral, most)
    by_growth = _scale_by_growth(pairs, scale)
    return _complete(scale, reported, neutral), _complete(by_growth, reported, neutral)


def _without_thinking(message: Message) -> Message:
    return message.with_parts(*(part for part in message.parts if not isinstance(part, Opaque)))


def _complete(
    scale: float,
    reported: Sequence[int | None],
    neutral: Sequence[float],
    otherwise: Sequence[float] | None = None,
) -> CountEstimate:
    """Return the unseen tokens of each call: what was reported, less our own count of its messages.

    `otherwise` are those of calls without a report (None: the median of the others).
    """
    unseen = [
        None if count is None else count / scale - ours
        for count, ours in zip(reported, neutral, strict=True)
    ]
    if otherwise is None:
        usual = median(max(0.0, tokens) for tokens in unseen if tokens is not None)
        otherwise = [usual] * len(neutral)
    pairs = zip(unseen, otherwise, strict=True)
    return CountEstimate(scale, tuple(other if one is None else one for one, other in pairs))


def _scale_by_growth(pairs: Sequence[tuple[int, float]], scale: float) -> float:
    """The model's tokens for a neutral one, by how both grew from call to call; near `scale`."""
    (first, ours_first), (last, ours_last) = pairs[0], pairs[-1]
    if len(pairs) < _FEWEST or ours_last <= ours_first or last <= first:
        return scale
    growth = (last - first) / (ours_last - ours_first)
    return min(max(growth, scale / _FARTHEST), scale * _FARTHEST)


def unseen_tokens(counts: Sequence[CountEstimate]) -> Span:
    """Return what most calls sent besides the messages, in the model's tokens.

    The tenth of the calls with the least and the tenth with the most are left out.
    """
    bounds: list[float] = []
    for each in counts:
        unseen = sorted(max(0.0, tokens) * each.scale for tokens in each.unseen)
        bounds += quantiles(unseen, n=10)[::8] if len(unseen) > 1 else unseen * 2
    return Span.of(bounds or [0.0])


@dataclass(frozen=True, slots=True)
class RecordedCache:
    """What the cache held for a recorded call, and what the call cost."""

    usage: Usage
    units: float
    """What the input cost, in fresh input tokens of the first tier."""
    factor: float
    """What was paid, divided by what the usage costs at list prices."""
    output: float
    """What the reply cost, in US dollars."""

    def cached_tokens(
        self, call: SharedPrefix, whole: SharedPrefix, head: float = 0.0, less: float = 0.0
    ) -> float:
        """How much of another window the cache holds; `whole` is the window that was recorded.

        `head` are the tokens in front of the recorded messages: where the cache holds only a part,
        it is that, which other conversations begin with, too. The other window has `less` of them.
        """
        cached = self.usage.tokens_cached
        if call == whole:
            return cached
        front = min(cached, head)
        held = max(0.0, front - less)
        if whole.shared <= head:
            return held
        share = min(1.0, (cached - front) / (whole.shared - head))
        found = min(call.shared, held + share * max(0.0, call.shared - head + less))
        # Where it held more than our count says, a window that hardly differs has as much of it.
        more = max(0.0, cached - whole.shared) * call.shared / whole.shared
        return min(call.tokens, found + more)

    def price(
        self,
        call: SharedPrefix,
        whole: SharedPrefix,
        vector: Vector,
        head: float = 0.0,
        less: float = 0.0,
    ) -> float:
        """Return what the input of another window costs, in fresh input tokens.

        `head` and `less` are as in `cached_tokens`.
        """
        if call == whole:
            return self.units
        tokens_in, cached = self.usage.tokens_in, self.usage.tokens_cached
        paid = self.units / vector.factor(tokens_in) - cached * vector.read
        fresh = tokens_in - cached
        price = paid / fresh if fresh > 0 else vector.write
        held = self.cached_tokens(call, whole, head, less)
        return input_units(vector, call.tokens, held, fresh=price)


def read_caches(recording: Recording, prices: PricedVector) -> tuple[RecordedCache | None, ...]:
    """Return what the cache held for each call.

    None: not recorded, or the prices are another model's.
    """
    is_own = prices.rate is not None and prices.name in (OWN, recording.model)
    return tuple(_read_cache(call, prices) if is_own else None for call in recording.calls)


def _read_cache(call: RecordedCall, prices: PricedVector) -> RecordedCache | None:
    usage, unit = call.usage, prices.dollars(1.0)
    if usage is None or not usage.tokens_in or not unit:
        return None
    listed = replace(usage, searches=0, tier="")
    dollars = cost(call.model, **asdict(replace(listed, tokens_out=0)))
    whole = cost(call.model, **asdict(listed))
    if dollars is None or not whole:
        return None
    fee = search_fee(call.model, usage.searches) or 0.0
    factor = ((call.dollars or whole + fee) - fee) / whole
    return RecordedCache(usage, dollars / unit, factor, (whole - dollars) * factor + fee)
