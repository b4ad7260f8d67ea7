"""Judges of how good the answer of a run is.

A comparison that is running: a batch of every input under every policy, and a judge.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from windlass.api._started_batch import StartedBatch
from windlass.api.batches.inputs import BatchInput
from windlass.api.batches.results import ResultsFile, read_results
from windlass.api.batches.workers import line_of
from windlass.api.comparing.comparison import (
    ComparedRun,
    Comparison,
    compare_runs,
    compared_runs,
    is_judged,
)
from windlass.caching.rates import cost
from windlass.cascade.model import Cascade
from windlass.cascade.policies import NamedPolicy, policy_of
from windlass.engine.events import Event, Noted
from windlass.errors import (
    BadRequest,
    ProviderError,
    ServerError,
    UsageError,
    WindlassError,
    run_limit_in,
)
from windlass.messages import Message, system, user
from windlass.providers.base import Resolve
from windlass.safety.foreign import parse_json
from windlass.settings.modules import Modules
from windlass.text.prompts import (
    JUDGE_SYSTEM,
    cut_text,
    fence_of,
    input_text,
    judged_text,
    told_of_fence,
)
from windlass.text.tokens import request_tokens

VALIDATOR: Final = "validator"
"""The judge for which a run that completed will do: its validators have accepted it."""
_ANSWER_TOKENS: Final = 300
_LEAST: Final = 200
"""Characters below which an answer is not cut, even if it does not fit the model's window."""

_JUDGEMENT: Final = {
    "type": "object",
    "properties": {
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "why": {"type": "string"},
    },
    "required": ["score", "why"],
    "additionalProperties": False,
}
"""The form of a model's answer."""

Score: TypeAlias = bool | float
JudgeFunction: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], Any]
"""Given the input of a run and the outputs of its phases by name; may be async."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How good an answer is: whether it will do, or a number where more is better.

    `score` is None if the judge failed, and `why` says so; `cost` is in US dollars (None: no
    price is known). `limited`: the model was not asked, because that could have passed a limit.
    """

    score: Score | None
    cost: float | None = 0.0
    why: str = ""
    limited: bool = False


class Judge(Protocol):
    """A judge of runs."""

    @property
    def name(self) -> str:
        """Return its name, as the user wrote it."""
        ...

    async def judge(self, given: Mapping[str, Any], line: Mapping[str, Any]) -> Judgement:
        """Return how good a run is, by its input and its line in the file of results.

        The run completed. If the judge fails, its judgement says so.
        """
        ...


@dataclass(frozen=True, slots=True)
class _ByStatus:
    name: str = VALIDATOR

    async def judge(self, given: Mapping[str, Any], line: Mapping[str, Any]) -> Judgement:
        del given
        return Judgement(line["status"] == "completed")


@dataclass(frozen=True, slots=True)
class _ByFunction:
    name: str
    function: JudgeFunction

    async def judge(self, given: Mapping[str, Any], line: Mapping[str, Any]) -> Judgement:
        try:
            if inspect.iscoroutinefunction(self.function):
                answer = await self.function(given, line["outputs"])
            else:
                answer = await asyncio.to_thread(self.function, given, line["outputs"])
        except Exception as problem:  # noqa: BLE001 - the user's own code may raise anything
            return Judgement(None, why=f"{self.name} failed: {type(problem).__name__}: {problem}")
        score = score_of(answer)
        if score is None:
            text = f"{self.name} must answer true, false or a number, not {str(answer)[:60]!r}"
            return Judgement(None, why=text)
        return Judgement(score)


@dataclass(frozen=True, slots=True)
class _ByModel:
    name: str
    cascade: Cascade
    resolve: Resolve

    async def judge(self, given: Mapping[str, Any], line: Mapping[str, Any]) -> Judgement:
        provider, info = self.resolve(self.name)
        question = self._question(given, str(line["output"]))
        request = info.question(question, _ANSWER_TOKENS, _JUDGEMENT)
        try:
            reply = await provider.send(request, lambda _: None)
        except WindlassError as error:
            limited = run_limit_in(error) is not None
            return Judgement(None, why=f"{self.name} failed: {error}", limited=limited)
        paid = 0.0 if info.free else cost(info.name, **asdict(reply.usage))
        try:
            answer = parse_json(reply.message.text)
            score, why = score_of(answer["score"]), str(answer["why"])
        except (ValueError, LookupError, TypeError):
            score, why = None, ""
        if score is None or not 0 <= score <= 1:
            said = " ".join(reply.message.text.split())[:60]
            return Judgement(None, paid, f"{self.name} gave no score from 0 to 1 but {said!r}")
        return Judgement(float(score), paid, why)

    def _question(self, given: Mapping[str, Any], answer: str) -> tuple[Message, ...]:
        """Return the messages that ask the model; task and answer are cut to fit its window."""
        _, info = self.resolve(self.name)
        asked = (phase.instructions for phase in self.cascade.phases)
        task = "\n\n".join(filter(None, asked))
        room, longest = info.input_room(_ANSWER_TOKENS), max(len(task), len(answer))
        fence = fence_of(task, input_text(given), answer)
        role = system(told_of_fence(JUDGE_SYSTEM, fence))
        while True:
            text = judged_text(cut_text(task, longest), given, cut_text(answer, longest), fence)
            question = (role, user(text))
            if longest <= _LEAST or request_tokens(info.counter, question) <= room:
                return question
            longest //= 2


def score_of(answer: object) -> Score | None:
    """Return the answer of a judge as a score; None if it is not one."""
    if isinstance(answer, bool) or type(answer).__name__ == "bool_":  # numpy's own
        return bool(answer)
    try:
        number = float(answer)  # type: ignore[arg-type]  # tried
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and not isinstance(answer, str | bytes) else None


def judge_of(
    judge: str | JudgeFunction, cascade: Cascade, modules: Modules, resolve: Resolve
) -> Judge:
    """The judge of that name: `validator`, `module:function` or `provider/model`; or a function.

    Raises UsageError if there is none of that name.
    """
    if not isinstance(judge, str):
        return _ByFunction(getattr(judge, "__qualname__", type(judge).__name__), judge)
    if judge == VALIDATOR:
        return _ByStatus()
    if "/" in judge:
        resolve(judge)
        return _ByModel(judge, cascade, resolve)
    module, colon, name = judge.partition(":")
    if not (module and colon and name):
        raise UsageError(
            f"there is no judge {judge!r}; give {VALIDATOR}, module:function or provider/model"
        )
    target = modules.member(judge)
    if not callable(target):
        raise UsageError(f"the judge {judge!r} is not a function")
    return _ByFunction(judge, target)


def is_outcome(error: BaseException | None) -> bool:
    """Return whether a run that this error stopped counts as an outcome; if not, it is run again.

    A failure of the model's side or of a server does not count, unless it refused the request.
    """
    while error is not None:
        if isinstance(error, (ProviderError, ServerError)) and not isinstance(error, BadRequest):
            return False
        error = error.__cause__
    return True


def read_policies(policies: Sequence[str | Path] | Mapping[str, Any]) -> list[NamedPolicy]:
    """Return the policies that a user names.

    Raises UsageError for fewer than two, or the same twice.
    """
    listed = [policies] if isinstance(policies, str) else policies
    named = listed.items() if isinstance(listed, Mapping) else [(name, None) for name in listed]
    compared = [policy_of(name, auto) for name, auto in named]
    if not 2 <= len(compared) == len({each.name for each in compared}):  # noqa: PLR2004 - a pair
        raise UsageError("a comparison needs a list of at least two policies, each of them once")
    return compared


@dataclass(slots=True)
class ComparedBatch:
    """A batch that compares policies; the first is the baseline."""

    started: StartedBatch
    policies: Sequence[NamedPolicy]
    judge: str | JudgeFunction
    repeat: int
    margin: float
    _limited: bool = field(init=False, default=False)

    async def finish(self) -> Comparison:
        """Run and judge all that is not yet, and compute the comparison.

        Raises UsageError for a judge that does not exist, StoreError for results that cannot be
        written.
        """
        started = self.started
        rows = compared_runs(started.inputs, self.policies, self.repeat)
        cascades = {each.name: each.over(started.cascade) for each in self.policies}
        cascade, registry = started.cascade.cascade, started.cascade.registry
        # Resolved once before anything is written, and then so that what it costs is counted.
        judge_of(self.judge, cascade, registry.modules, started.call.resources.providers.resolve)
        work = started.open_results(rows, [*cascades.values()])
        judge = judge_of(self.judge, cascade, registry.modules, work.setup.resolve_shared)
        if "/" in judge.name:
            started.tell(Noted("", f"{judge.name} judges: it sees the inputs and the answers"))
        await self._judge_again(rows, work.results, judge)

        async def run_row(given: BatchInput, emit: Callable[[Event], None]) -> dict[str, Any]:
            assert isinstance(given, ComparedRun)
            result = await work.run(cascades[given.policy.name], given, emit)
            line = line_of(result)
            if result.status == "failed":
                line["again"] = not is_outcome(result.error)
            line["run"] = {"cost": line["cost"], "tokens": line["tokens"]}
            return line if is_judged(line, judge.name) else await self._judged(given, line, judge)

        result = await work.finish(run_row)
        lines = await asyncio.to_thread(lambda: [*read_results(started.out)])
        names = [each.name for each in self.policies]
        if self._limited:  # a judge's calls count against the limit of money only
            result = replace(result, reason="money")
        return compare_runs(result, lines, names, judge.name, self.margin)

    async def _judge_again(
        self, rows: Sequence[ComparedRun], results: ResultsFile, judge: Judge
    ) -> None:
        """Judge earlier runs that this judge has not judged; nothing is run for that."""
        places = asyncio.Semaphore(self.started.workers)

        async def again(line: dict[str, Any]) -> None:
            given = rows[line["row"] - 1]
            # What the run used is counted already, in the line that the file has.
            line |= {"cost": 0.0, "tokens": dict.fromkeys(line["tokens"], 0)}
            async with places:
                results.append(given, await self._judged(given, line, judge))

        lines = await asyncio.to_thread(lambda: [*read_results(self.started.out)])
        await asyncio.gather(*(again(each) for each in lines if not is_judged(each, judge.name)))

    async def _judged(
        self, given: ComparedRun, line: dict[str, Any], judge: Judge
    ) -> dict[str, Any]:
        """Return the line with the judgement, whose cost is part of its `cost`."""
        if line["status"] == "completed":
            said = await judge.judge(given.values, line)
        else:
            said = Judgement(score=False)
        self._limited = self._limited or said.limited
        spent = None if line["cost"] is None or said.cost is None else line["cost"] + said.cost
        verdict = {"score": said.score, "judge_cost": said.cost, "why": said.why}
        return {**line, "cost": spent, "judge": judge.name, **verdict}
