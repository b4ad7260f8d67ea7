"""The results of a replay: each policy on each recording at each of the prices, and their sums.

A replay in words and tables, as the terminal and the page show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from windlass.caching.rates import many, money, table_date
from windlass.cascade.policies import EVERYTHING
from windlass.importing.recording import ESTIMATED, GRADES, RecordingFacts
from windlass.text.cell_tables import Cell, CellTable, Columns, NumberCell, table_of


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
        """Return the mean of both."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What calls needed of earlier results, and how much of it was in view."""

    values: int
    """Values that calls needed."""
    values_seen: int
    """Of `values`, those that were in view."""
    lines: int
    """Whole lines that calls needed."""
    lines_seen: int
    misses: int
    """Results that calls needed and did not see: they are fetched again."""

    @property
    def recall(self) -> float:
        """Return the share of the needed values and lines that was in view."""
        needed = self.values + self.lines
        return (self.values_seen + self.lines_seen) / needed if needed else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBill(Sight):
    """What windows cost, in fresh input tokens of the model's count, and keep in view."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCost(ReplayBill):
    """What a policy costs, and keeps in view, on a recording or on several, at some prices."""

    policy: str
    prices: str
    recordings: int
    call_count: int
    dollars: Span | None
    """US dollars of input, output and what is fetched again, without the `unpriced` recordings
    (None: no price is known)."""
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
    shortened: int = 0
    """Messages that a call saw shortened."""
    compactions: int = 0
    """Calls before which the conversation was compacted."""
    worst: float = 0.0
    """The largest `ratio` of one recording."""
    worst_recording: str = ""

    @property
    def ratio(self) -> Span:
        """Return what the policy costs, divided by what sending everything does."""
        if self.dollars is not None and self.everything_dollars is not None:
            pairs = list(zip(self.dollars, self.everything_dollars, strict=True))
        else:
            paid = map(sum, zip(self.bill, self.again, strict=True))
            pairs = list(zip(paid, self.everything, strict=True))
        return Span.of(one / whole if whole else 1.0 for one, whole in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingReplay(RecordingFacts):
    """One recording under each policy at each of the prices."""

    source: str
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
    title: str = ""
    """The day it began, and the user's first words."""
    results_as_words: bool = False
    """Whether results were sent as words of the user, which are never shortened."""
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
    "shortened",
    "compactions",
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


_MANY: Final = 100_000
"""From so many tokens on, a count is shown in thousands."""


def only_one(replayed: Replay) -> RecordingReplay | None:
    """Return the recording, where there is only one."""
    return replayed.recordings[0] if len(replayed.recordings) == 1 else None


def totals_table(replayed: Replay) -> CellTable:
    """Return what each policy costs and keeps in view."""
    one = only_one(replayed)
    sources = {recording.name: recording.source for recording in replayed.recordings}
    several = len({one.prices for one in replayed.totals}) > 1
    columns: Columns[PolicyCost] = {"policy": lambda one: one.policy}
    if several:
        columns["prices"] = lambda one: one.prices
    columns |= {
        "cost": lambda one: NumberCell(cost_text(one)),
        "of everything": lambda one: NumberCell(percents(one.ratio)),
        "tokens in": lambda one: NumberCell(_range(*map(_thousands, one.tokens))),
        "fetched again": lambda one: one.misses,
        "values": lambda one: NumberCell(_share(one.values_seen, one.values)),
        "lines": lambda one: NumberCell(_share(one.lines_seen, one.lines)),
    }
    if one:
        columns["first differs"] = lambda one: NumberCell(_calls(one)[0])
        columns["dearest call"] = lambda one: NumberCell(_calls(one)[1])
    else:
        columns["worst recording"] = lambda one: _worst(one, sources)
    return table_of(replayed.totals, columns)


def sessions_table(replayed: Replay) -> CellTable:
    """Return a row for each recording, the dearest first: its cost, and that under each policy."""
    prices = replayed.totals[0].prices
    policies = [one.policy for one in replayed.totals if one.prices == prices]
    others = [policy for policy in policies if policy != EVERYTHING] or policies
    rows: list[list[Cell]] = []
    for one in sorted(replayed.recordings, key=lambda each: each.recorded or 0.0, reverse=True):
        costs = {each.policy: each for each in one.outlays if each.prices == prices}
        cells = (
            NumberCell(cell)
            for policy in others
            for cell in (cost_text(costs[policy]), percents(costs[policy].ratio))
        )
        recorded = NumberCell("-" if one.recorded is None else money(one.recorded))
        rows.append([one.title, one.call_count, recorded, *cells])
    heads = [head for policy in others for head in (policy, "of everything")]
    return CellTable(["session", "calls", "recorded", *heads], rows)


def describe_replay(replayed: Replay) -> Iterator[str]:
    """Yield what was replayed, what it cost, and what the columns of the table mean."""
    one = only_one(replayed)
    recorded = "not known" if replayed.recorded is None else money(replayed.recorded)
    if replayed.recorded is not None and replayed.unknown:
        recorded += f", and not known of {many(replayed.unknown, 'recording')}"
    if one is not None:
        yield (
            f"{one.title or one.name}: {many(one.call_count, 'call')} of {one.model}, {one.format},"
            f" {GRADES[one.grade]}"
        )
    else:
        grades = sorted({recording.grade for recording in replayed.recordings})
        evidence = ", ".join(GRADES[grade] for grade in grades)
        calls = many(sum(one.call_count for one in replayed.recordings), "call")
        yield f"{many(len(replayed.recordings), 'recording')} with {calls} ({evidence})"
    beside = sum(one.beside for one in replayed.recordings)
    if beside:
        recorded += f", of it {money(beside)} for what models were asked beside these calls"
    yield f"what it cost, as recorded: {recorded}"
    if estimated := sum(recording.estimated for recording in replayed.recordings):
        yield ESTIMATED.format(many(estimated, "call"))
    yield (
        "cost: input, output and what is fetched again; fetched again: results that a call needed"
        " and did not see"
    )
    yield (
        "values: names, paths and numbers of results that later calls needed, and how many were in"
        " view; lines: the same of whole lines"
    )


def list_notes(replayed: Replay) -> Iterator[str]:
    """Yield what the figures are based on, and what they leave out."""
    one = only_one(replayed)
    if any(one.grade == "C" and one.unseen.high for one in replayed.recordings):
        unseen = ""
        if one is not None and one.unseen.high:
            low, high = (f"{tokens:,.0f}" for tokens in one.unseen)
            unseen = f", here {low} to {high} tokens of each call"
        yield (
            "system prompt and tools are not in the transcript; they count by what the"
            f" provider counted{unseen}"
        )
    if note := _cache_note(replayed):
        yield note
    yield from replayed.assumed
    if unpriced := max(one.unpriced for one in replayed.totals):
        yield f"without a price, and so in no cost: {many(unpriced, 'recording')}"
    if any(one.dollars is not None for one in replayed.totals):
        yield f"prices: {table_date()}"
    if one is not None and one.results_as_words:
        yield "results are told as words of the user: what calls need of them counts, and they stay"
    elif one is not None and not one.results:
        yield "no message is a result of a tool, so what later calls needed is not known"
    counts: dict[str, int] = {}
    for recording in replayed.recordings:
        for reason, count in recording.skipped.items():
            counts[reason] = counts.get(reason, 0) + count
    for reason, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        yield f"skipped: {count:,} {reason}"
    if replayed.skipped:
        yield f"left out, and named above: {len(replayed.skipped):,}"


def _cache_note(replayed: Replay) -> str:
    """Say how much the provider's cache held, and how much the bill counts on; empty: unknown."""
    tokens_in = sum(recording.recorded_in for recording in replayed.recordings)
    cached = sum(recording.recorded_cached for recording in replayed.recordings)
    whole = next((one for one in replayed.totals if one.ratio == (1, 1)), None)
    if not tokens_in or whole is None or not whole.cached.high:
        return ""
    share = whole.cached.middle / whole.tokens.middle
    return (
        f"as recorded, {cached / tokens_in:.0%} of the input was read from the cache; the bill of"
        f" {whole.policy} counts on {share:.0%}"
    )


def cost_text(one: PolicyCost) -> str:
    """Return what a policy costs, for people."""
    if one.dollars is not None:
        return _range(*(money(one) for one in one.dollars))
    units = map(sum, zip(one.bill, one.again, strict=True))
    return _range(*map(_thousands, units)) + " tokens"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} - {high}"


def percents(span: Span, digits: int = 0) -> str:
    """Return a share for people: `71 %`, or `71 - 73 %`."""
    return _range(*(f"{100 * one:.{digits}f}" for one in span)) + " %"


def _share(seen: int, needed: int) -> str:
    return f"{seen:,}/{needed:,}" if needed else "-"


def _worst(one: PolicyCost, sources: Mapping[str, str]) -> str:
    if one.worst == 1 and one.ratio == (1, 1):
        return "-"
    file = Path(sources[one.worst_recording]).name
    return f"{100 * one.worst:.0f} % {file or one.worst_recording}"


def _calls(one: PolicyCost) -> list[str]:
    first, dearest = one.first_difference, one.dearest
    amount = "-"
    if dearest is not None:
        amount = f"{dearest}: {amount_text(one, one.calls[dearest - 1].cost)}"
    return ["-" if first is None else str(first), amount]


def _thousands(tokens: float) -> str:
    return f"{tokens / 1_000:,.0f}k" if tokens >= _MANY else f"{tokens:,.0f}"


def amount_text(one: PolicyCost, cost: float) -> str:
    """Return the cost of a call, for people."""
    return f"{cost:,.0f}" if one.dollars is None else money(cost)
