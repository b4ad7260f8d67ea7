"""Judges of how good the answer of a run is."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeAlias

from windlass.caching.rates import cost
from windlass.cascade.model import Cascade
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
        """Its name, as the user wrote it."""
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
