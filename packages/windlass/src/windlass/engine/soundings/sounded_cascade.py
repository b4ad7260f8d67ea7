"""Soundings of a whole cascade: each attempt is a session of its own under the one that asked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.cascade.model import Phase
from windlass.cascade.sounding_options import Soundings
from windlass.engine._subcascades import open_below, phase_output, take_state
from windlass.engine.cascade_run import CascadeRun, Nesting
from windlass.engine.events import Event
from windlass.engine.phase.phase import Tried, record_question
from windlass.engine.phase.sources import last_said
from windlass.engine.soundings.evaluating import Sounding
from windlass.engine.soundings.soundings import Planned, SoundedPhase, with_answers
from windlass.errors import AnswerNeeded, RunLimitReached, person_needed
from windlass.history.base import Ending, StateChange
from windlass.window.entries import Item


async def run_sounded_cascade(run: CascadeRun, wanted: Soundings) -> Ending:
    """Run a cascade as soundings; the best's outputs and state are the run's."""
    return (await _SoundedCascade(run, run.cascade.phases[-1], wanted).carry_out()).ending


class _SoundedCascade(SoundedPhase):
    """Attempts at a cascade. What is recorded of them here stands with its last phase."""

    what = "cascade"

    async def _run_sounding(
        self,
        index: int,
        number: int,
        planned: Planned,
        emit: Callable[[Event], None],
    ) -> Sounding:
        """Return one attempt in a session of its own; what it used is added to the whole."""
        own = open_attempt(self.run, index, planned, emit)
        tried, session_id = None, own.record.session_id
        assert self.run.nesting.run_below is not None
        try:
            result = await self.run.nesting.run_below(own)
        finally:
            self._add_up(own)
        error = result.error
        if "budget" in result.notes:
            error = RunLimitReached(**result.notes["budget"])
        if (needed := person_needed(result.notes)) is not None:
            raise needed
        last = own.session.last_phase
        if error is None and last is not None:
            output = last_said(own.record.items(own.session.ran[-1].phase))
            tried = Tried(last, Ending(result.status, result.reason), output)
        ended = Sounding(index, own, tried, error)
        named = own.generation_of(own.cascade.phases[-1]).model
        self._tell_of(ended, self.run, number, model=named, session_id=session_id)
        return ended

    def _where(self, key: str) -> str:
        return self.run.cascade.where(f"soundings.{key}")

    async def _best(
        self, found: Sequence[Sounding], looked_for: str | None, key: str = "evaluator_instructions"
    ) -> Sounding:
        try:
            return await super()._best(found, looked_for, key)
        except AnswerNeeded as needed:  # no phase ends here that would tell it
            record_question(self.run.record, self.phase.name, needed)
            raise

    async def _extracted(self, _output: Item) -> Sequence[StateChange]:
        """Nothing: each attempt took its own; the state is that of the first that stands."""
        self._take_over(with_answers(self.all.values())[0])
        session, name = self.run.session, self.phase.name
        session.said_in = None
        session.outputs.pop(name, None)  # so that it is the last
        session.outputs[name] = phase_output(self.run.record, name)
        return ()

    def _take_over(self, won: Sounding) -> None:
        """Make the winner's outputs and state the run's; its messages stay in its own session."""
        take_state(self.run, self.phase.name, won.run)
        session, own = self.run.session, won.run.session
        session.outputs.update(own.outputs)
        session.ran = own.ran
        session.said_in = own.said_in or won.run.record
        self.run.caches.previous = won.run.caches.previous
        if self.wanted.joins is None:
            self._remember([won])

    @property
    def _phases(self) -> Sequence[Phase]:
        return self.run.cascade.phases


def open_attempt(
    run: CascadeRun, index: int, planned: Planned, emit: Callable[[Event], None]
) -> CascadeRun:
    """Return the run of one attempt at a cascade, with nothing done yet."""
    ready = run.ready._replace(cascade=run.cascade.model_copy(update=dict(planned.settings)))
    nesting = Nesting(run, sounding=index, wording=planned.wording)
    own = open_below(
        run, f"s{index}", ready, copy.deepcopy(dict(run.input)), nesting, on_event=emit
    )
    own.session.state.update(copy.deepcopy(run.session.state))
    return replace(own, caches=run.caches.fork())
