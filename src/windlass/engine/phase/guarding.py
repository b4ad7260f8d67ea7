"""Wards at work: validators of what goes into a phase, of its replies, and of its output.

Each verdict is recorded; a resumed run takes it from there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass.cascade.model import Phase
from windlass.cascade.tools_named import wards_of
from windlass.cascade.validators import Place, Ward
from windlass.engine._phase_run import Generation, PhaseTools, StateCopy, TurnState
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.phase_setup import tool_context
from windlass.engine.phase.verdicts import Judging, Verdict, judge_text
from windlass.errors import WardRefused
from windlass.history.row_details import WardJudged
from windlass.messages import Message, user
from windlass.window.entries import Item


@dataclass(frozen=True, slots=True)
class Ground:
    """What a validator stands on where no model has been asked in the phase."""

    run: CascadeRun
    phase: Phase
    now: TurnState
    tools: PhaseTools

    @property
    def generation(self) -> Generation:
        """How the phase's model would be asked."""
        return self.run.generation_of(self.phase)

    @property
    def instructions(self) -> Item:
        """What was asked: nothing."""
        return Item("", _NOTHING, "")


_NOTHING: Message = user()


@dataclass(slots=True)
class Guard:
    """The wards of a phase while it runs, and how often each refused with mode `retry`."""

    run: CascadeRun
    phase: Phase
    refused: Counter[tuple[Place, int]] = field(default_factory=Counter[tuple[Place, int]])

    async def check_input(self) -> None:
        """Have the cascade's input judged before the phase begins. Raises WardRefused."""
        ground = ground_of(self.run, self.phase)
        text = json.dumps(self.run.input, ensure_ascii=False)
        self._block("pre", await self._judged("pre", ground, text))

    async def check(self, place: Place, on: Judging, text: str) -> str:
        """Have a text judged; returns why the model is to try again (empty: it need not).

        All wards of the place are asked, unless nothing was said. Raises WardRefused with all that
        blocking ones say.
        """
        refusals = await self._judged(place, on, text) if text.strip() else []
        self._block(place, refusals)
        again: list[str] = []
        for position, ward, verdict in refusals:
            if ward.mode != "retry":
                continue
            self.refused[place, position] += 1
            if self.refused[place, position] < ward.max_attempts:
                again.append(_reason(ward, verdict))
        if not again:
            return ""
        return "\n".join(_reason(ward, verdict) for _, ward, verdict in refusals)

    async def _judged(
        self, place: Place, on: Judging, text: str
    ) -> list[tuple[int, Ward, Verdict]]:
        """Return the refusals of the wards of a place, each of which is asked."""
        wards = [(at, ward) for where, at, ward in wards_of(self.phase) if where == place]
        verdicts = [(at, ward, await self._ask(place, at, ward, on, text)) for at, ward in wards]
        return [each for each in verdicts if not each[2].valid]

    async def _ask(self, place: Place, at: int, ward: Ward, on: Judging, text: str) -> Verdict:
        """Return a ward's verdict, from the record or of its validator, which is told."""
        run, now, name = self.run, on.now, self.phase.name
        attempt = now.attempt if place != "pre" else 0
        step = run.record.turn(name, attempt, now.turn)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        recorded = run.journal.wards.get((step, place, at, ward.validator, digest))
        known = None if recorded is None else Verdict(recorded.valid, recorded.reason)
        verdict = await judge_text(run, on, text, ward.validator, known)
        judged = WardJudged(
            step, place, at, ward.validator, ward.mode, digest, verdict.valid, verdict.reason
        )
        run.tell(name, f"phase {name!r}: {_words(ward, judged)}", judged, detail=judged.valid)
        return verdict

    def _block(self, place: Place, refusals: Sequence[tuple[int, Ward, Verdict]]) -> None:
        """Raise WardRefused where a blocking ward is among those that refuse."""
        blocking = [(ward, verdict) for _, ward, verdict in refusals if ward.mode == "blocking"]
        if blocking:
            whys = "; ".join(_reason(ward, verdict) for ward, verdict in blocking)
            what = "its input" if place == "pre" else "what it says"
            raise WardRefused(f"phase {self.phase.name!r}: {what} is blocked: {whys}")


def ground_of(run: CascadeRun, phase: Phase) -> Ground:
    """Return the ground of a phase in which nothing was asked yet, with a copy of the state."""
    state = StateCopy(run.session.state)
    now = TurnState(state, turn=run.session.visit.after_turn)
    return Ground(run, phase, now, PhaseTools(tool_context(run, phase, state)))


def _reason(ward: Ward, verdict: Verdict) -> str:
    return f"{ward.validator}: {verdict.reason or 'no reason given'}"


def _words(ward: Ward, judged: WardJudged) -> str:
    """Return a ward's verdict in words."""
    of = {"pre": "the input", "post": "the output", "turn": "the reply"}[judged.place]
    if judged.valid:
        return f"ward {ward.validator!r} accepts {of}"
    return f"ward {_reason(ward, Verdict(valid=False, reason=judged.reason))} ({ward.mode}, {of})"
