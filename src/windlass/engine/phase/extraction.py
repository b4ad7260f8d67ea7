"""`output_extraction`: a value is taken from an output and put into the state."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from windlass.cascade.model import OutputExtraction, Phase
from windlass.engine._session_run import Run
from windlass.errors import (
    PhaseFailed,
)
from windlass.history.base import (
    StateChange,
)
from windlass.history.decisions import Remark
from windlass.safety.foreign import parse_json
from windlass.safety.patterns import search
from windlass.window.entries import Item


async def extract_state(run: Run, phase: Phase, output: Item | None) -> list[StateChange]:
    """Return the state that a phase takes from its output. Raises PhaseFailed."""
    extraction = phase.output_extraction
    if extraction is None:
        return []
    text = output.message.text if output else ""
    try:
        value, why = await asyncio.to_thread(find_value, extraction, text)
    except TimeoutError as error:
        raise PhaseFailed(f"phase {phase.name!r}: output_extraction: {error}") from error
    if why is None:
        return [StateChange(phase.name, extraction.store_as, value)]
    if extraction.required:
        raise PhaseFailed(f"phase {phase.name!r}: {why}")
    run.tell(phase.name, why, Remark("extraction"))
    return []


_FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def find_value(extraction: OutputExtraction, text: str) -> tuple[Any, str | None]:
    """Return the value found, and None; or None, and why there is none.

    `format: json` parses what the pattern's group holds, `code` takes away a fence. Raises
    TimeoutError with a sentence where the search was stopped.
    """
    pattern = extraction.pattern
    hit = search(pattern, text, re.DOTALL)
    if hit is None:
        return None, f"the output has no match for the pattern {pattern!r}"
    value = hit[1]
    if value is None:
        return (
            None,
            f"the group of the pattern {pattern!r} matches nothing in the output",
        )
    match extraction.format:
        case "text":
            return value.strip(), None
        case "code":
            fenced = _FENCE.match(value)
            return (fenced[1] if fenced else value.strip("\n")), None
        case "json":
            try:
                return parse_json(value), None
            except ValueError as error:
                return None, f"what {pattern!r} found is not JSON: {error}"
