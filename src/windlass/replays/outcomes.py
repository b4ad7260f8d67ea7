"""What a replay found: each policy on each recording at each of the prices, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windlass.importing.recording import Grade


class Span(NamedTuple):
    """A figure of which two bounds are known; both are the same where it is exact."""

    low: float
    high: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> Span:
        """From the least to the largest."""
        listed = list(figures)
        return cls(min(listed), max(listed))

    @property
    def middle(self) -> float:
        """The mean of both."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One call under a policy.

    `tokens` are its input by the model's count, `cost` is in US dollars, output included, or in
    fresh input tokens where no price is known. Of `hidden` tokens sending everything has more.
    """

    tokens: float
    hidden: float
    cost: float


@dataclass(frozen=True, slots=True)
class HiddenMessage:
    """A message that the last call does not see as it was said: what became of it, and why.

    `position` is its place among the messages, from 0; `tool` the one whose result it is.
    """

    position: int
    role: str
    tool: str
    action: str
    reason: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Outlay:
    """What a policy comes to on a recording, or on several, at some prices.

    `bill` and `again` are in fresh input tokens of the model's count: what the input cost, and
    what it costs to fetch again the results that calls needed and did not see (`misses`). Of the
    `tokens` so many are read from the cache (`cached`); `everything` is the bill of sending
    everything. `dollars`, and `everything_dollars`, are all of it with the output (None: no price
    is known), but for the `unpriced` recordings. `ratio` is what the policy costs, divided by what
    sending everything does. `values` and `lines` were needed, and so many of them in view.
    `first_difference` is the number of the first call that is sent something else than everything
    (None: no call is), `dearest` that of the dearest call, from 1. `calls` are the single ones.
    """

    policy: str
    prices: str
    recordings: int
    call_count: int
    tokens: Span
    bill: Span
    again: Span
    cached: Span
    everything: Span
    dollars: Span | None
    values: int
    values_seen: int
    lines: int
    lines_seen: int
    misses: int
    everything_dollars: Span | None = None
    unpriced: int = 0
    first_difference: int | None = None
    dearest: int | None = None
    calls: tuple[ReplayedCall, ...] = ()
    hidden: tuple[HiddenMessage, ...] = ()
    worst: float = 0.0
    worst_recording: str = ""

    @property
    def ratio(self) -> Span:
        """What it costs with what is fetched again, divided by sending everything."""
        if self.dollars is not None and self.everything_dollars is not None:
            pairs = list(zip(self.dollars, self.everything_dollars, strict=True))
        else:
            paid = map(sum, zip(self.bill, self.again, strict=True))
            pairs = list(zip(paid, self.everything, strict=True))
        return Span.of(one / whole if whole else 1.0 for one, whole in pairs)

    @property
    def recall(self) -> float:
        """The share of the needed values and lines that was in view."""
        needed = self.values + self.lines
        return (self.values_seen + self.lines_seen) / needed if needed else 1.0


@dataclass(frozen=True, slots=True)
class RecordingReplay:
    """One recording under each policy at each of the prices.

    `title` are the day and the user's first words. `recorded` is what it cost as it was recorded,
    in US dollars (None: unknown); of its
    `recorded_in` tokens the provider read `recorded_cached` from its cache. `unseen` are the
    tokens that each call sent beside the messages, by estimate where the evidence is a transcript.
    `results` counts its results of tools, which with `results_as_words` are told as words of the
    user and never shortened; `estimated` the calls whose output was not recorded and is
    estimated. `skipped` counts what of the file was left out, by reason. `times` say when each
    call was made, in seconds since 1970 (None: unknown).
    """

    name: str
    source: str
    format: str
    grade: Grade
    kind: str
    model: str
    call_count: int
    results: int
    recorded: float | None
    recorded_in: int
    recorded_cached: int
    unseen: Span
    outlays: tuple[Outlay, ...]
    estimated: int = 0
    title: str = ""
    results_as_words: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    times: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """Recordings under policies: each by itself, and all together in `totals`.

    `recorded` are US dollars, but for the `unknown` recordings whose cost is not known (None: of
    all). `policies` are the options of each by its
    name. `assumed` and `skipped` are sentences: what was assumed of prices, and which files and
    recordings were left out.
    """

    recordings: tuple[RecordingReplay, ...]
    totals: tuple[Outlay, ...]
    recorded: float | None
    unknown: int
    policies: Mapping[str, Mapping[str, Any]]
    assumed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def totals_of(recordings: Sequence[RecordingReplay]) -> tuple[Outlay, ...]:
    """The sums over recordings, for each policy and prices."""
    groups: dict[tuple[str, str], list[tuple[str, Outlay]]] = {}
    for recording in recordings:
        for outlay in recording.outlays:
            groups.setdefault((outlay.policy, outlay.prices), []).append((recording.name, outlay))
    return tuple(_total(group) for group in groups.values())


def _total(group: Sequence[tuple[str, Outlay]]) -> Outlay:
    outlays = [outlay for _, outlay in group]
    first = outlays[0]
    if len(outlays) == 1:
        return first
    worst, name = max((outlay.ratio.high, name) for name, outlay in group)
    dollars = [outlay.dollars for outlay in outlays]
    known = [one for one in dollars if one is not None]
    wholes = [outlay.everything_dollars for outlay in outlays]
    return Outlay(
        policy=first.policy,
        prices=first.prices,
        recordings=len(outlays),
        call_count=sum(outlay.call_count for outlay in outlays),
        tokens=_sum(outlay.tokens for outlay in outlays),
        bill=_sum(outlay.bill for outlay in outlays),
        again=_sum(outlay.again for outlay in outlays),
        cached=_sum(outlay.cached for outlay in outlays),
        everything=_sum(outlay.everything for outlay in outlays),
        dollars=_sum(known) if known else None,
        everything_dollars=_sum(whole for whole in wholes if whole is not None) if known else None,
        unpriced=len(dollars) - len(known),
        values=sum(outlay.values for outlay in outlays),
        values_seen=sum(outlay.values_seen for outlay in outlays),
        lines=sum(outlay.lines for outlay in outlays),
        lines_seen=sum(outlay.lines_seen for outlay in outlays),
        misses=sum(outlay.misses for outlay in outlays),
        worst=worst,
        worst_recording=name,
    )


def _sum(spans: Iterable[Span]) -> Span:
    listed = list(spans)
    return Span(sum(span.low for span in listed), sum(span.high for span in listed))
