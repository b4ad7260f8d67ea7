"""Whether the output of an attempt will do: its schema, and then `loop_until`."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.cascade.flow import VALIDATED
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.phase.verdicts import Verdict, judge_text
from windlass.errors import (
    PhaseFailed,
)
from windlass.history.base import (
    Reason,
)
from windlass.safety.foreign import find_json
from windlass.safety.schemas import validator_for
from windlass.text.prompts import UNFINISHED


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
    if recorded:
        now = phase_run.now
        turn = run.record.turn(phase_run.phase.name, now.attempt, now.turn)
        if (row := run.journal.verdict(turn, output)) is not None:
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
