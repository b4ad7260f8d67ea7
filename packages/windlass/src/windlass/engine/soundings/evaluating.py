"""Who wins among soundings: a person or something else picks, or a model joins them.

Nothing that was paid for is lost here: where nobody picks, the first that stands is taken (in a
round of reforge the best so far), and the record says why.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from types import MappingProxyType
from typing import Any, Final

from windlass.cascade.evaluators import CostAware, Evaluator, HumanEval, Normalization
from windlass.cascade.model import Phase
from windlass.cascade.validators import arguments_of
from windlass.engine._session_state import SessionTotals
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.people.asking import ask_person
from windlass.engine.people.questions import Question
from windlass.engine.phase.phase import Tried
from windlass.engine.phase.verdicts import judge
from windlass.engine.turn.send import take_step
from windlass.errors import (
    PersonNeeded,
    PhaseFailed,
    RunLimitReached,
    StepDiffers,
    StoreError,
    UsageError,
    WindlassError,
)
from windlass.history.decisions import Evaluation
from windlass.history.step import Step
from windlass.messages import Message, Part, Picture, Text, ToolCall, assistant, system, user
from windlass.providers.base import ModelInfo
from windlass.safety.foreign import parse_json
from windlass.safety.schemas import object_with
from windlass.text.prompts import (
    EVALUATOR_SYSTEM,
    JOIN_SYSTEM,
    PREFILTER_SYSTEM,
    cut_text,
    fence_end,
    fence_line,
    fence_of,
    pick_again_text,
    task_text,
    told_of_fence,
)
from windlass.text.tokens import request_tokens
from windlass.tools.runner import run_tool

NONE_OF_THEM: Final = "none of them"
"""The answer that takes no sounding."""

_LONGEST: Final = 36_000
"""Characters of all outputs together that a person is shown; each is cut to its share."""

_LEAST: Final = 200
"""Characters to which an output is cut at most where a model could not take all of them."""

ANSWER_TOKENS: Final = 1_024
"""The most tokens of an evaluator's answer."""
_NO_ANSWER: Final = frozenset({"empty", "refusal", "filter"})


@dataclass(frozen=True, slots=True)
class Sounding:
    """One attempt that ended: its own run, and what it came to (None: it failed, with `error`)."""

    index: int
    run: CascadeRun
    tried: Tried | None
    error: WindlassError | None = None

    @property
    def stands(self) -> bool:
        """Whether it has an answer."""
        return self.tried is not None and self.tried.ending.reason not in _NO_ANSWER

    @property
    def text(self) -> str:
        """Its output."""
        return self.tried.text if self.tried else ""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures that were made in it, each once."""
        own = self.tried.phase_run.messages.own[1:] if self.tried else []
        found = {p.sha256 or p.url: p for item in own for p in item.message.pictures}
        return tuple(found.values())


async def is_accepted(run: CascadeRun, phase: Phase, sounding: Sounding, validator: str) -> bool:
    """Return whether a validator accepts an output; where it fails itself it refuses nothing."""
    assert sounding.tried is not None
    try:
        verdict = await judge(run, sounding.tried.phase_run, sounding.text, validator)
    except (PersonNeeded, RunLimitReached, StepDiffers, StoreError):
        raise
    except WindlassError as error:
        run.tell(phase.name, str(error), Evaluation(sounding=sounding.index))
        return True
    assert verdict is not None
    text = f"{validator} {'accepts' if verdict.valid else 'refuses'} sounding {sounding.index}"
    text += f": {verdict.reason}" if verdict.reason else ""
    details = Evaluation(sounding=sounding.index, valid=verdict.valid)
    run.record.decide(phase.name, text, details)
    return verdict.valid


def read_kept(answer: str, known: Sequence[int], most: int) -> list[int] | str:
    """Return the numbers in an answer, in order, or why it names none.

    >>> read_kept('{"keep": [2, 0]}', [0, 1, 2], 2)
    [0, 2]
    """
    try:
        value = parse_json(answer)
    except ValueError:
        value = None
    named = value.get("keep") if isinstance(value, Mapping) else value
    if isinstance(named, list):
        kept = [index for index in known if index in named]
        if kept and len(kept) == len(named) <= most:
            return kept
    shown = " ".join(answer.split())[:60]
    return f"the evaluator answered {shown}, which is no list of {most} of {known} at most"


def read_winner(answer: str, known: Sequence[int]) -> int | str | None:
    """Return the number in an answer, bare or as `{winner}`; None: a tie; else why it says none.

    >>> read_winner('{"winner": 1}', [0, 1])
    1
    >>> read_winner("7", [0, 1])
    'answered 7, which is none of 0, 1'
    """
    try:
        value = parse_json(answer) if answer.strip() else None
    except ValueError:
        value = answer
    if isinstance(value, Mapping):
        value = value.get("winner", answer)
    if value is None or (type(value) is int and value in known):
        return value
    shown = " ".join(str(value).split())[:60]
    return f"answered {shown}, which is none of {', '.join(map(str, known))}"


@dataclass(frozen=True, slots=True)
class SoundingJudge:
    """Who picks among the soundings of a phase, and what counts.

    That is what is looked for, and the cost (None: it does not count).
    """

    run: CascadeRun
    phase: Phase
    picks: Evaluator
    looked_for: str | None = None
    cost: CostAware | None = None

    async def pick(self, standing: Sequence[Sounding]) -> Sounding:
        """Return the best of those that stand: one alone unasked, the first where nobody picks.

        Raises PhaseFailed where a person takes none, and AnswerNeeded where nobody answers.
        """
        first, picks = standing[0], self.picks
        if len(standing) == 1:
            self.run.tell(
                self.phase.name, f"sounding {first.index} is the only one left", Evaluation()
            )
            return first
        if picks.human is not None:
            return await self._pick_by_person(picks.human, standing)
        return await self._pick_unasked(standing)

    async def _pick_unasked(self, standing: Sequence[Sounding]) -> Sounding:
        """Return the one that a validator, a function or a model picks, else the first."""
        first, picks = standing[0], self.picks
        if picks.validator is not None:
            for each in standing:
                if await is_accepted(self.run, self.phase, each, picks.validator):
                    return each
            why = f"{picks.validator} accepts none"
        else:
            try:
                if picks.function is not None:
                    answer = await self._pick_by_function(standing)
                else:
                    answer = await self._pick_by_model(standing)
            except StoreError:
                raise
            except WindlassError as error:
                answer = f"the evaluator failed: {error}"
            if isinstance(answer, int):
                return next(each for each in standing if each.index == answer)
            why = answer or "the evaluator picks none"
        text = f"{why}; sounding {first.index}, the first that stands, is taken"
        self.run.tell(self.phase.name, text, Evaluation(fallback=first.index))
        return first

    async def _pick_by_person(self, human: HumanEval, standing: Sequence[Sounding]) -> Sounding:
        """The one that a person picks, of those that a model leaves where it shortens the list."""
        if human.llm_prefilter is not None and human.llm_prefilter < len(standing):
            standing = await self._shorten(standing, human.llm_prefilter)
        asked, costs = self._told(standing)
        question = _question_to_person(self.phase.name, standing, asked, costs, human)
        answer = await ask_person(
            self.run, question, "evaluator", [each.index for each in standing]
        )
        if answer == NONE_OF_THEM:
            raise PhaseFailed(
                f"phase {self.phase.name!r}: a person takes none of {len(standing)} soundings"
            )
        if answer is not None:
            taken = standing[question.options.index(answer)]
            text = f"a person picks {answer}: sounding {taken.index}"
            self.run.record.decide(self.phase.name, text, Evaluation(picked=taken.index))
            return taken
        late = f"nobody picked within {human.timeout_seconds:g} s"
        match human.on_timeout:
            case "abort":
                raise PhaseFailed(f"phase {self.phase.name!r}: {late}")
            case "llm_fallback":
                self.run.tell(self.phase.name, f"{late}; a model picks", Evaluation())
                return await self._pick_unasked(standing)
            case "random":
                drawing = random.Random(self._seed_of(standing))  # noqa: S311
                taken, how = drawing.choice(standing), "which is drawn"
            case "first":
                taken, how = standing[0], "the first that stands"
        text = f"{late}; sounding {taken.index}, {how}, is taken"
        self.run.tell(self.phase.name, text, Evaluation(fallback=taken.index))
        return taken

    async def _shorten(self, standing: Sequence[Sounding], most: int) -> Sequence[Sounding]:
        """So many of those that stand, which a model leaves for a person; all where it fails."""
        asked, costs = self._told(standing)
        indexes = [each.index for each in standing]
        listed = {"type": "array", "items": {"enum": indexes}, "minItems": 1, "maxItems": most}
        schema = object_with("keep", listed)
        role = PREFILTER_SYSTEM.format(most=most)
        model = self.picks.model
        try:
            question = _question(
                self.run, self.phase, model, standing, role=role, asked=asked, costs=costs
            )
            answer = await _ask(
                self.run, self.phase, model, question, details=Evaluation(), schema=schema
            )
            kept = read_kept(answer, indexes, most)
        except (StoreError, StepDiffers):
            raise
        except WindlassError as error:
            kept = f"the evaluator failed: {error}"
        if isinstance(kept, str):
            self.run.tell(self.phase.name, f"{kept}; a person sees all soundings", Evaluation())
            return standing
        text = f"a person sees soundings {', '.join(map(str, kept))}"
        self.run.record.decide(self.phase.name, text, Evaluation(kept=kept))
        return [each for each in standing if each.index in kept]

    async def _pick_by_function(self, standing: Sequence[Sounding]) -> int | str | None:
        """Return the index a function picks (None: a tie), or why its answer says none.

        Raises PhaseFailed where it takes no outputs.
        """
        name = self.picks.function
        assert name is not None
        tool = self.run.registry.resolve(name) if ":" in name else self.run.registry.get(name)
        outputs = [each.text for each in standing]
        costs = [each.run.totals.cost for each in standing]
        given: dict[str, Any] = {"outputs": outputs, "costs": costs}
        given |= {"state": dict(self.run.session.state), "input": dict(self.run.input)}
        try:
            arguments = arguments_of(tool, given, "outputs")
        except UsageError as error:
            raise PhaseFailed(f"phase {self.phase.name!r}: the evaluator {error}") from error
        call = ToolCall("evaluation", tool.spec.name, json.dumps(arguments, default=str))
        first = standing[0].tried
        assert first is not None
        answer = await run_tool(tool, call, first.phase_run.tools.context)
        if answer.error:
            return f"the evaluator {name!r} failed: {answer.text}"
        place = read_winner(answer.text, range(len(standing)))
        if place is None or isinstance(place, str):
            return place if place is None else f"the evaluator {name!r} {place}"
        winner = standing[place].index
        text = f"{name} picks sounding {winner}"
        self.run.record.decide(self.phase.name, text, Evaluation(picked=winner))
        return winner

    async def _pick_by_model(self, standing: Sequence[Sounding]) -> int | str | None:
        """The index a model picks (None: a tie), or why no answer of it says one; asked twice."""
        model, seed = self.picks.model, self._seed_of(standing)
        shown = list(standing)
        random.Random(seed).shuffle(shown)  # noqa: S311  # an order that can be drawn again
        indexes = sorted(each.index for each in standing)
        schema = object_with("winner", {"enum": [*indexes, None]})
        details = Evaluation(seed=seed, order=[each.index for each in shown])
        asked, costs = self._told(standing)
        question = _question(
            self.run, self.phase, model, shown, role=EVALUATOR_SYSTEM, asked=asked, costs=costs
        )
        answer = await _ask(self.run, self.phase, model, question, details=details, schema=schema)
        winner = read_winner(answer, indexes)
        if isinstance(winner, str):
            again = (*question, assistant(answer), user(pick_again_text(winner)))
            answer = await _ask(self.run, self.phase, model, again, details=details, schema=schema)
            winner = read_winner(answer, indexes)
        return f"the evaluator {winner}" if isinstance(winner, str) else winner

    def _told(self, standing: Sequence[Sounding]) -> tuple[str | None, dict[int, str]]:
        """Return what is asked of whoever picks, and what each attempt cost, by its index."""
        totals = {each.index: each.run.totals for each in standing}
        weighs, costs = cost_texts(totals, self.cost)
        return "\n\n".join(filter(None, (self.looked_for, weighs))) or None, costs

    def _seed_of(self, standing: Sequence[Sounding]) -> str:
        """Return the seed of what is drawn among soundings; a resumed run has the same."""
        drawn = (self.run.record.seed, self.phase.name, *(each.index for each in standing))
        return hashlib.sha256(repr(drawn).encode()).hexdigest()[:16]


def _question_to_person(
    phase: str,
    standing: Sequence[Sounding],
    looked_for: str | None,
    costs: Mapping[int, str],
    human: HumanEval,
) -> Question:
    """Return what a person is asked about soundings; they are numbered from 1, as answers are."""
    share = _LONGEST // len(standing)
    parts = [looked_for] if looked_for else []
    for number, each in enumerate(standing, start=1):
        cost = f", {costs[each.index]}" if each.index in costs else ""
        pictures = "".join(f"\n[{picture.describe()}]" for picture in each.pictures)
        heading = f"== attempt {number} (sounding {each.index}{cost})"
        parts.append(f"{heading}\n{cut_text(each.text, share)}{pictures}")
    options = [f"attempt {number}" for number in range(1, 1 + len(standing))]
    options += [NONE_OF_THEM] if human.allow_reject_all else []
    return Question(
        phase,
        f"Which attempt at {phase!r} is the best?",
        tuple(options),
        context="\n\n".join(parts),
        timeout_s=human.timeout_seconds,
    )


async def join_outputs(
    run: CascadeRun,
    phase: Phase,
    model: str | None,
    standing: Sequence[Sounding],
    asked: str | None,
) -> str:
    """Return all outputs as one text: under headings, or what a model makes of them."""
    joined = "\n\n".join(f"## Attempt {each.index}\n\n{each.text.strip()}" for each in standing)
    if asked is None:
        return joined
    try:
        question = _question(run, phase, model, standing, role=JOIN_SYSTEM, asked=asked)
        answer = await _ask(run, phase, model, question, details=Evaluation(joins=len(standing)))
    except StoreError:
        raise
    except WindlassError as error:
        run.tell(phase.name, f"outputs are joined under headings: {error}", Evaluation())
        return joined
    return answer if answer.strip() else joined


def _model_of(run: CascadeRun, phase: Phase, model: str | None) -> str:
    return run.generation_of(phase).model if model is None else model


def _question(
    run: CascadeRun,
    phase: Phase,
    model: str | None,
    shown: Sequence[Sounding],
    *,
    role: str,
    asked: str | None,
    costs: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Message, ...]:
    """Return the question to a model about outputs, each cut where it could not take all of them.

    What they cost stands in their headings.
    """
    _, info = run.resolve(_model_of(run, phase, model))
    first = shown[0].tried
    assert first is not None
    texts = (first.phase_run.messages.task, asked or "")
    fence = fence_of(run.record.seed, *texts, *(each.text for each in shown))
    asks = task_text(*texts, fence)
    room = info.input_room(ANSWER_TOKENS)
    longest = max((len(each.text) for each in shown), default=0)
    while True:
        parts: list[Part] = [Text(asks)]
        for each in shown:
            cost = f", {costs[each.index]}" if each.index in costs else ""
            header = fence_line(f"Attempt {each.index}{cost}", fence)
            parts.append(Text(f"{header}\n{cut_text(each.text, longest)}"))
            parts += [*_pictures(info, each), Text(fence_end(fence))]
        question = (system(told_of_fence(role, fence)), user(*parts))
        if longest <= _LEAST or request_tokens(info.counter, question) <= room:
            return question
        longest //= 2


def _pictures(info: ModelInfo, sounding: Sounding) -> list[Part]:
    if info.sees_pictures:
        return list(sounding.pictures)
    return [Text(f"[{picture.describe()}]") for picture in sounding.pictures]


async def _ask(
    run: CascadeRun,
    phase: Phase,
    model: str | None,
    question: tuple[Message, ...],
    *,
    details: Evaluation,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Ask a model, charge the call and record it; the answer."""
    name = _model_of(run, phase, model)
    provider, info = run.resolve(name)
    most = run.generation_of(phase).max_output_tokens if schema is None else ANSWER_TOKENS
    request = info.question(question, most, schema, run.record.store.picture)
    what = "evaluator" if schema is not None else "aggregator"
    taken = await take_step(run, Step(phase.name, asks=what), provider, info.name, request)
    reply = taken.reply
    answer = reply.message.text
    text = f"the {what} {info.name} answers {' '.join(answer.split())[:60]!r}"
    details = replace(details, asked=[message.text for message in question], answer=answer)
    run.charge_beside(phase.name, text, details, info=info, usage=reply.usage)
    return answer


def cost_texts(
    totals: Mapping[int, SessionTotals], wanted: CostAware | None
) -> tuple[str, dict[int, str]]:
    """How much cost counts, in a sentence, and what each attempt cost; nothing where none asks.

    Attempts are known by their index. Dollars are compared where all are known, else tokens.
    """
    if wanted is None or not totals:
        return "", {}
    dollars = [each.cost for each in totals.values()]
    tokens = [each.usage.tokens_in + each.usage.tokens_out for each in totals.values()]
    priced = [each for each in dollars if each is not None]
    compared = priced if len(priced) == len(dollars) and any(priced) else list(map(float, tokens))
    relative = normalized(compared, wanted.cost_normalization)
    texts = {
        index: ", ".join(
            [
                *([] if cost is None else [f"${cost:.4f}"]),
                f"{count:,} tokens",
                f"relative cost {value:.2f}",
            ]
        )
        for index, cost, count, value in zip(totals, dollars, tokens, relative, strict=True)
    }
    weights = f"{wanted.quality_weight:g} to {wanted.cost_weight:g}"
    weighing = f"Weigh quality against cost {weights}; a lower relative cost is better."
    return weighing, texts


def normalized(costs: Sequence[float], how: Normalization) -> list[float]:
    """Costs on one scale, lower for what is cheaper; all 0 where they are equal.

    >>> normalized([1.0, 2.0, 5.0], "min_max")
    [0.0, 0.25, 1.0]
    >>> normalized([1.0, 3.0], "z_score")
    [-1.0, 1.0]
    >>> normalized([0.0, 9.0, 99.0], "log_scale")
    [0.0, 0.5, 1.0]
    """
    if min(costs) == max(costs):
        return [0.0] * len(costs)
    if how == "z_score":
        mean, deviation = fmean(costs), pstdev(costs)
        return [(each - mean) / deviation for each in costs]
    scaled = [math.log1p(each) for each in costs] if how == "log_scale" else list(costs)
    least, most = min(scaled), max(scaled)
    return [(each - least) / (most - least) for each in scaled]
