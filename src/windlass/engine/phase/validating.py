"""Whether an output will do: `loop_until`, and the schema of the output."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_run import Run
from windlass.errors import (
    PhaseFailed,
)
from windlass.history.base import (
    Reason,
)
from windlass.messages import ToolCall
from windlass.safety.foreign import parse_json
from windlass.safety.schemas import validator_for
from windlass.text.prompts import UNFINISHED
from windlass.tools.base import Tool
from windlass.tools.runner import run_tool


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validator's answer; `reason` is what the model is told when it is not valid.

    `by_schema`: it was the output's schema that refused.
    """

    valid: bool
    reason: str = ""
    by_schema: bool = False


async def judge(
    run: Run,
    phase_run: PhaseRun,
    output: str,
    validator: str | None,
    cut_short: Reason | None = None,
    *,
    recorded: bool = False,
) -> Verdict | None:
    """The verdict on an attempt's output, or None where the phase asks for none.

    `validator` is what it says under `loop_until`, `cut_short` why the attempt did not end in
    order. What is empty, refused or held back is never accepted. `recorded`: a resumed run takes
    the verdict from its record.

    Raises PhaseFailed when the validator itself fails: trying again would spend
    money on a question that cannot be answered.
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
    if validator is None:
        return None if schema is None else Verdict(valid=True)
    if recorded:
        now = phase_run.now
        turn = run.record.turn(phase_run.phase.name, now.attempt, now.turn)
        known = run.journal.verdict(turn, output)
        if known is not None:
            return Verdict(known.valid, known.validation_reason)
    tool = run.registry.resolve(validator) if ":" in validator else run.registry.get(validator)
    given = {"output": output, "state": dict(phase_run.now.state), "input": dict(run.input)}
    arguments = arguments_of(tool, given, phase_run.phase.name)
    call = ToolCall("validation", tool.spec.name, json.dumps(arguments, default=str))
    answer = await run_tool(tool, call, phase_run.tools.context)
    if answer.error:
        raise PhaseFailed(
            f"phase {phase_run.phase.name!r}: the validator {validator!r} failed: {answer.text}"
        )
    return read_verdict(answer.text, validator, phase_run.phase.name)


def arguments_of(
    tool: Tool, given: dict[str, Any], phase: str, judged: str = "output"
) -> dict[str, Any]:
    """The arguments of a validator: those of output, state and input that it names.

    A validator with one parameter of another name receives in it what is `judged`.
    """
    parameters = list(tool.spec.parameters.get("properties", {}))
    named = {name: given[name] for name in parameters if name in given}
    if judged in named or not parameters:
        return named
    required = tool.spec.parameters.get("required", parameters)
    others = [name for name in required if name not in given]
    if len(others) != 1:
        raise PhaseFailed(
            f"phase {phase!r}: the validator {tool.spec.name!r} must take what it judges in a"
            f" parameter {judged!r}; it takes {', '.join(parameters)}"
        )
    return {**named, others[0]: given[judged]}


def matches_schema(output: str, schema: Any) -> Verdict:
    """Whether the text is JSON that the schema accepts; the reason says where it is not.

    Raises TimeoutError with a sentence where a pattern of the schema takes too long.
    """
    try:
        value = parse_json(output)
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


def read_verdict(answer: str, validator: str, phase: str) -> Verdict:
    """A validator's answer, `{valid, reason}` or a bare true or false, as a verdict."""
    try:
        value = parse_json(answer)
    except ValueError:
        value = None
    match value:
        case bool():
            return Verdict(value, "" if value else f"{validator} did not accept the output.")
        case {"valid": bool(valid), **rest}:
            return Verdict(valid, str(rest.get("reason") or ""))
        case _:
            raise PhaseFailed(
                f"phase {phase!r}: the validator {validator!r} must answer"
                f" {{valid, reason}}, not {answer[:80]!r}"
            )
