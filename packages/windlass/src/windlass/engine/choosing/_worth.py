"""Whether it pays to choose anew: what that costs beside going on from what is cached.

Each way is billed over the calls that the phase is expected to make, by what the model's cache
holds now: the first call by the longest prefix that one of the last requests shares, the
following ones by reading it again. What the phase itself adds is the same either way. Later
phases go on from the shorter context, which is what choosing is worth to them: it may cost more
at first where the session comes out below the bill of a snowball.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from windlass.caching.bill import input_units
from windlass.caching.meter import Meter, pieces, weigh
from windlass.caching.prices import UNCACHED, Prices
from windlass.caching.rates import rate
from windlass.cascade.compile import compile_rule
from windlass.cascade.flow import sure_after
from windlass.cascade.model import Phase
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.history.base import BORN, NodeType
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.window.planner import Planner

REPLIES = BORN - {NodeType.USER, NodeType.TOOL_RESULT}

MARGIN: Final = 0.3
"""Choosing gains more than this share of what it costs at first, or waits: the planner's own."""
LEAST_GAIN: Final = 0.05
"""What choosing gains at least, as a share of what going on costs: a choice shows less."""
OVER: Final = 0.05
"""By how much the session's bill may pass a snowball's until choosing has paid: should the run end
at this phase, it is dearer by no more."""


@dataclass(frozen=True, slots=True)
class WayCost:
    """One way to begin a phase: the tokens of its first request, and fresh tokens' worth.

    `units` are those of this phase's calls, `later` those of reading it again in later phases.
    """

    tokens: int
    units: float
    later: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.units + self.later


@dataclass(frozen=True, slots=True)
class Worth:
    """The ways a phase could begin, over `calls` expected calls and `later_calls` of later phases.

    `go_on` goes on from what is cached, `select` chooses anew (`asking`, part of it, is what a
    selector takes), `whole` is the snowball that nobody sends. `spent` is what the session cost
    so far, `spent_whole` what its snowball would have.
    """

    calls: int
    later_calls: int
    go_on: WayCost
    select: WayCost
    whole: WayCost
    spent: float
    spent_whole: float
    asking: float = 0.0

    @property
    def pays(self) -> bool:
        """Whether choosing anew costs less, all in all."""
        more = self.select.units - self.go_on.units
        gain = self.go_on.total - self.select.total
        if more <= 0:
            return gain > LEAST_GAIN * self.go_on.total
        return gain > MARGIN * more and self._may_be_risked(self.select)

    def _may_be_risked(self, bill: WayCost) -> bool:
        """Whether the session then stays near its snowball's bill, and comes out below it."""
        now, then = self.spent + bill.units, self.spent_whole + self.whole.units
        return now <= (1 + OVER) * then and now + bill.later <= then + self.whole.later


def worth_of(
    run: CascadeRun,
    phase_run: PhaseRun,
    *,
    go_on: Sequence[Message],
    select: Sequence[Message],
    whole: Sequence[Message],
    asking: float,
) -> Worth:
    """Return what each way costs, by the messages of the phase's first request.

    `go_on` goes on from what is cached, `select` chooses anew, `whole` is a snowball's. `asking` is
    what a selector takes, in fresh tokens.
    """
    cache = run.caches.of(phase_run.info)
    phases, name = run.cascade.phases, phase_run.phase.name
    calls = calls_expected(run, next(phase for phase in phases if phase.name == name))
    later = _later_calls(run, phase_run, sure_after(phases, name))

    def bill(messages: Sequence[Message], meter: Meter, *, by_token: bool = True) -> WayCost:
        tools = run.definitions(phase_run.allowed, messages)
        counter, first = phase_run.info.counter, phase_run.info.tools_first
        request = weigh(counter, messages, tools, tools_first=first)
        if by_token:
            request = pieces(counter, messages, tools, request)
        used = Meter(UNCACHED) if cache.trust.absent else meter
        billed = used.expect(request, run.record.clock())
        again = _again(used.prices, billed.tokens)
        return WayCost(billed.tokens, billed.units + (calls - 1) * again, later * again)

    chosen = bill(select, cache.meter)
    return Worth(
        calls=calls,
        later_calls=later,
        go_on=bill(go_on, cache.meter),
        select=replace(chosen, units=chosen.units + asking),
        whole=bill(whole, cache.whole, by_token=False),
        spent=cache.spent,
        spent_whole=cache.spent_whole,
        asking=asking,
    )


def calls_expected(run: CascadeRun, phase: Phase) -> int:
    """Return how many calls a phase will make, as far as can be known.

    One where it has no tools; else as many as the earlier phase with the fewest made, because
    a choice that was counted on for longer than the phase lasts costs more than it saves; the
    planner's horizon where none came before. Never more than `max_turns`.
    """
    if not phase.tackle:
        return 1
    calls: dict[str, int] = {}
    for item in run.record.born:
        if item.node in REPLIES and item.phase != phase.name:
            calls[item.phase or ""] = calls.get(item.phase or "", 0) + 1
    earlier = [each for each in run.cascade.phases if each.name in calls]
    with_tools = [calls[each.name] for each in earlier if each.tackle]
    usual = Planner(UNCACHED).least_calls
    return max(1, min(phase.rules.max_turns, min(with_tools, default=usual)))


def _later_calls(run: CascadeRun, phase_run: PhaseRun, later: Sequence[Phase]) -> int:
    """Return the calls of later phases that may go on from what this one sees."""
    calls = 0
    for phase in later:
        if phase.tool is not None:
            continue
        model = run.settings.model_for(run.cascade.settings_for(phase).model)
        if model != phase_run.generation.model:
            break
        if compile_rule(run.cascade, phase, run.settings).mode != "auto":
            break
        calls += calls_expected(run, phase)
    return calls


def asking_costs(asking: ModelInfo, info: ModelInfo, tokens: int) -> float:
    """What a question of so many tokens to a helper costs, in fresh tokens of the asking model."""
    if info.name == asking.name:
        return float(tokens)
    theirs = None if info.free else rate(info.name)
    ours = None if asking.free else rate(asking.name)
    if theirs is None or ours is None or not ours.input:
        return 0.0 if info.free else float(tokens)
    return tokens * theirs.input / ours.input


def _again(prices: Prices, tokens: int) -> float:
    """Return what a request costs that was sent before, and is sent again with more behind it."""
    cached = tokens if prices.caches and tokens >= prices.minimum else 0
    return input_units(prices, tokens, cached, fresh=1.0)
