"""The results of a replay: each policy on each recording at each of the prices, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from windlass.importing.recording import Grade


class Span(NamedTuple):
    """The bounds between which a figure lies; both are the same where it is exact."""

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
class ReplayedWindow:
    """One call under a policy."""

    tokens: float
    """Its input, by the model's count."""
    hidden: float
    """Tokens that sending everything would add."""
    cost: float
    """US dollars, output included; fresh input tokens where no price is known."""


@dataclass(frozen=True, slots=True)
class HiddenMessage:
    """A message that the last call sees changed or not at all: what became of it, and why."""

    position: int
    """Its place among the messages, from 0."""
    role: str
    tool: str
    """The tool whose result it is (empty: of none)."""
    action: str
    reason: str
    tokens_before: int
    tokens_after: int
    calls: int
    """The calls that come after it."""


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """What a policy costs, and keeps in view, on a recording or on several, at some prices.

    Bills are in fresh input tokens of the model's count.
    """

    policy: str
    prices: str
    recordings: int
    call_count: int
    tokens: Span
    """The input of all calls."""
    bill: Span
    """What the input costs."""
    again: Span
    """What it costs to fetch again the results that calls needed and did not see."""
    cached: Span
    """Of `tokens`, those that are read from the cache."""
    everything: Span
    """The bill of sending everything."""
    dollars: Span | None
    """US dollars of input, output and what is fetched again, without the `unpriced` recordings
    (None: no price is known)."""
    values: int
    """Values that calls needed."""
    values_seen: int
    """Of `values`, those that were in view."""
    lines: int
    """Whole lines that calls needed."""
    lines_seen: int
    misses: int
    """Results that calls needed and did not see."""
    everything_dollars: Span | None = None
    """The same as `dollars`, of sending everything."""
    unpriced: int = 0
    first_difference: int | None = None
    """The number, from 1, of the first call whose window differs from sending everything (None: no
    call's does)."""
    dearest: int | None = None
    """The number of the dearest call, from 1."""
    calls: tuple[ReplayedWindow, ...] = ()
    """Each call; empty for the sum of several recordings."""
    hidden: tuple[HiddenMessage, ...] = ()
    worst: float = 0.0
    """The largest `ratio` of one recording."""
    worst_recording: str = ""

    @property
    def ratio(self) -> Span:
        """What the policy costs, divided by what sending everything does."""
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
    """One recording under each policy at each of the prices."""

    name: str
    source: str
    format: str
    grade: Grade
    kind: str
    model: str
    call_count: int
    results: int
    """How many results of tools it has."""
    recorded: float | None
    """What it cost as recorded, in US dollars, with what is `beside` (None: unknown)."""
    beside: float
    """US dollars of what models were asked beside calls, which is not replayed."""
    recorded_in: int
    """The tokens of its input that the provider counted."""
    recorded_cached: int
    """Of `recorded_in`, those that the provider read from its cache."""
    unseen: Span
    """The tokens that each call sent besides the messages; an estimate for a transcript."""
    outlays: tuple[PolicyCost, ...]
    estimated: int = 0
    """Calls whose output was not recorded, and is estimated."""
    title: str = ""
    """The day it began, and the user's first words."""
    results_as_words: bool = False
    """Whether results were sent as words of the user, which are never shortened."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """What was left out of the file: how often, by reason."""
    times: tuple[float | None, ...] = ()
    """When each call was made, in seconds since 1970 (None: unknown)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Recordings under policies: each by itself, and all together in `totals`."""

    recordings: tuple[RecordingReplay, ...]
    totals: tuple[PolicyCost, ...]
    recorded: float | None
    """What they cost as recorded, in US dollars, without the `unknown` ones (None: all unknown)."""
    unknown: int
    """Recordings whose cost is not known."""
    policies: Mapping[str, Mapping[str, Any]]
    """The options of each policy, by its name."""
    assumed: tuple[str, ...] = ()
    """Sentences about what was assumed of prices."""
    skipped: tuple[str, ...] = ()
    """Sentences about files and recordings that were left out."""


def totals_of(recordings: Sequence[RecordingReplay]) -> tuple[PolicyCost, ...]:
    """Return the sums over recordings, for each policy at each of the prices."""
    groups: dict[tuple[str, str], list[tuple[str, PolicyCost]]] = {}
    for recording in recordings:
        for cost in recording.outlays:
            groups.setdefault((cost.policy, cost.prices), []).append((recording.name, cost))
    return tuple(_total(group) for group in groups.values())


_SPANS: Final = ("tokens", "bill", "again", "cached", "everything")
_COUNTS: Final = (
    "recordings",
    "call_count",
    "values",
    "values_seen",
    "lines",
    "lines_seen",
    "misses",
)


def _total(group: Sequence[tuple[str, PolicyCost]]) -> PolicyCost:
    costs = [cost for _, cost in group]
    first = costs[0]
    if len(costs) == 1:
        return first
    worst, name = max((cost.ratio.high, name) for name, cost in group)
    known = [cost.dollars for cost in costs if cost.dollars is not None]
    wholes = [cost.everything_dollars for cost in costs if cost.everything_dollars is not None]
    sums: dict[str, Any] = {name: _sum(getattr(cost, name) for cost in costs) for name in _SPANS}
    sums |= {name: sum(getattr(cost, name) for cost in costs) for name in _COUNTS}
    return PolicyCost(
        policy=first.policy,
        prices=first.prices,
        **sums,
        dollars=_sum(known) if known else None,
        everything_dollars=_sum(wholes) if known else None,
        unpriced=len(costs) - len(known),
        worst=worst,
        worst_recording=name,
    )


def _sum(spans: Iterable[Span]) -> Span:
    listed = list(spans)
    return Span(sum(span.low for span in listed), sum(span.high for span in listed))
