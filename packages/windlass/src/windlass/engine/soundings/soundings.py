"""Soundings: several attempts side by side at a phase or a whole cascade; the best is taken.

Each attempt at a phase has a run of its own on the same history: it builds its own context, works
on a copy of the state, and its rows carry its index. One at a cascade has a session of its own.
They differ only in what is appended to their instructions, and the first is sent alone until its
first token is back, so that the others read from the cache what it wrote.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

from windlass.cascade.model import Phase
from windlass.cascade.sounding_options import Aggregate, Reforge, Soundings, VariedOptions
from windlass.cascade.tools_named import chooses_tools, tools_of
from windlass.engine.cascade_run import AS_WRITTEN, CascadeRun, Wording
from windlass.engine.events import (
    CallEnded,
    Event,
    LimitHit,
    Noted,
    QuestionAsked,
    TextArrived,
    Waiting,
)
from windlass.engine.phase.phase import Tried, extract_state, try_guarded
from windlass.engine.soundings.evaluating import Sounding, SoundingJudge, is_accepted, join_outputs
from windlass.errors import (
    PersonNeeded,
    PhaseFailed,
    StepDiffers,
    StoreError,
    UsageError,
    WindlassError,
    run_limit_in,
)
from windlass.history.base import COMPLETED, NodeType, Row, StateChange, in_words
from windlass.history.decisions import (
    Evaluation,
    Remark,
    SoundingEnded,
    SoundingsDecided,
    SoundingsWrite,
)
from windlass.history.details import OutcomeDetails
from windlass.messages import Part, Text, assistant, user
from windlass.text.prompts import OF_MODES, refine_text
from windlass.text.templates import render
from windlass.window.entries import Item


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt to come: its settings in place of the phase's, and its words."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wording: Wording = AS_WRITTEN

    @property
    def model(self) -> str:
        """The model that is named for it (empty: the phase's)."""
        return str(self.settings.get("model", ""))


def plan_round(
    wanted: Soundings, varied: VariedOptions, factor: int, seed: str, refined: Sequence[Part] = ()
) -> list[Planned]:
    """Return the attempts of a round, in their order.

    What is to be refined stands behind the instructions of each. A draw of models is made by the
    seed.
    """
    settings = _settings(wanted, factor, seed)
    words = wordings(varied, factor)
    behind = Wording(after=tuple(refined))
    return [Planned(*each) for each in zip(settings, map(behind.joined, words), strict=True)]


def _settings(wanted: Soundings, factor: int, seed: str) -> list[Mapping[str, Any]]:
    models: list[Mapping[str, Any]] = [each.changes for each in wanted.attempt_models]
    if models and wanted.model_strategy == "random":
        drawing = random.Random(seed)  # noqa: S311  # a draw that can be made again
        if len(models) == factor:
            drawing.shuffle(models)
        else:
            models = drawing.choices(models, k=factor)
    return list(islice(cycle(models or [{}]), factor))


def wordings(varied: VariedOptions, factor: int) -> list[Wording]:
    """Return how each attempt is asked; the first in the words of the cascade.

    >>> [each.after for each in wordings(VariedOptions(mutate=["Be brief."]), 2)]
    [(), (Text(text='Be brief.'),)]
    """
    if not varied.mutate:
        return [AS_WRITTEN] * factor
    texts = varied.mutations or OF_MODES[varied.mutation_mode]
    worded = (_worded(varied.mutation_mode, text) for text in cycle(texts))
    return [AS_WRITTEN, *islice(worded, factor - 1)]


def _worded(mode: str, text: str) -> Wording:
    match mode:
        case "rewrite":
            return Wording(orders=(text,))
        case "augment":
            return Wording(before=(Text(text),))
        case _:
            return Wording(after=(Text(text),))


async def try_sounded(run: CascadeRun, phase: Phase) -> Tried:
    """Return what the soundings of a phase come to: the one that is taken, or what joins them."""
    assert phase.soundings is not None
    work = SoundedPhase(run, phase, phase.soundings)
    tried = await work.carry_out()
    return replace(tried, details=OutcomeDetails(soundings=work.decided.summary))


class SoundedPhase:
    """The soundings of one phase in hand; `all` are those that ended, by their index."""

    what = "phase"

    def __init__(self, run: CascadeRun, phase: Phase, wanted: Soundings) -> None:
        self.run = run
        self.phase = phase
        self.wanted = wanted
        self.all: dict[int, Sounding] = {}
        self.decided = SoundingsDecided()

    # ---- the story -------------------------------------------------------------------

    async def carry_out(self) -> Tried:
        """Return all rounds, and what they came to. Raises PhaseFailed where nothing stands."""
        run, wanted = self.run, self.wanted
        self._warn_of_writes()
        first = await self._round(0, wanted.factor, wanted)
        self._check_not_all_failed(first)
        if wanted.joins is not None:
            return await self._joined(wanted.joins)
        best = await self._best(first, wanted.evaluator_instructions)
        if wanted.reforge is not None:
            best = await self._refined(best, wanted.reforge)
        self.decided = SoundingsDecided(
            winner=best.index,
            factor=wanted.factor,
            refinements=len(self.all) - wanted.factor,
            failed=[each.index for each in self.all.values() if each.tried is None],
        )
        text = f"sounding {best.index} of {len(self.all)} is taken"
        run.tell(self.phase.name, text, self.decided)
        self._take_over(best)
        assert best.tried is not None
        return best.tried

    async def _refined(self, best: Sounding, reforge: Reforge) -> Sounding:
        """Return the best after the rounds of reforge; in each the best so far competes."""
        for number in range(1, reforge.steps + 1):
            if await self._is_good_enough(best, reforge.good_enough):
                break
            honing = self._rendered(reforge.honing_prompt, "reforge.honing_prompt")
            refined: list[Part] = [Text(refine_text(best.text, honing)), *best.pictures]
            found = await self._round(number, reforge.factor_per_step, reforge, refined)
            standing = [each for each in found if each.stands]
            if not standing:
                text = f"all refinements of round {number} failed; sounding {best.index} stands"
                self.run.tell(self.phase.name, text, Evaluation())
                break
            if override := reforge.evaluator_override:
                best = await self._best([best, *standing], override, "reforge.evaluator_override")
            else:
                best = await self._best([best, *standing], self.wanted.evaluator_instructions)
        return best

    async def _is_good_enough(self, best: Sounding, threshold: str | None) -> bool:
        if threshold is None:
            return False
        good = await is_accepted(self.run, self.phase, best, threshold)
        if good:
            text = f"sounding {best.index} passes {threshold!r}: no further round"
            self.run.tell(self.phase.name, text, Evaluation())
        return good

    async def _best(
        self, found: Sequence[Sounding], looked_for: str | None, key: str = "evaluator_instructions"
    ) -> Sounding:
        """Return the one that the evaluator picks among those that stand."""
        standing = with_answers(found)
        if self.wanted.validator is not None:
            standing = await self._not_refused(standing, self.wanted.validator)
        if looked_for is not None:
            looked_for = self._rendered(looked_for, key)
        wanted = self.wanted
        judge = SoundingJudge(self.run, self.phase, wanted.picks, looked_for, wanted.cost_counts)
        return await judge.pick(standing)

    async def _not_refused(self, found: list[Sounding], validator: str) -> list[Sounding]:
        """Return the soundings that the validator accepts; all of them where it accepts none."""
        good = [each for each in found if await is_accepted(self.run, self.phase, each, validator)]
        return good or found

    async def _joined(self, joins: Aggregate) -> Tried:
        """Return the outputs of all made one, which is said in the phase in their place."""
        standing = with_answers(self.all.values())
        first = standing[0]
        assert first.tried is not None
        phase_run = first.tried.phase_run
        run, name = self.run, self.phase.name
        asked = joins.instructions
        if asked is not None:
            asked = self._rendered(asked, "aggregate.instructions")
        text = await join_outputs(run, self.phase, joins.model, standing, asked)
        joined = [each.index for each in standing]
        self.decided = SoundingsDecided(joined=joined, factor=self.wanted.factor)
        run.tell(name, f"{len(standing)} soundings are joined", self.decided)
        question = user(phase_run.messages.task)
        rows = [
            Row(NodeType.USER, message=question, phase=name, turn=0, attempt=1),
            Row(
                NodeType.AGENT,
                message=assistant(text),
                phase=name,
                turn=run.session.visit.after_turn + 1,
                attempt=1,
            ),
        ]
        _, output = run.record.append(rows)
        self._remember(standing)
        ending = COMPLETED if first.stands else first.tried.ending
        return Tried(phase_run, ending, output, await self._extracted(output))

    async def _extracted(self, output: Item) -> Sequence[StateChange]:
        """Return the state that is taken from the joined output."""
        return await extract_state(self.run, self.phase, output)

    # ---- one round -------------------------------------------------------------------

    async def _round(
        self, number: int, factor: int, varied: VariedOptions, refined: Sequence[Part] = ()
    ) -> list[Sounding]:
        """So many attempts side by side, each to its end; the first of each model goes ahead."""
        begun = len(self.all)
        seed = repr((self.run.record.seed, self.phase.name, number))
        planned = plan_round(self.wanted, varied, factor, seed, refined)
        slots, sent = asyncio.Semaphore(self.wanted.max_parallel), dict[str, asyncio.Event]()
        waiting = list[PersonNeeded]()

        async def one(index: int, attempt: Planned) -> None:
            leads = attempt.model not in sent
            gate = sent.setdefault(attempt.model, asyncio.Event())
            if not leads:
                await gate.wait()
            async with slots:
                try:
                    told = self._tell_only_unusual(gate)
                    ended = await self._run_sounding(index, number, attempt, told)
                except PersonNeeded as needed:
                    waiting.append(needed)  # what the others are sent is not sent in vain
                    return
                finally:
                    gate.set()
            self.all[index] = ended

        try:
            async with asyncio.TaskGroup() as group:
                for place, attempt in enumerate(planned):
                    group.create_task(one(begun + place, attempt))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
        if waiting:
            raise waiting[0]
        self.all = dict(sorted(self.all.items()))
        return [self.all[index] for index in range(begun, begun + factor)]

    async def _run_sounding(
        self,
        index: int,
        number: int,
        planned: Planned,
        emit: Callable[[Event], None],
    ) -> Sounding:
        """Return one attempt with a run of its own; what it used is added to the whole."""
        name = self.phase.name
        changes = dict(planned.settings)
        if self.wanted.joins is not None:
            changes["output_extraction"] = None  # it is of what is made of all
        phase, whole = self.phase.model_copy(update=changes), self.run.cascade
        phases = tuple(phase if each is self.phase else each for each in whole.phases)
        self.run.caches.of(self.run.resolve(self.run.generation_of(phase).model)[1])
        own = fork_for_sounding(self.run, name, index, emit)
        own = own.with_cascade(whole.model_copy(update={"phases": phases}))
        tried: Tried | None = None
        error: WindlassError | None = None
        try:
            tried = await try_guarded(own, phase, planned.wording)
        except (PersonNeeded, StepDiffers, StoreError):
            raise
        except WindlassError as failure:
            error = failure
            own.record.append([own.record.failure(name, failure)])
        finally:
            self._add_up(own)
        ended = Sounding(index, own, tried, error)
        self._tell_of(ended, own, number, model=own.generation_of(phase).model)
        return ended

    def _add_up(self, own: CascadeRun) -> None:
        """Count what an attempt took."""
        self.run.totals.add_all(own.totals)
        self.run.caches.add_spent(own.caches)

    def _tell_of(
        self,
        ended: Sounding,
        by: CascadeRun,
        number: int,
        *,
        model: str,
        session_id: str | None = None,
    ) -> None:
        """Record how an attempt of a round ended."""
        how = in_words(*ended.tried.ending) if ended.tried else f"failed: {ended.error}"
        what = "sounding" if not number else f"refinement {number}, sounding"
        details = SoundingEnded(number, ended.index, model, session_id)
        by.tell(self.phase.name, f"{what} {ended.index}: {how}", details)

    def _tell_only_unusual(self, gate: asyncio.Event) -> Callable[[Event], None]:
        """Of attempts side by side only what is out of the ordinary is told.

        The first token of the one that goes ahead lets the others go.
        """

        def emit(event: Event) -> None:
            if isinstance(event, TextArrived | CallEnded):
                gate.set()
            if isinstance(event, LimitHit | Noted | QuestionAsked | Waiting):
                self.run.emit(event)

        return emit

    # ---- what they leave ---------------------------------------------------------

    def _check_not_all_failed(self, found: Sequence[Sounding]) -> None:
        """Raise PhaseFailed where all failed, or what ended the budget."""
        if any(each.tried is not None for each in found):
            return
        error = found[0].error
        for each in found:
            if (limit := run_limit_in(each.error)) is not None:
                raise limit
        name = self.phase.name if self.what == "phase" else self.run.cascade.cascade_id
        sentence = f"{self.what} {name!r}: all {len(found)} soundings failed"
        raise PhaseFailed(f"{sentence}; the first: {error}") from error

    def _take_over(self, won: Sounding) -> None:
        """Make the winner's messages and holders those of the phase."""
        run, own = self.run, won.run
        run.record.take_over(own.record)
        run.injected.adopt(own.injected)
        run.caches.adopt(own.caches)
        run.session.adopt(own.session)
        self._remember([won])

    def _remember(self, soundings: Sequence[Sounding]) -> None:
        writes = [write for each in soundings for write in each.run.session.remembered]
        if self.run.is_sounding:
            self.run.session.remembered += writes
            return
        for write in writes:
            try:
                write()
            except UsageError as refused:
                self.run.tell(self.phase.name, f"not remembered: {refused}", Remark("memory"))

    def _warn_of_writes(self) -> None:
        """Tell that what tools write is written by every attempt."""
        times = self.wanted.factor
        for phase in self._phases:
            name = phase.name
            if chooses_tools(phase) or times == 1:
                continue
            tools = self.run.registry.of_tackle(tools_of(phase))
            if writers := [tool.spec.name for tool in tools if tool.writes]:
                each = f"each of {times} soundings may write with {', '.join(writers)}"
                text = f"phase {name!r}: {each}"
                self.run.tell(name, text, SoundingsWrite(writers))

    @property
    def _phases(self) -> Sequence[Phase]:
        return (self.phase,)

    def _where(self, key: str) -> str:
        """Return where a key of the soundings stands in the cascade's file."""
        return self.run.where(self.phase, f"soundings.{key}")

    def _rendered(self, template: str, key: str) -> str:
        return render(template, **self.run.template_values(), where=self._where(key))


def with_answers(found: Iterable[Sounding]) -> list[Sounding]:
    """Return the soundings that have an answer; where none has, those that did not fail."""
    listed = list(found)
    return [each for each in listed if each.stands] or [each for each in listed if each.tried]


def fork_for_sounding(
    run: CascadeRun, phase: str, index: int, emit: Callable[[Event], None]
) -> CascadeRun:
    """Return a run for one sounding: what it says, sets and marks is no burden to the others.

    What a provider caches is shared: the meters of models' caches are. What the last call was sent
    is its own.
    """
    return replace(
        run,
        record=run.record.recorder_of_sounding(phase, index),
        injected=run.injected.fork(),
        session=run.session.fork(),
        totals=run.totals.fork(),
        caches=run.caches.fork(),
        emit=emit,
    )
