"""The state of a session, the totals of its calls, and the findings that are told once.

A sounding works on forks of these holders. What it did is added to the whole, and the one that is
taken hands its holders back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.engine._phase_run import PhaseRun
from windlass.engine.turn.record import Recorder
from windlass.history.base import Status
from windlass.text.templates import PhaseOutput
from windlass.window.entries import Edit, Item
from windlass.wire.base import Usage


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
    """The memory of phases that choose; only `choosing/_session_index.py` knows its type."""
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
