"""What a phase says by its rules: the goal behind its instructions, its retries, its turns.

Settings that a model or its provider does not take are asked for in words, at the end of what the
phase says; they stay there, so that nothing that was sent changes. The instructions of a sounding
may be written anew by a model before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from windlass.cascade.model import Phase
from windlass.cascade.validators import find_validator
from windlass.engine._phase_run import Generation, PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.injecting.each_call import moments_of
from windlass.engine.turn.send import take_step
from windlass.errors import BadRequest, ProviderError
from windlass.history.decisions import Remark, Reworded, ToolChoiceInWords
from windlass.history.step import Step
from windlass.messages import Message, Text, system, user
from windlass.settings.modules import UntrustedError
from windlass.text.lookups import find_names
from windlass.text.prompts import (
    REWRITE_SYSTEM,
    goal_text,
    retry_in_own_words,
    retry_text,
    rewrite_text,
    schema_text,
    tool_wanted,
)
from windlass.text.templates import RECORDED, render
from windlass.tools.base import Tool
from windlass.tools.registry import sent_name
from windlass.wire.base import Request

_OF_SCHEMA: Final = re.compile(
    r"output_config\.format|output_format|response_?format|json_schema"
    r"|response_?(?:json_?)?schema|structured[ _]outputs?",
    re.IGNORECASE,
)
"""How providers name what asks for JSON of a schema, in what they refuse."""


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
        "sounding_index": sounding[1] if sounding else run.nesting.sounding or 0,
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
    run: CascadeRun, phase_run: PhaseRun, reason: str, *, by_schema: bool = False
) -> str:
    """Return what the model is told where the attempt that now begins follows a refused one."""
    phase, now = phase_run.phase, phase_run.now
    if phase.rules.retry_instructions is None:
        return retry_text(reason, now.attempt)
    moments = moments_in(run, phase, attempt=now.attempt, refused=reason, by_schema=by_schema)
    return retry_in_own_words(_rendered(run, phase, "retry_instructions", now.state, moments))


def turn_message(run: CascadeRun, phase_run: PhaseRun, turn: int, refused: str) -> str:
    """Return what opens a turn of an attempt that goes on after a reply without calls.

    `refused` is why `loop_until` does not accept that reply yet.
    """
    phase, now = phase_run.phase, phase_run.now
    moments = moments_in(run, phase, attempt=now.attempt, turn=turn, refused=refused)
    return _rendered(run, phase, "turn_prompt", now.state, moments)


def _rendered(run: CascadeRun, phase: Phase, key: str, state: Any, moments: dict[str, Any]) -> str:
    """Return a template of the phase's rules, with its place in messages."""
    values = {**run.template_values(), "state": dict(state)}
    where = run.where(phase, f"rules.{key}")
    return render(getattr(phase.rules, key), **values, where=where, moments=moments)


def with_asks_in_words(run: CascadeRun, phase: Phase, instructions: Message) -> Message:
    """Return the instructions with all that the phase asks for in words at their end."""
    generation = run.generation_of(phase)
    asks = [ask_for_call(generation)] if generation.wanted else []
    if generation.output_schema is not None and generation.model in run.notices.no_schemas:
        asks.append(schema_text(generation.output_schema))
    return instructions.with_parts(*instructions.parts, *map(Text, asks)) if asks else instructions


def ask_for_call(generation: Generation) -> str:
    """Asks for the call that cannot be forced."""
    return tool_wanted(sent_name(generation.wanted))


def tell_unforced_call(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Say once that a call is asked for and not forced."""
    generation = phase_run.generation
    if generation.wanted:
        run.tell_once(
            phase_run.phase.name,
            f"{generation.model} takes no tool_choice {generation.wanted!r}; 'auto' is sent, and"
            " the instructions ask for the call",
            ToolChoiceInWords(generation.wanted),
        )


def ask_for_json(run: CascadeRun, phase_run: PhaseRun, refused: BadRequest) -> str | None:
    """Return the words that ask for JSON, where the provider refused a schema (None: it did not).

    From then on none is sent to the model in this run, and the user is told once.
    """
    model, schema = phase_run.generation.model, phase_run.generation.output_schema
    tried = model not in run.notices.no_schemas
    if schema is None or not (tried and _OF_SCHEMA.search(str(refused))):
        return None
    run.notices.no_schemas.add(model)
    text = f"{model} takes no output_schema; JSON is asked for in words, and validated"
    run.tell_once(phase_run.phase.name, text, Remark("output_schema"))
    return schema_text(schema)


async def rewrite(run: CascadeRun, phase: Phase, instructions: str, order: str) -> str:
    """Return the instructions in other words, by the phase's own model.

    They stay as they are where the model fails or answers nothing, and the record says so.
    """
    generation = run.generation_of(phase)
    provider, info = run.resolve(generation.model)
    request = Request(
        model=info.name.partition("/")[2],
        messages=(system(REWRITE_SYSTEM), user(rewrite_text(instructions, order))),
        tool_choice="none",
        max_output_tokens=generation.max_output_tokens,
        temperature=generation.temperature,
        output_schema=None,
        load=run.record.store.picture,
    )
    place = Step(phase.name, run.record.sounding_index, asks="rewrite")
    try:
        taken = await take_step(run, place, provider, info.name, request)
    except ProviderError as error:
        text = f"the instructions stay as they are: {error}"
        run.tell(phase.name, text, Reworded(order, failed=True))
        return instructions
    usage, answer = taken.reply.usage, taken.reply.message.text.strip()
    what = "writes the instructions anew" if answer else "answers nothing; the instructions stay"
    details = Reworded(order, answer, failed=not answer)
    text = f"{info.name} {what}: {order}"
    run.charge_beside(phase.name, text, details, info=info, usage=usage)
    return answer or instructions
