"""Texts are judged: by a schema, by a validator, and by the wards of a phase.

A validator is a function, a model that is asked, or a cascade. The verdicts of wards are recorded;
a resumed run takes them from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from windlass.cascade.flow import VALIDATED
from windlass.cascade.model import Phase
from windlass.cascade.tool_cascades import validator_input
from windlass.cascade.tools_named import wards_of
from windlass.cascade.validators import InlineValidator, Place, Ward, arguments_of, find_validator
from windlass.engine._phase_run import BarePhase, PhaseRun
from windlass.engine._subcascades import cascade_caller
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.phase_setup import bare_phase
from windlass.engine.phase.rule_texts import moments_in
from windlass.engine.turn.send import take_step
from windlass.errors import PhaseFailed, UsageError, WardRefused
from windlass.history.base import Reason
from windlass.history.decisions import ValidatorAsked
from windlass.history.row_details import WardJudged
from windlass.messages import Message, ToolCall, assistant, system, user
from windlass.safety.foreign import find_json
from windlass.safety.schemas import validator_for
from windlass.text.prompts import NO_VERDICT, UNFINISHED, VALIDATOR_SYSTEM
from windlass.text.templates import JUDGED, render
from windlass.tools.base import Tool
from windlass.tools.runner import run_tool

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


async def judge(
    run: CascadeRun,
    phase_run: PhaseRun,
    output: str,
    validator: str | None,
    cut_short: Reason | None = None,
    *,
    recorded: bool = False,
) -> Verdict | None:
    """Return the verdict on an attempt's output, or None where the phase asks for none.

    `validator` is what it says under `loop_until`, `cut_short` why the attempt did not end in
    order. What is empty, refused or held back is never accepted. What the schema accepts is put
    into the attempt's state. `recorded`: a resumed run takes the verdict from its record.

    Raises PhaseFailed when the validator itself fails.
    """
    schema = phase_run.generation.output_schema
    judged = schema is not None or validator is not None
    if judged and cut_short in ("empty", "refusal", "filter"):
        return Verdict(valid=False, reason=UNFINISHED[cut_short])
    if schema is not None:
        try:
            verdict = await asyncio.to_thread(matches_schema, output, schema)
        except TimeoutError as error:
            raise PhaseFailed(f"phase {phase_run.phase.name!r}: output_schema: {error}") from error
        if not verdict.valid:
            return verdict
        phase_run.now.state[VALIDATED] = find_json(output)
    if validator is None:
        return None if schema is None else Verdict(valid=True)
    known: Verdict | None = None
    if recorded and (row := run.journal.verdict(run.step_of(phase_run), output)) is not None:
        known = Verdict(row.valid, row.validation_reason)
    return await judge_text(run, phase_run, output, validator, known)


def matches_schema(output: str, schema: Any) -> Verdict:
    """Whether the text is JSON, or holds some, that the schema accepts; else where it does not.

    Raises TimeoutError with a sentence where a pattern of the schema takes too long.
    """
    try:
        value = find_json(output)
        problems = sorted(validator_for(schema).iter_errors(value), key=lambda e: e.json_path)
    except ValueError as error:
        return _refused(f"The output must be JSON: {error}.")
    except RecursionError:  # a schema that names itself takes many frames for a level
        return _refused("The output must be JSON that is not nested so deeply.")
    if not problems:
        return Verdict(valid=True)
    listed = "; ".join(f"{problem.json_path}: {problem.message}" for problem in problems[:5])
    return _refused(f"The output does not match its schema: {listed}.")


def _refused(reason: str) -> Verdict:
    return Verdict(valid=False, reason=reason, by_schema=True)


async def judge_text(
    run: CascadeRun,
    on: BarePhase,
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
        return await _ask_model(run, on, text, validator, found)
    if known is not None and not found.cascade:
        return known
    name = on.phase.name
    context, given = on.tools.context, _given(run, on, text)
    try:
        if found.cascade:  # it counts in the run that asks, also where that judges its soundings
            arguments = _input_of(run, found, given)
            context = replace(context, run_cascade=cascade_caller(run, name, on.now))
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
    ready = run.ready.tool_cascades.get(tool.cascade)
    if ready is None:
        raise UsageError(f"{tool.spec.name!r} is a cascade that is not at hand")
    return validator_input(ready.cascade, given)


def _no_verdict(answer: str, validator: str) -> Verdict:
    """What stands for the verdict of a model whose answer holds none: its text is the reason."""
    return Verdict(valid=False, reason=answer.strip() or f"{validator} says nothing.")


def _given(run: CascadeRun, on: BarePhase, text: str) -> dict[str, Any]:
    """Return what a validator may take, by the names in `GIVEN`."""
    return {
        "output": text,
        "content": text,
        "input": dict(run.input),
        "original_input": dict(run.input),
        "asked": on.asked,
        "state": dict(on.now.state),
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
    run: CascadeRun, on: BarePhase, text: str, validator: str, asking: InlineValidator
) -> Verdict:
    """A model's verdict; where its answer holds none, the text of it is the reason of a refusal."""
    question: tuple[Message, ...] = (
        system(VALIDATOR_SYSTEM),
        user(_question(run, on, text, validator, asking)),
    )
    provider, info = run.resolve(asking.model or _model_of(run, on))
    most = min(VERDICT_TOKENS, info.max_output_tokens)
    place, turn = replace(run.step_of(on), asks=f"validator {validator}"), 0
    while True:
        turn += 1
        request = info.question(question, most, load=run.record.store.picture)
        reply = (await take_step(run, place, provider, info.name, request)).reply
        answer = reply.message.text
        verdict = _verdict_in(answer, validator)
        if verdict is None and turn >= asking.max_turns:
            verdict = _no_verdict(answer, validator)
        valid = None if verdict is None else verdict.valid
        asked = [each.text for each in question]
        told = verdict_text(validator, verdict, " ".join(answer.split())[:60])
        details = ValidatorAsked(validator, valid, asked=asked, answer=answer)
        run.charge_beside(on.phase.name, told, details, info=info, usage=reply.usage)
        if verdict is not None:
            return verdict
        question = (*question, assistant(answer), user(NO_VERDICT))


def _model_of(run: CascadeRun, on: BarePhase) -> str:
    """Return the model of a phase, also of one in which none was asked yet."""
    return (on.generation if isinstance(on, PhaseRun) else run.generation_of(on.phase)).model


def _question(
    run: CascadeRun, on: BarePhase, text: str, validator: str, asking: InlineValidator
) -> str:
    """Return the validator's question, rendered; `input` has what is judged, too."""
    given = _given(run, on, text)
    judged = {name: given[name] for name in ("content", "original_input")}
    values = run.template_values()
    values |= {"input": {**run.input, **judged}, "state": dict(on.now.state)}
    phase = on.phase
    moments = moments_in(run, phase, attempt=on.now.attempt)
    moments |= {name: given[name] for name in JUDGED}
    where = run.cascade.where(f"validators.{validator}.instructions")
    return render(asking.instructions, **values, where=where, moments=moments)


def verdict_text(validator: str, verdict: Verdict | None, answer: str = "") -> str:
    """Return a verdict in a sentence; None: the `answer` holds none."""
    if verdict is None:
        return f"{validator} answers {answer!r}, which holds no verdict"
    what = "accepts" if verdict.valid else "refuses"
    return f"{validator} {what} the output" + (f": {verdict.reason}" if verdict.reason else "")


# ---- wards -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Guard:
    """The wards of a phase while it runs, and how often each refused with mode `retry`."""

    run: CascadeRun
    phase: Phase
    refused: Counter[tuple[Place, int]] = field(default_factory=Counter[tuple[Place, int]])

    async def check_input(self) -> None:
        """Have the cascade's input judged before the phase begins. Raises WardRefused."""
        ground = bare_phase(self.run, self.phase)
        text = json.dumps(self.run.input, ensure_ascii=False)
        self._block("pre", await self._judged("pre", ground, text))

    async def check(self, place: Place, on: BarePhase, text: str) -> str:
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
                again.append(_ward_reason(ward, verdict))
        if not again:
            return ""
        return "\n".join(_ward_reason(ward, verdict) for _, ward, verdict in refusals)

    async def _judged(
        self, place: Place, on: BarePhase, text: str
    ) -> list[tuple[int, Ward, Verdict]]:
        """Return the refusals of the wards of a place, each of which is asked."""
        wards = [(at, ward) for where, at, ward in wards_of(self.phase) if where == place]
        verdicts = [(at, ward, await self._ask(place, at, ward, on, text)) for at, ward in wards]
        return [each for each in verdicts if not each[2].valid]

    async def _ask(self, place: Place, at: int, ward: Ward, on: BarePhase, text: str) -> Verdict:
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
        run.tell(name, f"phase {name!r}: {_ward_words(ward, judged)}", judged, detail=judged.valid)
        return verdict

    def _block(self, place: Place, refusals: Sequence[tuple[int, Ward, Verdict]]) -> None:
        """Raise WardRefused where a blocking ward is among those that refuse."""
        blocking = [(ward, verdict) for _, ward, verdict in refusals if ward.mode == "blocking"]
        if blocking:
            whys = "; ".join(_ward_reason(ward, verdict) for ward, verdict in blocking)
            what = "its input" if place == "pre" else "what it says"
            raise WardRefused(f"phase {self.phase.name!r}: {what} is blocked: {whys}")


def _ward_reason(ward: Ward, verdict: Verdict) -> str:
    return f"{ward.validator}: {verdict.reason or 'no reason given'}"


def _ward_words(ward: Ward, judged: WardJudged) -> str:
    """Return a ward's verdict in words."""
    of = {"pre": "the input", "post": "the output", "turn": "the reply"}[judged.place]
    if judged.valid:
        return f"ward {ward.validator!r} accepts {of}"
    return (
        f"ward {_ward_reason(ward, Verdict(valid=False, reason=judged.reason))} ({ward.mode}, {of})"
    )
