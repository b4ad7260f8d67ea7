"""Settings that a model or its provider does not take, asked for in words instead.

The words stand at the end of what the phase says, and stay there: nothing that was sent changes.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.cascade.model import Phase
from windlass.engine._phase_run import Generation, PhaseRun
from windlass.engine._session_run import Run
from windlass.engine.cascade_run import CascadeRun
from windlass.errors import BadRequest
from windlass.history.decisions import Remark, ToolChoiceInWords
from windlass.messages import Message, Text
from windlass.text.prompts import schema_text, tool_wanted
from windlass.tools.registry import sent_name

_OF_SCHEMA: Final = re.compile(
    r"output_config\.format|output_format|response_?format|json_schema"
    r"|response_?(?:json_?)?schema|structured[ _]outputs?",
    re.IGNORECASE,
)
"""How providers name what asks for JSON of a schema, in what they refuse."""


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


def tell_unforced_call(run: Run, phase_run: PhaseRun) -> None:
    """Say once that a call is asked for and not forced."""
    generation = phase_run.generation
    if generation.wanted:
        run.tell_once(
            phase_run.phase.name,
            f"{generation.model} takes no tool_choice {generation.wanted!r}; 'auto' is sent, and"
            " the instructions ask for the call",
            ToolChoiceInWords(generation.wanted),
        )


def ask_for_json(run: Run, phase_run: PhaseRun, refused: BadRequest) -> str | None:
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
