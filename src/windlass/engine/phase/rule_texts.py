"""What a phase says by its rules: the goal behind its instructions, its retries, its turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from windlass.cascade.model import Phase
from windlass.cascade.validators import find_validator
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.each_call import moments_of
from windlass.settings.modules import UntrustedError
from windlass.text.lookups import find_names
from windlass.text.prompts import goal_text, retry_in_own_words, retry_text
from windlass.text.templates import RECORDED, render
from windlass.tools.base import Tool


def recorded_in(run: CascadeRun, template: str) -> dict[str, object]:
    """Return what a template asks for of the phases that ran, and of what was said."""
    values: dict[str, Callable[[], object]] = {
        "lineage": lambda: [
            {"phase": each.phase, "output": str(run.session.outputs.get(each.phase, ""))}
            for each in run.session.ran
        ],
        "history": lambda: [
            {"role": item.message.role, "content": item.message.text} for item in run.record.items()
        ],
    }
    used = {each.name for each in find_names(template)}
    return {name: values[name]() for name in RECORDED if name in used}


def moments_in(
    run: CascadeRun,
    phase: Phase,
    *,
    attempt: int = 1,
    turn: int = 1,
    refused: str = "",
    by_schema: bool = False,
) -> dict[str, Any]:
    """Return what templates of a phase see besides input, state and outputs.

    `refused` is why the last attempt was (empty: none was), `by_schema` whether its schema did it.
    """
    sounding = run.record.sounding
    soundings = phase.soundings or run.cascade.soundings
    return {
        **moments_of(run.record, run.totals),
        "is_sounding": run.is_sounding,
        "sounding_index": sounding[1] if sounding else run.sounding or 0,
        "sounding_factor": soundings.factor if soundings else 1,
        "attempt": attempt,
        "max_attempts": phase.rules.max_attempts,
        "turn": turn,
        "max_turns": phase.rules.max_turns,
        "validation_error": refused,
        "schema_error": refused if by_schema else "",
    }


def goal_of(run: CascadeRun, phase: Phase) -> str | None:
    """Return what the instructions of a phase end with (None: they end as they are written)."""
    rules = phase.rules
    if rules.loop_until_silent:
        return None
    if rules.loop_until_prompt is not None:
        return _rendered(run, phase, "loop_until_prompt", run.session.state, moments_in(run, phase))
    if rules.loop_until is None:
        return None
    about = ""
    with suppress(UntrustedError):  # a dry run loads nothing of what nobody trusts
        found = find_validator(run.cascade.validators, run.registry, rules.loop_until)
        about = found.spec.description if isinstance(found, Tool) else found.description or ""
    return goal_text(rules.loop_until, " ".join(about.split()), rules.max_attempts)


def retry_message(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun, reason: str, *, by_schema: bool = False
) -> str:
    """Return what the model is told where the attempt that now begins follows a refused one."""
    now = phase_run.now
    if phase.rules.retry_instructions is None:
        return retry_text(reason, now.attempt)
    moments = moments_in(run, phase, attempt=now.attempt, refused=reason, by_schema=by_schema)
    return retry_in_own_words(_rendered(run, phase, "retry_instructions", now.state, moments))


def turn_message(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun, turn: int, refused: str
) -> str:
    """Return what opens a turn of an attempt that goes on after a reply without calls.

    `refused` is why `loop_until` does not accept that reply yet.
    """
    now = phase_run.now
    moments = moments_in(run, phase, attempt=now.attempt, turn=turn, refused=refused)
    return _rendered(run, phase, "turn_prompt", now.state, moments)


def _rendered(run: CascadeRun, phase: Phase, key: str, state: Any, moments: dict[str, Any]) -> str:
    """Return a template of the phase's rules, with its place in messages."""
    names = [each.name for each in run.cascade.phases]
    where = run.cascade.where(f"phases[{names.index(phase.name)}].rules.{key}")
    values = {**run.template_values(), "state": dict(state)}
    return render(getattr(phase.rules, key), **values, where=where, moments=moments)
