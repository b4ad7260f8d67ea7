"""A text is judged by a validator's name: by a function, by a model that is asked, or a cascade."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from windlass.cascade.model import Phase
from windlass.cascade.tool_cascades import validator_input
from windlass.cascade.validators import InlineValidator, arguments_of, find_validator
from windlass.engine._cascades_called import cascade_caller
from windlass.engine._phase_run import Generation, PhaseTools, TurnState
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.rule_texts import moments_in
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import take_step
from windlass.errors import PhaseFailed, UsageError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import ValidatorAsked
from windlass.messages import Message, Text, ToolCall, assistant, system, user
from windlass.safety.foreign import find_json
from windlass.text.prompts import NO_VERDICT, VALIDATOR_SYSTEM
from windlass.text.templates import JUDGED, render
from windlass.tools.base import Tool
from windlass.tools.runner import run_tool
from windlass.window.entries import Item

VERDICT_TOKENS: Final = 1_024
"""The most tokens of a verdict."""
_WORDS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validator's answer; `reason` is what the model is told when it is not valid.

    `by_schema`: it was the output's schema that refused.
    """

    valid: bool
    reason: str = ""
    by_schema: bool = False


class Judging(Protocol):
    """What a validator is asked on: a phase, where it is, and the tools' context."""

    @property
    def phase(self) -> Phase:
        """The phase."""

    @property
    def now(self) -> TurnState:
        """Where it is: its attempt, its turn and its state."""

    @property
    def tools(self) -> PhaseTools:
        """What its tools may use; so may a validator."""

    @property
    def generation(self) -> Generation:
        """How its model is asked."""

    @property
    def instructions(self) -> Item:
        """What it was asked."""


async def judge_text(
    run: CascadeRun,
    judging: Judging,
    text: str,
    validator: str,
    known: Verdict | None = None,
) -> Verdict:
    """Return the verdict of the validator of this name on a text of a phase.

    `known` is what the record of a resumed run holds of it: a function is not asked again. What
    takes a model finds its answers in the record itself, with what they took.

    A model's or a cascade's is recorded with what it took. Raises PhaseFailed when the validator
    itself fails: trying again would spend money on a question that cannot be answered.
    """
    found = find_validator(run.cascade.validators, run.registry, validator)
    if isinstance(found, InlineValidator):
        return await _ask_model(run, judging, text, validator, found)
    if known is not None and not found.cascade:
        return known
    name = judging.phase.name
    context, given = judging.tools.context, _given(run, judging, text)
    try:
        if found.cascade:  # it counts in the run that asks, also where that judges its soundings
            arguments = _input_of(run, found, given)
            context = replace(context, run_cascade=cascade_caller(run, name, judging.now))
            found = replace(found, spec=replace(found.spec, parameters={"type": "object"}))
        else:
            given["original_input"] = json.dumps(run.input, ensure_ascii=False, default=str)
            arguments = arguments_of(found, given)
    except UsageError as error:
        raise PhaseFailed(f"phase {name!r}: the validator {error}") from error
    call = ToolCall("validation", found.spec.name, json.dumps(arguments, default=str))
    answer = await run_tool(found, call, context)
    if answer.error:
        raise PhaseFailed(f"phase {name!r}: the validator {validator!r} failed: {answer.text}")
    if not found.cascade:
        return read_verdict(answer.text, validator, name)
    verdict = _verdict_in(answer.text, validator) or _no_verdict(answer.text, validator)
    details = ValidatorAsked(validator, verdict.valid, answer=answer.text)
    run.record.decide(name, verdict_text(validator, verdict), details)
    return verdict


def _input_of(run: CascadeRun, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a cascade that judges. Raises UsageError where it is not at hand."""
    ready = run.tool_cascades.get(tool.cascade)
    if ready is None:
        raise UsageError(f"{tool.spec.name!r} is a cascade that is not at hand")
    return validator_input(ready.cascade, given)


def _no_verdict(answer: str, validator: str) -> Verdict:
    """What stands for the verdict of a model whose answer holds none: its text is the reason."""
    return Verdict(valid=False, reason=answer.strip() or f"{validator} says nothing.")


def _given(run: CascadeRun, judging: Judging, text: str) -> dict[str, Any]:
    """Return what a validator may take, by the names in `GIVEN`."""
    asked = next(iter(judging.instructions.message.parts), None)
    return {
        "output": text,
        "content": text,
        "input": dict(run.input),
        "original_input": dict(run.input),
        "asked": asked.text if isinstance(asked, Text) else "",
        "state": dict(judging.now.state),
    }


def read_verdict(answer: str, validator: str, phase: str) -> Verdict:
    """Return a function's answer, `{valid, reason}` or a bare true or false, as a verdict."""
    verdict = _verdict_in(answer, validator)
    if verdict is None:
        raise PhaseFailed(
            f"phase {phase!r}: the validator {validator!r} must answer"
            f" {{valid, reason}}, not {answer[:80]!r}"
        )
    return verdict


def _verdict_in(answer: str, validator: str) -> Verdict | None:
    """Return the verdict in a text, perhaps among other words; None: it holds none."""
    try:
        value = find_json(answer)
    except ValueError:
        return None
    match value:
        case bool():
            return Verdict(value, "" if value else f"{validator} did not accept the output.")
        case {"valid": bool(valid), **rest}:
            return Verdict(valid, str(rest.get("reason") or ""))
        case {"valid": str(word), **rest} if word.strip().lower() in _WORDS:
            return Verdict(_WORDS[word.strip().lower()], str(rest.get("reason") or ""))
        case _:
            return None


# ---- a model that is asked ---------------------------------------------------------------------


async def _ask_model(
    run: CascadeRun, judging: Judging, text: str, validator: str, asking: InlineValidator
) -> Verdict:
    """A model's verdict; where its answer holds none, the text of it is the reason of a refusal."""
    question: tuple[Message, ...] = (
        system(VALIDATOR_SYSTEM),
        user(_question(run, judging, text, validator, asking)),
    )
    turn = 0
    while True:
        turn += 1
        asked = await _answer(run, judging, validator, asking.model, question)
        verdict = _verdict_in(asked.answer, validator)
        if verdict is None and turn >= asking.max_turns:
            verdict = _no_verdict(asked.answer, validator)
        _record(run, asked, verdict)
        if verdict is not None:
            return verdict
        question = (*question, assistant(asked.answer), user(NO_VERDICT))


def _question(
    run: CascadeRun, judging: Judging, text: str, validator: str, asking: InlineValidator
) -> str:
    """Return the validator's question, rendered; `input` has what is judged, too."""
    given = _given(run, judging, text)
    judged = {name: given[name] for name in ("content", "original_input")}
    values = run.template_values()
    values |= {"input": {**run.input, **judged}, "state": dict(judging.now.state)}
    phase = judging.phase
    assert isinstance(phase, Phase), "calls know less of it"
    moments = moments_in(run, phase, attempt=judging.now.attempt)
    moments |= {name: given[name] for name in JUDGED}
    where = run.cascade.where(f"validators.{validator}.instructions")
    return render(asking.instructions, **values, where=where, moments=moments)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model was asked: what, what it answered, and the columns of what it took."""

    validator: str
    question: Sequence[str]
    answer: str
    row: Row


async def _answer(
    run: CascadeRun,
    judging: Judging,
    validator: str,
    model: str | None,
    question: Sequence[Message],
) -> _Asked:
    """Ask a model and charge the call."""
    name, now = judging.phase.name, judging.now
    provider, info = run.resolve(model or judging.generation.model)
    most = min(VERDICT_TOKENS, info.max_output_tokens)
    request = info.question(question, most, load=run.record.store.picture)
    step = replace(run.record.turn(name, now.attempt, now.turn), asks=f"validator {validator}")
    reply = (await take_step(run, step, provider, info.name, request)).reply
    row = Row(NodeType.DECISION, phase=name, turn=0)
    row = with_usage(row, info.name, reply.usage, run.charge(info, reply.usage))
    return _Asked(validator, [each.text for each in question], reply.message.text, row)


def _record(run: CascadeRun, asked: _Asked, verdict: Verdict | None) -> None:
    """Record what a model was asked and what it found (None: its answer holds no verdict)."""
    details = ValidatorAsked(
        asked.validator,
        None if verdict is None else verdict.valid,
        asked=asked.question,
        answer=asked.answer,
    )
    text = verdict_text(asked.validator, verdict, " ".join(asked.answer.split())[:60])
    run.record.append([replace(asked.row, text=text, details=details)])


def verdict_text(validator: str, verdict: Verdict | None, answer: str = "") -> str:
    """Return a verdict in a sentence; None: the `answer` holds none."""
    if verdict is None:
        return f"{validator} answers {answer!r}, which holds no verdict"
    what = "accepts" if verdict.valid else "refuses"
    return f"{validator} {what} the output" + (f": {verdict.reason}" if verdict.reason else "")
