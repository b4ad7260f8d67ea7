"""What a session comes to: the caches of its models, its state, its totals, and what was told.

A sounding works on forks of these holders. What it did is added to the whole, and the one that is
taken hands its holders back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.caching.meter import Bill, Meter
from windlass.caching.model_cache import CacheState
from windlass.caching.prices import UNCACHED
from windlass.caching.rates import Rate, cost, input_dollars, is_local, prices_of, rate
from windlass.engine._phase_run import PhaseRun
from windlass.engine.turn.record import Recorder
from windlass.history.base import Status
from windlass.providers.base import ModelInfo
from windlass.text.templates import PhaseOutput
from windlass.window.entries import Edit, Item
from windlass.wire.base import Usage


@dataclass
class ModelCache(CacheState):
    """The cache of one model in a run, with what the requests cost.

    `paid` is the rate that is really billed (None: it costs nothing, or nobody knows). `meter`
    bills the requests as they were sent, `whole` as they would have been without windows; `spent`
    and `spent_whole` are their sums, in fresh input tokens, and `spent_before` both of them when
    the cache was forked. `held` is the share of what the cache should have given that the last
    report shows.
    """

    paid: Rate | None = None
    spent: float = 0.0
    spent_whole: float = 0.0
    spent_before: tuple[float, float] = (0.0, 0.0)
    held: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meter = Meter(self.prices)
        self.whole = Meter(self.prices)

    def saved(self, sent: Bill, whole: Bill, usage: Usage | None) -> float:
        """US dollars by which the input of a call cost less than sending everything would have.

        `sent` and `whole` are both requests by our count. What was sent cost what its `usage`
        says. For everything our count is corrected by that report: its tokens, the share of them
        that the cache gave, the share that was written to it. Without a report (None) both bills
        are by our count.
        """
        if self.paid is None:
            return 0.0
        if usage is None or usage.tokens_in < 1 or not sent.tokens:
            return input_dollars(self.paid, whole.units - sent.units)
        if sent.cached:
            should = sent.cached / sent.tokens
            self.held = min(1.0, usage.tokens_cached / usage.tokens_in / should)
        tokens = round(usage.tokens_in * whole.tokens / sent.tokens)
        read = round(usage.tokens_in * self.held * whole.cached / sent.tokens)
        read = min(tokens, max(read, usage.tokens_cached))
        fresh = usage.tokens_in - usage.tokens_cached
        share, long = 1.0, 0.0
        if fresh and sent.tokens >= self.prices.minimum:  # a shorter one is never written
            share, long = usage.tokens_written / fresh, usage.tokens_written_long / fresh
        elif whole.tokens < self.prices.minimum:
            share = 0.0
        written = round(share * (tokens - read)), round(long * (tokens - read))
        name = self.paid.model
        everything = cost(name, tokens, 0, read, written[0], tokens_written_long=written[1])
        billed = cost(name, **asdict(replace(usage, tokens_out=0)))
        return (everything or 0.0) - (billed or 0.0)

    def fork(self) -> ModelCache:
        """A copy for a sounding; the meters are shared, since a provider caches for all of them."""
        own = copy.copy(self)
        own.spent_before = self.spent, self.spent_whole
        return own

    def add_spent(self, own: ModelCache) -> None:
        """Add what was spent with a fork since it was made."""
        self.spent += own.spent - own.spent_before[0]
        self.spent_whole += own.spent_whole - own.spent_before[1]

    def with_sums_of(self, whole: ModelCache) -> ModelCache:
        """This fork, to go on in the place of the cache it was made from."""
        self.spent, self.spent_whole = whole.spent, whole.spent_whole
        self.spent_before = whole.spent_before
        return self


@dataclass(slots=True)
class ModelCaches:
    """The prompt caches of a run's models."""

    by_model: dict[str, ModelCache] = field(default_factory=dict[str, ModelCache])
    """The cache of each model that was called."""
    previous: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The last request as (identity, tokens), tools first: what a cache may hold of it."""

    def of(self, info: ModelInfo) -> ModelCache:
        """Return the cache of a model, made at the first question."""
        if info.name not in self.by_model:
            self.by_model[info.name] = cache_of_model(info)
        return self.by_model[info.name]

    def fork(self) -> ModelCaches:
        """Return a copy for a sounding: what the last call of each sounding was sent is its own."""
        caches = {name: cache.fork() for name, cache in self.by_model.items()}
        return ModelCaches(caches, list(self.previous))

    def for_task(self, *, parallel: bool) -> ModelCaches:
        """Return the caches for a task, which continues no earlier request.

        `parallel`: others run beside it, so that it counts on nothing of what they are sent.
        """
        return ModelCaches() if parallel else ModelCaches(self.by_model)

    def add_spent(self, own: ModelCaches) -> None:
        """Add what was spent with a fork, whether it is taken or not."""
        for name, cache in own.by_model.items():
            counted = self.by_model.setdefault(name, cache)
            if counted is not cache:
                counted.add_spent(cache)

    def adopt(self, taken: ModelCaches) -> None:
        """Take over the fork that was taken: the next call goes on from what it was sent.

        What all forks spent was added before.
        """
        for name, cache in taken.by_model.items():
            self.by_model[name] = cache.with_sums_of(self.by_model[name])
        self.previous = taken.previous


def cache_of_model(info: ModelInfo) -> ModelCache:
    """Return the cache of a model before its first call."""
    name = info.name
    assumed: list[str] = []
    billed_rate = rate(name)
    if info.free and billed_rate is None and not is_local(name):
        prices = UNCACHED  # nobody bills it: fewer tokens are all that counts
    else:
        prices = prices_of(name, warn=assumed.append)
    paid = None if info.free else billed_rate
    return ModelCache(name, prices, assumed[0] if assumed else "", paid=paid)


@dataclass(frozen=True, slots=True)
class Route:
    """What a phase that ended chose to come next: a phase, or `end`; `by` is who chose it.

    `why` says it in words.
    """

    target: str
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Visit:
    """A phase that runs: for which time, from 1, and its last turn before; turns go on counting."""

    phase: str = ""
    number: int = 1
    after_turn: int = 0


@dataclass(frozen=True, slots=True)
class Ran:
    """A visit of a phase that ended: which it was, from 1, and how it ended.

    `hidden`: later windows see its output only. Its output is that of the phase that it
    `stands_for`, too.
    """

    phase: str
    visit: int
    status: Status
    hidden: bool
    stands_for: str | None = None


@dataclass(frozen=True, slots=True)
class EndedVisit:
    """A visit of a phase that ended, and where its messages are recorded.

    `names` are those that sources have for it, the shortest first; `edits` are those of its
    messages that last. Of a phase of a sub-cascade, `after` is how many visits of phases had ended
    by then in the run above.
    """

    names: tuple[str, ...]
    visit: Ran
    record: Recorder
    edits: Mapping[str, Edit]
    after: int = 0

    @property
    def items(self) -> list[Item]:
        """The messages said in it."""
        return self.record.items(self.visit.phase, self.visit.visit)


@dataclass(slots=True)
class SessionState:
    """The state, outputs and edits that the phases of a session leave for those after them."""

    readable: tuple[Path, ...] = ()
    """Folders and files that tools may read besides their own."""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """The cascade's state, as the accepted attempts left it."""
    outputs: dict[str, PhaseOutput] = field(default_factory=dict[str, PhaseOutput])
    """The outputs of phases that ended, by name."""
    edits: dict[str, Edit] = field(default_factory=dict[str, Edit])
    """The edits of messages that hold in later phases, too, by occurrence."""
    callouts: dict[str, str] = field(default_factory=dict[str, str])
    """The names of messages that were marked as important, by occurrence."""
    remembered: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """Writes to memory banks that a sounding asked for; they are made if it is taken."""
    choosing: object | None = None
    """The memory of phases that choose; only `choosing/session_index.py` knows its type."""
    said_in: Recorder | None = None
    """The session of the sounding that was taken, where its outputs were said (None: here)."""
    last_phase: PhaseRun | None = None
    """The phase before the one that runs (None: there was none)."""
    route: Route | None = None
    """What the phase that ended chose to come next (None: it chose nothing)."""
    ran: list[Ran] = field(default_factory=list[Ran])
    """The visits of phases that ended, in order."""
    below: list[EndedVisit] = field(default_factory=list[EndedVisit])
    """The visits of phases of sub-cascades that ended and may be sources, in order."""
    visit: Visit = field(default_factory=Visit)
    """The visit of the phase that runs."""

    def names_that_ran(self, exclude: Collection[str] = ()) -> list[str]:
        """Return the phases that ended, those of sub-cascades included, in order.

        `exclude` names phases of sub-cascades that are left out.
        """
        named = {name: each.names for each in self.below for name in each.names}
        names: list[str] = []
        for number in range(len(self.ran) + 1):
            for each in self.below:
                if each.after == number and not {*each.names} & {*exclude}:
                    names += [name for name in each.names if named[name] == each.names][:1]
            names += [each.phase for each in self.ran[number : number + 1]]
        return names

    def fork(self) -> SessionState:
        """Return a copy for a sounding, which changes nothing of the original."""
        return replace(
            self,
            state=dict(self.state),
            outputs=dict(self.outputs),
            edits=dict(self.edits),
            callouts=dict(self.callouts),
            below=list(self.below),
            remembered=[],
            choosing=None,
            route=None,
        )

    def for_task(self, *, parallel: bool) -> SessionState:
        """Return the state for a task, without the edits and marks of other tasks.

        `parallel`: others run beside it, so that it has its own copy of state and outputs.
        """
        own = replace(self, edits={}, callouts={})
        if parallel:
            own.state, own.outputs = dict(self.state), dict(self.outputs)
        return own

    def adopt(self, taken: SessionState) -> None:
        """Take over what the sounding that was taken marked and may read.

        Its state, its edits and its output are taken over where its phase ends, as those of any
        phase are; what it wants remembered is written then.
        """
        self.callouts = taken.callouts
        self.below = taken.below
        self.readable = taken.readable

    def let_read(self, file: Path) -> None:
        """Let the tools of this phase and of later ones read a file outside their folder."""
        if file not in self.readable:
            self.readable = (*self.readable, file)


@dataclass(slots=True)
class Net:
    """The US dollars that a session's windows saved, and those spent on making them.

    `calls` are those that had a window and a price. `needed`: everything could not have been sent,
    because the model or the user's own limits do not let it.
    """

    calls: int = 0
    saved: float = 0.0
    spent: float = 0.0
    needed: bool = False

    @property
    def net(self) -> float:
        """Saved less spent; negative where windows lost money."""
        return self.saved - self.spent


@dataclass(slots=True)
class SessionTotals:
    """The calls of a session, their tokens and their cost."""

    calls: int = 0
    """Calls of models."""
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    """Tokens that were billed."""
    cost: float | None = 0.0
    """US dollars (None: a call had no known price)."""
    saved_tokens: int = 0
    """Tokens that a snowball would have sent beyond what was sent."""
    calls_before: int = 0
    """Calls of the run that this one was forked from, until then."""
    net: Net = field(default_factory=Net)
    """What its windows saved and cost, in all forks together."""

    @property
    def call_number(self) -> int:
        """The number of the newest call, from 1, those before the fork included."""
        return self.calls_before + self.calls

    def fork(self) -> SessionTotals:
        """Totals that begin at nothing and go on counting calls."""
        return SessionTotals(calls_before=self.call_number, net=self.net)

    def add(self, usage: Usage, dollars: float | None, saved_tokens: int = 0) -> None:
        """Add tokens and US dollars (None: nobody knows)."""
        self.usage = self.usage.plus(usage)
        # One call without a price makes the sum unknown; it is never counted as zero.
        self.cost = None if self.cost is None or dollars is None else self.cost + dollars
        self.saved_tokens += saved_tokens

    def add_all(self, other: SessionTotals) -> None:
        """Add what a fork or a sub-cascade took, its calls included."""
        self.add(other.usage, other.cost, other.saved_tokens)
        self.calls += other.calls


@dataclass(slots=True)
class Notices:
    """What a run and all runs below it share: findings, each told once, and what was called."""

    told: set[str] = field(default_factory=set[str])
    """The sentences that are not told again."""
    assumed_caches: set[str] = field(default_factory=set[str])
    """Models of whose prompt cache something is assumed."""
    no_schemas: set[str] = field(default_factory=set[str])
    """Models whose provider took no `output_schema`."""
    called: dict[str, int] = field(default_factory=dict[str, int])
    """Sessions of cascades that were called as tools, with how many each comes to at least."""
